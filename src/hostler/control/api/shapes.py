"""What REST takes and answers, one struct for service, client, commands and pages alike.

Names are those in the JSON. What is asked refuses fields that it does not know; answers have all their keys and may get
new ones, so whoever reads them must not mind. Times are RFC 3339 in UTC. ``shapes_fleet`` has hosts and access,
``shapes_tenancy`` projects and what is kept for them; all of it can be imported from here.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from hostler.agent.messages import Trouble
from hostler.config.entries import means
from hostler.control.api.shapes_base import Asked, Labels, Name, Told, Word
from hostler.control.api.shapes_fleet import (
    AllowTeardown,
    Confirm,
    Host,
    HostEdit,
    HostReserved,
    HostStuck,
    HostUse,
    Key,
    KeyCreate,
    KeyMade,
    KeyRotate,
    Scheduling,
    Token,
    TokenCreate,
    TokenMade,
    Whoami,
)
from hostler.control.api.shapes_tenancy import (
    Gang,
    GangCreate,
    GangEdit,
    Project,
    ProjectCreate,
    ProjectEdit,
    Quota,
    QuotaCreate,
    QuotaEdit,
    Reservation,
    ReservationCreate,
    ReservationEdit,
)
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.state import Power, State
from hostler.model.decisions import HostVerdict, ReasonCount

__all__ = [
    "AllowTeardown", "Booked", "Candidates", "CandidatesAsked", "Condition", "Confirm", "Event", "Gang", "GangCreate",
    "GangEdit", "Health", "Host", "HostEdit", "HostReserved", "HostStuck", "HostUse", "Key", "KeyCreate", "KeyMade",
    "KeyRotate", "Migrate", "Nothing", "Operation", "Page", "Plan", "PlanAsked", "PlanHost", "PlanVm", "Planned",
    "Policies", "Policy", "Problem", "Project", "ProjectCreate", "ProjectEdit", "Queue", "Quota", "QuotaCreate",
    "QuotaEdit", "Reservation", "ReservationCreate", "ReservationEdit", "Scheduling", "Scorer", "Token", "TokenCreate",
    "TokenMade", "Victim", "Vm", "VmChanged", "VmCreate", "VmEdit", "Waiting", "Whoami",
]  # fmt: skip

Item = TypeVar("Item")


class Problem(Told, frozen=True):
    """What went wrong, as application/problem+json (RFC 9457). ``code`` never changes its meaning."""

    title: Annotated[str, means("What kind of problem it is, in a few words.")]
    status: Annotated[int, means("The HTTP status.")]
    code: Annotated[str, means("A stable word for programs.")]
    detail: Annotated[str, means("What is wrong this time.")] = ""
    hint: Annotated[str, means("What to do about it.")] = ""
    type: Annotated[str, means("Where the code is described.")] = "about:blank"
    instance: Annotated[str, means("The path that was asked for.")] = ""
    request_id: Annotated[str, means("The same as in the header X-Request-Id, and in the service's log.")] = ""
    decision: Annotated[
        dict[str, Any] | None, means("Why a VM was placed nowhere: the object of 'hostler explain -o json'.")
    ] = None


class Page(msgspec.Struct, Generic[Item], frozen=True, kw_only=True):
    """A part of a list, oldest first."""

    items: list[Item]
    next: Annotated[str, means("What to send as after for the next page. Empty: this is the last.")] = ""


# -- VMs ---------------------------------------------------------------------------------------------------------------


class VmCreate(Asked, frozen=True):
    """A VM to be made."""

    name: Annotated[Name, means("Its name, unlike that of any other VM of the project.")]
    spec: Annotated[VmSpec, means("What it needs, and where it may be.")]
    project: Annotated[Word, means("What it belongs to.")] = "default"
    protected: Annotated[bool, means("True: it cannot be deleted until this is taken back.")] = False
    on_unplaceable: Annotated[
        Literal["wait", "fail"],
        means("What happens where nobody has room for it now: it waits for a place, or the request is refused."),
    ] = "wait"


class VmEdit(Asked, frozen=True):
    """What to change of a VM. In ``spec`` only what is there changes; null sets a field back to its default."""

    spec: Annotated[dict[str, Any] | UnsetType, means("Fields of a VM's spec, to be merged into what it has.")] = UNSET
    protected: Annotated[bool | UnsetType, means("Whether it is protected from deletion.")] = UNSET


class Migrate(Asked, frozen=True):
    """Where a VM shall move."""

    host: Annotated[str, Meta(max_length=253), means("A host's name. Empty: wherever there is room.")] = ""


class Nothing(Asked, frozen=True):
    """No more to say: an empty object, or no body at all."""


class Start(Asked, frozen=True):
    """How a VM is to be started."""

    force: Annotated[bool, means("Start a lost VM although hosts are missing that may still have it.")] = False


class Condition(Told, frozen=True):
    """One thing that holds of a VM, or does not."""

    type: Annotated[Literal["placed", "settled", "healthy", "reachable", "protected"], means("What is asked.")]
    status: Annotated[bool, means("Whether it holds.")]
    reason: Annotated[
        str,
        means(
            "Why, in a word. Of placed: searching while a search for room for its gang goes on, waiting, or its power."
        ),
    ] = ""
    message: Annotated[str, means("Why, in a sentence.")] = ""


class Booked(Told, frozen=True):
    """What a host keeps for a VM."""

    cpu: str
    memory: str


class Vm(Told, frozen=True):
    """A VM: what is wanted, how it is, and why."""

    id: Annotated[str, means("What tells it from all other VMs, ever.")]
    project: str
    name: str
    spec: VmSpec
    power: Annotated[Power, means("What is wanted.")]
    state: Annotated[State, means("How it is, in one word.")]
    host: Annotated[str | None, means("The name of the host that has it.")]
    host_id: str | None
    booked: Annotated[
        Booked | None,
        means("What its host keeps for it now; other than its spec says while a resize is under way. None: nothing."),
    ]
    moving_to: Annotated[str | None, means("Where it is on its way to, while it migrates.")]
    generation: Annotated[int, means("Raised by every change of what is wanted.")]
    observed_generation: Annotated[int, means("The generation that came true last.")]
    restarts: int
    protected: bool
    conditions: list[Condition]
    why: Annotated[str, means("Why it waits for a place, or that nothing is heard of its host. Empty: neither.")]
    trouble: Annotated[Trouble | None, means("What keeps its host from making it so.")]
    created_at: str
    updated_at: str
    version: Annotated[int, means("Raised by every change of any kind; its ETag.")]
    tried_at: Annotated[
        str | None, means("When a place was looked for last and not found, as why says. None in answers to changes.")
    ] = None


class Operation(Told, frozen=True):
    """A change under way, or over."""

    id: str
    kind: Annotated[str, means("What was asked for, such as vm.create.")]
    state: Literal["pending", "done", "failed"]
    project: str
    subject: Annotated[str, means("The id of what it is about.")]
    actor: Annotated[str, means("Who asked for it.")]
    generation: Annotated[int, means("It is done when its subject has come to this generation.")]
    error: Annotated[str, means("Why it failed.")]
    created_at: str
    updated_at: str
    finished_at: str | None


class VmChanged(Told, frozen=True):
    """The answer to every change of a VM. 202: what was asked for is written down and will happen."""

    vm: Vm
    operation: Operation


# -- what was, and what would be ---------------------------------------------------------------------------------------


class Event(Told, frozen=True):
    """Something that happened, by its number in the log."""

    seq: int
    at: str
    kind: Annotated[str, means("What it is: what somebody asked for (vm.create), or what came of it (vm.placed).")]
    actor: Annotated[str, means("Who did it, by what kind it is and its id, such as key:ID or agent:ID of a host.")]
    project: str
    subject: Annotated[str, means("The id of what it is about.")]
    text: Annotated[str, means("What happened, in a few words.")]
    request_id: str = ""
    by: Annotated[str, means("Who did it, for people: of agents the host's name, of keys theirs.")] = ""
    about: Annotated[str, means("The name of the VM or the host that it is about.")] = ""


class PlanVm(Asked, frozen=True):
    """A VM that might be asked for."""

    spec: VmSpec
    name: Annotated[Name, means("What to call it in the answer.")] = "vm"
    project: Word = "default"
    count: Annotated[int, Meta(ge=1, le=1000), means("So many equal ones: NAME-0, NAME-1 and so on.")] = 1


class PlanHost(Asked, frozen=True):
    """A host that might join."""

    name: Name
    cpu: str | int | float
    memory: str | int | float
    disk: str | int | float = 0
    labels: Labels = field(default_factory=dict)
    count: Annotated[int, Meta(ge=1, le=1000), means("So many equal ones: NAME-0, NAME-1 and so on.")] = 1


class PlanAsked(Asked, frozen=True):
    """What if these VMs were created now, with these hosts more, and without some?"""

    vms: Annotated[list[PlanVm], Meta(min_length=1, max_length=200)]
    hosts: Annotated[list[PlanHost], Meta(max_length=50), means("Hosts that are not there yet.")] = field(
        default_factory=list
    )
    without_hosts: Annotated[
        list[str], Meta(max_length=200), means("Names of hosts that take nothing new, as if they were cordoned.")
    ] = field(default_factory=list)


class Victim(Told, frozen=True):
    """A VM that would have to make way."""

    vm: str
    project: str
    name: str
    host: str


class Planned(Told, frozen=True):
    """Where one of the VMs would go, or why nowhere."""

    project: str
    name: str
    host: str | None
    why: str
    reasons: list[ReasonCount]
    evictions: Annotated[list[Victim], means("Who would be stopped for it.")]


class Plan(Told, frozen=True):
    """The answer; nothing was changed."""

    seq: Annotated[int, means("The number of the last log entry that this knows.")]
    placements: list[Planned]


class CandidatesAsked(Asked, frozen=True):
    """Which hosts would take such a VM now?"""

    spec: VmSpec
    project: Word = "default"


class Candidates(Told, frozen=True):
    """What each host says, those that would take it first, the best one at the top."""

    seq: Annotated[int, means("The number of the last log entry that this knows.")]
    hosts: list[HostVerdict]
    chosen: Annotated[str | None, means("Where it would go.")]
    evictions: Annotated[list[Victim], means("Who would be stopped for it.")] = field(default_factory=list)
    why: Annotated[str, means("Why nowhere.")] = ""


class Waiting(Told, frozen=True):
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


class Queue(Told, frozen=True):
    """Who waits, and why: by priority, then the VM that was created first."""

    seq: int
    items: list[Waiting]
    next: str = ""


class Scorer(Told, frozen=True):
    """A part of a strategy."""

    plugin: str
    weight: float


class Policy(Told, frozen=True):
    """A strategy that places VMs."""

    name: str
    is_default: bool
    description: str
    filters: list[str]
    scorers: list[Scorer]


class Policies(Told, frozen=True):
    """All strategies."""

    default: str
    items: list[Policy]


class Health(Told, frozen=True):
    """How the service is."""

    status: Literal["ok", "starting", "unavailable"]
    is_leader: bool = False
    leader: str = ""
    seq: int = 0
    why: str = ""
