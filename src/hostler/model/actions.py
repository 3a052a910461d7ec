"""Actions: what a front must carry out. One tagged union, like the events that report how it went."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from hostler.model.decisions import ReasonCount

__all__ = [
    "PREEMPTED", "RECLAIMED", "Abandon", "Action", "Ask", "Bind", "Evict", "Hold", "Nominate", "Prepare", "Task",
]  # fmt: skip


class Task(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="action"):
    """Base of all actions: whom it is about, and the decision's sequence number."""

    uid: str
    guest: str
    seq: int


class Bind(Task, frozen=True, tag="bind", gc=False):
    """Put the guest on the host; answer with GuestBound or BindFailed."""

    host: str
    devices: tuple[int, ...] = ()


class Hold(Task, frozen=True, tag="hold"):
    """Leave the guest waiting and tell its owner why; the counts add up to the number of hosts."""

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
    """Get ``needs`` ready on the host, where room is held; answer with Prepared before the deadline."""

    host: str
    needs: tuple[str, ...]
    deadline: int
    devices: tuple[int, ...] = ()


class Abandon(Task, frozen=True, tag="abandon"):
    """Stop preparing: the deadline passed and the room was given back."""

    host: str
    reason: str = ""


PREEMPTED = "preempted by "  # how the reason of an eviction for somebody of higher priority begins
RECLAIMED = "reclaimed by "  # and of one for a tenant that has less than it is guaranteed


class Evict(Task, frozen=True, tag="evict"):
    """End the guest on its host, gracefully, for ``preemptor`` (a uid); answer with GuestLeft or EvictFailed.

    What kind it is stands in the reason alone: a field of its own would change the digests of steps in old logs.
    """

    host: str
    preemptor: str = ""
    reason: str = ""

    @property
    def is_preemption(self) -> bool:
        """Say whether it makes way for somebody of higher priority."""
        return self.reason.startswith(PREEMPTED)

    @property
    def is_reclaim(self) -> bool:
        """Say whether it makes way for a tenant that has less than it is guaranteed."""
        return self.reason.startswith(RECLAIMED)


class Nominate(Task, frozen=True, tag="nominate"):
    """Tell that room on the host is kept for the guest until the victims have left; no host: no longer."""

    host: str = ""
    victims: tuple[str, ...] = ()


Action: TypeAlias = Bind | Hold | Ask | Prepare | Abandon | Evict | Nominate
