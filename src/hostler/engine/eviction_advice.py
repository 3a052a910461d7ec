"""Who would be evicted for a guest, where and at what cost; or why no eviction helps."""

from __future__ import annotations

from collections import Counter

from hostler.engine.plugins.room import Devices, Resources
from hostler.engine.preemption import dry_run, is_resolvable
from hostler.engine.shapes import Shape
from hostler.engine.state import State
from hostler.engine.victims import VictimSet, units_below
from hostler.model import EvictionAdvice, PreemptionRules

__all__ = ["advise_eviction"]

_ANY_BUDGET = PreemptionRules()


def advise_eviction(state: State, shape: Shape, policy: int, rules: PreemptionRules | None) -> EvictionAdvice:
    """Look for the cheapest victims on every host, whether or not the policy would evict them."""
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
    allowed = "" if rules is not None else "the policy evicts nobody"
    if rules is not None and not shape.spec.may_preempt:
        allowed = "the guest may not evict anybody"
    return EvictionAdvice(
        host=best.host,
        victims=tuple(state.guests[uid].guest.name for uid in best.victims),
        highest_priority=best.highest,
        broken_budgets=best.violations,
        hosts=len(found),
        why_not=allowed,
    )


def _try(
    state: State, shape: Shape, slot: int, row: int, code: int, rules: PreemptionRules
) -> tuple[VictimSet | None, str]:
    reason = state.tables.reasons.values[code]
    if not is_resolvable(reason):
        return None, "refused for a reason that no eviction cures"
    if not units_below(state, row, shape.spec.priority):
        return None, "no guest of lower priority"
    victims = dry_run(state, shape, slot, row, rules)
    if victims is not None:
        return victims, ""
    if rules.budgets == "strict" and dry_run(state, shape, slot, row, _ANY_BUDGET) is not None:
        return None, "a disruption budget forbids it"
    is_room = reason.plugin in (Resources.name, Devices.name)
    return None, "no room even without guests of lower priority" if is_room else "refused even without them"
