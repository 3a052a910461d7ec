"""When gangs are tried: a gang is one entry of the queue, and its members wait with it.

It is queued when its minimum of members is there and some of them are pending, waits after a refusal until something
changes, and leaves the queue when the minimum is lost.
"""

from __future__ import annotations

import math

import msgspec

from hostler.engine.evictions import drop_gang_holds
from hostler.engine.gang_book import GANG
from hostler.engine.queue import ACTIVE, WaitKey
from hostler.engine.randomness import BACKOFF, draw, gang_key
from hostler.engine.records import GROUPED, GuestRecord
from hostler.engine.state import State
from hostler.engine.victims import order
from hostler.model import Action, Evict

__all__ = ["GANG_KEY", "GangQueue"]

GANG_KEY: WaitKey = (-1, -1)
_FIRST = -1  # the arrival of a running gang that is repaired before others of its priority


class GangQueue:
    """Keeps the queue in step with gangs and their members."""

    def __init__(self, state: State) -> None:
        self._state = state

    def consider(self, key: str) -> None:
        """Queue a gang that can be tried, and take one out that cannot."""
        state = self._state
        gangs = state.gangs
        name = GANG + key
        pending = [uid for uid in gangs.pending(key) if state.guests[uid].state == GROUPED]
        if gangs.why_not_ready(key) or not pending:
            state.queue.remove(name)
            gangs.searches.positions.pop(key, None)
            drop_gang_holds(state, key)
            self.watch(key)
            return
        state.queue.activate(name, gangs.priority(key), self._arrival(key, pending), GANG_KEY)
        self.watch(key)

    def welcome(self, key: str, priority: int) -> None:
        """Take note of a new pending member; cheap while nothing changes for its gang."""
        state = self._state
        gang = state.gangs.gangs.get(key)
        if gang is None or state.gangs.why_not_ready(key):
            return
        entry = state.queue.entries.get(GANG + key)
        is_settled = entry is not None and (gang.priority is not None or entry.priority <= priority)
        if entry is None or entry.state != ACTIVE or not is_settled:
            self.consider(key)

    def wait(self, key: str) -> None:
        """Let a refused gang wait for something to change; the pause grows with every refusal."""
        state = self._state
        state.gangs.refusals[key] = state.gangs.refusals.get(key, 0) + 1
        self.wait_on(key)

    def wait_on(self, key: str) -> None:
        """Let a gang wait that was refused already, before the search for victims went on."""
        state = self._state
        pending = state.gangs.pending(key)
        until = self._until(key, state.gangs.refusals.get(key, 1))
        flush_at = max(until, state.after(state.rules.flush_after_ns))
        arrival = self._arrival(key, pending)
        state.queue.wait(GANG + key, state.gangs.priority(key), arrival, GANG_KEY, until, flush_at)

    def _until(self, key: str, failures: int) -> int:
        """Return when a gang may be tried again after so many failures in a row."""
        state = self._state
        rules = state.rules
        longest = rules.backoff_max_ns * max(1, math.isqrt(len(state.gangs.members[key])))
        base = min(rules.backoff_initial_ns << min(failures - 1, 40), longest)
        roll = draw(state.seed, gang_key(state.gangs.gangs[key]), failures, BACKOFF)
        return state.after(base + base * rules.jitter_percent * (roll % 1024) // (100 * 1024))

    def give_back(self, record: GuestRecord, note: str) -> None:
        """A member's placement could not be carried out: it joins its gang's waiting members again."""
        state = self._state
        waiting = msgspec.structs.replace(
            record, state=GROUPED, host="", devices=(), errors=record.errors + 1, answer=None, note=note, total=None
        )
        state.guests[record.guest.uid] = waiting
        key = record.guest.gang
        state.gangs.searches.positions.pop(key, None)
        self.watch(key)
        if state.gangs.why_not_ready(key):
            self.consider(key)
            return
        pending = state.gangs.pending(key)
        until = self._until(key, max(state.guests[uid].errors for uid in pending))
        state.queue.back_off(GANG + key, state.gangs.priority(key), self._arrival(key, pending), GANG_KEY, until)

    def _arrival(self, key: str, pending: list[str]) -> int:
        """Return a gang's age: its oldest pending member's, or before all others when it is to be repaired."""
        gangs = self._state.gangs
        if key in gangs.broken_since and gangs.gangs[key].when_broken == "prefer_repair":
            return _FIRST
        return min(self._state.guests[uid].arrival for uid in pending)

    def watch(self, key: str) -> None:
        """Note whether a running gang has fewer members placed than its minimum, and since when.

        A member whose end is decided does not count, however long it takes to go: on a host that is gone, for ever.
        """
        state = self._state
        gangs = state.gangs
        gang = gangs.gangs.get(key)
        if gang is None:
            return
        staying = sum(not state.guests[uid].guest.spec.is_leaving for uid in gangs.placed(key))
        if staying >= gang.min_count or not staying:
            gangs.broken_since.pop(key, None)
        elif key not in gangs.broken_since:
            # One that was half-placed before the engine's time counts too: nobody can tell whether it ran.
            gangs.broken_since[key] = state.now
            if gang.when_broken == "release_after":
                state.add_deadline(state.after(gang.release_after_ns), 0, GANG + key)

    def placed(self, key: str) -> None:
        """Follow up on members that were placed."""
        self._state.gangs.refusals.pop(key, None)
        self.watch(key)

    def is_due(self, name: str, at: int) -> bool:
        """Say whether a deadline is that of a broken gang which is still broken."""
        key = name.removeprefix(GANG)
        gang = self._state.gangs.gangs.get(key)
        since = self._state.gangs.broken_since.get(key)
        if gang is None or since is None or gang.when_broken != "release_after":
            return False
        return at >= since + gang.release_after_ns

    def rearm(self, key: str, at: int = 0) -> None:
        """See to it that a broken gang is released in time, after its rules changed or an eviction failed."""
        state = self._state
        gang = state.gangs.gangs.get(key)
        since = state.gangs.broken_since.get(key)
        if gang is not None and since is not None and gang.when_broken == "release_after":
            state.add_deadline(max(at, since + gang.release_after_ns), 0, GANG + key)

    def release(self, name: str, actions: list[Action]) -> None:
        """Evict what is left of a gang that stayed broken for too long."""
        state = self._state
        key = name.removeprefix(GANG)
        for uid in state.gangs.placed(key):
            record = state.guests[uid]
            if uid not in state.evicting and not record.guest.spec.is_leaving:
                state.evicting[uid] = ""
                order(state, uid)
                reason = f"gang {key} stayed below its minimum"
                actions.append(Evict(uid, record.guest.name, state.decisions, record.host, "", reason))
