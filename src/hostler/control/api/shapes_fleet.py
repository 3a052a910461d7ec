"""Hosts, and who may do what: the part of ``shapes`` that operators and administrators use."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from hostler.agent.messages import Capabilities
from hostler.config.entries import Quantities, means
from hostler.config.fleet_file_terms import TaintEntry
from hostler.control.api.shapes_base import Asked, Labels, Told

__all__ = [
    "AllowTeardown", "Confirm", "Host", "HostEdit", "HostReserved", "HostStuck", "HostUse", "Key", "KeyCreate",
    "KeyMade", "KeyRotate", "Scheduling", "Token", "TokenCreate", "TokenMade", "Whoami",
]  # fmt: skip


Taints = Annotated[list[TaintEntry], Meta(max_length=64)]
Life = Annotated[int, Meta(ge=60, le=315360000)]


class HostUse(Told, frozen=True):
    """An amount of each resource."""

    cpu_millis: int
    memory_bytes: int
    disk_bytes: int


class HostStuck(Told, frozen=True):
    """A VM that cannot leave a host that is drained, and why."""

    vm: Annotated[str, means("Empty, as its project, where the caller may not read it; its name says so then.")]
    project: str
    name: str
    why: Annotated[str, means("What keeps it, or why no other host took it when that was decided last.")]


class HostReserved(Told, frozen=True):
    """Room of a host that one reservation keeps from all that it is not for."""

    reservation: Annotated[str, means("Its project and name, as team/night, where the caller may read it.")]
    amounts: dict[str, str]


class Host(Told, frozen=True):
    """A host: what it has, what is kept there, and how it is marked."""

    id: str
    name: str
    state: Annotated[str, means("joined, ready, silent, offline or fenced.")]
    cordoned: bool
    draining: bool
    driver: str
    agent_version: str
    capabilities: Capabilities
    size: Annotated[HostUse, means("What it has in all.")]
    may_give: Annotated[HostUse, means("What VMs may have of it, after overcommitment and reserve, less unknown_use.")]
    used: Annotated[HostUse, means("What is kept for VMs.")]
    vms: Annotated[int, means("How many VMs it has, or is to have.")]
    devices: Annotated[list[str], means("What it has beside these, each by its kind and model.")]
    devices_used: Annotated[list[str], means("Those of its devices that VMs have, alone or shared.")]
    storages: list[str]
    bridges: list[str]
    labels: Annotated[dict[str, str], means("The agent's and the operator's.")]
    own_labels: Annotated[dict[str, str], means("The operator's.")]
    taints: list[TaintEntry]
    overcommit: Annotated[dict[str, str], means("By how much a resource is multiplied.")]
    reserve: Annotated[dict[str, str], means("What is kept back from VMs.")]
    unknown_vms: Annotated[
        list[str], means("VMs that it has and that nobody ordered, or that nobody knows; never touched.")
    ]
    unknown_use: Annotated[HostUse, means("What unknown VMs take of it, as far as its agent can tell.")]
    registered: Annotated[
        bool, means("Whether its agent has registered. False also after a restore, until it has done so again.")
    ]
    trouble: Annotated[str, means("What is wrong with it, and what ends that.")]
    refused_teardown: Annotated[int, means("VMs that it keeps until the teardown of many is allowed.")]
    inventory_known: bool
    watched: Annotated[bool, means("When it was heard last, a watchdog worked there that stops VMs in silence.")]
    stuck: Annotated[
        list[HostStuck], means("While it is drained: who cannot leave now, and why. Only for a single host.")
    ]
    seen_at: Annotated[str | None, means("When it was heard last, as far as this replica knows.")]
    created_at: str
    updated_at: str
    version: int
    reserved: Annotated[
        list[HostReserved], means("What reservations keep there now, beyond what VMs have that they are for.")
    ] = field(default_factory=list)
    watched_vms: Annotated[
        int, means("So many VMs that watchdog stops in time: it gets no more. 0 without a watchdog.")
    ] = 0


class HostEdit(Asked, frozen=True):
    """What to change of a host; what is not named stays. Each replaces what was there as a whole."""

    labels: Annotated[Labels | UnsetType, means("The operator's labels, beside those of the agent.")] = UNSET
    taints: Annotated[Taints | UnsetType, means("Marks that keep VMs away.")] = UNSET
    overcommit: Annotated[Quantities | UnsetType, means("Such as {cpu: 1.5}.")] = UNSET
    reserve: Annotated[Quantities | UnsetType, means("Such as {memory: 2Gi}.")] = UNSET


class Confirm(Asked, frozen=True):
    """Something that cannot be taken back needs the name of the host, written out."""

    confirm: Annotated[str, Meta(max_length=253), means("The host's name.")]


class AllowTeardown(Asked, frozen=True):
    """How many VMs a host may tear down at once."""

    confirm: Annotated[int, Meta(ge=1, le=2**31 - 1), means("The number that the host refused.")]


class Scheduling(Told, frozen=True):
    """What a scheduler looks at of one host; as text it is a block of lines."""

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


class TokenCreate(Asked, frozen=True):
    """A token for one host to join with."""

    ttl_s: Annotated[int, Meta(ge=60, le=604800), means("How long it can be used.")] = 3600
    host_name: Annotated[str, Meta(max_length=253), means("The only host that may use it. Empty: any new one.")] = ""


class Token(Told, frozen=True):
    """A join token, without its secret."""

    id: str
    host_name: str
    actor: str
    created_at: str
    expires_at: str
    used_at: str | None
    used_by: Annotated[str, means("The id of the host that used it.")]
    revoked_at: str | None


class TokenMade(Told, frozen=True):
    """A new token. The secret is shown this once."""

    token: Token
    secret: str


class KeyCreate(Asked, frozen=True):
    """An API key, no stronger than that of its maker."""

    name: Annotated[str, Meta(min_length=1, max_length=253), means("What it is for.")]
    role: Annotated[str, Meta(max_length=32), means("viewer, operator, editor or admin.")]
    project: Annotated[str, Meta(max_length=63), means("The only project that it opens. Empty: all of them.")] = ""
    scopes: Annotated[list[str] | None, means("Permissions or patterns such as vm.*; none named: its maker's.")] = None
    ttl_s: Annotated[Life | None, means("For how many seconds it is good. Unset: until it is revoked.")] = None


class KeyRotate(Asked, frozen=True):
    """How long the old key stays good beside the new one."""

    overlap_s: Annotated[int, Meta(ge=0, le=604800)] = 0


class Key(Told, frozen=True):
    """An API key, without its secret."""

    id: str
    name: str
    role: str
    project: str
    scopes: list[str]
    actor: Annotated[str, means("Who made it.")]
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    used_at: str | None
    unconfirmed_since: Annotated[
        str | None, means("A restore brought it back then: it is rejected until an administrator confirms it.")
    ] = None


class KeyMade(Told, frozen=True):
    """A new key. The secret is shown this once."""

    key: Key
    secret: str


class Whoami(Told, frozen=True):
    """Who calls, and what he may do."""

    id: str
    name: str
    kind: str
    role: str
    project: Annotated[str, means("The only project. Empty: all of them.")]
    scopes: list[str]
    permissions: list[str]
    until: Annotated[str | None, means("When the key ends by itself.")]
