"""Pending guests: active, in backoff, or waiting for an event that can cure their refusal.

Active guests are ordered by priority, then age. Each pending guest has exactly one entry; heaps may hold stale ones,
which a stamp tells apart. Waiting guests are kept by (shape, policy), so that an event looks at shapes, not at guests.

Those of one key are alike: what refuses one refuses all. So an event that lets a key fit somewhere opens it: its guests
stand in line with the active ones, whatever their backoff, until the first of them is refused again. Nobody of lower
priority overtakes them because its backoff ends first, and one free place costs two tries, not one for each guest.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, NamedTuple

__all__ = ["ACTIVE", "BACKOFF", "QUEUE_NAMES", "WAITING", "Entry", "Queue", "WaitKey"]

ACTIVE: Final = 0  # will be tried at the next step
BACKOFF: Final = 1  # will be tried when its time comes
WAITING: Final = 2  # refused; will be woken by an event that can cure it, or flushed
QUEUE_NAMES: Final = ("active", "backoff", "waiting")

WaitKey = tuple[int, int]  # shape number, policy number
_InLine = tuple[int, int, int, str]  # priority (negative), arrival, stamp, uid
_ROOM = 64  # stale places that a line may always have


class Entry(NamedTuple):
    """Where a pending guest is in the queue."""

    state: int
    stamp: int
    priority: int
    arrival: int
    until: int  # end of backoff
    flush_at: int
    key: WaitKey


class Queue:
    """Three places to wait, and the ways between them."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.waiting: dict[WaitKey, dict[str, None]] = {}
        self.stamp = 0  # of the last entry
        self.opened: dict[WaitKey, None] = {}
        self._lines: dict[WaitKey, list[_InLine]] = {}  # the waiting of each key in their order
        self._gates: list[tuple[int, int, WaitKey]] = []  # opened keys by the place of their first guest
        self._active: list[_InLine] = []
        self._backoff: list[tuple[int, int, int, int, str]] = []
        self._flush: list[tuple[int, int, str]] = []

    def __len__(self) -> int:
        return len(self.entries)

    def activate(self, uid: str, priority: int, arrival: int, key: WaitKey) -> None:
        """Queue a guest for the next step."""
        if uid in self.entries:
            self.remove(uid)
        self.stamp += 1
        self.entries[uid] = Entry(ACTIVE, self.stamp, priority, arrival, 0, 0, key)
        heappush(self._active, (-priority, arrival, self.stamp, uid))

    def back_off(self, uid: str, priority: int, arrival: int, key: WaitKey, until: int) -> None:
        """Queue a guest for when its backoff ends."""
        self.remove(uid)
        self.stamp += 1
        self.entries[uid] = Entry(BACKOFF, self.stamp, priority, arrival, until, 0, key)
        heappush(self._backoff, (until, -priority, arrival, self.stamp, uid))

    def wait(self, uid: str, priority: int, arrival: int, key: WaitKey, until: int, flush_at: int) -> None:
        """Let a guest wait for an event, but no longer than until ``flush_at``."""
        self.remove(uid)
        self.stamp += 1
        self.entries[uid] = Entry(WAITING, self.stamp, priority, arrival, until, flush_at, key)
        self.opened.pop(key, None)  # it was refused, so the others would be
        self.waiting.setdefault(key, {})[uid] = None
        self._join_line(key, (-priority, arrival, self.stamp, uid))
        heappush(self._flush, (flush_at, self.stamp, uid))

    def remove(self, uid: str) -> Entry | None:
        """Take a guest out, wherever it is."""
        entry = self.entries.pop(uid, None)
        if entry is not None and entry.state == WAITING:
            self._leave_waiting(entry.key, uid)
        return entry

    def pop(self, limit: int) -> list[str]:
        """Take up to ``limit`` active guests out by priority and age, no further than the first of an opened key."""
        gate = self._gate()
        taken: list[str] = []
        entries, heap = self.entries, self._active
        while heap and len(taken) < limit and (gate is None or heap[0][:2] < gate[:2]):
            _, _, stamp, uid = heappop(heap)
            entry = entries.get(uid)
            if entry is not None and entry.stamp == stamp:
                del entries[uid]
                taken.append(uid)
        return taken

    def pop_mates(self, limit: int) -> list[tuple[str, Entry]]:
        """Take up to ``limit`` guests of one opened key out if it is their turn, no further than whoever comes next."""
        gate = self._gate()
        self._drop_stale()
        if gate is None or limit < 1 or (self._active and self._active[0][:2] < gate[:2]):
            return []
        line = self._lines[gate[2]]
        after = min([place[:2] for place in (*self._active[:1], *self._gates[1:3])], default=None)
        taken: list[tuple[str, Entry]] = []
        while line and len(taken) < limit and not (taken and after is not None and after <= line[0][:2]):
            _, _, stamp, uid = heappop(line)
            entry = self.entries.get(uid)
            if entry is not None and entry.stamp == stamp:
                taken.append((uid, entry))
        for uid, _ in taken:
            self.remove(uid)
        return taken

    def put_back(self, mates: Sequence[tuple[str, Entry]]) -> None:
        """Let guests wait on as before that were taken out and not tried."""
        for uid, entry in mates:
            self.entries[uid] = entry
            self.waiting.setdefault(entry.key, {})[uid] = None
            self._join_line(entry.key, (-entry.priority, entry.arrival, entry.stamp, uid))
            heappush(self._flush, (entry.flush_at, entry.stamp, uid))

    def head(self) -> str | None:
        """Return who is decided next, if anybody is."""
        gate = self._gate()
        self._drop_stale()
        if gate is not None and (not self._active or gate[:2] < self._active[0][:2]):
            return self._lines[gate[2]][0][3]
        return self._active[0][3] if self._active else None

    def open(self, key: WaitKey) -> None:
        """Let those who wait under a key be tried one after the other, whatever their backoff, until one is refused."""
        if key in self.waiting and key not in self.opened:
            self.opened[key] = None
            heappush(self._gates, (*self._first(key)[:2], key))

    def wake(self, key: WaitKey, now: int) -> None:
        """Wake all guests that wait under a key; those who rest wait on until that ends at the latest."""
        for uid in self.waiting_under(key):
            self._leave(uid, self.entries[uid], now)

    def wake_one(self, uid: str, now: int) -> None:
        """Wake one waiting guest; one that rests goes on waiting, until its backoff ends at the latest."""
        self._leave(uid, self.entries[uid], now)

    def waiting_under(self, key: WaitKey) -> list[str]:
        """Return who waits under a key, the oldest first: in an order that no restart changes."""
        return sorted(self.waiting.get(key, ()), key=lambda uid: (self.entries[uid].arrival, uid))

    def first_under(self, key: WaitKey) -> str:
        """Return who would be tried first of those who wait under a key."""
        return self._first(key)[3]

    def hurry(self, uid: str) -> None:
        """Try somebody at the next step, whatever its backoff."""
        entry = self.entries.get(uid)
        if entry is not None and entry.state != ACTIVE:
            self.activate(uid, entry.priority, entry.arrival, entry.key)

    def release(self, now: int) -> None:
        """Activate what is due: ended backoffs, and guests that waited too long for an event."""
        while self._backoff and self._backoff[0][0] <= now:
            _, _, _, stamp, uid = heappop(self._backoff)
            entry = self.entries.get(uid)
            if entry is not None and entry.stamp == stamp:
                self.activate(uid, entry.priority, entry.arrival, entry.key)
        while self._flush and self._flush[0][0] <= now:
            _, stamp, uid = heappop(self._flush)
            entry = self.entries.get(uid)
            if entry is not None and entry.stamp == stamp:
                self._leave(uid, entry, now)

    def is_due(self, uid: str, now: int) -> bool:
        """Say whether a step at this time would try an entry."""
        entry = self.entries.get(uid)
        return entry is not None and (entry.state == ACTIVE or (entry.state == BACKOFF and entry.until <= now))

    def next_due(self, now: int) -> int | None:
        """Return when ``release`` or ``pop`` next has something to do."""
        self._drop_stale()
        if self._active or self.opened:
            return now
        times = [heap[0][0] for heap in (self._backoff, self._flush) if heap]
        return min(times, default=None)

    def in_order(self) -> list[tuple[str, Entry]]:
        """Return all entries in the order in which they came. The table itself has those last that were put back."""
        return sorted(self.entries.items(), key=lambda item: item[1].stamp)

    def saved(self) -> tuple[int, dict[str, Entry], list[WaitKey]]:
        """Return everything that ``restored`` needs."""
        return self.stamp, dict(self.in_order()), sorted(self.opened)

    @classmethod
    def restored(cls, stamp: int, entries: dict[str, Entry], opened: list[WaitKey]) -> Queue:
        """Return the queue that was saved; entries are queued in the order in which they came."""
        queue = cls()
        for uid, entry in sorted(entries.items(), key=lambda item: item[1].stamp):
            queue.stamp = entry.stamp - 1
            if entry.state == ACTIVE:
                queue.activate(uid, entry.priority, entry.arrival, entry.key)
            elif entry.state == BACKOFF:
                queue.back_off(uid, entry.priority, entry.arrival, entry.key, entry.until)
            else:
                queue.wait(uid, entry.priority, entry.arrival, entry.key, entry.until, entry.flush_at)
        queue.stamp = stamp
        for key in opened:
            queue.open(key)
        return queue

    def copy(self) -> Queue:
        """Return an independent twin."""
        twin = Queue()
        twin.entries = self.entries.copy()
        twin.waiting = {key: uids.copy() for key, uids in self.waiting.items()}
        twin.stamp = self.stamp
        twin.opened = self.opened.copy()
        twin._lines = {key: line.copy() for key, line in self._lines.items()}
        twin._gates = self._gates.copy()
        twin._active = self._active.copy()
        twin._backoff = self._backoff.copy()
        twin._flush = self._flush.copy()
        return twin

    def _leave(self, uid: str, entry: Entry, now: int) -> None:
        if entry.until <= now:
            self.activate(uid, entry.priority, entry.arrival, entry.key)
        elif entry.until < entry.flush_at:
            self.entries[uid] = entry._replace(flush_at=entry.until)
            heappush(self._flush, (entry.until, entry.stamp, uid))

    def _leave_waiting(self, key: WaitKey, uid: str) -> None:
        uids = self.waiting[key]
        del uids[uid]
        if not uids:
            del self.waiting[key]
            del self._lines[key]
            self.opened.pop(key, None)

    def _join_line(self, key: WaitKey, place: _InLine) -> None:
        line = self._lines.setdefault(key, [])
        if len(line) > _ROOM + 2 * len(self.waiting[key]):
            line[:] = [known for known in line if _is_current(self.entries.get(known[3]), known[2])]
            heapify(line)
        heappush(line, place)

    def _first(self, key: WaitKey) -> _InLine:
        """Return who comes first of those who wait under a key."""
        line = self._lines[key]
        while not _is_current(self.entries.get(line[0][3]), line[0][2]):
            heappop(line)
        return line[0]

    def _gate(self) -> tuple[int, int, WaitKey] | None:
        """Return the opened key whose first guest comes before those of the others."""
        gates = self._gates
        while gates:
            gate = gates[0]
            key = gate[2]
            if key not in self.opened:
                heappop(gates)
                continue
            now = (*self._first(key)[:2], key)
            if now == gate:
                return gate
            heapreplace(gates, now)
        return None

    def _drop_stale(self) -> None:
        """Drop the heads of heaps that no longer stand for their guest."""
        entries = self.entries
        while self._active and not _is_current(entries.get(self._active[0][3]), self._active[0][2]):
            heappop(self._active)
        while self._backoff and not _is_current(entries.get(self._backoff[0][4]), self._backoff[0][3]):
            heappop(self._backoff)
        while self._flush and not _is_current(entries.get(self._flush[0][2]), self._flush[0][1]):
            heappop(self._flush)


def _is_current(entry: Entry | None, stamp: int) -> bool:
    return entry is not None and entry.stamp == stamp
