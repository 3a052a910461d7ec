"""One decision after another: runs of queued guests go to the kernel, answers from outside are weighed here.

Path of a guest: popped from the queue; its (shape, policy) slot refreshed; a row selected and booked; the record
replaced; an action returned. A refused guest waits for the events that can cure its reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec
import numpy as np

from hostler.engine.bookings import Bookings
from hostler.engine.cache import RunResult
from hostler.engine.kernels_layout import Int64s
from hostler.engine.profile import Profile
from hostler.engine.profiles import NO_POLICY
from hostler.engine.randomness import PLACEMENT, draw, guest_key
from hostler.engine.reasons import counted, float_totals, reason_counts
from hostler.engine.records import ASKED, ASSUMED, PREPARING, QUEUED, GuestRecord
from hostler.engine.selection import best_row
from hostler.engine.state import State
from hostler.model import Action, Ask, Bind, Hold, Prepare, Reason

__all__ = ["Cycle"]

RUN = 4096  # guests handed to the kernel at once; bounds the memory of one call, not the result


class Cycle:
    """Decides queued guests."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._bookings = Bookings(state)

    def decide(self, limit: int | None) -> list[Action]:
        """Decide up to ``limit`` active guests (all when None) and return what to do."""
        actions: list[Action] = []
        left = limit
        while left is None or left > 0:
            uids = self._state.queue.pop(RUN if left is None else min(RUN, left))
            if not uids:
                break
            if left is not None:
                left -= len(uids)
            decided = len(actions)
            try:
                self._decide_all([self._state.guests[uid] for uid in uids], actions)
            except Exception:
                self._requeue(uids[len(actions) - decided :])
                if not actions:
                    raise
                break  # what was decided counts; the error comes up again when its guest is the first
        return actions

    def _requeue(self, uids: Sequence[str]) -> None:
        """Put guests back that were taken out and not decided; every decided guest has made one action."""
        state = self._state
        for uid in uids:
            record = state.guests[uid]
            key = state.wait_key(state.shape(record))
            state.queue.activate(uid, record.guest.spec.priority, record.arrival, key)

    def _decide_all(self, records: list[GuestRecord], actions: list[Action]) -> None:
        """Cut the guests into runs that the kernel can decide without Python code in between."""
        state = self._state
        run: list[GuestRecord] = []
        policies: list[int] = []
        distinct: set[tuple[int, int]] = set()
        most = state.cache.distinct_limit()
        for record in records:
            policy = state.profiles.number_or_gone(record.guest.spec.policy)
            if policy == NO_POLICY:
                self._run(run, policies, actions)
                run, policies, distinct = [], [], set()
                self._refuse_without_policy(record, actions)
                continue
            profile = state.profiles.profiles[policy]
            alone = not profile.is_static or profile.policy.ask is not None
            key = (record.shape, policy)
            if run and (alone or (key not in distinct and len(distinct) >= most)):
                self._run(run, policies, actions)
                run, policies, distinct = [], [], set()
            if profile.policy.ask is not None:
                self._decide_asked(record, policy, profile, actions)
                continue
            run.append(record)
            policies.append(policy)
            distinct.add(key)
            if alone:
                self._run(run, policies, actions)
                run, policies, distinct = [], [], set()
        self._run(run, policies, actions)

    def _run(self, records: Sequence[GuestRecord], policies: Sequence[int], actions: list[Action]) -> None:
        if not records:
            return
        state = self._state
        profiles, shapes = state.profiles.profiles, state.shapes.shapes
        slot_of: dict[tuple[int, int], int] = {}
        slots: list[int] = []
        draws: list[int] = []
        devices = 0
        for record, policy in zip(records, policies, strict=True):
            key = (record.shape, policy)
            slot = slot_of.get(key)
            if slot is None:
                shape = shapes[record.shape]
                slot = slot_of[key] = state.cache.slot(shape, policy)
                devices = max(devices, shape.device_count)
            slots.append(slot)
            draws.append(self._draw(record) if profiles[policy].draws else 0)
        self._set_turns(set(policies))
        result = state.cache.run(slots, draws, devices)
        self._finish(records, policies, result, actions)

    def _set_turns(self, policies: set[int]) -> None:
        """Tell the kernel where each round robin stands."""
        state = self._state
        for policy in policies:
            profile = state.profiles.profiles[policy]
            if profile.takes_turns:
                last = state.turns.last(profile.policy.name)
                state.profiles.last_key[policy] = state.cluster.order.key_up_to(last)

    def _finish(
        self, records: Sequence[GuestRecord], policies: Sequence[int], result: RunResult, actions: list[Action]
    ) -> None:
        """Turn the kernel's numbers into records and actions, in order."""
        state = self._state
        rows = result.rows.tolist()
        totals: list[int] = result.totals.tolist()
        devices: list[list[int]] | None = result.devices.tolist() if result.devices.shape[1] else None
        floats = float_totals(result.totals) if any(p.is_float for p in state.profiles.profiles) else []
        counts = counted(result.counts)
        hosts, shapes, profiles = state.cluster.host_at, state.shapes.shapes, state.profiles.profiles
        guests_on = state.cluster.guests_on
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
            guests_on[row][uid] = record.guest.spec
            count = shapes[record.shape].device_count
            taken = tuple(islice(devices[i], count)) if count and devices is not None else ()
            total = floats[i] if profile.is_float else totals[i]
            self._place(record, profile, host.name, taken, total, feasible, reasons, actions)

    def _place(
        self,
        record: GuestRecord,
        profile: Profile,
        host: str,
        devices: tuple[int, ...],
        total: int | float,
        feasible: int,
        reasons: tuple[tuple[int, int], ...],
        actions: list[Action],
    ) -> None:
        """Record a placement that is already on the books, and say what to do about it."""
        state = self._state
        guest = record.guest
        seq = state.decisions
        needs = guest.spec.prepare
        deadline = state.now + state.rules.prepare_timeout_ns if needs else 0
        turn = profile.policy.name if profile.takes_turns else ""
        if turn:
            state.turns.assume(turn, seq, host)
        state.guests[guest.uid] = GuestRecord(
            guest, record.shape, PREPARING if needs else ASSUMED, record.arrival, host, devices, record.attempts + 1,
            record.refusals, record.errors, deadline, record.ask, None, seq, state.now, total, feasible, reasons,
            "", turn,
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
        reasons: tuple[tuple[int, int], ...],
        actions: list[Action],
        note: str = "",
    ) -> None:
        """Let a guest wait for an event that can cure its refusal."""
        state = self._state
        guest = record.guest
        refused = GuestRecord(
            guest, record.shape, QUEUED, record.arrival, "", (), record.attempts + 1, record.refusals + 1, 0, 0,
            record.ask, None, state.decisions, state.now, None, 0, reasons, note,
        )  # fmt: skip
        state.guests[guest.uid] = refused
        until = state.now + self._bookings.backoff(refused, refused.refusals)
        key = (record.shape, policy)
        flush_at = max(until, state.now + state.rules.flush_after_ns)
        state.queue.wait(guest.uid, guest.spec.priority, record.arrival, key, until, flush_at)
        hosts = sum(n for _, n in reasons)
        named = reason_counts(state.tables, reasons, guest.spec)
        actions.append(Hold(guest.uid, guest.name, state.decisions, hosts, named, refused.attempts))

    def _refuse_without_policy(self, record: GuestRecord, actions: list[Action]) -> None:
        """Let a guest wait whose policy was dropped, until the policies change again."""
        state = self._state
        state.decisions += 1
        reason = Reason("policy", "unknown_policy", record.guest.spec.policy)
        hosts = len(state.cluster)
        counts = ((state.tables.reasons.number(reason), hosts),) if hosts else ()
        self._refuse(record, NO_POLICY, counts, actions)

    def _draw(self, record: GuestRecord) -> int:
        return draw(self._state.seed, guest_key(record.guest), record.attempts, PLACEMENT)

    # -- answers from outside --------------------------------------------------------------------------------------

    def _decide_asked(self, record: GuestRecord, policy: int, profile: Profile, actions: list[Action]) -> None:
        """Ask about the feasible hosts, or weigh the answer that came."""
        state = self._state
        shape = state.shapes.shapes[record.shape]
        slot = state.cache.slot(shape, policy)
        codes, counts = state.cache.codes(slot)
        feasible, reasons = counted(counts[None, :])[0]
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
        bonus: dict[int, int] = {}
        if not answer.error:
            scores = dict(answer.scores)
            bonus = {
                row: ask.weight * scores[name]
                for row in rows.tolist()
                if (name := state.cluster.host(row).name) in scores
            }
            rows = np.array(sorted(bonus), dtype=np.int64)
        if not len(rows):
            code = state.tables.reasons.number(Reason("ask", "refused_by", ask.name))
            note = "; ".join(f"{host}: {why}" for host, why in answer.refused[:3])
            self._refuse(record, policy, (*reasons, (code, feasible)), actions, note)
            return
        row, total = best_row(state, slot, policy, rows, bonus, self._draw(record))
        devices = state.cache.choose_devices(slot, row, self._draw(record), shape.device_count)
        state.cluster.book(row, shape, devices, record.guest.uid)
        host = state.cluster.host(row).name
        self._place(record, profile, host, devices, total, feasible, reasons, actions)

    def _ask(self, record: GuestRecord, asked: str, timeout_ns: int, rows: Int64s, actions: list[Action]) -> None:
        state = self._state
        state.asks += 1
        deadline = state.now + timeout_ns
        guest = record.guest
        state.guests[guest.uid] = msgspec.structs.replace(record, state=ASKED, ask=state.asks, deadline=deadline)
        state.add_deadline(deadline, state.asks, guest.uid)
        names = tuple(sorted(state.cluster.host(row).name for row in rows.tolist()))
        actions.append(Ask(guest.uid, guest.name, state.decisions, asked, state.asks, names, deadline))
