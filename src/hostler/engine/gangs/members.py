"""Which members of a gang are tried: up to its maximum, and within the quotas of their tenants."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.engine.gangs.trials import RejectedMember
from hostler.engine.policy.profiles import NO_POLICY
from hostler.engine.state.records import GROUPED, GuestRecord
from hostler.engine.state.state import State
from hostler.model import Gang, Reason

__all__ = ["guaranteed_members", "pending_members", "split_by_quota"]


def pending_members(state: State, gang: Gang) -> tuple[list[GuestRecord], list[GuestRecord]]:
    """Return the members to place, and the members beyond the maximum."""
    pending = [record for uid in state.gangs.pending(gang.key) if (record := state.guests[uid]).state == GROUPED]
    room = len(pending)
    if gang.max_count:
        room = max(gang.max_count - len(state.gangs.placed(gang.key)), 0)
    return pending[:room], pending[room:]


def split_by_quota(state: State, members: Sequence[GuestRecord]) -> tuple[list[GuestRecord], list[RejectedMember]]:
    """Return the members within their tenants' quotas, and the others as rejected."""
    within: list[GuestRecord] = []
    beyond: list[RejectedMember] = []
    for record in members:
        why = state.quotas.beyond(record.guest.spec, [other.guest.spec for other in within])
        if not why:
            within.append(record)
            continue
        refusal = Reason("quota", "quota_exceeded", why)
        beyond.append(RejectedMember(record, NO_POLICY, ((refusal, len(state.cluster)),)))
    return within, beyond


def guaranteed_members(state: State, members: Sequence[GuestRecord]) -> list[GuestRecord]:
    """Return the members that together stay within their tenants' guarantees."""
    owed: list[GuestRecord] = []
    for record in members:
        if state.quotas.is_owed(record.guest.spec, [other.guest.spec for other in owed]):
            owed.append(record)
    return owed
