"""Schemas for questions about placement: what-ifs, candidates, the queue, strategies."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from hostler.config.entries import means
from hostler.control.schemas.base import Labels, Name, RequestSchema, ResponseSchema, Word
from hostler.control.vms.spec import VmSpec
from hostler.model.decisions import HostVerdict, ReasonCount

__all__ = [
    "Candidates", "CandidatesAsked", "Plan", "PlanAsked", "PlanHost", "PlanVm", "Planned", "Policies", "Policy",
    "Queue", "Scorer", "Victim", "Waiting",
]  # fmt: skip


class PlanVm(RequestSchema, frozen=True):
    """A VM of a what-if."""

    spec: VmSpec
    name: Annotated[Name, means("What to call it in the answer.")] = "vm"
    project: Word = "default"
    count: Annotated[int, Meta(ge=1, le=1000), means("This many equal ones: NAME-0, NAME-1 and so on.")] = 1


class PlanHost(RequestSchema, frozen=True):
    """An additional host of a what-if."""

    name: Name
    cpu: str | int | float
    memory: str | int | float
    disk: str | int | float = 0
    labels: Labels = field(default_factory=dict)
    count: Annotated[int, Meta(ge=1, le=1000), means("This many equal ones: NAME-0, NAME-1 and so on.")] = 1


class PlanAsked(RequestSchema, frozen=True):
    """A what-if: these VMs are created now, with additional hosts, and without some hosts."""

    vms: Annotated[list[PlanVm], Meta(min_length=1, max_length=200)]
    hosts: Annotated[list[PlanHost], Meta(max_length=50), means("Hosts that are not there yet.")] = field(
        default_factory=list
    )
    without_hosts: Annotated[
        list[str], Meta(max_length=200), means("Names of hosts that take nothing new, as if they were cordoned.")
    ] = field(default_factory=list)


class Victim(ResponseSchema, frozen=True):
    """A VM that would be preempted."""

    vm: str
    project: str
    name: str
    host: str
    moves_to: Annotated[str, means("The host to which it would move while it runs. Empty: it would be stopped.")] = ""


class Planned(ResponseSchema, frozen=True):
    """Where one of the VMs would be placed, or why it would not."""

    project: str
    name: str
    host: str | None
    why: str
    reasons: list[ReasonCount]
    evictions: Annotated[list[Victim], means("VMs that would be stopped or moved for it.")]


class Plan(ResponseSchema, frozen=True):
    """The result of a what-if; nothing was changed."""

    seq: Annotated[int, means("The number of the last log entry that this knows.")]
    placements: list[Planned]


class CandidatesAsked(RequestSchema, frozen=True):
    """A question: which hosts would take this VM now?"""

    spec: VmSpec
    project: Word = "default"


class Candidates(ResponseSchema, frozen=True):
    """The verdict of each host. Hosts that would take the VM come first, the best one at the top."""

    seq: Annotated[int, means("The number of the last log entry that this knows.")]
    hosts: list[HostVerdict]
    chosen: Annotated[str | None, means("Where it would go.")]
    evictions: Annotated[list[Victim], means("VMs that would be stopped or moved for it.")] = field(
        default_factory=list
    )
    why: Annotated[str, means("Why nowhere.")] = ""


class Waiting(ResponseSchema, frozen=True):
    """A VM that waits for a place."""

    vm: str
    project: str
    name: str
    state: str
    power: str
    gang: str
    priority: int
    since: Annotated[str, means("Since when it waits: changes of what it asks for do not count.")]
    why: Annotated[str, means("Why, when it was tried last; its decision says how it is now.")]
    tried_at: Annotated[str | None, means("When that was. None: no try is the reason.")] = None
    reason: Annotated[
        str, means("Why, in a word: searching while a search for room for its gang goes on, else waiting.")
    ] = ""


class Queue(ResponseSchema, frozen=True):
    """The VMs that wait, and why: by priority, then by age."""

    seq: int
    items: list[Waiting]
    next: str = ""


class Scorer(ResponseSchema, frozen=True):
    """A part of a strategy."""

    plugin: str
    weight: float


class Policy(ResponseSchema, frozen=True):
    """A strategy that places VMs."""

    name: str
    is_default: bool
    description: str
    filters: list[str]
    scorers: list[Scorer]


class Policies(ResponseSchema, frozen=True):
    """All strategies."""

    default: str
    items: list[Policy]
