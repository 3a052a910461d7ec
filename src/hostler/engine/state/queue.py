"""The queue of pending guests: active, in backoff, or waiting for an event that can cure their rejection.

              activate                  pop, pop_mates
    (new) ─────────────▶ ACTIVE ──────────────────────▶ being decided ──▶ placed
                           ▲  ▲                              │
             release(now)  │  │ wake, release(now)           │ rejected, or failed outside
                           │  └────────── WAITING ◀──────────┤ wait
                        BACKOFF ◀────────────────────────────┘ back_off

Active guests are ordered by priority, then by age. Each pending guest has exactly one entry. Heaps may have stale
entries; a stamp tells them apart. Waiting guests are grouped by key (shape, policy), so that an event looks at shapes,
not at guests.

Guests of one key are equal: what rejects one rejects all. So an event that lets a key fit somewhere *opens* the key.
Its guests are then in line with the active ones, whatever their backoff, until the first of them is rejected again. No
guest of lower priority overtakes them because its backoff ends earlier, and one free place costs two tries instead of
one try per guest.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, NamedTuple

__all__ = ["ACTIVE", "BACKOFF", "QUEUE_NAMES", "WAITING", "Queue", "QueueEntry", "WaitKey"]

ACTIVE: Final = 0  # will be tried at the next step
BACKOFF: Final = 1  # will be tried when its time comes
WAITING: Final = 2  # refused; will be woken by an event that can cure it, or flushed
QUEUE_NAMES: Final = ("active", "backoff", "waiting")

WaitKey = tuple[int, int]  # shape number, policy number
_InLine = tuple[int, int, int, str]  # priority (negative), arrival, stamp, uid
_ROOM = 64  # stale places that a line may always have


class QueueEntry(NamedTuple):
    """The place of a pending guest in the queue."""

    state: int
    stamp: int
    priority: int
    arrival: int
    until: int  # end of backoff
    flush_at: int
    key: WaitKey


class Queue:
    """Pending guests by state, and the transitions between the states."""

    def __init__(self) -> None:
        self.entries: dict[str, QueueEntry] = {}
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
        self.entries[uid] = QueueEntry(ACTIVE, self.stamp, priority, arrival, 0, 0, key)
        heappush(self._active, (-priority, arrival, self.stamp, uid))

    def back_off(self, uid: str, priority: int, arrival: int, key: WaitKey, until: int) -> None:
        """Queue a guest for the end of its backoff."""
        self.remove(uid)
        self.stamp += 1
        self.entries[uid] = QueueEntry(BACKOFF, self.stamp, priority, arrival, until, 0, key)
        heappush(self._backoff, (until, -priority, arrival, self.stamp, uid))

    def wait(self, uid: str, priority: int, arrival: int, key: WaitKey, until: int, flush_at: int) -> None:
        """Let a guest wait for an event, but no longer than until ``flush_at``."""
        self.remove(uid)
        self.stamp += 1
        self.entries[uid] = QueueEntry(WAITING, self.stamp, priority, arrival, until, flush_at, key)
        self.opened.pop(key, None)  # it was refused, so the others would be
        self.waiting.setdefault(key, {})[uid] = None
        self._join_line(key, (-priority, arrival, self.stamp, uid))
        heappush(self._flush, (flush_at, self.stamp, uid))

    def remove(self, uid: str) -> QueueEntry | None:
        """Remove a guest in any state."""
        entry = self.entries.pop(uid, None)
        if entry is not None and entry.state == WAITING:
            self._leave_waiting(entry.key, uid)
        return entry

    def pop(self, limit: int) -> list[str]:
        """Pop up to ``limit`` active guests by priority and age, but none after the first guest of an open key."""
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

    def pop_mates(self, limit: int) -> list[tuple[str, QueueEntry]]:
        """Pop up to ``limit`` guests of an open key if it is their turn, but none after the next other guest."""
        gate = self._gate()
        self._drop_stale()
        if gate is None or limit < 1 or (self._active and self._active[0][:2] < gate[:2]):
            return []
        line = self._lines[gate[2]]
        after = min([place[:2] for place in (*self._active[:1], *self._gates[1:3])], default=None)
        taken: list[tuple[str, QueueEntry]] = []
        while line and len(taken) < limit and not (taken and after is not None and after <= line[0][:2]):
            _, _, stamp, uid = heappop(line)
            entry = self.entries.get(uid)
            if entry is not None and entry.stamp == stamp:
                taken.append((uid, entry))
        for uid, _ in taken:
            self.remove(uid)
        return taken

    def put_back(self, mates: Sequence[tuple[str, QueueEntry]]) -> None:
        """Let popped guests that were not tried wait as before."""
        for uid, entry in mates:
            self.entries[uid] = entry
            self.waiting.setdefault(entry.key, {})[uid] = None
            self._join_line(entry.key, (-entry.priority, entry.arrival, entry.stamp, uid))
            heappush(self._flush, (entry.flush_at, entry.stamp, uid))

    def head(self) -> str | None:
        """Return the guest that is decided next, if any."""
        gate = self._gate()
        self._drop_stale()
        if gate is not None and (not self._active or gate[:2] < self._active[0][:2]):
            return self._lines[gate[2]][0][3]
        return self._active[0][3] if self._active else None

    def open(self, key: WaitKey) -> None:
        """Let the guests of a key be tried one after the other, whatever their backoff, until one is rejected."""
        if key in self.waiting and key not in self.opened:
            self.opened[key] = None
            heappush(self._gates, (*self._first(key)[:2], key))

    def wake(self, key: WaitKey, now: int) -> None:
        """Wake all guests of a key; a guest in backoff is active when the backoff ends at the latest."""
        for uid in self.guests_under(key):
            self._leave(uid, self.entries[uid], now)

    def wake_one(self, uid: str, now: int) -> None:
        """Wake one waiting guest; a guest in backoff is active when the backoff ends at the latest."""
        self._leave(uid, self.entries[uid], now)

    def guests_under(self, key: WaitKey) -> list[str]:
        """Return the guests that wait under a key, the oldest first; a restart does not change the order."""
        return sorted(self.waiting.get(key, ()), key=lambda uid: (self.entries[uid].arrival, uid))

    def first_under(self, key: WaitKey) -> str:
        """Return the guest under a key that would be tried first."""
        return self._first(key)[3]

    def activate_now(self, uid: str) -> None:
        """Try a guest in the next step, whatever its backoff."""
        entry = self.entries.get(uid)
        if entry is not None and entry.state != ACTIVE:
            self.activate(uid, entry.priority, entry.arrival, entry.key)

    def release(self, now: int) -> None:
        """Activate the guests whose backoff ended, and those that waited too long for an event."""
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

    def in_order(self) -> list[tuple[str, QueueEntry]]:
        """Return all entries in order of arrival in the queue. In the table, guests that were put back come last."""
        return sorted(self.entries.items(), key=lambda item: item[1].stamp)

    def save(self) -> tuple[int, dict[str, QueueEntry], list[WaitKey]]:
        """Return everything that ``restore`` needs."""
        return self.stamp, dict(self.in_order()), sorted(self.opened)

    @classmethod
    def restore(cls, stamp: int, entries: dict[str, QueueEntry], opened: list[WaitKey]) -> Queue:
        """Return the saved queue; entries are queued in the order of their arrival."""
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
        """Return an independent copy."""
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

    def _leave(self, uid: str, entry: QueueEntry, now: int) -> None:
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
        """Return the guest that is first among those under a key."""
        line = self._lines[key]
        while not _is_current(self.entries.get(line[0][3]), line[0][2]):
            heappop(line)
        return line[0]

    def _gate(self) -> tuple[int, int, WaitKey] | None:
        """Return the open key whose first guest comes before those of the others."""
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
        """Drop stale entries at the heads of the heaps."""
        entries = self.entries
        while self._active and not _is_current(entries.get(self._active[0][3]), self._active[0][2]):
            heappop(self._active)
        while self._backoff and not _is_current(entries.get(self._backoff[0][4]), self._backoff[0][3]):
            heappop(self._backoff)
        while self._flush and not _is_current(entries.get(self._flush[0][2]), self._flush[0][1]):
            heappop(self._flush)


def _is_current(entry: QueueEntry | None, stamp: int) -> bool:
    return entry is not None and entry.stamp == stamp
