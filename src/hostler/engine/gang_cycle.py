"""Deciding gangs: all members that the minimum needs, in one transaction, or none.

Path of a gang: popped from the queue; its pending members tried; enough of them placed, and they are bound; else
everything is taken back, victims are looked for, and the gang waits, holding nothing (or, where it says so, the room
that it could have used). A search that is longer than the tenant's share of this step is paused: nothing stays
booked, what was held for the gang is held again, and the next step goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from hostler.engine.evictions import Evictions, hold_of
from hostler.engine.gang_book import GANG
from hostler.engine.gang_members import owed_members, pending_members, within_quota
from hostler.engine.gang_preemption import GangPlan, plan_for_gang, units_below_gang
from hostler.engine.gang_queue import GangQueue
from hostler.engine.gang_trials import Placed, Trial, Trials
from hostler.engine.nominations import Nomination
from hostler.engine.profile import Profile
from hostler.engine.reasons import NamedCounts, reason_counts
from hostler.engine.reclaim import reclaimable
from hostler.engine.records import GROUPED, GuestRecord
from hostler.engine.runs import Runs
from hostler.engine.search_shares import PREEMPT, RECLAIM, ROOM, SearchPaused, SearchPosition, SearchShare, tenant_of
from hostler.engine.state import State
from hostler.engine.transaction import Transaction
from hostler.model import Action, Gang, Hold, Nominate, PreemptionRules, Reason
from hostler.model.actions import PREEMPTED, RECLAIMED

__all__ = ["GangCycle"]

Place = Callable[[GuestRecord, Profile, str, tuple[int, ...], int, int, NamedCounts, list[Action]], None]


class GangCycle:
    """Decides queued gangs."""

    def __init__(self, state: State, evictions: Evictions, runs: Runs, place: Place) -> None:
        self._state = state
        self._evictions = evictions
        self._trials = Trials(state, runs)
        self._queue = GangQueue(state)
        self._place = place

    def decide(self, key: str, actions: list[Action]) -> bool:
        """Decide one gang; False if its tenant's share of this step is spent, so that it goes on in the next one."""
        state = self._state
        gang = state.gangs.gangs.get(key)
        searches = state.gangs.searches
        if gang is None or state.gangs.why_not_ready(key):
            searches.positions.pop(key, None)
            return True
        tenant = self._tenant(key)
        share = searches.share_of(tenant, state.rules.search_units)
        if share is None:
            return False
        holds = [held for uid in state.gangs.members.get(key, ()) if (held := hold_of(state, uid)) is not None]
        reserving = state.gangs.reserving
        waiting = self._release(key)
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
                    state.improve(hold.row)
        return True

    def rest(self, key: str) -> None:
        """Let a gang that is queued again wait until its tenant's rest is over."""
        state = self._state
        entry = state.queue.entries.get(GANG + key)
        until = state.gangs.searches.rests.get(self._tenant(key)) if entry is not None else None
        if entry is not None and until is not None:
            state.queue.back_off(GANG + key, entry.priority, entry.arrival, entry.key, until)

    def _tenant(self, key: str) -> str:
        """Return by whose share a gang is searched for."""
        state = self._state
        return tenant_of(state.guests[next(iter(state.gangs.members[key]))].guest.spec)

    def _position(self, gang: Gang, tenant: str, begun: SearchPosition | None) -> SearchPosition:
        """Return where to go on: at what was begun, unless the gang or its members changed."""
        state = self._state
        members, _ = within_quota(state, pending_members(state, gang)[0])
        about = tuple(
            (record.guest.uid, record.shape, state.profiles.number_or_gone(record.guest.spec.policy))
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
            self._hold(record, (), f"gang {key} has its maximum of members", actions)
        if not members:
            return
        need = position.need
        members, beyond = within_quota(state, members)
        with self._trials.by_rights_of(gang, members):
            if position.stage != ROOM:
                self._queue.wait_on(key)
                self._make_room(gang, members, None, share, position, actions)
            else:
                with Transaction(state) as transaction:
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
        """Give up what was held for the gang, so that it does not stand in its own way; return what that was."""
        state = self._state
        names = (*state.gangs.members.get(key, ()), GANG + key)
        held = [(uid, state.nominations[uid]) for uid in names if uid in state.nominations]
        for uid in names:
            self._evictions.forget(uid, quietly=True)
        if state.gangs.reserving == key:
            state.gangs.reserving = ""
        return held

    def _wait_on(self, held: Sequence[tuple[str, Nomination]]) -> None:
        """Go on waiting for the victims of an earlier preemption, no longer than before."""
        state = self._state
        for uid, nomination in held:
            if not nomination.host:
                state.nominations[uid] = nomination
            elif nomination.host in state.cluster.row_of:
                self._evictions.keep(state.guests[uid], nomination)

    def _keep(self, key: str, trial: Trial, actions: list[Action]) -> None:
        state = self._state
        for item in trial.placed:
            state.decisions += 1
            profile = state.profiles.profiles[item.policy]
            host = state.cluster.host(item.row).name
            self._place(item.record, profile, host, item.devices, item.total, item.feasible, item.reasons, actions)
        for refused in trial.refused:
            self._hold(refused.record, refused.reasons, "the gang runs; there is no room for this member yet", actions)
        self._queue.placed(key)
        if any(state.guests[uid].state == GROUPED for uid in state.gangs.pending(key)):
            self._queue.wait(key)

    def _refuse(self, gang: Gang, trial: Trial, need: int, actions: list[Action]) -> None:
        short = need - len(trial.placed)
        lacking = f"gang {gang.key} needs {short} more of its members placed"
        where = f" in {gang.topology}={trial.domain}" if trial.domain else ""
        incomplete = Reason("gang", "gang_incomplete", gang.key)
        for placed in trial.placed:
            reasons = (*placed.reasons, (incomplete, placed.feasible)) if placed.feasible else placed.reasons
            self._hold(placed.record, reasons, f"fits, but {lacking}{where}", actions)
        for refused in trial.refused:
            self._hold(refused.record, refused.reasons, f"{lacking}{where}", actions)
        self._queue.wait(gang.key)

    def _make_room(
        self,
        gang: Gang,
        members: Sequence[GuestRecord],
        placed: Sequence[Placed] | None,
        share: SearchShare,
        position: SearchPosition,
        actions: list[Action],
    ) -> None:
        """Reclaim, else preempt; if no eviction helps, hold the room that could be used, if the gang says so."""
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

    def _hold(self, record: GuestRecord, reasons: NamedCounts, note: str, actions: list[Action]) -> None:
        state = self._state
        state.decisions += 1
        guest = record.guest
        refused = msgspec.structs.replace(
            record, attempts=record.attempts + 1, refusals=record.refusals + 1, seq=state.decisions,
            decided_at=state.now, total=None, feasible=0, reasons=reasons, note=note, decided_spec=None,
        )  # fmt: skip
        state.guests[guest.uid] = refused
        named = reason_counts(reasons)
        hosts = len(state.cluster)
        actions.append(Hold(guest.uid, guest.name, state.decisions, hosts, named, refused.attempts))

    def _reclaim(
        self,
        gang: Gang,
        members: Sequence[GuestRecord],
        share: SearchShare,
        position: SearchPosition,
        actions: list[Action],
    ) -> bool:
        """Take back what the members' tenants are guaranteed; say whether the gang now waits for victims."""
        state, need = self._state, position.need
        if position.stage > RECLAIM:
            return False
        profile = state.profiles.find(members[0].guest.spec.policy)
        if profile is None or not profile.policy.reclaim:
            return False
        owed = owed_members(state, members)
        rules = msgspec.structs.replace(profile.policy.preemption or PreemptionRules(), budgets="strict")
        if len(owed) < need or not self._evictions.may_try(GANG + gang.key, rules):
            return False
        tenants = sorted({record.guest.spec.tenant for record in owed})
        why = f"{RECLAIMED}gang {gang.key} for tenant {', '.join(tenants)}"
        for number, units in enumerate(reclaimable(state, tenants)):
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
        """Evict guests of lower priority for the gang as a whole; say whether it now waits for victims."""
        state = self._state
        profile = state.profiles.find(members[0].guest.spec.policy)
        rules = profile.policy.preemption if profile is not None else None
        if rules is None or not all(record.guest.spec.may_preempt for record in members):
            return False
        depth = max(self._evictions.cascade(record, rules) for record in members)
        if depth > rules.max_cascade or not self._evictions.may_try(GANG + gang.key, rules):
            return False
        position.begin_stage(PREEMPT)
        units = units_below_gang(state, gang)
        plan = plan_for_gang(state, self._trials, gang, members, position.need, rules, units, share, position)
        return plan is not None and self._start(gang, plan, rules, f"{PREEMPTED}gang {gang.key}", depth, actions)

    def _start(
        self, gang: Gang, plan: GangPlan, rules: PreemptionRules, why: str, depth: int, actions: list[Action]
    ) -> bool:
        """Nominate the members and evict the victims, unless that is more than the gang may evict."""
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
            self._evictions.keep(record, Nomination(host, (), 0, state.decisions))
            actions.append(Nominate(uid, record.guest.name, state.decisions, host, names))
        self._evictions.evict(plan.victims, name, why, actions)
        self._evictions.remember(name, "", len(plan.victims))
        self._evictions.note_cascade(plan.victims, depth + 1)
        return True

    def _reserve(self, key: str, placed: Sequence[Placed]) -> None:
        """Hold the room that the gang could have used; one gang at a time, so that two never wait for each other."""
        state = self._state
        if state.gangs.reserving not in ("", key) or not placed:
            return
        state.gangs.reserving = key
        for item in placed:
            record = state.guests[item.record.guest.uid]
            self._evictions.keep(record, Nomination(state.cluster.host(item.row).name, (), 0, state.decisions))
