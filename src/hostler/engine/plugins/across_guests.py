"""Filters ``ports``, ``spread``, ``guest_affinity``, scorers ``near_guests``, ``even_spread``: other guests matter.

They run inside the kernels on counters per domain (``engine.asks``, ``engine.kernels_guests``); these classes name
them, say what cures their refusals, and read their arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hostler.engine.framework import Wake
from hostler.engine.kernels_layout import OP_GUEST_AFFINITY, OP_GUEST_SPREAD
from hostler.engine.tables import Table
from hostler.engine.view import ClusterView
from hostler.errors import InputError
from hostler.model import GuestSpec, Spread
from hostler.model.policies import Normalizer

_CURES = frozenset(
    {Wake.ROOM_FREED, Wake.GUEST_PLACED, Wake.HOST_JOINED, Wake.MARKS_CHANGED, Wake.GUEST_CHANGED}
)  # fmt: skip


class Ports:
    """Keep a guest off hosts where somebody has one of its ports."""

    name = "ports"
    cures = frozenset({Wake.ROOM_FREED, Wake.HOST_JOINED, Wake.GUEST_CHANGED})


class SpreadFilter:
    """Keep a guest off domains that are too far ahead of the least."""

    name = "spread"
    cures = _CURES


class GuestAffinity:
    """Keep a guest near to those it needs, and apart from those that one side does not want near."""

    name = "guest_affinity"
    cures = _CURES


class NearGuests:
    """Prefer hosts near the guests that somebody wants near, away from those somebody does not."""

    name = "near_guests"
    operation = OP_GUEST_AFFINITY
    normalizer: Normalizer = "min_max_real"
    is_float = False
    wants_mix = False

    def __init__(self, view: ClusterView, args: Mapping[str, object]) -> None:
        pass

    def parameters(self, resources: Table[str]) -> Sequence[int]:
        """Return nothing: shapes bring what it needs."""
        return ()

    def applies(self, spec: GuestSpec) -> bool:
        """Say no: the cache knows, from what guests ask about each other."""
        return False


class EvenSpread:
    """Prefer domains with fewer of the guests to be spread; ``defaults`` spreads those of one owner."""

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
        """Return nothing: shapes bring what it needs."""
        return ()

    def applies(self, spec: GuestSpec) -> bool:
        """Say no: the cache knows, from what guests ask about each other."""
        return False
