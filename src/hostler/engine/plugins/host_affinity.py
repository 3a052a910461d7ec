"""Filter ``host_affinity`` and scorer ``preferred_hosts``: label selectors and affinity terms of a guest."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hostler.engine.kernels.layout import Bools, Int16s, Int64s
from hostler.engine.view import ClusterView
from hostler.model import Expression, GuestSpec, Reason
from hostler.model.policies import Normalizer
from hostler.model.reasons import ReasonKind, Wake, join_cures

AFFINITY_MISMATCH = "affinity_mismatch"
SELECTOR_MISMATCH = "selector_mismatch"
# Codes name a selector by position, not by content: there are as many contents as guests.
_LAST_POSITION = 127
_MAX_TEXT = 200


def about(reason: Reason, spec: GuestSpec) -> Reason:
    """Return a reason of this filter with the guest's selector or terms as its subject."""
    if reason.code == SELECTOR_MISMATCH:
        if not reason.subject:  # very many reasons: positions are no longer told apart
            return reason
        position = int(reason.subject)
        if position == _LAST_POSITION and len(spec.host_selector) > position + 1:
            return Reason(reason.plugin, reason.code, f"one of {len(spec.host_selector) - position} more selectors")
        key, value = spec.host_selector[position]
        return Reason(reason.plugin, reason.code, f"{key}={value}")
    text = " or ".join(term.text() for term in spec.host_affinity)
    return Reason(reason.plugin, reason.code, text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…")


class HostAffinity:
    """Keep a guest to hosts that its selector and at least one of its required terms match."""

    name = "host_affinity"
    reasons = (
        ReasonKind(
            plugin="host_affinity",
            code="selector_mismatch",
            meaning="The host lacks labels that the guest selects.",
            subject="labels",
            is_resolvable=False,
            cures=frozenset({Wake.MARKS_CHANGED, Wake.HOST_JOINED}),
        ),
        ReasonKind(
            plugin="host_affinity",
            code="affinity_mismatch",
            meaning="The host matches no term of the guest's host affinity.",
            subject="term",
            is_resolvable=False,
            cures=frozenset({Wake.MARKS_CHANGED, Wake.HOST_JOINED}),
        ),
    )
    cures = join_cures(reasons)
    is_static = True

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._marks = view.cluster.marks
        self._reasons = view.reasons

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int16s | None:
        """Return a code for the terms, or for the first selector that does not match, by position (see ``about``)."""
        if not spec.host_selector and not spec.host_affinity:
            return None
        codes = np.zeros(len(rows), dtype=np.int16)
        if spec.host_affinity:
            matches: Bools = np.zeros(len(rows), dtype=np.bool_)
            for term in spec.host_affinity:
                matches |= self._marks.matches_term(term, rows)
            codes[~matches] = self._reasons.number(Reason(self.name, AFFINITY_MISMATCH))
        for position, (key, value) in reversed(list(enumerate(spec.host_selector))):
            matches = self._marks.matches(Expression(key, "In", (value,)), rows)
            subject = str(min(position, _LAST_POSITION))
            codes[~matches] = self._reasons.number(Reason(self.name, SELECTOR_MISMATCH, subject))
        return codes


class PreferredHosts:
    """Prefer hosts by the weights of the preferred terms that match."""

    name = "preferred_hosts"
    normalizer: Normalizer = "max"
    is_static = True

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        self._marks = view.cluster.marks

    def applies(self, spec: GuestSpec) -> bool:
        """Say whether the guest has preferences."""
        return bool(spec.preferred_hosts)

    def evaluate(self, spec: GuestSpec, rows: Int64s) -> Int64s:
        """Sum the weights of the matching terms."""
        total = np.zeros(len(rows), dtype=np.int64)
        for preferred in spec.preferred_hosts:
            total += preferred.weight * self._marks.matches_term(preferred.term, rows)
        return total
