"""The decision cycle: sends runs of queued guests to the kernel, and applies answers from outside.

Path of a guest: it is popped from the queue, its (shape, policy) slot is refreshed, a row is selected and booked, its
record is replaced, and an action is returned. A rejected guest waits for events that can cure its reasons.

Invariant: the result is the same as if every guest were decided alone, in the order of the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec
import numpy as np

from hostler.engine.cache.cache import RunResult
from hostler.engine.cache.reasons import NamedCounts, reason_counts, split_counts
from hostler.engine.cache.totals import float_totals, own_total
from hostler.engine.gangs.cycle import GangCycle
from hostler.engine.gangs.queue import GangQueue
from hostler.engine.kernels.layout import Int64s
from hostler.engine.policy.profile import Profile
from hostler.engine.policy.profiles import NO_POLICY
from hostler.engine.preemption.dry_runs import is_resolvable
from hostler.engine.preemption.evictions import Evictions
from hostler.engine.runs import KernelRuns
from hostler.engine.state.bookings import Bookings
from hostler.engine.state.gang_book import GANG
from hostler.engine.state.queue import QueueEntry
from hostler.engine.state.quotas import Quotas
from hostler.engine.state.records import ASKED, ASSUMED, PREPARING, QUEUED, GuestRecord
from hostler.engine.state.state import State
from hostler.engine.verdicts.selection import answered_rows, best_row
from hostler.model import Action, Ask, Bind, Defer, Prepare, Reason
from hostler.model.decisions import DecisionNote
from hostler.model.notes import REJECTED_OUTSIDE

__all__ = ["Cycle"]

_SMALL_RUN = 8
_MOST_TERMS = 2048  # rules about other guests in one run; bounds the counters that it needs at once
RUN = 4096  # guests handed to the kernel at once; bounds the memory of one call, not the result


class _Batch:
    """Guests that the kernel will decide in one run."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._most = state.cache.distinct_limit()
        self._start()

    def _start(self) -> None:
        self._records: list[GuestRecord] = []
        self._policies: list[int] = []
        self._distinct: set[tuple[int, int]] = set()
        self._terms = 0  # rules about other guests
        self._quotas: Quotas | None = None  # the tenants' books with everybody here placed

    def takes(self, record: GuestRecord, policy: int) -> bool:
        """Say whether a guest may join: the cache has room for its shape, and its quota is certain to allow it."""
        is_known = (record.shape, policy) in self._distinct or (
            len(self._distinct) < self._most and self._terms + record.guest.spec.term_count <= _MOST_TERMS
        )
        return is_known and (self._quotas is None or not self._quotas.beyond(record.guest.spec))

    def add(self, record: GuestRecord, policy: int) -> None:
        """Add a guest."""
        self._records.append(record)
        self._policies.append(policy)
        if (record.shape, policy) not in self._distinct:
            self._terms += record.guest.spec.term_count
        self._distinct.add((record.shape, policy))
        if self._state.quotas.concerns(record.guest.spec):
            if self._quotas is None:
                self._quotas = self._state.quotas.copy()
            self._quotas.shift(record.guest.spec, 1)

    def take(self) -> tuple[list[GuestRecord], list[int]]:
        """Return the guests collected so far and start a new batch."""
        taken = self._records, self._policies
        self._start()
        return taken


class Cycle:
    """Decides queued guests."""

    def __init__(self, state: State, evictions: Evictions) -> None:
        self._state = state
        self._bookings = Bookings(state)
        self._evictions = evictions
        self._runs = KernelRuns(state)
        self._gangs = GangCycle(state, evictions, self._runs, self._place, self._ask)
        self._gang_queue = GangQueue(state)
        self._done = 0  # guests decided by this call
        self._paused: list[str] = []  # gangs whose search continues in the next step

    def decide(self, limit: int | None) -> list[Action]:
        """Decide up to ``limit`` queued guests (all if None) and return the actions.

        A gang whose search is paused does not count. Other entries are decided, and the gang is queued again for the
        next step.
        """
        self._paused = []
        try:
            return self._decide(limit)
        finally:
            self._requeue(self._paused)
            for uid in self._paused:
                self._gangs.rest(uid.removeprefix(GANG))

    def _decide(self, limit: int | None) -> list[Action]:
        actions: list[Action] = []
        queue = self._state.queue
        left, together = limit, _SMALL_RUN
        while left is None or left > 0:
            size = RUN if left is None else min(RUN, left)
            mates = queue.pop_mates(min(size, together))
            uids = [uid for uid, _ in mates] or queue.pop(size)
            if not uids:
                break
            self._done = 0
            paused = len(self._paused)
            try:
                if mates:
                    self._decide_mates(mates, actions)
                else:
                    self._decide_all(uids, actions)
            except Exception:
                self._requeue(uids[self._done :])
                if not actions:
                    raise
                break  # what was decided counts; the error comes up again when its guest is the first
            together = min(4 * together, RUN) if self._done == len(mates) else _SMALL_RUN
            if left is not None:
                left -= self._done - (len(self._paused) - paused)
        return actions

    def _decide_mates(self, mates: Sequence[tuple[str, QueueEntry]], actions: list[Action]) -> None:
        """Decide guests of one shape and policy until one is rejected; the rest keep waiting."""
        queue = self._state.queue
        key = mates[0][1].key
        records = [self._state.guests[uid] for uid, _ in mates]
        count = self._in_one_run(records, key[1])
        if count < len(mates):
            queue.put_back(mates[count:])
            queue.open(key)
        if count == 1:
            self._decide_all([mates[0][0]], actions)
            return
        self._run(records[:count], [key[1]] * count, actions, until_refused=True)
        queue.put_back(mates[self._done : count])

    def _in_one_run(self, records: Sequence[GuestRecord], policy: int) -> int:
        """Return how many of these equal guests the kernel can decide in one run; at least one."""
        if self._stands_alone(records[0], policy) or self._state.quotas.concerns(records[0].guest.spec):
            return 1
        nominated = (at for at, record in enumerate(records) if record.guest.uid in self._state.nominations)
        return next(nominated, len(records))

    def _requeue(self, uids: Sequence[str]) -> None:
        """Put guests back that were popped and not decided."""
        state = self._state
        for uid in uids:
            if uid.startswith(GANG):
                self._gang_queue.consider(uid.removeprefix(GANG))
                continue
            record = state.guests[uid]
            key = state.wait_key(state.shape(record))
            state.queue.activate(uid, record.guest.spec.priority, record.arrival, key)

    def _decide_all(self, uids: Sequence[str], actions: list[Action]) -> None:
        """Split the guests into runs that the kernel can decide without Python code in between."""
        state = self._state
        batch = _Batch(state)
        for uid in uids:
            state.pause()
            record = state.guests.get(uid)
            if record is None:
                self._flush(batch, actions)
                if not self._gangs.decide(uid.removeprefix(GANG), actions):
                    self._paused.append(uid)
                self._done += 1
                continue
            policy = state.profiles.find_number(record.guest.spec.policy)
            alone = self._stands_alone(record, policy) or bool(state.quotas.beyond(record.guest.spec))
            if alone or not batch.takes(record, policy):
                self._flush(batch, actions)  # in the order of the queue, whatever the size of a batch
            if alone or state.quotas.beyond(record.guest.spec):
                self._decide_alone(record, policy, actions)
            else:
                batch.add(record, policy)
        self._flush(batch, actions)

    def _flush(self, batch: _Batch, actions: list[Action]) -> None:
        records, policies = batch.take()
        self._state.cache.trim()
        self._run(records, policies, actions)

    def _stands_alone(self, record: GuestRecord, policy: int) -> bool:
        """Say whether a guest cannot be part of a run."""
        state = self._state
        if policy == NO_POLICY or record.guest.spec.is_leaving or record.guest.uid in state.nominations:
            return True
        profile = state.profiles.profiles[policy]
        if not profile.is_static or profile.policy.ask is not None:
            return True
        # What it uses of a reservation is no longer held when the next one is looked at.
        return bool(state.reservations and state.passes(record.guest.spec))

    def _decide_alone(self, record: GuestRecord, policy: int, actions: list[Action]) -> None:
        """Decide one guest that needs Python code, or that is rejected without looking at hosts."""
        state = self._state
        spec = record.guest.spec
        refusal = None
        if policy == NO_POLICY:
            refusal = Reason("policy", "unknown_policy", spec.policy)
        elif spec.is_leaving:
            refusal = Reason("guest", "is_leaving")
        else:
            beyond = state.quotas.beyond(spec)
            refusal = Reason("quota", "quota_exceeded", beyond) if beyond else None
        if refusal is not None:
            self._refuse_for_all(record, policy, refusal, actions)
            self._done += 1
            return
        profile = state.profiles.profiles[policy]
        if record.guest.uid in state.nominations and self._take_nominated(record, policy, profile, actions):
            self._done += 1
        elif profile.policy.ask is not None:
            self._decide_asked(record, policy, profile, actions)
            self._done += 1
        else:
            self._run([record], [policy], actions)

    def _run(
        self,
        records: Sequence[GuestRecord],
        policies: Sequence[int],
        actions: list[Action],
        *,
        until_refused: bool = False,
    ) -> None:
        """Decide a run; a rejected guest that may evict others is handled before the next guest is decided."""
        profiles = self._state.profiles.profiles
        stops = [
            until_refused
            or profiles[policy].policy.reclaim
            or (profiles[policy].policy.preemption is not None and record.guest.spec.may_preempt)
            for record, policy in zip(records, policies, strict=True)
        ]
        prepared = self._runs.prepare(records, policies, stops) if records else None
        start, chunk = 0, len(records)
        while start < len(records):
            self._state.pause()
            if prepared is None or prepared.generation != self._state.cache.generation:
                records, policies, stops, start = records[start:], policies[start:], stops[start:], 0
                prepared = self._runs.prepare(records, policies, stops)
            result = self._runs.decide(prepared, start, min(chunk, len(records) - start))
            end = start + result.decided
            slots = prepared.slots[start:end].tolist()
            self._finish(records[start:end], policies[start:end], slots, result, actions)
            self._done += result.decided
            if until_refused and result.rows[result.decided - 1] < 0:
                return
            # After a stop the next one is likely to be near, and results are sized by the chunk.
            chunk = _SMALL_RUN if result.decided < chunk and end < len(records) else 4 * chunk
            start = end

    def _take_nominated(self, record: GuestRecord, policy: int, profile: Profile, actions: list[Action]) -> bool:
        """Try the host that a guest is nominated for first; return whether the guest was placed there."""
        state = self._state
        uid = record.guest.uid
        nomination = state.nominations[uid]
        row = state.cluster.row_of.get(nomination.host)
        self._evictions.drop_nomination(uid, quietly=True)
        shape = state.shapes.shapes[record.shape]
        slot = state.cache.slot(shape, policy)
        codes, counts = state.cache.codes(slot)
        is_possible = row is not None and codes[row] == 0
        ask = profile.policy.ask
        bonus: dict[int, int] = {}
        if row is not None and is_possible and ask is not None and ask.always:
            if self._must_ask(record, nomination.host):
                self._evictions.keep_waiting(record, nomination)
                self._ask(record, ask.name, ask.timeout_ns, np.array([row], dtype=np.int64), actions)
                return True
            allowed, bonus = answered_rows(state, record, ask, np.array([row], dtype=np.int64))
            is_possible = bool(len(allowed))
            others: Int64s = np.flatnonzero(codes == 0).astype(np.int64)
            others = others[others != row]
            if not is_possible and len(others):  # its own host is refused: what is the answer about the others?
                state.note_improvement(row)
                self._ask(record, ask.name, ask.timeout_ns, others, actions)
                return True
        if row is not None and is_possible:
            state.decisions += 1
            feasible, refusing = split_counts(counts[None, :])[0]
            reasons = state.cache.name_counts(slot, refusing)
            total = own_total(state.cache.total(slot, row), profile, shape)
            if profile.idle_scores:
                total += state.cache.idle_total(shape, policy)
            total += bonus.get(row, 0)
            devices = state.cache.choose_devices(slot, row, self._runs.draw(record), shape.device_count)
            state.cluster.book(row, shape, devices, uid)
            self._place(record, profile, nomination.host, devices, total, feasible, reasons, actions)
            return True
        waits = row is not None and any(victim in state.evicting for victim in nomination.victims)
        if row is not None and codes[row] > 0:
            waits = waits and is_resolvable(state.cache.reason(slot, int(codes[row])))
        if waits and not counts[0]:
            self._evictions.keep_waiting(record, nomination)
        elif row is not None:
            state.note_improvement(row)  # for others: what was held there is not any more
        return False

    @staticmethod
    def _must_ask(record: GuestRecord, host: str) -> bool:
        """Say whether the last answer, if there is one, says nothing about a host."""
        answer = record.answer
        if answer is None:
            return True
        named = {name for name, _ in (*answer.scores, *answer.refused)}
        return bool(named) and host not in named

    def _finish(
        self,
        records: Sequence[GuestRecord],
        policies: Sequence[int],
        slots: Sequence[int],
        result: RunResult,
        actions: list[Action],
    ) -> None:
        """Turn the kernel's results into records and actions, in order."""
        state = self._state
        rows = result.rows.tolist()
        totals: list[int] = result.totals.tolist()
        devices: list[list[int]] | None = result.devices.tolist() if result.devices.shape[1] else None
        floats = float_totals(result.totals) if any(p.is_float for p in state.profiles.profiles) else []
        counts = [
            (feasible, state.cache.name_counts(slot, refusing) if refusing else ())
            for (feasible, refusing), slot in zip(split_counts(result.counts), slots, strict=False)
        ]
        hosts, shapes, profiles = state.cluster.host_at, state.shapes.shapes, state.profiles.profiles
        guests_on, note = state.cluster.guests_on, state.cluster.counters.note
        idle: dict[tuple[int, int], int] = {}
        for i, record in enumerate(records):
            profile = profiles[policies[i]]
            state.decisions += 1
            feasible, reasons = counts[i]
            row = rows[i]
            if row < 0:
                self._refuse(record, policies[i], reasons, actions)
                continue
            host = hosts[row]
            assert host is not None
            uid = record.guest.uid
            shape = shapes[record.shape]
            guests_on[row][uid] = shape
            note(shape.number, row, 1)
            count = shape.device_count
            taken = tuple(islice(devices[i], count)) if count and devices is not None else ()
            total = floats[i] if profile.is_float else totals[i]
            if shape.has_soft_constraints:
                total = own_total(totals[i], profile, shape)
            if profile.idle_scores:
                kind = (shape.number, policies[i])
                if kind not in idle:
                    idle[kind] = state.cache.idle_total(shape, policies[i])
                total += idle[kind]
            self._place(record, profile, host.name, taken, total, feasible, reasons, actions)

    def _place(
        self,
        record: GuestRecord,
        profile: Profile,
        host: str,
        devices: tuple[int, ...],
        total: int | float,
        feasible: int,
        reasons: NamedCounts,
        actions: list[Action],
    ) -> None:
        """Record a placement that is already booked, and return the actions for it."""
        state = self._state
        guest = record.guest
        seq = state.decisions
        needs = guest.spec.prepare
        deadline = state.after(state.rules.prepare_timeout_ns) if needs else 0
        turn = profile.policy.name if profile.takes_turns else ""
        if turn:
            state.turns.assume(turn, seq, host)
        shape = state.shapes.shapes[record.shape]
        state.note_move(shape)
        state.quotas.shift(guest.spec, 1)
        if state.reservations:
            self._bookings.reservations.refresh_row(state.cluster.row_of[host])
        if state.nominations or state.attempts:
            self._evictions.drop_nomination(guest.uid)
            state.attempts.pop(guest.uid, None)
        state.guests[guest.uid] = GuestRecord(
            guest, record.shape, PREPARING if needs else ASSUMED, record.arrival, host, devices, record.attempts + 1,
            record.refusals, record.errors, deadline, record.ask, None, seq, state.now, total, feasible, reasons,
            (), turn,
        )  # fmt: skip
        if needs:
            state.add_deadline(deadline, seq, guest.uid)
            actions.append(Prepare(guest.uid, guest.name, seq, host, needs, deadline, devices))
        else:
            actions.append(Bind(guest.uid, guest.name, seq, host, devices))

    def _refuse(
        self,
        record: GuestRecord,
        policy: int,
        reasons: NamedCounts,
        actions: list[Action],
        notes: tuple[DecisionNote, ...] = (),
        *,
        evicts: bool = True,
    ) -> None:
        """Let a rejected guest wait for an event that can cure its reasons."""
        state = self._state
        guest = record.guest
        refused = GuestRecord(
            guest, record.shape, QUEUED, record.arrival, "", (), record.attempts + 1, record.refusals + 1, 0, 0,
            record.ask, None, state.decisions, state.now, None, 0, reasons, notes,
        )  # fmt: skip
        state.guests[guest.uid] = refused
        until = state.after(self._bookings.backoff(refused, refused.refusals))
        key = (record.shape, policy)
        flush_at = max(until, state.after(state.rules.flush_after_ns))
        state.queue.wait(guest.uid, guest.spec.priority, record.arrival, key, until, flush_at)
        hosts = sum(n for _, n in reasons)
        named = reason_counts(reasons)
        actions.append(Defer(guest.uid, guest.name, state.decisions, hosts, named, refused.attempts))
        if evicts:
            outcome = self._evictions.make_room(refused, policy, actions)
            if outcome is not None:  # what was answered is kept: it is not known from anywhere else
                state.guests[guest.uid] = msgspec.structs.replace(refused, notes=(*notes, outcome))

    def _refuse_for_all(self, record: GuestRecord, policy: int, reason: Reason, actions: list[Action]) -> None:
        """Reject a guest on all hosts for a reason that is not about hosts."""
        state = self._state
        state.decisions += 1
        hosts = len(state.cluster)
        self._refuse(record, policy, ((reason, hosts),) if hosts else (), actions, evicts=False)

    # -- answers from outside --------------------------------------------------------------------------------------

    def _decide_asked(self, record: GuestRecord, policy: int, profile: Profile, actions: list[Action]) -> None:
        """Ask an outside scorer about the feasible hosts, or apply the answer that came."""
        state = self._state
        shape = state.shapes.shapes[record.shape]
        slot = state.cache.slot(shape, policy)
        codes, counts = state.cache.codes(slot)
        feasible, refusing = split_counts(counts[None, :])[0]
        reasons = state.cache.name_counts(slot, refusing)
        rows: Int64s = np.flatnonzero(codes == 0).astype(np.int64)
        answer, ask = record.answer, profile.policy.ask
        assert ask is not None
        if not len(rows):
            state.decisions += 1
            self._refuse(record, policy, reasons, actions)
            return
        if answer is None:
            self._ask(record, ask.name, ask.timeout_ns, rows, actions)
            return
        state.decisions += 1
        rows, bonus = answered_rows(state, record, ask, rows)
        if not len(rows):
            notes = tuple(DecisionNote(REJECTED_OUTSIDE, host, said=why) for host, why in answer.refused[:3])
            self._refuse(record, policy, (*reasons, (Reason("ask", "refused_by", ask.name), feasible)), actions, notes)
            return
        row, total = best_row(state, slot, policy, rows, bonus, self._runs.draw(record))
        devices = state.cache.choose_devices(slot, row, self._runs.draw(record), shape.device_count)
        state.cluster.book(row, shape, devices, record.guest.uid)
        host = state.cluster.host(row).name
        self._place(record, profile, host, devices, total, feasible, reasons, actions)

    def _ask(self, record: GuestRecord, asked: str, timeout_ns: int, rows: Int64s, actions: list[Action]) -> None:
        state = self._state
        state.asks += 1
        deadline = state.after(timeout_ns)
        guest = record.guest
        state.guests[guest.uid] = msgspec.structs.replace(record, state=ASKED, ask=state.asks, deadline=deadline)
        state.add_deadline(deadline, state.asks, guest.uid)
        names = tuple(sorted(state.cluster.host(row).name for row in rows.tolist()))
        actions.append(Ask(guest.uid, guest.name, state.decisions, asked, state.asks, names, deadline))
