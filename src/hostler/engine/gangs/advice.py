"""Explanations of gangs: what every pending member finds, the one constraint that binds, and possible victims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from hostler.engine.cache.reasons import full_name, reason_counts
from hostler.engine.gangs.members import guaranteed_members, pending_members, split_by_quota
from hostler.engine.gangs.preemption import GangPlan, plan_for_gang, units_below_gang
from hostler.engine.gangs.trials import Trial, Trials
from hostler.engine.preemption.eviction_advice import advise_none
from hostler.engine.preemption.evictions import hold_of
from hostler.engine.preemption.reclaim import reclaimable_units
from hostler.engine.preemption.victims import Unit, allowed_disruptions, budgets_of
from hostler.engine.runs import KernelRuns
from hostler.engine.state.records import GuestRecord
from hostler.engine.state.search_shares import SearchPaused, SearchPosition, SearchShare
from hostler.engine.state.state import State
from hostler.engine.state.transaction import Transaction
from hostler.model import EvictionAdvice, Gang, GangAdvice, MemberAdvice, PreemptionRules, Reason
from hostler.model.decisions import DecisionNote, EvictionObstacle
from hostler.model.notes import (
    BEYOND_QUOTA,
    BY_BUDGET,
    EVICTS_NOBODY,
    MEMBERS_MAY_NOT_EVICT,
    NO_ROOM_FOR_GANG,
    NOBODY_LOWER,
    SEARCH_TOO_LONG,
)
from hostler.model.vocabulary import note_text, obstacles_text

__all__ = ["OUTSIDE", "advise_gang", "as_member"]

_UNITS = 2_000  # an explanation searches no further; then it says how far the greedy order comes
_FEW_UNITS = 128  # beside a search of its own that goes on: that one finds out, and many may ask meanwhile
OUTSIDE = Reason("gang", "outside_the_domain")  # as the verdict cache has it for hosts that a gang is kept away from


def advise_gang(state: State, key: str) -> tuple[GangAdvice, EvictionAdvice | None]:
    """Try a gang without keeping anything. Return the result for each member, and the victims if room is short."""
    gang = state.gangs.gangs.get(key)
    if gang is None:
        return _not_ready(GangAdvice(gang=key), state.gangs.why_not_ready(key)), None
    placed = len(state.gangs.placed(key))
    not_ready = state.gangs.why_not_ready(key)
    members = pending_members(state, gang)[0]
    if not_ready is not None or not members:
        return _not_ready(GangAdvice(gang=key, min_count=gang.min_count, placed=placed), not_ready), None
    need = max(gang.min_count - placed, 1)
    members, beyond = split_by_quota(state, members)
    trials = Trials(state, KernelRuns(state))
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
                eviction = advise_none(EvictionObstacle(SEARCH_TOO_LONG), gang=gang.key)
    trial.refused.extend(beyond)
    return _advice(state, gang, trial, need, placed), eviction


@contextmanager
def as_member(state: State, record: GuestRecord, slot: int, domain: str) -> Iterator[None]:
    """Judge hosts as for a member: with its gang's rights, and in the gang's domain if it has chosen one."""
    gang = state.gangs.gangs.get(record.guest.gang)
    if gang is None:
        yield
        return
    with _without_own_holds(state, gang.key), Trials(state, KernelRuns(state)).by_rights_of(gang, [record]):
        if domain:
            column, values = state.cluster.marks.column(gang.topology)
            state.cache.confine([slot], column == values.number(domain))
        try:
            yield
        finally:
            state.cache.set_free([slot])


@contextmanager
def _without_own_holds(state: State, key: str) -> Iterator[None]:
    """Ignore what is held for the gang itself."""
    held = [found for uid in state.gangs.members.get(key, ()) if (found := hold_of(state, uid)) is not None]
    for name, hold in held:
        state.cluster.release_hold(name, hold.row)
    try:
        yield
    finally:
        for name, hold in held:
            state.cluster.hold(name, hold)


def _not_ready(advice: GangAdvice, why: DecisionNote | None) -> GangAdvice:
    return advice if why is None else msgspec.structs.replace(advice, not_ready=why, binding=note_text(why))


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
    binding = None
    if len(trial.placed) < need and primary:
        binding, _ = min(primary.items(), key=lambda item: (item[0] == OUTSIDE, -item[1], item[0].text()))
    return GangAdvice(
        gang=gang.key,
        min_count=gang.min_count,
        placed=placed,
        topology=gang.topology,
        domain=trial.domain,
        would_place=len(trial.placed),
        members=tuple(sorted(advice, key=lambda member: member.guest)),
        binding="" if binding is None else binding.text(),
        binding_reason=binding,
    )


def _advise_eviction(
    state: State, trials: Trials, gang: Gang, members: Sequence[GuestRecord], need: int, share: SearchShare
) -> EvictionAdvice | None:
    """Find victims for the whole gang as the engine does: reclaim guaranteed amounts first, then lower priorities."""
    if len(members) < need:
        return advise_none(EvictionObstacle(BEYOND_QUOTA), gang=gang.key)
    profile = state.profiles.find(members[0].guest.spec.policy)
    if profile is None:
        return None

    def plan_with(tried: Sequence[GuestRecord], rules: PreemptionRules, units: Sequence[Unit]) -> GangPlan | None:
        return plan_for_gang(state, trials, gang, tried, need, rules, units, share, SearchPosition("", (), need))

    rules = profile.policy.preemption
    owed = guaranteed_members(state, members) if profile.policy.reclaim else []
    if len(owed) >= need:
        strict = msgspec.structs.replace(rules or PreemptionRules(), budgets="strict")
        for units in reclaimable_units(state, sorted({record.guest.spec.tenant for record in owed})):
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
        why = BY_BUDGET if is_forbidden else NO_ROOM_FOR_GANG
        return advise_none(EvictionObstacle(why if units else NOBODY_LOWER), gang=gang.key)
    obstacle = "" if rules is not None else EVICTS_NOBODY
    if not all(record.guest.spec.may_preempt for record in members):
        obstacle = MEMBERS_MAY_NOT_EVICT
    return _eviction(state, gang, plan, obstacle=obstacle)


def _eviction(state: State, gang: Gang, plan: GangPlan, *, obstacle: str = "", tenant: str = "") -> EvictionAdvice:
    records = [state.guests[uid] for uid in plan.victims]
    left = allowed_disruptions(state)
    for uid in plan.victims:
        for budget in budgets_of(state, uid) if uid not in state.ordered else ():
            left[budget.key] -= 1
    before = allowed_disruptions(state)
    obstacles = (EvictionObstacle(obstacle),) if obstacle else ()
    return EvictionAdvice(
        gang=gang.key,
        host=", ".join(sorted({record.host for record in records})),
        victims=tuple(full_name(record.guest) for record in records),
        highest_priority=max(state.gangs.priority_of(record) for record in records),
        broken_budgets=sum(left[key] < min(before[key], 0) for key in left),
        hosts=len({record.host for record in records}),
        why_not=obstacles_text(obstacles),
        tenant=tenant,
        obstacles=obstacles,
    )
