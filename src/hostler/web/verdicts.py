"""Every host's verdict on one VM, so that a person can read it for a thousand hosts. Pure.

Hosts that reject for the same reasons are one group; groups come in the order of their nearest host, as the engine
ordered them, and each shows what that one lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hostler.model import Explanation, HostVerdict
from hostler.model.explanation_texts import failure_text, takers_text
from hostler.model.vocabulary import VM_WORDS, reason_text

__all__ = ["FittingHost", "HostVerdicts", "RejectionGroup", "explanation_of", "verdicts_of"]

_MOST_FITTING = 10
_MOST_NEAR = 10


class FittingHost(msgspec.Struct, frozen=True):
    """A host that would take the VM, with the points that it gets."""

    host: str
    total: str
    scores: tuple[str, ...]


class NearHost(msgspec.Struct, frozen=True):
    """A host that almost fits, and what it lacks."""

    host: str
    lacks: tuple[str, ...]


class RejectionGroup(msgspec.Struct, frozen=True):
    """Hosts that reject the VM for the same reasons."""

    reasons: tuple[str, ...]
    hosts: tuple[str, ...]
    nearest: NearHost


class HostVerdicts(msgspec.Struct, frozen=True):
    """The verdicts of all hosts."""

    count: int
    scorers: tuple[str, ...]
    fitting: tuple[FittingHost, ...]
    more_fitting: tuple[str, ...]
    groups: tuple[RejectionGroup, ...]
    near: tuple[NearHost, ...]
    chosen: str = ""
    is_best: bool = True  # the chosen one, by the points of now

    @property
    def takers(self) -> str:
        """Count the hosts that would take it, in words."""
        return takers_text(self.fitting_count, self.count)

    @property
    def fitting_count(self) -> int:
        """Return how many hosts would take it."""
        return len(self.fitting) + len(self.more_fitting)


def explanation_of(told: Mapping[str, object]) -> Explanation:
    """Return the explanation for an object of REST, in which missing values are null."""
    decision = msgspec.convert(told["decision"], dict[str, object])
    said = {name: value for name, value in decision.items() if value is not None}
    return msgspec.convert({**told, "decision": said}, Explanation)


def verdicts_of(found: Explanation | Sequence[HostVerdict], chosen: str = "") -> HostVerdicts:
    """Return what a page shows of verdicts, which are ordered: best first, then nearest first.

    The chosen host is always among those that are shown with their points.
    """
    verdicts = found.verdicts if isinstance(found, Explanation) else tuple(found)
    fitting = [verdict for verdict in verdicts if verdict.fits]
    refusing = [verdict for verdict in verdicts if not verdict.fits]
    shown = fitting[:_MOST_FITTING] + [verdict for verdict in fitting[_MOST_FITTING:] if verdict.host == chosen]
    scorers = tuple(dict.fromkeys(score.plugin for verdict in fitting for score in verdict.scores))
    groups: dict[tuple[str, ...], list[HostVerdict]] = {}
    for verdict in refusing:
        groups.setdefault(tuple(reason_text(failure.reason, VM_WORDS) for failure in verdict.failures), []).append(
            verdict
        )
    return HostVerdicts(
        count=len(verdicts),
        scorers=scorers,
        fitting=tuple(_fitting(verdict, scorers) for verdict in shown),
        more_fitting=tuple(verdict.host for verdict in fitting[_MOST_FITTING:] if verdict.host != chosen),
        groups=tuple(
            RejectionGroup(reasons, tuple(one.host for one in some), _near(some[0])) for reasons, some in groups.items()
        ),
        near=tuple(_near(verdict) for verdict in refusing[:_MOST_NEAR]),
        chosen=chosen,
        is_best=not chosen or bool(fitting and fitting[0].host == chosen),
    )


def _fitting(verdict: HostVerdict, scorers: Sequence[str]) -> FittingHost:
    by_plugin = {score.plugin: score.weighted for score in verdict.scores}
    return FittingHost(verdict.host, _number(verdict.total), tuple(_number(by_plugin.get(name)) for name in scorers))


def _near(verdict: HostVerdict) -> NearHost:
    return NearHost(verdict.host, tuple(failure_text(failure, VM_WORDS) for failure in verdict.failures))


def _number(value: int | float | None) -> str:
    if value is None:
        return "\N{EN DASH}"
    value = value or 0  # never show -0
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"
