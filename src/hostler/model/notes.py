"""Declarations of notes: what a decision says beside its reasons, and what prevents evictions from helping.

``DecisionNote`` and ``EvictionObstacle`` in ``decisions`` are occurrences with arguments. This module has the text of
each code. Placeholders such as ``{guest}`` and ``{tenant}`` become the words of a front in ``vocabulary``. Codes are
stable: checkpoints and logs contain them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hostler.model.decisions import DecisionNote

__all__ = [
    "BEYOND_QUOTA", "BIND_FAILED", "BY_BUDGET", "DECIDING_FAILED", "EVICTED_IN_CASCADE", "EVICTS_NOBODY",
    "FITS_WITHOUT_GANG", "GANG_FULL", "GANG_GATHERS", "GANG_LACKS", "GANG_LOST_MEMBER", "GANG_RUNS",
    "GANG_SEARCHED", "GANG_UNKNOWN", "GROWS_IN_PLACE", "HELD_BY_RESERVATION", "MAY_NOT_EVICT",
    "MEMBERS_MAY_NOT_EVICT", "NOBODY_LOWER", "NOTE_TEXTS", "NOT_PREPARED", "NO_EVICTION_HELPS",
    "NO_EVICTION_IN_BUDGET", "NO_ROOM_FOR_GANG", "NO_ROOM_WITHOUT_LOWER", "NO_USABLE_ANSWER", "OBSTACLE_TEXTS",
    "PLACED_AND_EVICTED", "PREEMPTS", "PREPARED_TOO_LATE", "QUOTA_EXCEEDED", "RECLAIMS", "RECORDED",
    "REJECTED_OUTSIDE", "REJECTED_WITHOUT_LOWER", "SEARCH_TOO_LONG", "TOO_MANY_EVICTIONS",
    "UNRESOLVABLE_REASON", "WAITS_FOR_VICTIMS", "find_note",
]  # fmt: skip

# Why no eviction helps on a host, or why one that would help is not carried out.
EVICTS_NOBODY: Final = "policy_evicts_nobody"
MAY_NOT_EVICT: Final = "may_not_evict"
MEMBERS_MAY_NOT_EVICT: Final = "members_may_not_evict"
BEYOND_QUOTA: Final = "beyond_quota"
BY_BUDGET: Final = "forbidden_by_budget"
NOBODY_LOWER: Final = "nobody_of_lower_priority"
UNRESOLVABLE_REASON: Final = "unresolvable_reason"
NO_ROOM_WITHOUT_LOWER: Final = "no_room_without_lower"
REJECTED_WITHOUT_LOWER: Final = "rejected_without_lower"
NO_ROOM_FOR_GANG: Final = "no_room_for_gang_without_lower"
SEARCH_TOO_LONG: Final = "search_too_long"

OBSTACLE_TEXTS: Final[Mapping[str, str]] = {
    EVICTS_NOBODY: "the policy does not evict others",
    MAY_NOT_EVICT: "the {guest} may not evict others",
    MEMBERS_MAY_NOT_EVICT: "not all of its members may evict others",
    BEYOND_QUOTA: "its {tenant}'s quota has no room for it",
    BY_BUDGET: "a disruption budget forbids it",
    NOBODY_LOWER: "no {guest} of lower priority",
    UNRESOLVABLE_REASON: "rejected for a reason that no eviction cures",
    NO_ROOM_WITHOUT_LOWER: "no room even without {guests} of lower priority",
    REJECTED_WITHOUT_LOWER: "rejected even without them",
    NO_ROOM_FOR_GANG: "no room for the gang even without {guests} of lower priority",
    SEARCH_TOO_LONG: "too many {guests} of lower priority to say here which of them would have to go",
}

# What a decision says beside its reasons. A gang is named by namespace and name.
GANG_UNKNOWN: Final = "gang_unknown"
GANG_GATHERS: Final = "gang_gathers"
GANG_SEARCHED: Final = "gang_searched"
GANG_FULL: Final = "gang_full"
GANG_RUNS: Final = "gang_runs"
GANG_LACKS: Final = "gang_lacks"
FITS_WITHOUT_GANG: Final = "fits_without_gang"
GANG_LOST_MEMBER: Final = "gang_lost_member"
QUOTA_EXCEEDED: Final = "quota_exceeded"
HELD_BY_RESERVATION: Final = "held_by_reservation"
PREEMPTS: Final = "preempts"
RECLAIMS: Final = "reclaims"
WAITS_FOR_VICTIMS: Final = "waits_for_victims"
NO_EVICTION_HELPS: Final = "no_eviction_helps"
NO_EVICTION_IN_BUDGET: Final = "no_eviction_in_budget"
EVICTED_IN_CASCADE: Final = "evicted_in_cascade"
TOO_MANY_EVICTIONS: Final = "too_many_evictions"
PLACED_AND_EVICTED: Final = "placed_and_evicted"
BIND_FAILED: Final = "bind_failed"
DECIDING_FAILED: Final = "deciding_failed"
NO_USABLE_ANSWER: Final = "no_usable_answer"
REJECTED_OUTSIDE: Final = "rejected_outside"
NOT_PREPARED: Final = "not_prepared"
PREPARED_TOO_LATE: Final = "prepared_too_late"
GROWS_IN_PLACE: Final = "grows_in_place"
RECORDED: Final = "recorded"

_LACKS = "gang {subject} needs {count} more of its members placed"
NOTE_TEXTS: Final[Mapping[str, str]] = {
    GANG_UNKNOWN: "gang {subject} is not known yet",
    GANG_GATHERS: "{count}/{total} members of gang {subject} are there",
    GANG_SEARCHED: "the search continues for gang {subject}",
    GANG_FULL: "gang {subject} has its maximum of members",
    GANG_RUNS: "the gang runs; there is no room for this member yet",
    GANG_LACKS: _LACKS,
    FITS_WITHOUT_GANG: f"fits, but {_LACKS}",
    GANG_LOST_MEMBER: "gang {subject} lost a member before it ran",
    QUOTA_EXCEEDED: "the quota of {subject} has no room for it",
    HELD_BY_RESERVATION: "reservation {subject} holds room on {hosts}",
    PREEMPTS: "preempts {count} on {subject}",
    RECLAIMS: "reclaims {count} on {subject}",
    WAITS_FOR_VICTIMS: "waits for its victims to leave",
    NO_EVICTION_HELPS: "no eviction helps",
    NO_EVICTION_IN_BUDGET: f"no eviction helps: {OBSTACLE_TEXTS[BY_BUDGET]}",
    EVICTED_IN_CASCADE: "does not evict others: it was evicted itself in a cascade of preemptions",
    TOO_MANY_EVICTIONS: "does not evict others: more than {count} {guests} in the window",
    PLACED_AND_EVICTED: "placed on {subject}, then {said}",
    BIND_FAILED: "{bind} failed",
    DECIDING_FAILED: "deciding failed",
    NO_USABLE_ANSWER: "no usable answer",
    REJECTED_OUTSIDE: "{subject}",
    NOT_PREPARED: "not prepared",
    PREPARED_TOO_LATE: "not prepared in time",
    GROWS_IN_PLACE: "it grows on its host; amounts are all that it would have there",
    RECORDED: "{said}",
}


def find_note(notes: Iterable[DecisionNote], *codes: str) -> DecisionNote | None:
    """Return the first note with one of these codes."""
    return next((note for note in notes if note.code in codes), None)
