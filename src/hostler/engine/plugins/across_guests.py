"""Filters ``ports``, ``spread``, ``guest_affinity`` and scorers ``near_guests``, ``even_spread``: rules about peers.

They run inside the kernels on counters per domain (``policy.peer_rules``, ``kernels.guests``). The classes here name
them, declare what cures their rejections, and read their arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hostler.engine.cluster.tables import Table
from hostler.engine.kernels.layout import OP_GUEST_AFFINITY, OP_GUEST_SPREAD
from hostler.engine.view import ClusterView
from hostler.errors import InputError
from hostler.model import GuestSpec, Spread
from hostler.model.policies import Normalizer
from hostler.model.reasons import ReasonKind, Wake, join_cures

_CURES = frozenset(
    {Wake.ROOM_FREED, Wake.GUEST_PLACED, Wake.HOST_JOINED, Wake.MARKS_CHANGED, Wake.GUEST_CHANGED}
)  # fmt: skip


class PortsFilter:
    """Keep a guest off hosts where another guest uses one of its ports."""

    name = "ports"
    reasons = (
        ReasonKind(
            plugin="ports",
            code="port_taken",
            meaning="Another guest on the host uses the port.",
            subject="port",
            is_resolvable=True,
            cures=frozenset({Wake.ROOM_FREED, Wake.HOST_JOINED, Wake.GUEST_CHANGED}),
        ),
    )
    cures = join_cures(reasons)


class SpreadFilter:
    """Keep a guest off domains that are too far ahead of the domain with the fewest guests."""

    name = "spread"
    reasons = (
        ReasonKind(
            plugin="spread",
            code="skew_too_large",
            meaning="The domain of the host already has too many of the counted guests for this spread.",
            subject="term",
            is_resolvable=True,
            cures=_CURES,
        ),
        ReasonKind(
            plugin="spread",
            code="no_topology_label",
            meaning="The host lacks the label that a spread counts by.",
            subject="name",
            is_resolvable=False,
            cures=_CURES,
        ),
    )
    cures = join_cures(reasons)


class GuestAffinity:
    """Keep a guest near the guests it requires, and apart from guests if either side requires that."""

    name = "guest_affinity"
    reasons = (
        ReasonKind(
            plugin="guest_affinity",
            code="affinity_unmet",
            meaning="No guest that this one must be near runs in the domain of the host.",
            subject="term",
            is_resolvable=False,
            cures=_CURES,
        ),
        ReasonKind(
            plugin="guest_affinity",
            code="anti_affinity",
            meaning="A guest that this one must be apart from runs in the domain of the host.",
            subject="term",
            is_resolvable=True,
            cures=_CURES,
        ),
        ReasonKind(
            plugin="guest_affinity",
            code="existing_anti_affinity",
            meaning="A guest in the domain of the host must be apart from this one.",
            subject="term",
            is_resolvable=True,
            cures=_CURES,
        ),
    )
    cures = join_cures(reasons)


class NearGuests:
    """Prefer hosts near preferred guests, and away from guests to avoid, by the terms of both sides."""

    name = "near_guests"
    operation = OP_GUEST_AFFINITY
    normalizer: Normalizer = "min_max_real"
    is_float = False
    wants_mix = False

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        pass

    def parameters(self, resources: Table[str]) -> Sequence[int]:
        """Return no parameters: shapes have the terms."""
        return ()

    def applies(self, spec: GuestSpec) -> bool:
        """Return False: the cache decides this from the peer rules."""
        return False


class EvenSpread:
    """Prefer domains with fewer of the guests to spread; ``defaults`` spreads the guests of one owner."""

    name = "even_spread"
    operation = OP_GUEST_SPREAD
    normalizer: Normalizer = "even"
    is_float = False
    wants_mix = False

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        try:
            self.defaults = msgspec.convert(args.get("defaults", []), type=tuple[Spread, ...])
        except msgspec.ValidationError as error:
            raise InputError(f"even_spread: defaults: {error}") from error

    def parameters(self, resources: Table[str]) -> Sequence[int]:
        """Return no parameters: shapes have the constraints."""
        return ()

    def applies(self, spec: GuestSpec) -> bool:
        """Return False: the cache decides this from the peer rules."""
        return False
