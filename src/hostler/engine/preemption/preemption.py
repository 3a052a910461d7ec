"""Preemption planning: on which host guests of lower priority make room, and which of them.

Every host has a dry run. Its result depends on the host alone, and for guests with peer rules on the counts that
``peer_counts`` reads. It is cached until one of them changes. If the policy prefers or moves guests that can run
elsewhere, ``movable_victims`` looks closer at the cheapest hosts. That depends on other hosts too, so it is never
cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from hostler.engine.cluster.shapes import Shape
from hostler.engine.kernels.layout import Int64s
from hostler.engine.policy.profile import Profile
from hostler.engine.policy.profiles import Profiles
from hostler.engine.preemption.dry_runs import dry_run, is_resolvable
from hostler.engine.preemption.movable_victims import choose_movable
from hostler.engine.preemption.peer_counts import NO_PEERS, PeerCounts
from hostler.engine.preemption.victims import VictimSet
from hostler.engine.state.state import State
from hostler.model import PreemptionRules

__all__ = ["Planner"]

_MAX_KEPT = 64  # (shape, policy) pairs whose dry runs are kept
_FEW = 100  # candidates after which the search in a large fleet ends if results cannot be cached


class _DryRuns(NamedTuple):
    """Dry runs of one shape: what they were made from, and the candidates by row."""

    shape: Shape
    profiles: Profiles
    position: int  # in the touch log
    budgets: int  # the version of budgets
    peers: PeerCounts
    found: dict[int, VictimSet]
    cheapest: list[tuple[tuple[int, int, int, int, int, str], int]]  # a heap of costs and rows, some of them outdated

    def add(self, row: int, victims: VictimSet) -> None:
        """Store the victims of a row."""
        self.found[row] = victims
        heappush(self.cheapest, (victims.cost, row))

    def best(self, skip: frozenset[str]) -> VictimSet | None:
        """Return the cheapest victims, except on the hosts to skip."""
        aside = []
        best = None
        while self.cheapest and best is None:
            cost, row = self.cheapest[0]
            victims = self.found.get(row)
            if victims is None or victims.cost != cost:
                heappop(self.cheapest)
            elif victims.host in skip:
                aside.append(heappop(self.cheapest))
            else:
                best = victims
        for item in aside:
            heappush(self.cheapest, item)
        return best


class Planner:
    """Finds the cheapest victims for a guest."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._kept: dict[tuple[int, int], _DryRuns] = {}

    def plan(self, shape: Shape, policy: int, skip: frozenset[str]) -> VictimSet | None:
        """Return the cheapest victims over all hosts except those to skip, or None if no eviction helps."""
        state = self._state
        profile = state.profiles.profiles[policy]
        rules = profile.policy.preemption
        if rules is None:
            return None
        kept = self._kept.get((shape.number, policy))
        if kept is not None and not kept.found and self._is_fresh(kept, shape):
            return None
        slot = state.cache.slot(shape, policy)
        codes, _ = state.cache.codes(slot)
        found: Iterable[VictimSet]
        if not state.gangs.units:
            kept = self._follow(shape, policy, slot, profile, rules, codes.tolist())
            if not rules.movable_first and not rules.moves:
                return kept.best(skip)
            found = kept.found.values()
        else:
            found = self._search(shape, slot, rules, codes.tolist())
        return choose_movable(state, shape, policy, rules, [victims for victims in found if victims.host not in skip])

    def _is_fresh(self, kept: _DryRuns, shape: Shape) -> bool:
        """Say whether nothing changed since the dry runs."""
        state = self._state
        same = kept.shape is shape and kept.profiles is state.profiles and not state.gangs.units
        return (
            same
            and kept.peers is NO_PEERS
            and (kept.budgets, kept.position) == (state.budgets_version, state.cluster.log_end)
        )

    def _rows_changed(self, kept: _DryRuns, shape: Shape, peers: PeerCounts) -> Int64s | None:
        """Return the rows whose dry runs may have another result now; None for all rows."""
        state = self._state
        if kept.shape is not shape or kept.profiles is not state.profiles or kept.budgets != state.budgets_version:
            return None
        touched, recounted = state.cluster.rows_touched_since(kept.position), peers.rows_changed(kept.peers)
        return None if touched is None or recounted is None else np.union1d(touched, recounted)

    def _candidates(self, slot: int, codes: Sequence[int], rows: Iterable[int]) -> Iterator[int]:
        helps: dict[int, bool] = {0: False}  # codes to whether an eviction can help; few rows are looked at
        for row in rows:
            code = codes[row]
            if code not in helps:
                helps[code] = code > 0 and is_resolvable(self._state.cache.reason(slot, code))
            if helps[code]:
                yield row

    def _search(self, shape: Shape, slot: int, rules: PreemptionRules, codes: Sequence[int]) -> list[VictimSet]:
        """Dry-run hosts in order of their rows until there are enough candidates.

        For clusters with gangs that leave as a whole: their members touch other hosts, so nothing is cached.
        """
        enough = max(_FEW, len(codes) // 10)
        found: list[VictimSet] = []
        for row in self._candidates(slot, codes, range(len(codes))):
            victims = dry_run(self._state, shape, slot, row, rules)
            if victims is not None:
                found.append(victims)
            if len(found) >= enough and any(not v.violations for v in found):
                break
        return found

    def _follow(
        self, shape: Shape, policy: int, slot: int, profile: Profile, rules: PreemptionRules, codes: Sequence[int]
    ) -> _DryRuns:
        """Update the cached dry runs: only changed rows are tried again."""
        state = self._state
        key = (shape.number, policy)
        kept = self._kept.pop(key, None)
        has_peers = state.cache.has_peer_filters(slot)
        peers = PeerCounts.read(state, slot) if has_peers else NO_PEERS
        rows = self._rows_changed(kept, shape, peers) if kept is not None else None
        found, cheapest = ({}, []) if kept is None or rows is None else (kept.found, kept.cheapest)
        if rows is None:
            rows = np.arange(len(codes))
        kept = self._kept[key] = _DryRuns(
            shape, state.profiles, state.cluster.log_end, state.budgets_version, peers, found, cheapest
        )
        for row in rows.tolist():
            kept.found.pop(row, None)
        for row in self._candidates(slot, codes, rows.tolist()):
            victims = dry_run(state, shape, slot, row, rules, limit_set=None if has_peers else profile.limit_set)
            if victims is not None:
                kept.add(row, victims)
        while len(self._kept) > _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return kept
