"""Shares of gang searches: how much each tenant may search in one step, and where a paused search continues.

Work is counted in units, never in time, so a replay pauses where the recorded run did. In every step a few tenants have
a share each, those that waited longest first. When a tenant has spent its share, its gang stays active in the queue,
other entries are decided, and the next step continues the search from its ``SearchPosition``. If the rules have a
``search_rest_ns``, the tenant's gangs are not tried before it has passed, which keeps the other steps short.

A position is valid for exactly these members, this minimum and this topology. When one of them changes, the search
starts again. When only hosts or other guests changed, it continues, and every placement of its path is checked again.
If something improved meanwhile, a gang that finds no place is tried again when its backoff ends.

Invariant: positions, the last turn of each tenant, and its rest are decision state. Shares last for one step and are
not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from hostler.model import GuestSpec

__all__ = [
    "PREEMPT", "RECLAIM", "ROOM", "SearchBook", "SearchPaused", "SearchPosition", "SearchShare",
    "tenant_of",
]  # fmt: skip

ROOM: Final = 0  # what the gang looks for: free room, then room of borrowers, then room of lower priorities
RECLAIM: Final = 1
PREEMPT: Final = 2

_TENANTS_PER_STEP = 4  # bounds a step; the others come in the next ones


def tenant_of(spec: GuestSpec) -> str:
    """Return whose share pays for the search of a guest's gang: its tenant, or its namespace if it has no tenant.

    A namespace gets a slash at the end, so that it differs from a tenant of the same name.
    """
    return spec.tenant or f"{spec.namespace}/"


class SearchPaused(Exception):
    """A share is spent. Open transactions are undone, and the position says where to continue."""


class SearchPosition(msgspec.Struct, omit_defaults=True):
    """The position of a paused search for a gang."""

    tenant: str
    about: tuple[tuple[str, int, int], ...]  # the members: uid, shape, policy
    need: int
    topology: str = ""
    stage: int = ROOM
    domain: str = ""  # where the gang came closest without victims
    plan: int = 0  # of several sets of victims, the one that is tried
    domains: list[str] | None = None  # in the order in which they are tried; None: not known yet
    greedy: int = 0  # domains that were tried in the greedy order
    best: tuple[int, str] | None = None  # most members placed, and the domain
    searched: int = 0  # domains that were searched
    left: int = -1  # placements that the search in the current domain may still try; -1: not begun
    path: list[tuple[int, int, int, int]] = []  # by depth: option, place among its rows, kind, row
    seen: bytes = b""  # sorted hashes of the sets of placements that were tried, eight bytes each
    places: list[int] = []  # rows that were found for the members, while units are put back beside them
    reprieved: tuple[int, int, int, int, tuple[str, ...]] | None = None  # rank of the last unit that was looked at
    victims: list[str] = []  # guests that have to go, of the units up to there
    has_improved: bool = False  # since the search began

    def begin_stage(self, stage: int, plan: int = 0) -> None:
        """Continue with another set of hosts or victims, unless the search is there already."""
        if (self.stage, self.plan) == (stage, plan):
            return
        self.stage, self.plan = stage, plan
        self.domains, self.greedy, self.best, self.searched = None, 0, None, 0
        self.places, self.reprieved, self.victims = [], None, []
        self.end_domain()

    def end_domain(self) -> None:
        """Discard what was tried in the current domain."""
        self.left, self.path, self.seen = -1, [], b""


class SearchShare:
    """The units left before a search pauses, or gives up if it cannot pause."""

    def __init__(self, units: int, *, pauses: bool = True) -> None:
        self.left = units
        self.pauses = pauses

    def spend(self, units: int) -> None:
        """Count completed work."""
        self.left -= units

    @property
    def is_spent(self) -> bool:
        """Say whether nothing is left."""
        return self.left <= 0


class SearchBook:
    """The paused searches, and the turns of tenants."""

    def __init__(self) -> None:
        self.positions: dict[str, SearchPosition] = {}  # by gang
        self.served: dict[str, int] = {}  # tenants with searches, to the turn in which they last had a share
        self.turn = 0
        self.denied: dict[str, None] = {}  # tenants that had no share in the last step, because others had
        self.rests: dict[str, int] = {}  # tenants whose gangs are not tried, to the time when they are again
        self._chosen: set[str] = set()
        self._shares: dict[str, SearchShare] = {}

    def begin_step(self, now: int) -> None:
        """Choose the tenants that may search in this step."""
        self._shares = {}
        self.rests = {tenant: until for tenant, until in self.rests.items() if until > now}
        tenants = {position.tenant for position in self.positions.values()} | self.denied.keys()
        self.denied = {}
        self.served = {tenant: at for tenant, at in sorted(self.served.items()) if tenant in tenants}
        # Tenants before namespaces, each by name: a redacted journal renames both, each in its order.
        waiting = sorted(
            tenants - self.rests.keys(), key=lambda one: (self.served.get(one, -1), one.endswith("/"), one)
        )
        self._chosen = set(waiting[:_TENANTS_PER_STEP])
        self.turn = self.turn + 1 if tenants else 0

    def share_of(self, tenant: str, units: int) -> SearchShare | None:
        """Return the rest of a tenant's share of this step; None if the tenant must wait for the next one."""
        share = self._shares.get(tenant)
        if share is None:
            if tenant in self.rests:
                return None
            if tenant not in self._chosen and len(self._chosen | self._shares.keys()) >= _TENANTS_PER_STEP:
                self.denied[tenant] = None
                return None
            share = self._shares[tenant] = SearchShare(units)
        if share.is_spent:
            return None
        return share

    def pause(self, key: str, position: SearchPosition, until: int | None) -> None:
        """Store a position for a later step; with ``until``, for a step at that time or later."""
        self.positions[key] = position
        self.served[position.tenant] = self.turn
        if until is not None:
            self.rests[position.tenant] = until

    def has_search(self, spec: GuestSpec) -> bool:
        """Say whether a search for a gang of a guest's tenant is paused."""
        return tenant_of(spec) in self.served

    def note_improvement(self) -> None:
        """Note that room became free while searches are paused: what they rejected may be possible now."""
        for position in self.positions.values():
            position.has_improved = True

    def restore(
        self,
        positions: Mapping[str, SearchPosition],
        served: Mapping[str, int],
        denied: Iterable[str],
        rests: Mapping[str, int],
        turn: int,
    ) -> None:
        """Restore the content of a checkpoint."""
        self.positions, self.served, self.turn = dict(positions), dict(served), turn
        self.denied, self.rests = dict.fromkeys(denied), dict(rests)

    def copy(self) -> SearchBook:
        """Return an independent copy."""
        twin = SearchBook()
        positions = {key: msgspec.structs.replace(p, path=p.path.copy()) for key, p in self.positions.items()}
        twin.restore(positions, self.served, self.denied, self.rests, self.turn)
        return twin
