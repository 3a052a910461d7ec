"""Schemas for projects, quotas, reservations and gangs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from hostler.config.entries import Int32, Quantities, means
from hostler.config.fleet.file_terms import TermEntry
from hostler.control.schemas.base import Labels, Name, RequestSchema, ResponseSchema, Word

__all__ = [
    "Gang", "GangCreate", "GangEdit", "Project", "ProjectCreate", "ProjectEdit", "Quota", "QuotaCreate", "QuotaEdit",
    "Reservation", "ReservationBody", "ReservationCreate", "ReservationEdit",
]  # fmt: skip

Text = Annotated[str, Meta(max_length=1000)]
AtLeastOne = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Strategy = Annotated[str, Meta(max_length=100)]
Time = Annotated[str, Meta(max_length=40)]


class ProjectCreate(RequestSchema, frozen=True):
    """A new project."""

    name: Annotated[Word, means("Its name; VMs, keys and quotas refer to it.")]
    description: Text = ""
    labels: Annotated[Labels, means("Labels that VMs of other projects can refer to.")] = field(default_factory=dict)
    max_priority: Annotated[
        Count, means("The highest priority of its VMs and gangs, except from an administrator of all projects.")
    ] = 0
    strategy: Annotated[Strategy, means("The strategy of its VMs that name none. Empty: that of the service.")] = ""


class ProjectEdit(RequestSchema, frozen=True):
    """Changes of a project."""

    description: Text | UnsetType = UNSET
    labels: Labels | UnsetType = UNSET
    max_priority: (
        Annotated[Count, means("Needs the permission priority.raise. VMs that exist keep theirs.")] | UnsetType
    ) = UNSET
    strategy: (
        Annotated[Strategy, means("Of VMs that name none; empty: that of the service. VMs that exist keep theirs.")]
        | UnsetType
    ) = UNSET


class Project(ResponseSchema, frozen=True):
    """A project."""

    name: str
    description: str
    labels: dict[str, str]
    max_priority: int
    strategy: Annotated[str, means("The strategy of its VMs that name none. Empty: that of the service.")]
    vms: Annotated[int, means("How many VMs it has.")]
    created_at: str
    updated_at: str
    version: int


class QuotaCreate(RequestSchema, frozen=True):
    """The guaranteed minimum and the maximum of a project."""

    project: Word
    min: Annotated[Quantities, means("Such as {cpu: 8}; others may borrow what it leaves.")] = field(
        default_factory=dict
    )
    max: Annotated[Quantities, means("Such as {memory: 64Gi}. A resource not named: any amount.")] = field(
        default_factory=dict
    )


class QuotaEdit(RequestSchema, frozen=True):
    """Changes of a quota; each replaces the old value as a whole."""

    min: Quantities | UnsetType = UNSET
    max: Quantities | UnsetType = UNSET


class Quota(ResponseSchema, frozen=True):
    """A quota, and what the project's VMs use."""

    project: str
    min: dict[str, str]
    max: dict[str, str]
    used: Annotated[dict[str, str], means("What is booked for VMs of the project now.")]
    created_at: str
    updated_at: str
    version: int
    note: Annotated[str, means("That the VMs of the project use more than a maximum, and what follows.")] = ""


class ReservationCreate(RequestSchema, frozen=True):
    """Amounts that every matching host keeps for the VMs of a project, or for one of its gangs."""

    name: Name
    amounts: Annotated[Quantities, means("What each matching host keeps, such as {cpu: 4, memory: 16Gi}.")] = field(
        default_factory=dict
    )
    total: Annotated[
        Quantities,
        means(
            "Instead of amounts: what all hosts together keep. It is divided once, over the matching hosts: equally "
            "over those that have room for an equal share (the answer has it as amounts, and these hosts by name). If "
            "there are none, it is divided as equally as their room allows (the answer has shares)."
        ),
    ] = field(default_factory=dict)
    leave_room: Annotated[
        bool,
        means("Reject it with 409 takes_all_room if no host would have any of a resource left for others."),
    ] = False
    project: Word = "default"
    gang: Annotated[str, Meta(max_length=63), means("Only for this gang of the project.")] = ""
    host_selector: Annotated[Labels, means("Labels of the hosts. Empty: all hosts.")] = field(default_factory=dict)
    hosts: Annotated[list[TermEntry], means("Instead of host_selector: terms; a host matches at least one.")] = field(
        default_factory=list
    )
    since: Annotated[Time, means("When it begins, RFC 3339. Empty: now.")] = ""
    until: Annotated[Time, means("When it ends, RFC 3339. Empty: never.")] = ""


class ReservationBody(ReservationCreate, frozen=True):
    """A reservation as it is stored: what was asked for, and the shares into which a total was divided."""

    shares: Annotated[dict[str, Quantities], means("What each host keeps of the total, by its name.")] = field(
        default_factory=dict
    )


class ReservationEdit(RequestSchema, frozen=True):
    """Changes of a reservation."""

    amounts: Annotated[Quantities, means("What each host keeps, instead of a total.")] | UnsetType = UNSET
    total: Annotated[Quantities, means("What all hosts together keep. It is divided again.")] | UnsetType = UNSET
    leave_room: Annotated[
        bool,
        means("Reject it with 409 takes_all_room if no host would have any of a resource left for others."),
    ] = False
    gang: Annotated[str, Meta(max_length=63)] | UnsetType = UNSET
    host_selector: Labels | UnsetType = UNSET
    hosts: list[TermEntry] | UnsetType = UNSET
    since: Time | UnsetType = UNSET
    until: Time | UnsetType = UNSET


class Reservation(ResponseSchema, frozen=True):
    """A reservation."""

    project: str
    name: str
    amounts: Annotated[dict[str, str], means("What each host keeps. Empty if shares has it.")]
    gang: str
    host_selector: dict[str, str]
    hosts: list[TermEntry]
    since: str
    until: str
    created_at: str
    updated_at: str
    version: int
    note: Annotated[str, means("Its current effect: which hosts keep it, and what is left. Empty in lists.")] = ""
    total: Annotated[dict[str, str], means("What all hosts together keep, if a total was asked for.")] | UnsetType = (
        UNSET
    )
    shares: (
        Annotated[
            dict[str, dict[str, str]], means("What each host keeps of the total, if hosts keep different amounts.")
        ]
        | UnsetType
    ) = UNSET


class GangCreate(RequestSchema, frozen=True):
    """VMs that are placed together, at least min_count of them, or not at all. VMs name the gang in their spec."""

    name: Name
    project: Word = "default"
    min_count: Annotated[AtLeastOne, means("How many members must fit, or none is placed.")] = 1
    max_count: Annotated[Count, means("How many members are placed at most. 0: any number.")] = 0
    priority: Annotated[Int32 | None, means("Its priority. Unset: the lowest of its members.")] = None
    topology: Annotated[
        str, Meta(max_length=253), means("A label of hosts: all members go to hosts with the same value.")
    ] = ""
    disruption: Annotated[Literal["single", "all"], means("Whether members are evicted one by one, or all.")] = "single"
    when_broken: Annotated[
        Literal["keep", "prefer_repair", "release_after"],
        means("What happens when fewer than min_count members are left running."),
    ] = "keep"
    release_after: Annotated[str, Meta(max_length=40), means("How long a broken gang is kept, such as 5m.")] = "1m"
    head_of_line: Annotated[
        Literal["skip", "reserve"],
        means("Whether other VMs may pass it while it has no room; reserve needs the permission reservation.change."),
    ] = "skip"


class GangEdit(RequestSchema, frozen=True):
    """Changes of a gang."""

    min_count: AtLeastOne | UnsetType = UNSET
    max_count: Count | UnsetType = UNSET
    priority: Int32 | UnsetType | None = UNSET
    topology: Annotated[str, Meta(max_length=253)] | UnsetType = UNSET
    disruption: Literal["single", "all"] | UnsetType = UNSET
    when_broken: Literal["keep", "prefer_repair", "release_after"] | UnsetType = UNSET
    release_after: Annotated[str, Meta(max_length=40)] | UnsetType = UNSET
    head_of_line: Literal["skip", "reserve"] | UnsetType = UNSET


class Gang(ResponseSchema, frozen=True):
    """A gang, and the number of its members."""

    project: str
    name: str
    min_count: int
    max_count: int
    priority: int | None
    topology: str
    disruption: str
    when_broken: str
    release_after: str
    head_of_line: str
    members: int
    placed: int
    stopped: Annotated[int, means("How many members are stopped; min_count does not count them.")]
    why: Annotated[str, means("Why some of its members are not placed. Empty: all are.")]
    created_at: str
    updated_at: str
    version: int
    reason: Annotated[
        str, means("Why, in a word: searching while a search for room goes on, else waiting. Empty: no member waits.")
    ] = ""
