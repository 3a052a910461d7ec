"""The structs for what binds several guests together or apart, as a fleet file writes it.

Part of :mod:`hostler.config.fleet.file`; :mod:`hostler.config.fleet.tenancy` turns them into the model.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hostler.config.entries import Int32, NewerCounts, Quantities, Version, means
from hostler.config.fleet.file_terms import SelectorEntry, TermEntry

__all__ = ["BudgetEntry", "GangEntry", "NamespaceEntry", "QuotaEntry", "ReservationEntry"]

Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
AtLeastOne = Annotated[int, Meta(ge=1, le=2**31 - 1)]
ItsNamespace = means("The namespace that it belongs to.")


class NamespaceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A namespace with its labels; one without labels need not be listed."""

    name: Annotated[str, means("Its name, as guests write it.")]
    labels: Annotated[dict[str, str], means("Names with values by which guests select namespaces.")] = {}


class GangEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Guests that are placed together, at least min_count of them, or not at all."""

    name: Annotated[str, means("Its name, once in a namespace; members write it under gang.")]
    namespace: Annotated[str, ItsNamespace] = "default"
    version: Annotated[Version, NewerCounts] = 0
    min_count: Annotated[AtLeastOne, means("How many members must find a place, so that any does.")] = 1
    max_count: Annotated[Count, means("How many members are placed at most. 0: any number.")] = 0
    priority: Annotated[Int32 | None, means("Its priority. Unset: the lowest of its members.")] = None
    topology: Annotated[str, means("A label of hosts: all members go where it has one value. Empty: anywhere.")] = ""
    disruption: Annotated[
        Literal["single", "all"], means("Whether members are evicted one by one, or only all together.")
    ] = "single"
    when_broken: Annotated[
        Literal["keep", "prefer_repair", "release_after"],
        means("What happens when fewer than min_count members are left running."),
    ] = "keep"
    release_after: Annotated[str, means('How long a broken gang is kept with release_after, such as "5m".')] = "1m"
    head_of_line: Annotated[
        Literal["skip", "reserve"],
        means("Whether it lets others pass while it finds no room, or keeps what it waits for from them."),
    ] = "skip"


class BudgetEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many of the selected guests of a namespace may be disrupted now."""

    name: Annotated[str, means("Its name, once in a namespace.")]
    namespace: Annotated[str, ItsNamespace] = "default"
    version: Annotated[Version, NewerCounts] = 0
    selector: Annotated[
        SelectorEntry | UnsetType, means("Which guests, by their labels, such as {app: web}. {}: all. Unset: none.")
    ] = UNSET
    allowed: Annotated[Count, means("How many of them may be evicted.")] = 0
    disrupted: Annotated[list[str], means("Names of guests whose eviction is counted in allowed already.")] = []


class QuotaEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the guests of a tenant are guaranteed together, and what they may have at most."""

    tenant: Annotated[str, means("The tenant, as guests write it.")]
    version: Annotated[Version, NewerCounts] = 0
    min: Annotated[Quantities, means("Amounts that it is guaranteed; others may borrow what it leaves.")] = {}
    max: Annotated[Quantities, means("Amounts that it may have at most. A resource not named: any amount.")] = {}


class ReservationEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Amounts that every matching host keeps for a tenant, for a gang, or for some guests."""

    name: Annotated[str, means("Its name, unlike that of any other reservation.")]
    amounts: Annotated[
        Quantities | UnsetType, means("What each of the hosts keeps, such as {cpu: 4, memory: 16Gi}.")
    ] = UNSET
    version: Annotated[Version, NewerCounts] = 0
    shares: Annotated[
        dict[str, Quantities],
        means("Instead of amounts and hosts: what single hosts keep, by name, such as {rack-1: {cpu: 4}}."),
    ] = {}
    host_selector: Annotated[dict[str, str], means("Labels that the hosts have, with these values.")] = {}
    hosts: Annotated[
        list[TermEntry], means("Instead of host_selector: a host must match at least one of these terms. Empty: all.")
    ] = []
    tenant: Annotated[str, means("The tenant that it is for.")] = ""
    gang: Annotated[str, means("The gang that it is for: NAMESPACE/NAME, or a name in the namespace default.")] = ""
    selector: Annotated[
        SelectorEntry | UnsetType, means("The guests that it is for, by their labels, such as {app: web}.")
    ] = UNSET
    since: Annotated[str, means('When it begins, counted from the start of the run, such as "1h".')] = "0s"
    until: Annotated[str, means("When it ends, counted in the same way. 0s: never.")] = "0s"
