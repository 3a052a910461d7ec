"""Carries out preemptions: nominations, victims that are leaving, and the limits of evictions.

States of a preemptor:

    waiting ──make_room, nominate──▶ nominated     room on one host is held for it; its victims are evicted
    nominated ──all victims left──▶ active          it is decided again, on the nominated host first
    nominated ──a victim cannot be evicted, or the deadline passes──▶ gave up ──▶ active, elsewhere

The held room is closed to guests of equal and lower priority. Evictions on one host that bring the preemptor nothing
count against ``max_repeats``; after that it avoids the host for a while.

Invariant: each victim on its way is in ``state.evicting`` until it left, stayed, or failed to leave.
"""

from __future__ import annotations

from collections.abc import Iterable

from hostler.engine.cluster.holds import Hold
from hostler.engine.preemption.preemption import Planner
from hostler.engine.preemption.reclaim import plan_reclaim
from hostler.engine.preemption.victim_moves import end_move, replaced_by, start_move
from hostler.engine.preemption.victims import VictimSet, budgets_of, charge_budgets, refund_budgets
from hostler.engine.state.gang_book import GANG
from hostler.engine.state.nominations import NOMINATION, Attempts, Nomination
from hostler.engine.state.records import PLACED_STATES, GuestRecord
from hostler.engine.state.state import State
from hostler.model import Action, Evict, Move, Nominate, PreemptionRules
from hostler.model.actions import PREEMPTED, RECLAIMED
from hostler.model.decisions import DecisionNote
from hostler.model.notes import (
    EVICTED_IN_CASCADE,
    NO_EVICTION_HELPS,
    PREEMPTS,
    RECLAIMS,
    TOO_MANY_EVICTIONS,
    WAITS_FOR_VICTIMS,
)

__all__ = ["Evictions", "drop_gang_holds", "hold_for_nominated", "hold_of", "refresh_holds"]

_MAX_REMEMBERED = 4096


def hold_for_nominated(state: State, record: GuestRecord, host: str) -> None:
    """Hold room on a host for a nominated guest, against guests of its priority and below."""
    shape = state.shape(record)
    row = state.cluster.row_of[host]
    priority = state.gangs.priority(record.guest.gang) if record.guest.gang else record.guest.spec.priority
    hold = Hold(row, shape.amounts, priority, bool(shape.asks))
    state.cluster.hold(NOMINATION + record.guest.uid, hold)


def refresh_holds(state: State, uids: Iterable[str]) -> None:
    """Update held room after nominated guests or their gang changed."""
    for uid in uids:
        nomination = state.nominations.get(uid)
        if nomination is not None and nomination.host in state.cluster.row_of:
            hold_for_nominated(state, state.guests[uid], nomination.host)


def hold_of(state: State, uid: str) -> tuple[str, Hold] | None:
    """Return the hold of a nominated guest, with its name."""
    nomination = state.nominations.get(uid)
    row = state.cluster.row_of.get(nomination.host) if nomination is not None else None
    hold = state.cluster.holds.get(NOMINATION + uid, row) if row is not None else None
    return (NOMINATION + uid, hold) if hold is not None else None


def drop_gang_holds(state: State, key: str) -> None:
    """Release all holds of a gang that no longer waits."""
    for uid in state.gangs.members.get(key, ()):
        held = hold_of(state, uid)
        if held is not None:
            state.cluster.release_hold(held[0], held[1].row)
            state.note_improvement(held[1].row)
        if state.nominations.pop(uid, None) is not None:
            state.unnominated[uid] = None
    state.nominations.pop(GANG + key, None)
    if state.gangs.reserving == key:
        state.gangs.reserving = ""


class Evictions:
    """Starts preemptions and tracks them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.planner = Planner(state)

    # -- starting --------------------------------------------------------------------------------------------------

    def make_room(self, record: GuestRecord, policy: int, actions: list[Action]) -> DecisionNote | None:
        """Reclaim what a tenant is guaranteed, or preempt; return a note about the result."""
        state = self._state
        profile = state.profiles.profiles[policy]
        if profile.policy.reclaim and state.quotas.is_owed(record.guest.spec):
            if record.guest.uid in state.nominations:
                return DecisionNote(WAITS_FOR_VICTIMS)
            rules = profile.policy.preemption or PreemptionRules()
            plan = plan_reclaim(state, state.shape(record), policy, self._exhausted(record.guest.uid, rules))
            if plan is not None and self.may_evict(record.guest.uid, plan.size, rules):
                why = f"{RECLAIMED}{record.guest.name} for tenant {record.guest.spec.tenant}"
                self._start(record, plan, rules, why, actions)
                return DecisionNote(RECLAIMS, plan.host, plan.size)
        return self.preempt(record, policy, actions)

    def preempt(self, record: GuestRecord, policy: int, actions: list[Action]) -> DecisionNote | None:
        """Make room for a rejected guest by evicting others; return a note about the result."""
        state = self._state
        rules = state.profiles.profiles[policy].policy.preemption
        if rules is None or not record.guest.spec.may_preempt:
            return None
        uid = record.guest.uid
        if uid in state.nominations:
            return DecisionNote(WAITS_FOR_VICTIMS)
        shape = state.shape(record)
        if self.cascade_depth(record, rules) > rules.max_cascade:
            return DecisionNote(EVICTED_IN_CASCADE)
        stuck = {state.guests[victim].host for victim, preemptor in state.evicting.items() if preemptor == uid}
        plan = self.planner.plan(shape, policy, self._exhausted(uid, rules) | stuck)
        if plan is None:
            return DecisionNote(NO_EVICTION_HELPS)
        if not self.may_evict(uid, plan.size, rules):
            return DecisionNote(TOO_MANY_EVICTIONS, count=rules.max_evictions)
        self._start(record, plan, rules, f"{PREEMPTED}{record.guest.name}", actions)
        return DecisionNote(PREEMPTS, plan.host, plan.size)

    def _start(
        self, record: GuestRecord, plan: VictimSet, rules: PreemptionRules, why: str, actions: list[Action]
    ) -> None:
        state = self._state
        guest = record.guest
        self.nominate(record, plan.host, plan.victims, rules.wait_ns)
        names = tuple(state.guests[victim].guest.name for victim in plan.victims)
        actions.append(Nominate(guest.uid, guest.name, state.decisions, plan.host, names))
        moves = dict(plan.moves)
        ended = tuple(uid for uid in plan.victims if uid not in moves)
        for uid, target in plan.moves:
            self._move(uid, target, guest.uid, why, actions)
        self.evict(ended, guest.uid, why, actions)
        self.note_attempt(guest.uid, plan.host, plan.size)
        self.note_cascade(ended, self.cascade_depth(record, rules) + 1)

    def _move(self, uid: str, target: str, preemptor: str, reason: str, actions: list[Action]) -> None:
        """Move a victim, and count it against its budgets like an eviction, because its move may fail."""
        state = self._state
        record = state.guests[uid]
        state.evicting[uid] = preemptor
        charge_budgets(state, uid)
        start_move(state, uid, target)
        actions.append(Move(uid, record.guest.name, state.decisions, record.host, target, preemptor, reason))

    def evict(self, victims: tuple[str, ...], preemptor: str, reason: str, actions: list[Action]) -> None:
        """Evict guests that are not leaving already, and count them against their budgets."""
        state = self._state
        for uid in victims:
            record = state.guests[uid]
            if uid in state.evicting or record.guest.spec.is_leaving:
                state.evicting.setdefault(uid, preemptor)
                continue
            state.evicting[uid] = preemptor
            charge_budgets(state, uid)
            actions.append(Evict(uid, record.guest.name, state.decisions, record.host, preemptor, reason))

    def nominate(self, record: GuestRecord, host: str, victims: tuple[str, ...], wait_ns: int) -> None:
        """Hold room on a host for a guest until its victims have left."""
        state = self._state
        uid = record.guest.uid
        self.drop_nomination(uid)
        deadline = state.after(wait_ns)
        state.add_deadline(deadline, state.decisions, uid)
        self.keep_waiting(record, Nomination(host, victims, deadline, state.decisions))

    def resume(self, record: GuestRecord, host: str) -> None:
        """Continue a preemption that started before the engine; without leaving victims there is none."""
        state = self._state
        row = state.cluster.row_of.get(host)
        profile = state.profiles.find(record.guest.spec.policy)
        rules = profile.policy.preemption if profile is not None else None
        if row is None or rules is None or record.guest.uid in state.nominations:
            return
        leaving = tuple(
            uid
            for uid in sorted(state.cluster.guests_on[row])
            if state.guests[uid].guest.spec.is_leaving
            and state.gangs.priority_of(state.guests[uid]) < record.guest.spec.priority
        )
        if not leaving:
            return
        for uid in leaving:
            state.evicting.setdefault(uid, record.guest.uid)
        self.nominate(record, host, leaving, rules.wait_ns)
        self.note_attempt(record.guest.uid, host, len(leaving))

    def keep_waiting(self, record: GuestRecord, nomination: Nomination) -> None:
        """Keep waiting for the victims of an earlier preemption, with the same deadline."""
        state = self._state
        uid = record.guest.uid
        state.nominations[uid] = nomination
        hold_for_nominated(state, record, nomination.host)

    # -- following -------------------------------------------------------------------------------------------------

    def drop_nomination(self, uid: str, *, quietly: bool = False) -> Nomination | None:
        """Drop a guest's nomination and its hold; with ``quietly`` the caller notes the improvement."""
        state = self._state
        if uid.startswith(GANG):
            for member in state.gangs.members.get(uid.removeprefix(GANG), ()):
                self.drop_nomination(member, quietly=quietly)
        nomination = state.nominations.pop(uid, None)
        if nomination is not None:
            if nomination.host:
                state.unnominated[uid] = None
            row = state.cluster.row_of.get(nomination.host)
            if row is not None:
                state.cluster.release_hold(NOMINATION + uid, row)
                if not quietly:
                    state.note_improvement(row)
        return nomination

    def note_left(self, uid: str) -> None:
        """Handle a guest that left: its own nomination ends, and a preemptor may have waited for it.

        If it was to replace a victim that is still there, the move of that victim has failed.
        """
        state = self._state
        victim = replaced_by(state, uid) if state.moves else ""
        if victim:
            self.fail_move(victim)
        self.drop_nomination(uid)
        state.attempts.pop(uid, None)
        state.unnominated.pop(uid, None)
        self.note_gone(uid)

    def note_gone(self, uid: str) -> None:
        """Handle a guest that is no longer on its host: preemptors may have waited for that."""
        state = self._state
        if uid in state.ordered:
            for budget in budgets_of(state, uid):
                state.spent[budget.key] = state.spent.get(budget.key, 0) + 1
            del state.ordered[uid]  # what it was counted for is spent now
        end_move(state, uid)
        state.unmoved.pop(uid, None)
        if state.evicting.pop(uid, None) is not None:
            for preemptor in self._waiting_for(uid):
                self._wake_if_clear(preemptor)

    def note_failed(self, uid: str) -> None:
        """Handle a guest that could not be evicted: its preemptors look elsewhere, and budgets are refunded.

        If it was to move, it is evicted instead.
        """
        state = self._state
        if uid in state.moves:
            self.fail_move(uid)
            return
        state.unmoved.pop(uid, None)
        if state.evicting.pop(uid, None) is None:
            return
        if uid in state.ordered:
            refund_budgets(state, uid)
        for preemptor in self._waiting_for(uid):
            self.give_up(preemptor)

    def fail_move(self, uid: str) -> None:
        """Handle a move that failed: the next step evicts the victim, if a preemptor still waits for it."""
        end_move(self._state, uid)
        self._state.unmoved[uid] = None

    def evict_unmoved(self, actions: list[Action]) -> None:
        """Evict victims whose moves failed; those for which no preemptor waits any more stay."""
        state = self._state
        for uid in state.unmoved:
            record, preemptor = state.guests[uid], state.evicting.get(uid, "")
            waiting = self._waiting_for(uid)
            if record.guest.spec.is_leaving:
                continue
            if not waiting:
                del state.evicting[uid]
                if uid in state.ordered:
                    refund_budgets(state, uid)
                continue
            preemptor = preemptor if preemptor in waiting else waiting[0]
            state.evicting[uid] = preemptor
            is_gang = preemptor.startswith(GANG)
            name = f"gang {preemptor.removeprefix(GANG)}" if is_gang else state.guests[preemptor].guest.name
            state.decisions += 1
            actions.append(Evict(uid, record.guest.name, state.decisions, record.host, preemptor, f"{PREEMPTED}{name}"))
            self.note_cascade((uid,), 1)
        state.unmoved.clear()

    def _waiting_for(self, victim: str) -> list[str]:
        return [uid for uid, nomination in self._state.nominations.items() if victim in nomination.victims]

    def expire_nomination(self, uid: str, at: int) -> bool:
        """Return whether a deadline is that of a nomination; if so, the preemptor looks elsewhere."""
        nomination = self._state.nominations.get(uid)
        if nomination is None or nomination.deadline != at:
            return False
        self.give_up(uid)
        return True

    def give_up(self, preemptor: str) -> None:
        """Avoid the nominated host for the window and try again."""
        nomination = self.drop_nomination(preemptor)
        if nomination is None:
            return
        for _ in range(self._repeats_allowed(preemptor)):
            self.note_attempt(preemptor, nomination.host, 0)
        self._activate(preemptor)

    def _wake_if_clear(self, preemptor: str) -> None:
        state = self._state
        nomination = state.nominations.get(preemptor)
        if nomination is not None and not any(victim in state.evicting for victim in nomination.victims):
            self._activate(preemptor)

    def _activate(self, uid: str) -> None:
        state = self._state
        entry = state.queue.entries.get(uid)
        if entry is not None:
            state.queue.activate(uid, entry.priority, entry.arrival, entry.key)

    # -- limits ----------------------------------------------------------------------------------------------------

    def _attempts(self, uid: str) -> Attempts:
        return self._state.attempts.get(uid, Attempts())

    def note_attempt(self, uid: str, host: str, evicted: int) -> None:
        """Record a preemption, for the limits."""
        state = self._state
        made = self._attempts(uid).made
        state.attempts.pop(uid, None)
        state.attempts[uid] = Attempts((*made, (state.now, host, evicted))[-256:])
        while len(state.attempts) > _MAX_REMEMBERED:
            del state.attempts[next(iter(state.attempts))]

    def _repeats_allowed(self, uid: str) -> int:
        state = self._state
        record = state.guests.get(uid)
        profile = state.profiles.find(record.guest.spec.policy) if record is not None else None
        rules = profile.policy.preemption if profile is not None else None
        return rules.max_repeats if rules is not None else 1

    def may_try(self, uid: str, rules: PreemptionRules) -> bool:
        """Say whether a gang may look for victims: it waits for none, and earlier evictions helped."""
        return uid not in self._state.nominations and "" not in self._exhausted(uid, rules)

    def may_evict(self, uid: str, count: int, rules: PreemptionRules) -> bool:
        """Say whether so many more evictions are within the preemptor's limit."""
        return self._recent(uid, rules) + count <= rules.max_evictions

    def _exhausted(self, uid: str, rules: PreemptionRules) -> frozenset[str]:
        """Return the hosts where evictions were useless for a preemptor too often."""
        since = self._state.now - rules.window_ns
        hosts = [host for at, host, _ in self._attempts(uid).made if at >= since]
        return frozenset(host for host in hosts if hosts.count(host) >= rules.max_repeats)

    def _recent(self, uid: str, rules: PreemptionRules) -> int:
        since = self._state.now - rules.window_ns
        return sum(count for at, _, count in self._attempts(uid).made if at >= since)

    def note_cascade(self, victims: tuple[str, ...], depth: int) -> None:
        """Record the depth of these victims in a cascade of evictions."""
        state = self._state
        for victim in victims:
            state.cascades[state.guests[victim].guest.spec] = (depth, state.now)
        while len(state.cascades) > _MAX_REMEMBERED:
            del state.cascades[next(iter(state.cascades))]

    def report_ended(self, actions: list[Action]) -> None:
        """Add actions for nominations that ended without a new one."""
        state = self._state
        for uid in state.unnominated:
            record = state.guests.get(uid)
            if record is not None and record.state not in PLACED_STATES and uid not in state.nominations:
                actions.append(Nominate(uid, record.guest.name, state.decisions))
        state.unnominated.clear()

    def cascade_depth(self, record: GuestRecord, rules: PreemptionRules) -> int:
        """Return how many evictions led to this guest needing room; 0 if its shape was not evicted lately."""
        depth, at = self._state.cascades.get(record.guest.spec, (0, 0))
        return depth if depth and at >= self._state.now - rules.window_ns else 0
