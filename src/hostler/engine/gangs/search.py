"""A bounded search for gangs that the greedy order could not place: depth first, deterministic, on the real columns.

Each step tries the pending member with the fewest hosts on its tightest hosts first. Sets of placements that were
already tried in another order are skipped. Bookings are undone unless the search succeeds.

When the share is spent, the search pauses. Its path and the sets it has seen are stored in the ``SearchPosition``. To
continue, the path is booked again, up to the first placement that its host no longer takes. The candidate hosts of a
depth are listed again when the search returns to it. So on unchanged columns the search continues exactly as if it had
not paused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hostler.engine.cluster.randomness import mix64
from hostler.engine.cluster.shapes import Shape
from hostler.engine.kernels.layout import Bools
from hostler.engine.state.records import GuestRecord
from hostler.engine.state.search_shares import SearchPaused, SearchPosition, SearchShare
from hostler.engine.state.state import State
from hostler.engine.state.transaction import Transaction

__all__ = ["EXPANSIONS", "MemberPlacement", "search"]

EXPANSIONS = 10_000
_MAX_MEMBERS = 64
_MAX_ROWS = 64  # hosts that one member is tried on
_ROWS_PER_UNIT = 1024  # hosts that one unit of work looks at
_UNBOUNDED = 2**62
_MASK = (1 << 64) - 1


class MemberPlacement(NamedTuple):
    """The host and devices of a member."""

    record: GuestRecord
    row: int
    devices: tuple[int, ...]


class _Kind(NamedTuple):
    """Members of the same shape and policy."""

    shape: Shape
    policy: int
    records: tuple[GuestRecord, ...]


_Options = list[tuple[int, list[int]]]  # kinds with the hosts that take them


class _Frame:
    """One depth of the search: its options, and the one being tried."""

    def __init__(self, option: int = 0, place: int = 0, kind: int = -1, row: int = -1) -> None:
        self.option = option
        self.place = place
        self.kind = kind  # of the placement that the next frame builds on; -1: none is booked
        self.row = row
        self.options: _Options | None = None


def search(
    state: State,
    transaction: Transaction,
    members: Sequence[tuple[GuestRecord, int]],
    need: int,
    among: Bools | None = None,
    expansions: int = EXPANSIONS,
    share: SearchShare | None = None,
    position: SearchPosition | None = None,
) -> list[MemberPlacement] | None:
    """Place at least ``need`` of the members (record, policy) inside a transaction, or none.

    Raises SearchPaused when the share is spent, with the position updated.
    """
    if need > _MAX_MEMBERS or len(members) > 4 * _MAX_MEMBERS:
        return None
    share = share or SearchShare(_UNBOUNDED, pauses=False)
    return _Search(state, transaction, members, need, among, expansions, share, position).solve()


class _Search:
    def __init__(
        self,
        state: State,
        transaction: Transaction,
        members: Sequence[tuple[GuestRecord, int]],
        need: int,
        among: Bools | None,
        expansions: int,
        share: SearchShare,
        position: SearchPosition | None,
    ) -> None:
        self._state = state
        self._transaction = transaction
        self._need = need
        self._among = among
        self._share = share
        self._position = position
        self._left = expansions
        self._tried = False  # something, since the search began or went on: it never pauses without progress
        self._seen: set[int] = set()
        self._frames: list[_Frame] = [_Frame()]
        self._start = transaction.mark()
        by_kind: dict[tuple[int, int], list[GuestRecord]] = {}
        for _, shape, policy in position.about if position is not None else ():
            by_kind[shape, policy] = []  # kinds keep their numbers, whatever the members' order is now
        for record, policy in members:
            by_kind.setdefault((record.shape, policy), []).append(record)
        shapes = state.shapes.shapes
        self._kinds = [
            _Kind(shapes[shape], policy, tuple(records)) for (shape, policy), records in by_kind.items() if records
        ]
        # Without affinity and spread a placement only closes hosts, so that the order of placements does not matter.
        self._only_closes = not any(self._may_improve(kind) for kind in self._kinds)
        self._used = [0] * len(self._kinds)
        self._placed: list[tuple[int, int, tuple[int, ...], int]] = []  # kind, row, devices, mark to undo to
        self._sum = 0  # of the hashes of the placements
        self._unit = 1 + state.cluster.rows // _ROWS_PER_UNIT

    def solve(self) -> list[MemberPlacement] | None:
        if len(self._kinds) == 1 and self._only_closes and not self._kinds[0].shape.spec.anti_affinity:
            return None  # each host takes so many, whatever the others have: the greedy order reached the most
        if self._position is not None and self._position.left >= 0:
            self._resume(self._position)
        if not self._explore():
            self._transaction.undo(self._start)
            return None
        taken = [0] * len(self._kinds)
        result = []
        for kind, row, devices, _ in self._placed:
            result.append(MemberPlacement(self._kinds[kind].records[taken[kind]], row, devices))
            taken[kind] += 1
        return result

    def _explore(self) -> bool:
        """Try placements one after the other, depth first; return whether enough members are placed."""
        while self._frames:
            self._state.pause()
            if len(self._placed) >= self._need:
                return True
            frame = self._frames[-1]
            if frame.options is None:
                frame.options = self._options()
            step = self._next(frame)
            if step is None:
                self._frames.pop()
                if self._frames:
                    self._take_back(self._frames[-1])
                continue
            if self._share.is_spent and self._tried:
                self._pause()
                return False
            if self._left <= 0:
                return False
            self._try(frame, *step)
        return False

    def _next(self, frame: _Frame) -> tuple[int, int] | None:
        """Return the next placement of a frame that was not tried yet, as (kind, row); None at the end."""
        options = frame.options or []
        while frame.option < len(options):
            kind, rows = options[frame.option]
            while frame.place < len(rows):
                if self._signature(kind, rows[frame.place]) not in self._seen:
                    return kind, rows[frame.place]
                frame.place += 1
            if self._only_closes and self._must_place(kind):
                return None  # the kind must go somewhere, and nothing that comes later opens a host for it
            frame.option, frame.place = frame.option + 1, 0
        return None

    def _signature(self, kind: int, row: int) -> int:
        """Return a hash of the set of placements plus one more: a sum, so that the order does not matter."""
        return (self._sum + mix64(kind << 32 | row)) & _MASK

    def _try(self, frame: _Frame, kind: int, row: int) -> None:
        """Book a placement and explore what remains."""
        self._seen.add(self._signature(kind, row))
        self._left -= 1
        self._tried = True
        frame.kind, frame.row = kind, row
        self._book(kind, row)
        self._frames.append(_Frame())

    def _book(self, kind: int, row: int) -> None:
        chosen = self._kinds[kind]
        mark = self._transaction.mark()
        count = chosen.shape.device_count
        devices = self._state.cache.choose_devices(self._slot(chosen), row, 0, count) if count else ()
        record = chosen.records[self._used[kind]]
        self._transaction.book(row, chosen.shape, devices, record.guest.uid)
        self._used[kind] += 1
        self._placed.append((kind, row, devices, mark))
        self._sum = self._signature(kind, row)

    def _take_back(self, frame: _Frame) -> None:
        """Undo the placement of a frame and advance to its next one."""
        kind, row, _, mark = self._placed.pop()
        self._sum = (self._sum - mix64(kind << 32 | row)) & _MASK
        self._transaction.undo(mark)
        self._used[kind] -= 1
        frame.kind = frame.row = -1
        frame.place += 1

    # -- pausing ---------------------------------------------------------------------------------------------------

    def _pause(self) -> None:
        """Store where to continue, or give up if no later step may continue."""
        if not self._share.pauses or self._position is None:
            return
        self._position.left = self._left
        self._position.path = [(f.option, f.place, f.kind, f.row) for f in self._frames]
        self._position.seen = np.sort(np.fromiter(self._seen, dtype="<u8", count=len(self._seen))).tobytes()
        raise SearchPaused

    def _resume(self, position: SearchPosition) -> None:
        """Book the stored path again, as far as its hosts still take the members."""
        self._left = position.left
        self._seen = set(np.frombuffer(position.seen, dtype="<u8").tolist())
        self._frames = []
        for option, place, kind, row in position.path:
            frame = _Frame(option, place)
            self._frames.append(frame)
            if not 0 <= kind < len(self._kinds) or not self._takes(kind, row):
                return  # the end of the path, or of what is left of it: the next placement of this frame follows
            frame.kind, frame.row = kind, row
            self._book(kind, row)

    def _takes(self, kind: int, row: int) -> bool:
        """Say whether a host takes one more member of a kind."""
        cluster = self._state.cluster
        if self._used[kind] >= len(self._kinds[kind].records) or not 0 <= row < cluster.rows:
            return False
        if cluster.host_at[row] is None or (self._among is not None and not self._among[row]):
            return False
        return self._state.cache.verdict(self._slot(self._kinds[kind]), row) == 0

    # -- options ---------------------------------------------------------------------------------------------------

    def _must_place(self, kind: int) -> bool:
        """Say whether the minimum needs at least one more member of a kind."""
        others = sum(len(k.records) - used for k, used in zip(self._kinds, self._used, strict=True))
        own = len(self._kinds[kind].records) - self._used[kind]
        return len(self._placed) + others - own < self._need

    def _options(self) -> _Options:
        """Return the kinds that have a host, those with the fewest hosts first; none for a dead end."""
        options = []
        pending = [at for at, kind in enumerate(self._kinds) if self._used[at] < len(kind.records)]
        cache = self._state.cache
        all_at_once = len(pending) <= cache.distinct_limit()
        if all_at_once:
            cache.refresh([self._slot(self._kinds[at]) for at in pending])
        self._share.spend(self._unit * max(len(pending), 1))
        for at in pending:
            kind = self._kinds[at]
            if not all_at_once:
                cache.refresh([self._slot(kind)])
            rows = self._rows(kind)
            if not rows and not self._may_improve(kind) and self._must_place(at):
                return []
            if rows:
                options.append((at, rows))
        options.sort(key=lambda option: (len(option[1]), -sum(a for _, a in self._kinds[option[0]].shape.amounts)))
        return options

    def _slot(self, kind: _Kind) -> int:
        """Return the slot of a kind; it may change if the cache has fewer slots than there are kinds."""
        return self._state.cache.slot(kind.shape, kind.policy)

    def _may_improve(self, kind: _Kind) -> bool:
        """Say whether placing other members can make more hosts feasible for a kind."""
        return bool(kind.shape.spec.affinity or kind.shape.spec.spread)

    def _rows(self, kind: _Kind) -> list[int]:
        """Return the hosts that take a kind now, the tightest first."""
        rows = self._state.cache.feasible_rows(self._slot(kind))
        if self._among is not None:
            rows = rows[self._among[rows]]
        cluster = self._state.cluster
        columns = cluster.columns()
        limits = columns.limit[self._state.profiles.profiles[kind.policy].limit_set]
        slack = np.zeros(len(rows), dtype=np.float64)
        for resource, amount in kind.shape.amounts:
            whole = limits[rows, resource].astype(np.float64)
            left = whole - columns.used[rows, resource] - amount
            slack += np.divide(left, whole, out=np.zeros_like(whole), where=whole > 0)
        order = np.lexsort((columns.name_key[rows], slack))[:_MAX_ROWS]
        tightest: list[int] = rows[order].tolist()
        return tightest
