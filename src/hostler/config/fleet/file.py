"""The structs that describe a file of kind ``Fleet``, key by key; unknown keys are rejected.

They are what a person writes, not the model: amounts are text, ``count`` stands for many.
:mod:`hostler.config.fleet.input` turns them into the model. The JSON schema is made from them, so their
docstrings and descriptions are for users.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hostler.config.entries import Int32, NewerCounts, Quantities, Version, means
from hostler.config.fleet.file_tenancy import BudgetEntry, GangEntry, NamespaceEntry, QuotaEntry, ReservationEntry
from hostler.config.fleet.file_terms import (
    GuestTermEntry,
    PortEntry,
    PortNumber,
    SelectorEntry,
    SpreadEntry,
    TaintEntry,
    TermEntry,
    TolerationEntry,
    WeightedGuestTermEntry,
    WeightedTermEntry,
)
from hostler.config.policy_file import PolicyEntry

__all__ = ["DeviceEntry", "DeviceRequestEntry", "FleetFile", "GuestEntry", "HostEntry"]

ManyOf = Annotated[int, Meta(ge=1, le=1_000_000)]
DeviceCount = Annotated[int, Meta(ge=1, le=64)]
Milli = Annotated[int, Meta(ge=1, le=1000)]
Index = Annotated[int, Meta(ge=0, le=127)]


class DeviceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Equal devices of a host."""

    kind: Annotated[str, means("What it is, such as gpu; guests ask by this word.")]
    model: Annotated[str, means("Its model; guests may ask for certain ones.")] = ""
    count: Annotated[DeviceCount, means("How many of them the host has. All its devices are at most 64.")] = 1
    milli: Annotated[Milli, means("What each can give, in thousandths of a whole device.")] = 1000


class HostEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A host, or many equal ones; overcommit and reserve beat the policy's."""

    name: Annotated[str, means("Its name, unlike that of any other host. The first part of the names with count.")]
    uid: Annotated[str, means("What tells it from a later host of the same name. Without it the name.")] = ""
    version: Annotated[Version, NewerCounts] = 0
    count: Annotated[ManyOf | None, means("So many equal hosts: NAME-0, NAME-1 and so on.")] = None
    capacity: Annotated[
        Quantities,
        means("Amounts that it has, such as {cpu: 16, memory: 64Gi}. Without guests, their number is not limited."),
    ] = {}
    devices: Annotated[list[DeviceEntry], means("Its devices. Their order gives the indices, counted from 0.")] = []
    labels: Annotated[dict[str, str], means("Names with values by which guests and policies choose hosts.")] = {}
    taints: Annotated[list[TaintEntry], means("Marks that keep guests away.")] = []
    cordoned: Annotated[bool, means("True: what runs there stays, and nothing new is placed there.")] = False
    images: Annotated[Quantities, means("Images that it has already, with their sizes, such as {nginx: 60Mi}.")] = {}
    overcommit: Annotated[
        Quantities, means("By how much the capacity of a resource is multiplied, such as {cpu: 1.5}.")
    ] = {}
    reserve: Annotated[
        Quantities, means("Amounts kept back from guests, after overcommit. A 0 keeps nothing back.")
    ] = {}
    rank: Annotated[Int32, means("Its place in policies that end ties by rank; the lowest comes first.")] = 0
    draw_key: Annotated[int | None, means("What random choices know it by, instead of its name.")] = None


class DeviceRequestEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """So many devices of a kind, each with so many milli-units, of any of the models (none named: any)."""

    kind: Annotated[str, means("The kind of device, such as gpu.")]
    count: Annotated[DeviceCount, means("How many different devices, all on one host.")] = 1
    milli: Annotated[Milli, means("How much of each, in thousandths; 1000 is a whole device.")] = 1000
    models: Annotated[list[str], means("Models that will do. Empty: any.")] = []


class GuestEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A guest, or many equal ones; host is where it already runs, host_name the only host that will do."""

    name: Annotated[str, means("Its name, once in a namespace. The first part of the names with count.")]
    uid: Annotated[str, means("What tells it from all other guests, ever. Without it NAMESPACE/NAME.")] = ""
    version: Annotated[Version, NewerCounts] = 0
    count: Annotated[ManyOf | None, means("So many equal guests: NAME-0, NAME-1 and so on.")] = None
    requests: Annotated[Quantities, means("Amounts that it needs on its host, such as {cpu: 500m, memory: 2Gi}.")] = {}
    scored_requests: Annotated[
        Quantities, means("The cpu and memory that scorers count, where they differ from the requests.")
    ] = {}
    devices: Annotated[list[DeviceRequestEntry], means("Devices, or shares of them, that it needs.")] = []
    priority: Annotated[Int32, means("Guests with a higher one are placed first.")] = 0
    policy: Annotated[str, means("The policy that places it. Empty: the default.")] = ""
    host: Annotated[str, means("Where it runs already. Empty: it is to be placed.")] = ""
    on_devices: Annotated[
        list[Index], means("The indices of the devices that it holds there, in the order of its requests.")
    ] = []
    host_name: Annotated[str, means("The only host that will do.")] = ""
    host_selector: Annotated[dict[str, str], means("Labels that its host must have, with these values.")] = {}
    host_affinity: Annotated[
        list[TermEntry], means("Its host must match at least one of these terms. Empty: any host.")
    ] = []
    preferred_hosts: Annotated[
        list[WeightedTermEntry], means("Terms that it would like its host to match; they score, and refuse nothing.")
    ] = []
    tolerations: Annotated[list[TolerationEntry], means("Taints that do not keep it away.")] = []
    namespace: Annotated[str, means("What it belongs to; names are told apart by it.")] = "default"
    labels: Annotated[dict[str, str], means("Names with values by which others may choose it.")] = {}
    affinity: Annotated[
        list[GuestTermEntry], means("Guests that it must be near to: one that all these terms match, each in its way.")
    ] = []
    anti_affinity: Annotated[
        list[GuestTermEntry], means("Guests that must not be near: none that any of these terms matches.")
    ] = []
    preferred_affinity: Annotated[
        list[WeightedGuestTermEntry], means("Guests that it would like to be near to; they score, and refuse nothing.")
    ] = []
    preferred_anti_affinity: Annotated[
        list[WeightedGuestTermEntry], means("Guests that it would rather not be near to; they score as well.")
    ] = []
    spread: Annotated[list[SpreadEntry], means("How it and others like it are spread over domains.")] = []
    siblings: Annotated[
        SelectorEntry | UnsetType, means("The guests of the same owner, which some policies spread unasked.")
    ] = UNSET
    ports: Annotated[
        list[PortNumber | PortEntry], means("Ports of the host that it takes: numbers for TCP, or entries.")
    ] = []
    images: Annotated[list[str], means("Images that it needs, one for each of its parts.")] = []
    tenant: Annotated[str, means("Who pays for it; quotas and reservations are for tenants.")] = ""
    gang: Annotated[str, means("Its gang: a name in its namespace, or NAMESPACE/NAME.")] = ""
    may_preempt: Annotated[bool, means("False: no guest is evicted for it, whatever its priority.")] = True
    is_leaving: Annotated[bool, means("True: it still holds its room, but its end is decided.")] = False
    started: Annotated[
        str, means("When it began to run, such as 2026-01-31T12:00:00Z. Of equal guests the youngest is evicted first.")
    ] = ""
    unsupported: Annotated[
        list[str],
        means(
            "Requirements that Hostler does not evaluate; the guest is rejected for them. Written by 'hostler place'."
        ),
    ] = []
    prepare: Annotated[
        list[str], means("What must be made ready on the host before it is bound, in words that the front knows.")
    ] = []
    draw_key: Annotated[
        Annotated[int, Meta(ge=0)] | None, means("What random choices know it by, instead of its uid.")
    ] = None


class FleetFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts, and guests to be placed on them."""

    apiVersion: Annotated[Literal["hostler/v1"], means("The version of the format.")]
    kind: Annotated[Literal["Fleet"], means("What the file holds.")]
    hosts: Annotated[list[HostEntry], means("The hosts.")] = []
    guests: Annotated[list[GuestEntry], means("The guests, running or to be placed.")] = []
    policy: Annotated[str, means("The policy of guests that name none. A variable or a flag beats it.")] = ""
    policies: Annotated[list[PolicyEntry], means("Policies of this file's own, beside the built-in ones.")] = []
    namespaces: Annotated[list[NamespaceEntry], means("Namespaces that have labels.")] = []
    gangs: Annotated[list[GangEntry], means("Gangs: guests that are placed together or not at all.")] = []
    budgets: Annotated[list[BudgetEntry], means("Disruption budgets: how many guests may be evicted.")] = []
    quotas: Annotated[list[QuotaEntry], means("What tenants are guaranteed, and may have at most.")] = []
    reservations: Annotated[
        list[ReservationEntry], means("Amounts that hosts keep for a tenant, a gang or some guests.")
    ] = []
    decisions: Annotated[object, means("Written by 'hostler place'; accepted and ignored.")] = None
    summary: Annotated[object, means("Also written by 'hostler place' and ignored.")] = None
    evicted: Annotated[object, means("Who made room for others; as ignored as the decisions.")] = None
    nominated: Annotated[object, means("For whom room was made, and where; ignored too.")] = None
