"""A gang explained: what every pending member finds, the one constraint that binds, and whom it would evict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from hostler.engine.eviction_advice import BEYOND_QUOTA, BY_BUDGET, EVICTS_NOBODY, NOBODY_LOWER
from hostler.engine.evictions import hold_of
from hostler.engine.gang_members import owed_members, pending_members, within_quota
from hostler.engine.gang_preemption import GangPlan, plan_for_gang, units_below_gang
from hostler.engine.gang_trials import Trial, Trials
from hostler.engine.reasons import full_name, reason_counts
from hostler.engine.reclaim import reclaimable
from hostler.engine.records import GuestRecord
from hostler.engine.runs import Runs
from hostler.engine.search_shares import SearchPaused, SearchPosition, SearchShare
from hostler.engine.state import State
from hostler.engine.transaction import Transaction
from hostler.engine.victims import Unit, allowed_now, budgets_of
from hostler.model import EvictionAdvice, Gang, GangAdvice, MemberAdvice, PreemptionRules, Reason

__all__ = ["OUTSIDE", "advise_gang", "as_member"]

_UNITS = 2_000  # an explanation searches no further; then it says how far the greedy order comes
_TOO_LONG = "too many guests of lower priority to say here which of them would have to go"
_FEW_UNITS = 128  # beside a search of its own that goes on: that one finds out, and many may ask meanwhile
OUTSIDE = Reason("gang", "outside_the_domain")  # as the verdict cache has it for hosts that a gang is kept away from


def advise_gang(state: State, key: str) -> tuple[GangAdvice, EvictionAdvice | None]:
    """Try a gang without keeping anything; tell what became of each member, and whom it would evict if it is short."""
    gang = state.gangs.gangs.get(key)
    if gang is None:
        return GangAdvice(gang=key, binding=state.gangs.why_not_ready(key)), None
    placed = len(state.gangs.placed(key))
    short = state.gangs.why_not_ready(key)
    members = pending_members(state, gang)[0]
    if short or not members:
        return GangAdvice(gang=key, min_count=gang.min_count, placed=placed, binding=short), None
    need = max(gang.min_count - placed, 1)
    members, beyond = within_quota(state, members)
    trials = Trials(state, Runs(state))
    eviction = None
    is_searched = key in state.gangs.searches.positions
    share = SearchShare(_FEW_UNITS if is_searched else _UNITS, pauses=False)
    with _without_own_holds(state, key), trials.by_rights_of(gang, members):
        with Transaction(state) as transaction:
            start = SearchPosition("", (), need)
            trial = trials.best(gang, members, need, transaction, share, start) if members else Trial([], [])
        if len(trial.placed) < need:
            try:
                eviction = _advise_eviction(state, trials, gang, members, need, share)
            except SearchPaused:
                eviction = EvictionAdvice(gang=gang.key, why_not=_TOO_LONG)
    trial.refused.extend(beyond)
    return _advice(state, gang, trial, need, placed), eviction


@contextmanager
def as_member(state: State, record: GuestRecord, slot: int, domain: str) -> Iterator[None]:
    """Judge hosts as a member finds them: by its gang's rights, and in the gang's domain if it has chosen one."""
    gang = state.gangs.gangs.get(record.guest.gang)
    if gang is None:
        yield
        return
    with _without_own_holds(state, gang.key), Trials(state, Runs(state)).by_rights_of(gang, [record]):
        if domain:
            column, values = state.cluster.marks.column(gang.topology)
            state.cache.confine([slot], column == values.number(domain))
        try:
            yield
        finally:
            state.cache.set_free([slot])


@contextmanager
def _without_own_holds(state: State, key: str) -> Iterator[None]:
    """Let what is held for the gang not stand in its way."""
    held = [found for uid in state.gangs.members.get(key, ()) if (found := hold_of(state, uid)) is not None]
    for name, hold in held:
        state.cluster.release_hold(name, hold.row)
    try:
        yield
    finally:
        for name, hold in held:
            state.cluster.hold(name, hold)


def _advice(state: State, gang: Gang, trial: Trial, need: int, placed: int) -> GangAdvice:
    primary: Counter[Reason] = Counter()
    advice = [
        MemberAdvice(guest=item.record.guest.name, host=state.cluster.host(item.row).name) for item in trial.placed
    ]
    for refused in trial.refused:
        reasons = reason_counts(refused.reasons)
        advice.append(MemberAdvice(guest=refused.record.guest.name, reasons=reasons))
        for count in reasons:
            primary[count.reason] += count.hosts
    binding = ""
    if len(trial.placed) < need and primary:
        reason, _ = min(primary.items(), key=lambda item: (item[0] == OUTSIDE, -item[1], item[0].text()))
        binding = reason.text()
    return GangAdvice(
        gang=gang.key,
        min_count=gang.min_count,
        placed=placed,
        topology=gang.topology,
        domain=trial.domain,
        would_place=len(trial.placed),
        members=tuple(sorted(advice, key=lambda member: member.guest)),
        binding=binding,
    )


def _advise_eviction(
    state: State, trials: Trials, gang: Gang, members: Sequence[GuestRecord], need: int, share: SearchShare
) -> EvictionAdvice | None:
    """Look for victims for the gang as a whole, as the engine does: what is owed first, then lower priorities."""
    if len(members) < need:
        return EvictionAdvice(gang=gang.key, why_not=BEYOND_QUOTA)
    profile = state.profiles.find(members[0].guest.spec.policy)
    if profile is None:
        return None

    def plan_with(tried: Sequence[GuestRecord], rules: PreemptionRules, units: Sequence[Unit]) -> GangPlan | None:
        return plan_for_gang(state, trials, gang, tried, need, rules, units, share, SearchPosition("", (), need))

    rules = profile.policy.preemption
    owed = owed_members(state, members) if profile.policy.reclaim else []
    if len(owed) >= need:
        strict = msgspec.structs.replace(rules or PreemptionRules(), budgets="strict")
        for units in reclaimable(state, sorted({record.guest.spec.tenant for record in owed})):
            plan = plan_with(owed, strict, units)
            if plan is not None:
                tenants = sorted({state.guests[uid].guest.spec.tenant for uid in plan.victims})
                return _eviction(state, gang, plan, tenant=", ".join(tenants))
    units = units_below_gang(state, gang)
    used = rules or PreemptionRules()
    plan = plan_with(members, used, units)
    if plan is None:
        free = msgspec.structs.replace(used, budgets="best_effort")
        is_forbidden = plan_with(members, free, units) is not None
        why = BY_BUDGET if is_forbidden else "no room for the gang even without guests of lower priority"
        return EvictionAdvice(gang=gang.key, why_not=why if units else NOBODY_LOWER)
    why_not = "" if rules is not None else EVICTS_NOBODY
    if not all(record.guest.spec.may_preempt for record in members):
        why_not = "not all of its members may evict others"
    return _eviction(state, gang, plan, why_not=why_not)


def _eviction(state: State, gang: Gang, plan: GangPlan, *, why_not: str = "", tenant: str = "") -> EvictionAdvice:
    records = [state.guests[uid] for uid in plan.victims]
    left = allowed_now(state)
    for uid in plan.victims:
        for budget in budgets_of(state, uid) if uid not in state.ordered else ():
            left[budget.key] -= 1
    before = allowed_now(state)
    return EvictionAdvice(
        gang=gang.key,
        host=", ".join(sorted({record.host for record in records})),
        victims=tuple(full_name(record.guest) for record in records),
        highest_priority=max(state.gangs.priority_of(record) for record in records),
        broken_budgets=sum(left[key] < min(before[key], 0) for key in left),
        hosts=len({record.host for record in records}),
        why_not=why_not,
        tenant=tenant,
    )
