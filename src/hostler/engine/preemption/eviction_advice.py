"""Explanations of evictions: which guests would be evicted for a guest, where and at what cost, or why none helps."""

from __future__ import annotations

from collections import Counter

from hostler.engine.cache.reasons import full_name
from hostler.engine.cluster.shapes import Shape
from hostler.engine.plugins.room import Devices, Resources
from hostler.engine.preemption.dry_runs import dry_run, is_resolvable
from hostler.engine.preemption.movable_victims import choose_movable
from hostler.engine.preemption.reclaim import plan_reclaim
from hostler.engine.preemption.victims import VictimSet, units_below
from hostler.engine.state.state import State
from hostler.model import EvictionAdvice, PreemptionRules
from hostler.model.decisions import EvictionObstacle
from hostler.model.notes import (
    BEYOND_QUOTA,
    BY_BUDGET,
    EVICTS_NOBODY,
    MAY_NOT_EVICT,
    NO_ROOM_WITHOUT_LOWER,
    NOBODY_LOWER,
    OBSTACLE_TEXTS,
    REJECTED_WITHOUT_LOWER,
    UNRESOLVABLE_REASON,
)
from hostler.model.vocabulary import ENGINE_WORDS, obstacles_text

__all__ = ["advise_eviction", "advise_none"]

_ANY_BUDGET = PreemptionRules()


def advise_eviction(state: State, shape: Shape, policy: int, rules: PreemptionRules | None) -> EvictionAdvice:
    """Find the cheapest victims over all hosts, whether or not the policy would evict them."""
    if state.profiles.profiles[policy].policy.reclaim and state.quotas.is_owed(shape.spec):
        plan = plan_reclaim(state, shape, policy)
        if plan is not None:
            return _advice(state, plan, tenant=state.guests[plan.victims[0]].guest.spec.tenant)
    used = rules or PreemptionRules()
    slot = state.cache.slot(shape, policy)
    codes, _ = state.cache.codes(slot)
    found: list[VictimSet] = []
    because: Counter[str] = Counter()
    for row, code in enumerate(codes.tolist()):
        if code <= 0:
            continue
        victims, why = _try(state, shape, slot, row, code, used)
        if victims is None:
            because[why] += 1
        else:
            found.append(victims)
    if not found:
        counts = sorted(because.items(), key=lambda count: ENGINE_WORDS.render(OBSTACLE_TEXTS[count[0]]))
        return advise_none(*(EvictionObstacle(code, hosts) for code, hosts in counts))
    best = choose_movable(state, shape, policy, used, found)
    assert best is not None
    return _advice(state, best, hosts=len(found), obstacle=_obstacle(state, shape, rules))


def advise_none(*obstacles: EvictionObstacle, gang: str = "") -> EvictionAdvice:
    """Return the advice that no eviction helps."""
    return EvictionAdvice(gang=gang, obstacles=obstacles, why_not=obstacles_text(obstacles))


def _obstacle(state: State, shape: Shape, rules: PreemptionRules | None) -> str:
    """Return the code of the rule that prevents a helpful eviction, or nothing."""
    if not shape.spec.may_preempt:
        return MAY_NOT_EVICT
    if state.quotas.beyond(shape.spec):
        return BEYOND_QUOTA
    return "" if rules is not None else EVICTS_NOBODY


def _advice(state: State, plan: VictimSet, *, hosts: int = 1, obstacle: str = "", tenant: str = "") -> EvictionAdvice:
    obstacles = (EvictionObstacle(obstacle),) if obstacle else ()
    return EvictionAdvice(
        host=plan.host,
        victims=tuple(full_name(state.guests[uid].guest) for uid in plan.victims),
        highest_priority=plan.highest,
        broken_budgets=plan.violations,
        hosts=hosts,
        why_not=obstacles_text(obstacles),
        tenant=tenant,
        obstacles=obstacles,
    )


def _try(
    state: State, shape: Shape, slot: int, row: int, code: int, rules: PreemptionRules
) -> tuple[VictimSet | None, str]:
    """Return the victims on one host, or None and the code of what prevents an eviction there from helping."""
    reason = state.cache.reason(slot, code)
    if not is_resolvable(reason):
        return None, UNRESOLVABLE_REASON
    if not units_below(state, row, shape.spec.priority):
        return None, NOBODY_LOWER
    victims = dry_run(state, shape, slot, row, rules)
    if victims is not None:
        return victims, ""
    if rules.budgets == "strict" and dry_run(state, shape, slot, row, _ANY_BUDGET) is not None:
        return None, BY_BUDGET
    is_room = reason.plugin in (Resources.name, Devices.name)
    return None, NO_ROOM_WITHOUT_LOWER if is_room else REJECTED_WITHOUT_LOWER
