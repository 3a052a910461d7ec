"""A gang explained: what every pending member finds, and the one constraint that binds."""

from __future__ import annotations

from collections import Counter

from hostler.engine.gang_trials import Trials
from hostler.engine.reasons import reason_counts
from hostler.engine.records import GROUPED
from hostler.engine.runs import Runs
from hostler.engine.state import State
from hostler.engine.transaction import Transaction
from hostler.model import GangAdvice, MemberAdvice, Reason

__all__ = ["advise_gang"]


def advise_gang(state: State, key: str) -> GangAdvice:
    """Try a gang without keeping anything, and tell what became of each member."""
    gang = state.gangs.gangs.get(key)
    members = [uid for uid in state.gangs.pending(key) if state.guests[uid].state == GROUPED]
    placed = len(state.gangs.placed(key))
    short = state.gangs.why_not_ready(key)
    if gang is None or short or not members:
        return GangAdvice(gang=key, placed=placed, binding=short)
    need = max(gang.min_count - placed, 1)
    with Transaction(state) as transaction:
        records = [state.guests[uid] for uid in members]
        trial = Trials(state, Runs(state)).best(gang, records, need, transaction)
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
