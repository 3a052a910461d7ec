"""Which members of a gang are tried: those up to its maximum that their tenants' quotas have room for."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.engine.gang_trials import Refused
from hostler.engine.profiles import NO_POLICY
from hostler.engine.records import GROUPED, GuestRecord
from hostler.engine.state import State
from hostler.model import Gang, Reason

__all__ = ["owed_members", "pending_members", "within_quota"]


def pending_members(state: State, gang: Gang) -> tuple[list[GuestRecord], list[GuestRecord]]:
    """Return the members to place, and those beyond the maximum."""
    pending = [record for uid in state.gangs.pending(gang.key) if (record := state.guests[uid]).state == GROUPED]
    room = len(pending)
    if gang.max_count:
        room = max(gang.max_count - len(state.gangs.placed(gang.key)), 0)
    return pending[:room], pending[room:]


def within_quota(state: State, members: Sequence[GuestRecord]) -> tuple[list[GuestRecord], list[Refused]]:
    """Return the members that their tenants' quotas have room for, and the others."""
    within: list[GuestRecord] = []
    beyond: list[Refused] = []
    for record in members:
        why = state.quotas.beyond(record.guest.spec, [other.guest.spec for other in within])
        if not why:
            within.append(record)
            continue
        refusal = Reason("quota", "quota_exceeded", why)
        beyond.append(Refused(record, NO_POLICY, ((refusal, len(state.cluster)),)))
    return within, beyond


def owed_members(state: State, members: Sequence[GuestRecord]) -> list[GuestRecord]:
    """Return the members that all together stay within what their tenants are guaranteed."""
    owed: list[GuestRecord] = []
    for record in members:
        if state.quotas.is_owed(record.guest.spec, [other.guest.spec for other in owed]):
            owed.append(record)
    return owed
