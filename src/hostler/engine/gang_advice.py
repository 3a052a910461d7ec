"""A gang explained: what every pending member finds, and the one constraint that binds."""

from __future__ import annotations

from collections import Counter

from hostler.engine.evictions import hold_of
from hostler.engine.gang_members import pending_members, within_quota
from hostler.engine.gang_trials import Trials
from hostler.engine.reasons import reason_counts
from hostler.engine.runs import Runs
from hostler.engine.state import State
from hostler.engine.transaction import Transaction
from hostler.model import GangAdvice, MemberAdvice, Reason

__all__ = ["advise_gang"]


def advise_gang(state: State, key: str) -> GangAdvice:
    """Try a gang without keeping anything, and tell what became of each member."""
    gang = state.gangs.gangs.get(key)
    placed = len(state.gangs.placed(key))
    short = state.gangs.why_not_ready(key)
    members = pending_members(state, gang)[0] if gang is not None else []
    if gang is None or short or not members:
        return GangAdvice(gang=key, placed=placed, binding=short)
    need = max(gang.min_count - placed, 1)
    members, beyond = within_quota(state, members)
    trials = Trials(state, Runs(state))
    held = [found for uid in state.gangs.members[key] if (found := hold_of(state, uid)) is not None]
    for name, hold in held:  # what is held for the gang does not stand in its way
        state.cluster.release_hold(name, hold.row)
    try:
        with trials.by_rights_of(gang, members), Transaction(state) as transaction:
            trial = trials.best(gang, members, need, transaction)
    finally:
        for name, hold in held:
            state.cluster.hold(name, hold)
    trial.refused.extend(beyond)
    primary: Counter[Reason] = Counter()
    advice = [
        MemberAdvice(guest=item.record.guest.name, host=state.cluster.host(item.row).name) for item in trial.placed
    ]
    for refused in trial.refused:
        reasons = reason_counts(state.tables, refused.reasons, refused.record.guest.spec)
        advice.append(MemberAdvice(guest=refused.record.guest.name, reasons=reasons))
        for count in reasons:
            primary[count.reason] += count.hosts
    binding = ""
    if len(trial.placed) < need and primary:
        reason, _ = min(primary.items(), key=lambda item: (-item[1], item[0].text()))
        binding = reason.text()
    return GangAdvice(
        gang=key,
        min_count=gang.min_count,
        placed=placed,
        domain=trial.domain,
        would_place=len(trial.placed),
        members=tuple(sorted(advice, key=lambda member: member.guest)),
        binding=binding,
    )
