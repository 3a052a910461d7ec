"""Declarations of reasons: what the code of a rejection means, whether an eviction helps, and which events cure it.

A plugin declares its reasons beside its code, and the engine derives the rest from the declarations. ``Reason`` in
``decisions`` is one occurrence, with its subject; ``ReasonKind`` is what all occurrences of one code have in common.
Codes are stable: journals, checkpoints and databases contain them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Literal

import msgspec

__all__ = [
    "GANG_DECLARED", "HIDDEN_RESERVATION_ENDS", "MEMBER_ARRIVES", "MEMBER_LEAVES", "NO_CURE", "QUOTA_FREED",
    "RESERVATION_ENDS", "ReasonKind", "SubjectKind", "Wake", "join_cures",
]  # fmt: skip

SubjectKind = Literal[
    "", "resource", "device kind", "taint", "labels", "term", "port", "feature", "gang", "name", "amount", "text"
]


class Wake(StrEnum):
    """Events that can cure a rejection, and so wake a waiting guest. ``WAKE_TEXTS`` has their texts."""

    HOST_JOINED = "host_joined"
    ROOM_FREED = "room_freed"  # a guest leaves or shrinks, or a bind fails
    GUEST_PLACED = "guest_placed"
    HOST_GREW = "host_grew"  # its limits or devices
    MARKS_CHANGED = "marks_changed"  # labels, taints or cordon of a host
    GUEST_CHANGED = "guest_changed"  # or what it refers to
    POLICY_CHANGED = "policy_changed"


# What wakes a guest beside the events that cure rejections by hosts. No plugin declares these as cures.
QUOTA_FREED: Final = "quota_freed"
GANG_DECLARED: Final = "gang_declared"
MEMBER_ARRIVES: Final = "member_arrives"
MEMBER_LEAVES: Final = "member_leaves"
RESERVATION_ENDS: Final = "reservation_ends"
HIDDEN_RESERVATION_ENDS: Final = "hidden_reservation_ends"  # of a tenant that the reader may not know


NO_CURE: Final[frozenset[Wake]] = frozenset()  # no event of a host cures it; must be said explicitly


class ReasonKind(msgspec.Struct, frozen=True, kw_only=True):
    """One declared reason: all its occurrences have this plugin and code, and a subject of this kind."""

    plugin: str = ""  # empty: the plugin that declares it
    code: str
    meaning: str  # one sentence for the reference; in a list of reasons the code itself is shown
    subject: SubjectKind = ""  # what ``Reason.subject`` names; empty if the reason has none
    is_resolvable: bool  # whether the eviction of other guests can cure it
    cures: frozenset[Wake]


def join_cures(kinds: Iterable[ReasonKind]) -> frozenset[Wake]:
    """Return the events that cure any of these reasons."""
    return frozenset().union(*(kind.cures for kind in kinds))
