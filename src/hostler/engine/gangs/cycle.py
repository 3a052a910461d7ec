"""Decisions about gangs: all members that the minimum needs are placed in one transaction, or none.

Path of a gang: it is popped from the queue. If its policy asks outside, it leaves the queue until the answers about all
members are there, and what was held for it stays held. Then its pending members are tried, each on the hosts that its
answer allows. If enough are placed, they are bound.
Otherwise everything is undone, victims are searched, and the gang waits. It holds nothing then, unless it asks to hold
the room that it could have used. A search that takes longer than the tenant's share of this step is paused: nothing
stays booked, former holds of the gang are restored, and the next step continues.

Invariant: between steps, either at least the minimum of members is booked, or none that this cycle placed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from hostler.engine.cache.reasons import NamedCounts, reason_counts
from hostler.engine.gangs.members import guaranteed_members, pending_members, split_by_quota
from hostler.engine.gangs.preemption import GangPlan, plan_for_gang, units_below_gang
from hostler.engine.gangs.queue import GangQueue
from hostler.engine.gangs.trials import PlacedMember, Trial, Trials
from hostler.engine.kernels.layout import Int64s
from hostler.engine.policy.profile import Profile
from hostler.engine.preemption.evictions import Evictions, hold_of
from hostler.engine.preemption.reclaim import reclaimable_units
from hostler.engine.runs import KernelRuns
from hostler.engine.state.gang_book import GANG
from hostler.engine.state.nominations import Nomination
from hostler.engine.state.records import GROUPED, GuestRecord
from hostler.engine.state.search_shares import (
    PREEMPT,
    RECLAIM,
    ROOM,
    SearchPaused,
    SearchPosition,
    SearchShare,
    tenant_of,
)
from hostler.engine.state.state import State
from hostler.engine.state.transaction import Transaction
from hostler.model import Action, DecisionNote, Defer, Gang, Nominate, PreemptionRules, Reason
from hostler.model.actions import PREEMPTED, RECLAIMED
from hostler.model.notes import FITS_WITHOUT_GANG, GANG_FULL, GANG_LACKS, GANG_RUNS

__all__ = ["GangCycle"]

Place = Callable[[GuestRecord, Profile, str, tuple[int, ...], int | float, int, NamedCounts, list[Action]], None]
AskAbout = Callable[[GuestRecord, str, int, Int64s, list[Action]], None]  # name and time limit of the asked, rows


class GangCycle:
    """Decides queued gangs."""

    def __init__(self, state: State, evictions: Evictions, runs: KernelRuns, place: Place, ask: AskAbout) -> None:
        self._state = state
        self._evictions = evictions
        self._trials = Trials(state, runs)
        self._queue = GangQueue(state)
        self._place = place
        self._ask = ask

    def decide(self, key: str, actions: list[Action]) -> bool:
        """Decide one gang. Return False if its tenant's share of this step is spent; the next step continues."""
        state = self._state
        gang = state.gangs.gangs.get(key)
        searches = state.gangs.searches
        if gang is None or state.gangs.why_not_ready(key) or state.gangs.is_asked(key):
            searches.positions.pop(key, None)
            return True
        tenant = self._tenant(key)
        share = searches.share_of(tenant, state.rules.search_units)
        if share is None:
            return False
        holds = [held for uid in state.gangs.members.get(key, ()) if (held := hold_of(state, uid)) is not None]
        reserving = state.gangs.reserving
        waiting = self._release(key)
        if key not in searches.positions and self._ask_about(gang, actions):
            self._wait_on(waiting)
            state.gangs.reserving = reserving
            return True
        begun = searches.positions.get(key)  # others read meanwhile that it is searched for
        position = self._position(gang, tenant, begun)
        is_over = True
        try:
            self._decide(gang, waiting, share, position, actions, is_new=position is not begun)
        except SearchPaused:
            is_over = False
            rest_ns = state.rules.search_rest_ns
            searches.pause(key, position, state.after(rest_ns) if rest_ns else None)
            self._wait_on(waiting)
            state.gangs.reserving = reserving
            return False
        finally:
            if is_over:
                searches.positions.pop(key, None)
            for name, hold in holds:  # held again as before is no news, or a gang that reserves would wake itself
                if state.cluster.holds.get(name, hold.row) != hold:
                    state.note_improvement(hold.row)
        return True

    def _ask_about(self, gang: Gang, actions: list[Action]) -> bool:
        """Ask outside about each member whose policy does so; return whether any answer is awaited.

        The gang leaves the queue until the last answer. What is held for it is released by the caller, because it
        would close these hosts to its own members, and held again afterwards.
        """
        state = self._state
        members, _ = pending_members(state, gang)
        asks = [
            (record, profile.policy.ask)
            for record in members
            if record.answer is None
            and (profile := state.profiles.find(record.guest.spec.policy)) is not None
            and profile.policy.ask is not None
            and profile.policy.ask.always
        ]
        if not asks:
            return False
        with self._trials.by_rights_of(gang, members):
            wanted = [(record, ask, self._trials.hosts_to_ask(record)) for record, ask in asks]
        is_asked = False
        for record, ask, rows in wanted:
            if len(rows):
                self._ask(record, ask.name, ask.timeout_ns, rows, actions)
                is_asked = True
        return is_asked

    def rest(self, key: str) -> None:
        """Let a queued gang wait until its tenant may search again."""
        state = self._state
        entry = state.queue.entries.get(GANG + key)
        until = state.gangs.searches.rests.get(self._tenant(key)) if entry is not None else None
        if entry is not None and until is not None:
            state.queue.back_off(GANG + key, entry.priority, entry.arrival, entry.key, until)

    def _tenant(self, key: str) -> str:
        """Return the tenant whose share pays for the search."""
        state = self._state
        return tenant_of(state.guests[next(iter(state.gangs.members[key]))].guest.spec)

    def _position(self, gang: Gang, tenant: str, begun: SearchPosition | None) -> SearchPosition:
        """Return where to continue: the position of a paused search, unless the gang or its members changed."""
        state = self._state
        members, _ = split_by_quota(state, pending_members(state, gang)[0])
        about = tuple(
            (record.guest.uid, record.shape, state.profiles.find_number(record.guest.spec.policy))
            for record in self._trials.in_order(members)
        )
        need = max(gang.min_count - len(state.gangs.placed(gang.key)), 1)
        if begun is None or (begun.need, begun.topology, sorted(begun.about)) != (need, gang.topology, sorted(about)):
            return SearchPosition(tenant, about, need, gang.topology)
        return begun

    def _decide(
        self,
        gang: Gang,
        waiting: list[tuple[str, Nomination]],
        share: SearchShare,
        position: SearchPosition,
        actions: list[Action],
        *,
        is_new: bool,
    ) -> None:
        state, key = self._state, gang.key
        members, surplus = pending_members(state, gang)
        for record in surplus if is_new else ():
            self._hold(record, (), DecisionNote(GANG_FULL, key), actions)
        if not members:
            return
        need = position.need
        members, beyond = split_by_quota(state, members)
        with self._trials.by_rights_of(gang, members):
            if position.stage != ROOM:
                self._queue.wait_on(key)
                self._make_room(gang, members, None, share, position, actions)
            else:
                with Transaction(state) as transaction:
                    with self._trials.by_answers():
                        trial = self._trials.best(gang, members, need, transaction, share, position)
                    trial.refused.extend(beyond)
                    if len(trial.placed) >= need:
                        transaction.commit()
                        self._keep(key, trial, actions)
                        return
                self._refuse(gang, trial, need, actions)
                position.domain = trial.domain
                if any(victim in state.evicting for _, kept in waiting for victim in kept.victims):
                    self._wait_on(waiting)
                elif len(members) >= need:
                    self._make_room(gang, members, trial.placed, share, position, actions)
        if position.has_improved:  # what was tried in vain at first may be possible now
            state.queue.wake_one(GANG + key, state.now)

    def _release(self, key: str) -> list[tuple[str, Nomination]]:
        """Release what is held for the gang, so that it does not block itself; return the released holds."""
        state = self._state
        names = (*state.gangs.members.get(key, ()), GANG + key)
        held = [(uid, state.nominations[uid]) for uid in names if uid in state.nominations]
        for uid in names:
            self._evictions.drop_nomination(uid, quietly=True)
        if state.gangs.reserving == key:
            state.gangs.reserving = ""
        return held

    def _wait_on(self, held: Sequence[tuple[str, Nomination]]) -> None:
        """Keep waiting for the victims of an earlier preemption, with the same deadline."""
        state = self._state
        for uid, nomination in held:
            if not nomination.host:
                state.nominations[uid] = nomination
            elif nomination.host in state.cluster.row_of:
                self._evictions.keep_waiting(state.guests[uid], nomination)

    def _keep(self, key: str, trial: Trial, actions: list[Action]) -> None:
        state = self._state
        for item in trial.placed:
            state.decisions += 1
            profile = state.profiles.profiles[item.policy]
            host = state.cluster.host(item.row).name
            self._place(item.record, profile, host, item.devices, item.total, item.feasible, item.reasons, actions)
        for refused in trial.refused:
            self._hold(refused.record, refused.reasons, DecisionNote(GANG_RUNS), actions)
        self._queue.placed(key)
        if any(state.guests[uid].state == GROUPED for uid in state.gangs.pending(key)):
            self._queue.wait(key)

    def _refuse(self, gang: Gang, trial: Trial, need: int, actions: list[Action]) -> None:
        short = need - len(trial.placed)
        where = f"{gang.topology}={trial.domain}" if trial.domain else ""
        lacking = DecisionNote(GANG_LACKS, gang.key, short, place=where)
        fitting = DecisionNote(FITS_WITHOUT_GANG, gang.key, short, place=where)
        incomplete = Reason("gang", "gang_incomplete", gang.key)
        for placed in trial.placed:
            reasons = (*placed.reasons, (incomplete, placed.feasible)) if placed.feasible else placed.reasons
            self._hold(placed.record, reasons, fitting, actions)
        for refused in trial.refused:
            self._hold(refused.record, refused.reasons, lacking, actions)
        self._queue.wait(gang.key)

    def _make_room(
        self,
        gang: Gang,
        members: Sequence[GuestRecord],
        placed: Sequence[PlacedMember] | None,
        share: SearchShare,
        position: SearchPosition,
        actions: list[Action],
    ) -> None:
        """Reclaim or preempt. If no eviction helps, hold the room that could be used, if the gang asks for that."""
        current = [self._state.guests[record.guest.uid] for record in members]
        if self._reclaim(gang, current, share, position, actions):
            return
        if self._preempt(gang, current, share, position, actions):
            return
        if gang.head_of_line == "reserve":
            if placed is None:
                with Transaction(self._state) as transaction:
                    placed = self._trials.in_domain(gang, current, position.domain, transaction).placed
            self._reserve(gang.key, placed)

    def _hold(self, record: GuestRecord, reasons: NamedCounts, note: DecisionNote, actions: list[Action]) -> None:
        state = self._state
        state.decisions += 1
        guest = record.guest
        refused = msgspec.structs.replace(
            record, attempts=record.attempts + 1, refusals=record.refusals + 1, seq=state.decisions,
            decided_at=state.now, total=None, feasible=0, reasons=reasons, notes=(note,), decided_spec=None,
            answer=None,
        )  # fmt: skip
        state.guests[guest.uid] = refused
        named = reason_counts(reasons)
        hosts = len(state.cluster)
        actions.append(Defer(guest.uid, guest.name, state.decisions, hosts, named, refused.attempts))

    def _reclaim(
        self,
        gang: Gang,
        members: Sequence[GuestRecord],
        share: SearchShare,
        position: SearchPosition,
        actions: list[Action],
    ) -> bool:
        """Reclaim what the members' tenants are guaranteed; return whether the gang now waits for victims."""
        state, need = self._state, position.need
        if position.stage > RECLAIM:
            return False
        profile = state.profiles.find(members[0].guest.spec.policy)
        if profile is None or not profile.policy.reclaim:
            return False
        owed = guaranteed_members(state, members)
        rules = msgspec.structs.replace(profile.policy.preemption or PreemptionRules(), budgets="strict")
        if len(owed) < need or not self._evictions.may_try(GANG + gang.key, rules):
            return False
        tenants = sorted({record.guest.spec.tenant for record in owed})
        why = f"{RECLAIMED}gang {gang.key} for tenant {', '.join(tenants)}"
        for number, units in enumerate(reclaimable_units(state, tenants)):
            if position.stage == RECLAIM and number < position.plan:
                continue
            position.begin_stage(RECLAIM, number)
            plan = plan_for_gang(state, self._trials, gang, owed, need, rules, units, share, position)
            if plan is not None:
                return self._start(gang, plan, rules, why, 0, actions)
        return False

    def _preempt(
        self,
        gang: Gang,
        members: Sequence[GuestRecord],
        share: SearchShare,
        position: SearchPosition,
        actions: list[Action],
    ) -> bool:
        """Evict guests of lower priority for the whole gang; return whether the gang now waits for victims."""
        state = self._state
        profile = state.profiles.find(members[0].guest.spec.policy)
        rules = profile.policy.preemption if profile is not None else None
        if rules is None or not all(record.guest.spec.may_preempt for record in members):
            return False
        depth = max(self._evictions.cascade_depth(record, rules) for record in members)
        if depth > rules.max_cascade or not self._evictions.may_try(GANG + gang.key, rules):
            return False
        position.begin_stage(PREEMPT)
        units = units_below_gang(state, gang)
        plan = plan_for_gang(state, self._trials, gang, members, position.need, rules, units, share, position)
        return plan is not None and self._start(gang, plan, rules, f"{PREEMPTED}gang {gang.key}", depth, actions)

    def _start(
        self, gang: Gang, plan: GangPlan, rules: PreemptionRules, why: str, depth: int, actions: list[Action]
    ) -> bool:
        """Nominate the members and evict the victims, unless they are more than the gang may evict."""
        state = self._state
        name = GANG + gang.key
        if not self._evictions.may_evict(name, len(plan.victims), rules):
            return False
        deadline = state.after(rules.wait_ns)
        state.nominations[name] = Nomination("", plan.victims, deadline, state.decisions)
        state.add_deadline(deadline, state.decisions, name)
        names = tuple(state.guests[uid].guest.name for uid in plan.victims)
        for uid, host in plan.hosts:
            record = state.guests[uid]
            self._evictions.keep_waiting(record, Nomination(host, (), 0, state.decisions))
            actions.append(Nominate(uid, record.guest.name, state.decisions, host, names))
        self._evictions.evict(plan.victims, name, why, actions)
        self._evictions.note_attempt(name, "", len(plan.victims))
        self._evictions.note_cascade(plan.victims, depth + 1)
        return True

    def _reserve(self, key: str, placed: Sequence[PlacedMember]) -> None:
        """Hold the room that the gang could have used; for one gang at a time, so that two never block each other."""
        state = self._state
        if state.gangs.reserving not in ("", key) or not placed:
            return
        state.gangs.reserving = key
        for item in placed:
            record = state.guests[item.record.guest.uid]
            self._evictions.keep_waiting(record, Nomination(state.cluster.host(item.row).name, (), 0, state.decisions))
