"""Schemas for VMs, their operations and events."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from hostler.agent.messages import Trouble
from hostler.config.entries import means
from hostler.control.schemas.base import Name, RequestSchema, ResponseSchema, Word
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.state import Power, State

__all__ = ["Booked", "Condition", "Event", "Migrate", "Operation", "Start", "Vm", "VmChanged", "VmCreate", "VmEdit"]


class VmCreate(RequestSchema, frozen=True):
    """A new VM."""

    name: Annotated[Name, means("Its name, unique in the project.")]
    spec: Annotated[VmSpec, means("Its size and constraints.")]
    project: Annotated[Word, means("What it belongs to.")] = "default"
    protected: Annotated[bool, means("True: it cannot be deleted until this is set to false.")] = False
    on_unplaceable: Annotated[
        Literal["wait", "fail"],
        means("What happens if no host has room now: it waits for a place, or the request is rejected."),
    ] = "wait"


class VmEdit(RequestSchema, frozen=True):
    """Changes of a VM. In ``spec`` only the given fields change; null resets a field to its default."""

    spec: Annotated[dict[str, Any] | UnsetType, means("Fields of a VM's spec, to be merged into what it has.")] = UNSET
    protected: Annotated[bool | UnsetType, means("Whether it is protected from deletion.")] = UNSET


class Migrate(RequestSchema, frozen=True):
    """The target of a migration."""

    host: Annotated[str, Meta(max_length=253), means("A host's name. Empty: wherever there is room.")] = ""


class Start(RequestSchema, frozen=True):
    """How a VM is started."""

    force: Annotated[bool, means("Start a lost VM although hosts are missing that may still have it.")] = False


class Condition(ResponseSchema, frozen=True):
    """One condition of a VM, true or false."""

    type: Annotated[Literal["placed", "settled", "healthy", "reachable", "protected"], means("The condition.")]
    status: Annotated[bool, means("Whether it holds.")]
    reason: Annotated[
        str,
        means(
            "Why, in a word. Of placed: searching while a search for room for its gang goes on, waiting, or its power."
        ),
    ] = ""
    message: Annotated[str, means("Why, in a sentence.")] = ""


class Booked(ResponseSchema, frozen=True):
    """The room that a host keeps for a VM."""

    cpu: str
    memory: str


class Vm(ResponseSchema, frozen=True):
    """A VM: desired state, current state, and reasons."""

    id: Annotated[str, means("Unique among all VMs, ever.")]
    project: str
    name: str
    spec: VmSpec
    power: Annotated[Power, means("The desired power.")]
    state: Annotated[State, means("The current state.")]
    host: Annotated[str | None, means("The name of the host that has it.")]
    host_id: str | None
    booked: Annotated[
        Booked | None,
        means("What its host keeps for it now; other than its spec says while a resize is under way. None: nothing."),
    ]
    moving_to: Annotated[str | None, means("Its target while it migrates.")]
    generation: Annotated[int, means("Increases with every change of the desired state.")]
    observed_generation: Annotated[int, means("The last generation that was reached.")]
    restarts: int
    protected: bool
    conditions: list[Condition]
    why: Annotated[str, means("Why it waits for a place, or that its host is silent. Empty: neither.")]
    trouble: Annotated[Trouble | None, means("What keeps its host from running it as desired.")]
    created_at: str
    updated_at: str
    version: Annotated[int, means("Increases with every change of any kind; its ETag.")]
    tried_at: Annotated[
        str | None, means("When a place was looked for last and not found, as why says. None in answers to changes.")
    ] = None

    @property
    def blocker(self) -> str:
        """Return what blocks the VM: why it waits, or its host's trouble with it; empty if nothing does."""
        return self.why or (f"{self.trouble.kind}: {self.trouble.message}" if self.trouble is not None else "")


class Operation(ResponseSchema, frozen=True):
    """A change in progress, or finished."""

    id: str
    kind: Annotated[str, means("The requested change, such as vm.create.")]
    state: Literal["pending", "done", "failed"]
    project: str
    subject: Annotated[str, means("The id of what it is about.")]
    actor: Annotated[str, means("The caller that requested it.")]
    generation: Annotated[int, means("It is done when its subject has reached this generation.")]
    error: Annotated[str, means("Why it failed.")]
    created_at: str
    updated_at: str
    finished_at: str | None


class VmChanged(ResponseSchema, frozen=True):
    """The response to every change of a VM. 202: the desired state is stored; the change follows."""

    vm: Vm
    operation: Operation
    ignored: Annotated[
        tuple[str, ...],
        means("Soft constraints that the VM's strategy does not count. Only in the answer to its creation."),
    ] = ()


class Event(ResponseSchema, frozen=True):
    """An event, with its number in the log."""

    seq: int
    at: str
    kind: Annotated[str, means("The kind: a request (vm.create) or a result (vm.placed).")]
    actor: Annotated[str, means("Who did it, as kind and id, such as key:ID or agent:ID of a host.")]
    project: str
    subject: Annotated[str, means("The id of what it is about.")]
    text: Annotated[str, means("What happened, in a few words.")]
    request_id: str = ""
    by: Annotated[str, means("Who did it, by name: for agents the host's name, for keys the key's.")] = ""
    about: Annotated[str, means("The name of the VM or the host that it is about.")] = ""
