"""Carrying a preemption out: nominations, victims on their way, and the limits that keep evictions in check.

A preemptor is nominated for a host, room there is held for it against guests of equal and lower priority, and its
victims are evicted. It is tried again when the last of them has left, and gives up the host when one cannot be evicted,
when they take too long, or when evictions there keep bringing it nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from hostler.engine.gang_book import GANG
from hostler.engine.holds import Hold
from hostler.engine.nominations import NOMINATION, Attempts, Nomination
from hostler.engine.preemption import Planner
from hostler.engine.reclaim import plan_reclaim
from hostler.engine.records import PLACED_STATES, GuestRecord
from hostler.engine.state import State
from hostler.engine.victims import VictimSet, budgets_of, order, stay
from hostler.model import Action, Evict, Nominate, PreemptionRules
from hostler.model.actions import PREEMPTED, RECLAIMED

__all__ = ["Evictions", "drop_gang_holds", "hold_nominated", "hold_of", "rehold"]

_MAX_REMEMBERED = 4096


def hold_nominated(state: State, record: GuestRecord, host: str) -> None:
    """Keep room on a host for a nominated guest, against guests of its priority and below."""
    shape = state.shape(record)
    row = state.cluster.row_of[host]
    priority = state.gangs.priority(record.guest.gang) if record.guest.gang else record.guest.spec.priority
    hold = Hold(row, shape.amounts, priority, bool(shape.asks))
    state.cluster.hold(NOMINATION + record.guest.uid, hold)


def rehold(state: State, uids: Iterable[str]) -> None:
    """Keep room for nominated guests by what they are now, after they or their gang changed."""
    for uid in uids:
        nomination = state.nominations.get(uid)
        if nomination is not None and nomination.host in state.cluster.row_of:
            hold_nominated(state, state.guests[uid], nomination.host)


def hold_of(state: State, uid: str) -> tuple[str, Hold] | None:
    """Return what is held for a nominated guest, with the name of the hold."""
    nomination = state.nominations.get(uid)
    row = state.cluster.row_of.get(nomination.host) if nomination is not None else None
    hold = state.cluster.holds.get(NOMINATION + uid, row) if row is not None else None
    return (NOMINATION + uid, hold) if hold is not None else None


def drop_gang_holds(state: State, key: str) -> None:
    """Hold nothing any more for a gang that does not wait."""
    for uid in state.gangs.members.get(key, ()):
        held = hold_of(state, uid)
        if held is not None:
            state.cluster.release_hold(held[0], held[1].row)
            state.improve(held[1].row)
        if state.nominations.pop(uid, None) is not None:
            state.unnominated[uid] = None
    state.nominations.pop(GANG + key, None)
    if state.gangs.reserving == key:
        state.gangs.reserving = ""


class Evictions:
    """Starts preemptions and follows them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.planner = Planner(state)

    # -- starting --------------------------------------------------------------------------------------------------

    def make_room(self, record: GuestRecord, policy: int, actions: list[Action]) -> str:
        """Reclaim what a tenant is owed, else preempt; return what came of it, in words."""
        state = self._state
        profile = state.profiles.profiles[policy]
        if profile.policy.reclaim and state.quotas.is_owed(record.guest.spec):
            if record.guest.uid in state.nominations:
                return "waits for its victims to leave"
            rules = profile.policy.preemption or PreemptionRules()
            plan = plan_reclaim(state, state.shape(record), policy, self._exhausted(record.guest.uid, rules))
            if plan is not None and self.may_evict(record.guest.uid, plan.size, rules):
                why = f"{RECLAIMED}{record.guest.name} for tenant {record.guest.spec.tenant}"
                self._start(record, plan, rules, why, actions)
                return f"reclaims {plan.size} on {plan.host}"
        return self.preempt(record, policy, actions)

    def preempt(self, record: GuestRecord, policy: int, actions: list[Action]) -> str:
        """Make room for a refused guest by evicting others; return what came of it, in words."""
        state = self._state
        rules = state.profiles.profiles[policy].policy.preemption
        if rules is None or not record.guest.spec.may_preempt:
            return ""
        uid = record.guest.uid
        if uid in state.nominations:
            return "waits for its victims to leave"
        shape = state.shape(record)
        if self.cascade(record, rules) > rules.max_cascade:
            return "evicts nobody: it was evicted itself in a cascade of preemptions"
        stuck = {state.guests[victim].host for victim, preemptor in state.evicting.items() if preemptor == uid}
        plan = self.planner.plan(shape, policy, self._exhausted(uid, rules) | stuck)
        if plan is None:
            return "no eviction helps"
        if not self.may_evict(uid, plan.size, rules):
            return f"evicts nobody: more than {rules.max_evictions} guests in the window"
        self._start(record, plan, rules, f"{PREEMPTED}{record.guest.name}", actions)
        return f"preempts {plan.size} on {plan.host}"

    def _start(
        self, record: GuestRecord, plan: VictimSet, rules: PreemptionRules, why: str, actions: list[Action]
    ) -> None:
        state = self._state
        guest = record.guest
        self.nominate(record, plan.host, plan.victims, rules.wait_ns)
        names = tuple(state.guests[victim].guest.name for victim in plan.victims)
        actions.append(Nominate(guest.uid, guest.name, state.decisions, plan.host, names))
        self.evict(plan.victims, guest.uid, why, actions)
        self.remember(guest.uid, plan.host, plan.size)
        self.note_cascade(plan.victims, self.cascade(record, rules) + 1)

    def evict(self, victims: tuple[str, ...], preemptor: str, reason: str, actions: list[Action]) -> None:
        """Evict guests that are not on their way out already, and count them against their budgets."""
        state = self._state
        for uid in victims:
            record = state.guests[uid]
            if uid in state.evicting or record.guest.spec.is_leaving:
                state.evicting.setdefault(uid, preemptor)
                continue
            state.evicting[uid] = preemptor
            order(state, uid)
            actions.append(Evict(uid, record.guest.name, state.decisions, record.host, preemptor, reason))

    def nominate(self, record: GuestRecord, host: str, victims: tuple[str, ...], wait_ns: int) -> None:
        """Keep room on a host for a guest until its victims have left."""
        state = self._state
        uid = record.guest.uid
        self.forget(uid)
        deadline = state.after(wait_ns)
        state.add_deadline(deadline, state.decisions, uid)
        self.keep(record, Nomination(host, victims, deadline, state.decisions))

    def resume(self, record: GuestRecord, host: str) -> None:
        """Go on with a preemption begun before the engine's time; without victims on their way there is none."""
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
        self.remember(record.guest.uid, host, len(leaving))

    def keep(self, record: GuestRecord, nomination: Nomination) -> None:
        """Go on waiting for the victims of an earlier preemption, no longer than before."""
        state = self._state
        uid = record.guest.uid
        state.nominations[uid] = nomination
        hold_nominated(state, record, nomination.host)

    # -- following -------------------------------------------------------------------------------------------------

    def forget(self, uid: str, *, quietly: bool = False) -> Nomination | None:
        """Drop a guest's nomination and what is held for it; ``quietly``: the caller says what that improves."""
        state = self._state
        if uid.startswith(GANG):
            for member in state.gangs.members.get(uid.removeprefix(GANG), ()):
                self.forget(member, quietly=quietly)
        nomination = state.nominations.pop(uid, None)
        if nomination is not None:
            if nomination.host:
                state.unnominated[uid] = None
            row = state.cluster.row_of.get(nomination.host)
            if row is not None:
                state.cluster.release_hold(NOMINATION + uid, row)
                if not quietly:
                    state.improve(row)
        return nomination

    def left(self, uid: str) -> None:
        """Follow up on a guest that left: a nomination of its own ends, and a preemptor may have waited for it."""
        state = self._state
        self.forget(uid)
        state.attempts.pop(uid, None)
        state.unnominated.pop(uid, None)
        self.gone(uid)

    def gone(self, uid: str) -> None:
        """Follow up on a guest that is no longer on its host: preemptors may have waited for that."""
        state = self._state
        if uid in state.ordered:
            for budget in budgets_of(state, uid):
                state.spent[budget.key] = state.spent.get(budget.key, 0) + 1
            del state.ordered[uid]  # what it was counted for is spent now
        if state.evicting.pop(uid, None) is not None:
            for preemptor in self._waiting_for(uid):
                self._wake_if_clear(preemptor)

    def failed(self, uid: str) -> None:
        """A guest could not be evicted: those who counted on it look elsewhere, and budgets allow what they did."""
        state = self._state
        if state.evicting.pop(uid, None) is None:
            return
        if uid in state.ordered:
            stay(state, uid)
        for preemptor in self._waiting_for(uid):
            self.give_up(preemptor)

    def _waiting_for(self, victim: str) -> list[str]:
        return [uid for uid, nomination in self._state.nominations.items() if victim in nomination.victims]

    def timed_out(self, uid: str, at: int) -> bool:
        """Say whether a deadline was that of a nomination; if so the preemptor looks elsewhere."""
        nomination = self._state.nominations.get(uid)
        if nomination is None or nomination.deadline != at:
            return False
        self.give_up(uid)
        return True

    def give_up(self, preemptor: str) -> None:
        """Leave the nominated host alone for the window and try again."""
        nomination = self.forget(preemptor)
        if nomination is None:
            return
        for _ in range(self._repeats_allowed(preemptor)):
            self.remember(preemptor, nomination.host, 0)
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

    def remember(self, uid: str, host: str, evicted: int) -> None:
        """Remember a preemption, for the limits."""
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
        """Say whether a gang may look for victims: it waits for none, and earlier evictions did not come to nothing."""
        return uid not in self._state.nominations and "" not in self._exhausted(uid, rules)

    def may_evict(self, uid: str, count: int, rules: PreemptionRules) -> bool:
        """Say whether so many more evictions are within what a preemptor may do."""
        return self._recent(uid, rules) + count <= rules.max_evictions

    def _exhausted(self, uid: str, rules: PreemptionRules) -> frozenset[str]:
        """Return the hosts where evictions have brought a preemptor nothing too often."""
        since = self._state.now - rules.window_ns
        hosts = [host for at, host, _ in self._attempts(uid).made if at >= since]
        return frozenset(host for host in hosts if hosts.count(host) >= rules.max_repeats)

    def _recent(self, uid: str, rules: PreemptionRules) -> int:
        since = self._state.now - rules.window_ns
        return sum(count for at, _, count in self._attempts(uid).made if at >= since)

    def note_cascade(self, victims: tuple[str, ...], depth: int) -> None:
        """Remember how deep in a cascade of evictions these victims are."""
        state = self._state
        for victim in victims:
            state.cascades[state.guests[victim].guest.spec] = (depth, state.now)
        while len(state.cascades) > _MAX_REMEMBERED:
            del state.cascades[next(iter(state.cascades))]

    def tell(self, actions: list[Action]) -> None:
        """Tell which nominations ended without another one, and which preparations were called off."""
        state = self._state
        for uid in state.unnominated:
            record = state.guests.get(uid)
            if record is not None and record.state not in PLACED_STATES and uid not in state.nominations:
                actions.append(Nominate(uid, record.guest.name, state.decisions))
        state.unnominated.clear()

    def cascade(self, record: GuestRecord, rules: PreemptionRules) -> int:
        """Return how many evictions led to this guest's wanting room: 0 when its shape was not evicted lately."""
        depth, at = self._state.cascades.get(record.guest.spec, (0, 0))
        return depth if depth and at >= self._state.now - rules.window_ns else 0
