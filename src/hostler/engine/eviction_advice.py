"""Who would be evicted for a guest, where and at what cost; or why no eviction helps."""

from __future__ import annotations

from collections import Counter

from hostler.engine.plugins.room import Devices, Resources
from hostler.engine.preemption import dry_run, is_resolvable
from hostler.engine.reasons import full_name
from hostler.engine.reclaim import plan_reclaim
from hostler.engine.shapes import Shape
from hostler.engine.state import State
from hostler.engine.victims import VictimSet, units_below
from hostler.model import EvictionAdvice, PreemptionRules

__all__ = ["BEYOND_QUOTA", "BY_BUDGET", "EVICTS_NOBODY", "MAY_NOT_EVICT", "NOBODY_LOWER", "advise_eviction"]

EVICTS_NOBODY = "the policy evicts nobody"
MAY_NOT_EVICT = "the guest may not evict anybody"
BEYOND_QUOTA = "its tenant's quota has no room for it"
BY_BUDGET = "a disruption budget forbids it"
NOBODY_LOWER = "no guest of lower priority"

_ANY_BUDGET = PreemptionRules()


def advise_eviction(state: State, shape: Shape, policy: int, rules: PreemptionRules | None) -> EvictionAdvice:
    """Look for the cheapest victims on every host, whether or not the policy would evict them."""
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
        text = "; ".join(f"{n} host{'s' * (n != 1)}: {why}" for why, n in sorted(because.items()))
        return EvictionAdvice(why_not=text)
    best = min(found, key=lambda victims: victims.cost)
    return _advice(state, best, hosts=len(found), why_not=_why_not(state, shape, rules))


def _why_not(state: State, shape: Shape, rules: PreemptionRules | None) -> str:
    """Say why an eviction that would help is not carried out, or nothing when it is."""
    if not shape.spec.may_preempt:
        return MAY_NOT_EVICT
    if state.quotas.beyond(shape.spec):
        return BEYOND_QUOTA
    return "" if rules is not None else EVICTS_NOBODY


def _advice(state: State, plan: VictimSet, *, hosts: int = 1, why_not: str = "", tenant: str = "") -> EvictionAdvice:
    return EvictionAdvice(
        host=plan.host,
        victims=tuple(full_name(state.guests[uid].guest) for uid in plan.victims),
        highest_priority=plan.highest,
        broken_budgets=plan.violations,
        hosts=hosts,
        why_not=why_not,
        tenant=tenant,
    )


def _try(
    state: State, shape: Shape, slot: int, row: int, code: int, rules: PreemptionRules
) -> tuple[VictimSet | None, str]:
    reason = state.cache.reason(slot, code)
    if not is_resolvable(reason):
        return None, "refused for a reason that no eviction cures"
    if not units_below(state, row, shape.spec.priority):
        return None, NOBODY_LOWER
    victims = dry_run(state, shape, slot, row, rules)
    if victims is not None:
        return victims, ""
    if rules.budgets == "strict" and dry_run(state, shape, slot, row, _ANY_BUDGET) is not None:
        return None, BY_BUDGET
    is_room = reason.plugin in (Resources.name, Devices.name)
    return None, "no room even without guests of lower priority" if is_room else "refused even without them"
