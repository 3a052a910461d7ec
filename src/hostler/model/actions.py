"""Actions: what a front must carry out. One tagged union, like the events that report the results.

Invariant: tags and fields are part of journals and logs. They do not change when classes are renamed.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from hostler.model.decisions import ReasonCount

__all__ = [
    "PREEMPTED",
    "RECLAIMED",
    "Abandon",
    "Action",
    "Ask",
    "Bind",
    "Defer",
    "Evict",
    "Move",
    "Nominate",
    "Prepare",
    "Task",
]  # fmt: skip


class Task(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="action"):
    """Base of all actions: the guest, and the decision's sequence number."""

    uid: str
    guest: str
    seq: int


class Bind(Task, frozen=True, tag="bind", gc=False):
    """Put the guest on the host; answer with GuestBound or BindFailed."""

    host: str
    devices: tuple[int, ...] = ()


class Defer(Task, frozen=True, tag="hold"):
    """Leave the guest waiting and report the reasons to its owner; the counts add up to the number of hosts."""

    hosts: int
    reasons: tuple[ReasonCount, ...] = ()
    attempt: int = 1


class Ask(Task, frozen=True, tag="ask"):
    """Ask ``asked`` about these feasible hosts; answer with Answered before the deadline."""

    asked: str
    ask: int
    hosts: tuple[str, ...]
    deadline: int


class Prepare(Task, frozen=True, tag="prepare"):
    """Prepare ``needs`` on the host, where room is held; answer with Prepared before the deadline."""

    host: str
    needs: tuple[str, ...]
    deadline: int
    devices: tuple[int, ...] = ()


class Abandon(Task, frozen=True, tag="abandon"):
    """Stop preparing: the deadline passed and the room was released."""

    host: str
    reason: str = ""


PREEMPTED = "preempted by "  # start of the reason of an eviction for a guest of higher priority
RECLAIMED = "reclaimed by "  # and of one for a tenant below its guarantee


class Evict(Task, frozen=True, tag="evict"):
    """End the guest on its host gracefully, for ``preemptor`` (a uid); answer with GuestLeft or EvictFailed.

    Only the reason says whether it is a preemption or a reclaim. A field would change the digests of steps in old logs.
    """

    host: str
    preemptor: str = ""
    reason: str = ""

    @property
    def is_preemption(self) -> bool:
        """Say whether the guest is evicted for a guest of higher priority."""
        return self.reason.startswith(PREEMPTED)

    @property
    def is_reclaim(self) -> bool:
        """Say whether the guest is evicted for a tenant that has less than its guarantee."""
        return self.reason.startswith(RECLAIMED)


class Move(Task, frozen=True, tag="move"):
    """Move the guest from its host to ``target`` while it runs, for ``preemptor`` (a uid). Room is held there.

    Answer with GuestArrived for the guest at the target, which ``replaces`` this one, and with GuestLeft for this one
    when it is over. If the move cannot begin, answer with EvictFailed; if it fails later, with GuestLeft for the guest
    at the target. Then the guest is evicted after all, if it is still in the way.
    """

    host: str
    target: str
    preemptor: str = ""
    reason: str = ""


class Nominate(Task, frozen=True, tag="nominate"):
    """Report that room on the host is held for the guest until the victims have left; no host: not any more."""

    host: str = ""
    victims: tuple[str, ...] = ()


Action: TypeAlias = Bind | Defer | Ask | Prepare | Abandon | Evict | Nominate | Move
