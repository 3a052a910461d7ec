"""Schemas for operators and administrators: hosts, join tokens, API keys."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from hostler.agent.messages import Capabilities
from hostler.config.entries import Quantities, means
from hostler.config.fleet.file_terms import TaintEntry
from hostler.control.schemas.base import Labels, RequestSchema, ResponseSchema

__all__ = [
    "AllowTeardown", "Confirm", "Host", "HostEdit", "HostReserved", "HostStuck", "HostUse", "Key", "KeyCreate",
    "KeyMade", "KeyRotate", "Scheduling", "Token", "TokenCreate", "TokenMade", "Whoami",
]  # fmt: skip


Taints = Annotated[list[TaintEntry], Meta(max_length=64)]
Life = Annotated[int, Meta(ge=60, le=315360000)]


class HostUse(ResponseSchema, frozen=True):
    """An amount of each resource."""

    cpu_millis: int
    memory_bytes: int
    disk_bytes: int


class HostStuck(ResponseSchema, frozen=True):
    """A VM that cannot leave a draining host, and why."""

    vm: Annotated[str, means("Empty, as its project, where the caller may not read it; its name says so then.")]
    project: str
    name: str
    why: Annotated[str, means("What keeps it, or why no other host took it when that was decided last.")]

    @property
    def full_name(self) -> str:
        """Return its name with its project, as far as the caller may see it."""
        return f"{self.project}/{self.name}" if self.project else self.name


class HostReserved(ResponseSchema, frozen=True):
    """Room of a host that one reservation keeps."""

    reservation: Annotated[str, means("Its project and name, as team/night, where the caller may read it.")]
    amounts: dict[str, str]


class Host(ResponseSchema, frozen=True):
    """A host: its size, use, labels and state."""

    id: str
    name: str
    state: Annotated[str, means("joined, ready, silent, offline or fenced.")]
    cordoned: bool
    draining: bool
    driver: str
    agent_version: str
    capabilities: Capabilities
    size: Annotated[HostUse, means("Its total size.")]
    may_give: Annotated[HostUse, means("What VMs may have of it, after overcommitment and reserve, less unknown_use.")]
    used: Annotated[HostUse, means("What is kept for VMs.")]
    vms: Annotated[int, means("How many VMs it has, or is to have.")]
    devices: Annotated[list[str], means("Its other devices, each by kind and model.")]
    devices_used: Annotated[list[str], means("Devices that VMs use, alone or shared.")]
    storages: list[str]
    bridges: list[str]
    labels: Annotated[dict[str, str], means("The agent's and the operator's.")]
    own_labels: Annotated[dict[str, str], means("The operator's.")]
    taints: list[TaintEntry]
    overcommit: Annotated[dict[str, str], means("Factors for resources.")]
    reserve: Annotated[dict[str, str], means("What VMs may not use.")]
    unknown_vms: Annotated[list[str], means("VMs on it that were not ordered, or are unknown; never touched.")]
    unknown_use: Annotated[HostUse, means("What unknown VMs take of it, as far as its agent can tell.")]
    registered: Annotated[
        bool, means("Whether its agent has registered. False also after a restore, until it has done so again.")
    ]
    trouble: Annotated[str, means("Its problem, and what to do about it.")]
    refused_teardown: Annotated[int, means("VMs that it keeps until the teardown of many is allowed.")]
    inventory_known: bool
    watched: Annotated[bool, means("When it was heard last, a watchdog worked there that stops VMs in silence.")]
    stuck: Annotated[
        list[HostStuck], means("While it is draining: VMs that cannot leave, and why. Only for a single host.")
    ]
    seen_at: Annotated[str | None, means("When it was last heard, as far as this replica knows.")]
    created_at: str
    updated_at: str
    version: int
    reserved: Annotated[
        list[HostReserved], means("What reservations keep there now, beyond what VMs have that they are for.")
    ] = field(default_factory=list)
    watched_vms: Annotated[
        int, means("So many VMs that watchdog stops in time: it gets no more. 0 without a watchdog.")
    ] = 0


class HostEdit(RequestSchema, frozen=True):
    """Changes of a host. A field that is left out stays; each replaces the old value as a whole."""

    labels: Annotated[Labels | UnsetType, means("The operator's labels, beside those of the agent.")] = UNSET
    taints: Annotated[Taints | UnsetType, means("Taints, which keep VMs away.")] = UNSET
    overcommit: Annotated[Quantities | UnsetType, means("Such as {cpu: 1.5}.")] = UNSET
    reserve: Annotated[Quantities | UnsetType, means("Such as {memory: 2Gi}.")] = UNSET


class Confirm(RequestSchema, frozen=True):
    """The confirmation of an irreversible action: the host's name, written out."""

    confirm: Annotated[str, Meta(max_length=253), means("The host's name.")]


class AllowTeardown(RequestSchema, frozen=True):
    """How many VMs a host may remove at once."""

    confirm: Annotated[int, Meta(ge=1, le=2**31 - 1), means("The number that the host refused.")]


class Scheduling(ResponseSchema, frozen=True):
    """What a scheduler needs to know about one host; as text it is a block of lines."""

    agent: str
    status: str
    cpu_used: float
    cpu_total: float
    cpu_percent: float
    memory_used_bytes: int
    memory_total_bytes: int
    memory_percent: float
    disk_used_bytes: int
    disk_total_bytes: int
    disk_percent: float
    running_vms: int
    text: Annotated[str, means("The same for people.")]


class TokenCreate(RequestSchema, frozen=True):
    """A token with which one host can join."""

    ttl_s: Annotated[int, Meta(ge=60, le=604800), means("How long it can be used.")] = 3600
    host_name: Annotated[str, Meta(max_length=253), means("The only host that may use it. Empty: any new one.")] = ""


class Token(ResponseSchema, frozen=True):
    """A join token, without its secret."""

    id: str
    host_name: str
    actor: str
    created_at: str
    expires_at: str
    used_at: str | None
    used_by: Annotated[str, means("The id of the host that used it.")]
    revoked_at: str | None


class TokenMade(ResponseSchema, frozen=True):
    """A new token. The secret is shown once."""

    token: Token
    secret: str


class KeyCreate(RequestSchema, frozen=True):
    """An API key with no more rights than its creator's."""

    name: Annotated[str, Meta(min_length=1, max_length=253), means("What it is for.")]
    role: Annotated[str, Meta(max_length=32), means("viewer, operator, editor or admin.")]
    project: Annotated[str, Meta(max_length=63), means("The only project that it can access. Empty: all of them.")] = ""
    scopes: Annotated[list[str] | None, means("Permissions or patterns such as vm.*; none named: its maker's.")] = None
    ttl_s: Annotated[Life | None, means("How many seconds it is valid. Unset: until it is revoked.")] = None


class KeyRotate(RequestSchema, frozen=True):
    """How long the old key stays valid beside the new one."""

    overlap_s: Annotated[int, Meta(ge=0, le=604800)] = 0


class Key(ResponseSchema, frozen=True):
    """An API key, without its secret."""

    id: str
    name: str
    role: str
    project: str
    scopes: list[str]
    actor: Annotated[str, means("Who created it.")]
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    used_at: str | None
    unconfirmed_since: Annotated[
        str | None, means("Since that restore it is rejected until an administrator confirms it.")
    ] = None


class KeyMade(ResponseSchema, frozen=True):
    """A new key. The secret is shown once."""

    key: Key
    secret: str


class Whoami(ResponseSchema, frozen=True):
    """The caller, and its permissions."""

    id: str
    name: str
    kind: str
    role: str
    project: Annotated[str, means("The only project. Empty: all of them.")]
    scopes: list[str]
    permissions: list[str]
    until: Annotated[str | None, means("When the key ends by itself.")]
