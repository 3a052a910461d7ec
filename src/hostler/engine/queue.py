"""Pending guests: active, in backoff, or waiting for an event that can cure their refusal.

Active guests are ordered by priority, then age. Each pending guest has exactly one entry; heaps may hold stale ones,
which a stamp tells apart. Waiting guests are kept by (shape, policy), so that an event looks at shapes, not at guests.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, NamedTuple

__all__ = ["ACTIVE", "BACKOFF", "QUEUE_NAMES", "WAITING", "Entry", "Queue", "WaitKey"]

ACTIVE: Final = 0  # will be tried at the next step
BACKOFF: Final = 1  # will be tried when its time comes
WAITING: Final = 2  # refused; will be woken by an event that can cure it, or flushed
QUEUE_NAMES: Final = ("active", "backoff", "waiting")

WaitKey = tuple[int, int]  # shape number, policy number


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
        self._active: list[tuple[int, int, int, str]] = []
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
        self.waiting.setdefault(key, {})[uid] = None
        heappush(self._flush, (flush_at, self.stamp, uid))

    def remove(self, uid: str) -> Entry | None:
        """Take a guest out, wherever it is."""
        entry = self.entries.pop(uid, None)
        if entry is not None and entry.state == WAITING:
            self._leave_waiting(entry.key, uid)
        return entry

    def pop(self, limit: int) -> list[str]:
        """Take up to ``limit`` active guests out, first by priority, then by age."""
        taken: list[str] = []
        entries, heap = self.entries, self._active
        while heap and len(taken) < limit:
            _, _, stamp, uid = heappop(heap)
            entry = entries.get(uid)
            if entry is not None and entry.stamp == stamp:
                del entries[uid]
                taken.append(uid)
        return taken

    def head(self) -> str | None:
        """Return who is decided next, if anybody is."""
        self._drop_stale()
        return self._active[0][3] if self._active else None

    def wake(self, key: WaitKey, now: int) -> None:
        """Wake all guests that wait under a key; those still in backoff stay there until it ends."""
        for uid in list(self.waiting.get(key, ())):
            self._leave(uid, self.entries[uid], now)

    def wake_one(self, uid: str, now: int) -> None:
        """Wake one waiting guest; while in backoff it stays there until that ends."""
        self._leave(uid, self.entries[uid], now)

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

    def next_due(self, now: int) -> int | None:
        """Return when ``release`` or ``pop`` next has something to do."""
        self._drop_stale()
        if self._active:
            return now
        times = [heap[0][0] for heap in (self._backoff, self._flush) if heap]
        return min(times, default=None)

    def saved(self) -> tuple[int, dict[str, Entry]]:
        """Return everything that ``restored`` needs."""
        return self.stamp, self.entries

    @classmethod
    def restored(cls, stamp: int, entries: dict[str, Entry]) -> Queue:
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
        return queue

    def copy(self) -> Queue:
        """Return an independent twin."""
        twin = Queue()
        twin.entries = self.entries.copy()
        twin.waiting = {key: uids.copy() for key, uids in self.waiting.items()}
        twin.stamp = self.stamp
        twin._active = self._active.copy()
        twin._backoff = self._backoff.copy()
        twin._flush = self._flush.copy()
        return twin

    def _leave(self, uid: str, entry: Entry, now: int) -> None:
        if entry.until <= now:
            self.activate(uid, entry.priority, entry.arrival, entry.key)
        else:
            self.back_off(uid, entry.priority, entry.arrival, entry.key, entry.until)

    def _leave_waiting(self, key: WaitKey, uid: str) -> None:
        uids = self.waiting[key]
        del uids[uid]
        if not uids:
            del self.waiting[key]

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
