"""The queue entries of gangs: a gang is one entry, and its members wait with it.

A gang is queued when its minimum of members has arrived and some are pending. After a rejection it waits until
something changes. It leaves the queue when it falls below the minimum.
"""

from __future__ import annotations

import math

import msgspec

from hostler.engine.cluster.randomness import BACKOFF, draw, gang_key
from hostler.engine.preemption.evictions import drop_gang_holds
from hostler.engine.preemption.victims import charge_budgets
from hostler.engine.state.gang_book import GANG
from hostler.engine.state.queue import ACTIVE, WaitKey
from hostler.engine.state.records import GROUPED, GuestRecord
from hostler.engine.state.state import State
from hostler.model import Action, Answered, Evict
from hostler.model.decisions import DecisionNote

__all__ = ["GANG_KEY", "GangQueue"]

GANG_KEY: WaitKey = (-1, -1)
_FIRST = -1  # the arrival of a running gang that is repaired before others of its priority


class GangQueue:
    """Keeps the queue in step with gangs and their members."""

    def __init__(self, state: State) -> None:
        self._state = state

    def consider(self, key: str) -> None:
        """Queue a gang that can be tried, or remove one that cannot."""
        state = self._state
        gangs = state.gangs
        name = GANG + key
        pending = [uid for uid in gangs.pending(key) if state.guests[uid].state == GROUPED]
        is_ready = gangs.why_not_ready(key) is None
        if is_ready and gangs.is_asked(key):
            state.queue.remove(name)  # the last answer queues it again
            self.watch(key)
            return
        if not is_ready or not pending:
            state.queue.remove(name)
            gangs.searches.positions.pop(key, None)
            drop_gang_holds(state, key)
            self.watch(key)
            return
        state.queue.activate(name, gangs.priority(key), self._arrival(key, pending), GANG_KEY)
        self.watch(key)

    def add_pending(self, key: str, priority: int) -> None:
        """Register a new pending member; cheap unless the gang's state changes."""
        state = self._state
        gang = state.gangs.gangs.get(key)
        if gang is None or state.gangs.why_not_ready(key):
            return
        entry = state.queue.entries.get(GANG + key)
        is_settled = entry is not None and (gang.priority is not None or entry.priority <= priority)
        if entry is None or entry.state != ACTIVE or not is_settled:
            self.consider(key)

    def wait(self, key: str) -> None:
        """Let a rejected gang wait for a change; the backoff grows with every rejection."""
        state = self._state
        state.gangs.refusals[key] = state.gangs.refusals.get(key, 0) + 1
        self.wait_on(key)

    def wait_on(self, key: str) -> None:
        """Let a gang wait that was already rejected before its search for victims continued."""
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

    def give_back(self, record: GuestRecord, note: DecisionNote) -> None:
        """Return a member to its gang's pending members, because its placement could not be carried out."""
        state = self._state
        waiting = msgspec.structs.replace(
            record, state=GROUPED, host="", devices=(), errors=record.errors + 1, answer=None, notes=(note,), total=None
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

    def take_answer(self, record: GuestRecord, answer: Answered) -> None:
        """Keep the answer from outside for a member; the gang is tried when no other one is awaited."""
        state = self._state
        key = record.guest.gang
        is_ready = state.gangs.why_not_ready(key) is None
        # An answer for a gang that is not tried now would be outdated when it is.
        kept = msgspec.structs.replace(record, state=GROUPED, answer=answer if is_ready else None)
        state.guests[record.guest.uid] = kept
        if GANG + key not in state.queue.entries:  # it may back off, because another answer failed
            self.consider(key)

    def _arrival(self, key: str, pending: list[str]) -> int:
        """Return a gang's age: that of its oldest pending member, or first in line if the gang needs repair."""
        gangs = self._state.gangs
        if key in gangs.broken_since and gangs.gangs[key].when_broken == "prefer_repair":
            return _FIRST
        return min(self._state.guests[uid].arrival for uid in pending)

    def watch(self, key: str) -> None:
        """Record whether a running gang has fewer placed members than its minimum, and since when.

        A member that is ending does not count, even if it stays for ever on a lost host.
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
            # A gang that was half placed before the engine started counts too: whether it ever ran is unknown.
            gangs.broken_since[key] = state.now
            if gang.when_broken == "release_after":
                state.add_deadline(state.after(gang.release_after_ns), 0, GANG + key)

    def placed(self, key: str) -> None:
        """Update the queue after members were placed."""
        self._state.gangs.refusals.pop(key, None)
        self.watch(key)

    def is_due(self, name: str, at: int) -> bool:
        """Say whether a deadline belongs to a gang that is still broken."""
        key = name.removeprefix(GANG)
        gang = self._state.gangs.gangs.get(key)
        since = self._state.gangs.broken_since.get(key)
        if gang is None or since is None or gang.when_broken != "release_after":
            return False
        return at >= since + gang.release_after_ns

    def reschedule_release(self, key: str, at: int = 0) -> None:
        """Schedule the release of a broken gang again, after its rules changed or an eviction failed."""
        state = self._state
        gang = state.gangs.gangs.get(key)
        since = state.gangs.broken_since.get(key)
        if gang is not None and since is not None and gang.when_broken == "release_after":
            state.add_deadline(max(at, since + gang.release_after_ns), 0, GANG + key)

    def release(self, name: str, actions: list[Action]) -> None:
        """Evict the remaining members of a gang that stayed broken for too long."""
        state = self._state
        key = name.removeprefix(GANG)
        for uid in state.gangs.placed(key):
            record = state.guests[uid]
            if uid not in state.evicting and not record.guest.spec.is_leaving:
                state.evicting[uid] = ""
                charge_budgets(state, uid)
                reason = f"gang {key} stayed below its minimum"
                actions.append(Evict(uid, record.guest.name, state.decisions, record.host, "", reason))
