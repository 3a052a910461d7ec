"""A host as its agent and its operators describe it, and as the engine knows it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostler.agent.messages import Capabilities, HostSize, Register, UnavailableStorage
from hostler.control.fleet.errors import DeviceNamesFullError
from hostler.control.settings import ControlSettings
from hostler.control.store.hosts import HostRow
from hostler.control.vms.guests import CAN_MIGRATE, HAS_BRIDGE, HAS_STORAGE, YES
from hostler.control.vms.spec import HOST_NAME, check_labels, check_word
from hostler.errors import InputError
from hostler.model import CPU, GUESTS, MEMORY, STORAGE, Amounts, Device, Host, Taint, amounts, may_give
from hostler.model.hosts import MAX_DEVICES
from hostler.model.quantities import MAX_AMOUNT

__all__ = [
    "DRIVER", "HostBody", "checked_registration", "checked_size", "described", "has_local_storage", "host_alone",
    "host_of",
    "is_unregistered", "labels_of", "limit_of", "read_body", "sized", "with_body",
]  # fmt: skip

DRIVER = "hostler/driver"

_MOST_NAMES = 64  # of storages, and of bridges


class HostBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of a host beside its columns. What begins with ``own_`` operators wrote, the rest its agent told."""

    protocol: int = 1
    driver: str = ""
    agent_version: str = ""
    capabilities: Capabilities = Capabilities()
    size: HostSize = HostSize(cpu_millis=0, memory_bytes=0)
    refused_size: str = ""  # why the size that its agent told last is not taken: ``size`` is one before
    is_without_devices: bool = False  # ``size`` is that size without devices: others took the last device names
    labels: tuple[tuple[str, str], ...] = ()
    storages: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()  # VMs that nobody ordered there: never touched
    unknown_left_out: int = 0  # more of them, whose names its agent did not tell
    strangers: tuple[str, ...] = ()  # VMs that its agent takes for ours and that no row knows: never touched
    taken: Amounts = ()  # by VMs that have no order and no booking there: the engine must not give it away
    strangers_told_ns: int = 0  # when an event named strangers last
    strangers_untold: int = 0  # that came since, of which no event speaks
    remains: tuple[str, ...] = ()  # VMs of ours that it still has something of, though they are no longer its
    is_inventory_known: bool = True
    unavailable: tuple[UnavailableStorage, ...] = ()  # storages that its agent cannot reach
    is_watched: bool = False  # when it was last heard, a watchdog worked there that stops VMs in silence
    watched_vms: int = 1  # so many VMs that watchdog stops in time; agents that do not say it are trusted with one
    told_stop_s: float = 0.0  # lease age at which it stops VMs, the longest it may believe in; 0: nothing is certain
    refused_teardown: int = 0
    own_labels: tuple[tuple[str, str], ...] = ()
    own_taints: tuple[Taint, ...] = ()
    own_overcommit: Amounts = ()
    own_reserve: Amounts = ()
    may_tear_down: int = 0  # so many VMs at once, as an operator confirmed
    must_relearn: bool = False  # VMs were taken from it by proof: no old order may start them again
    must_rotate: bool = False  # its next registration gives it a new credential
    is_locked_out: bool = False  # its credential was revoked, and nobody joined by a new token since
    registrations: int = 0  # the number of the last one that its agent sent, where it counts them
    former_agents: tuple[str, ...] = ()  # the last ones before the agent that it has now: they are dead


_BODY = msgspec.json.Decoder(HostBody)
_ENCODER = msgspec.json.Encoder()


def read_body(row: HostRow) -> HostBody:
    """Return what a row holds."""
    return _BODY.decode(row.body)


def with_body(row: HostRow, body: HostBody) -> HostRow:
    """Return a row that holds this, with the columns that follow from it."""
    return msgspec.structs.replace(
        row,
        body=_ENCODER.encode(body),
        labels=labels_of(row.name, body),
        cpu_millis=body.size.cpu_millis,
        memory_bytes=body.size.memory_bytes,
        disk_bytes=body.size.disk_bytes,
    )


def checked_registration(message: Register) -> Register:
    """Refuse a registration that can never be right; InputError."""
    checked_size(message.size)
    check_labels("labels", dict(message.labels))
    for place, names in (("storages", message.storages), ("bridges", message.bridges)):
        if len(names) > _MOST_NAMES:
            raise InputError(f"{place}: {len(names)} of them", hint=f"a host names at most {_MOST_NAMES}")
        for name in names:
            check_word(place, name)
    if not message.boot or not message.agent:
        raise InputError("a registration names neither boot nor agent", hint="send both")
    return message


def checked_size(size: HostSize) -> HostSize:
    """Refuse a size that the engine could not count with; InputError."""
    for name in ("cpu_millis", "memory_bytes", "disk_bytes"):
        if not 0 <= getattr(size, name) <= MAX_AMOUNT:
            raise InputError(f"size.{name}: {getattr(size, name)} is out of range", hint="0 to 2^62")
    if len(size.devices) > MAX_DEVICES:
        raise InputError(f"size.devices: {len(size.devices)} of them", hint=f"a host has at most {MAX_DEVICES}")
    if any(not device.kind for device in size.devices):
        raise InputError("size.devices: one has no kind", hint="name what it is")
    return size


def described(body: HostBody, message: Register) -> HostBody:
    """Return what is known of a host after its agent registered; for its size see ``sized``."""
    # Bridges are kept as labels: by these VMs are placed, and pages list them.
    labels = dict(message.labels) | {f"{HAS_BRIDGE}{name}": YES for name in message.bridges}
    return msgspec.structs.replace(
        body,
        driver=message.driver,
        agent_version=message.version,
        capabilities=message.capabilities,
        labels=tuple(labels.items()),
        storages=message.storages,
        unknown=message.unknown,
        is_inventory_known=message.is_inventory_known,
        unavailable=message.unavailable,
        is_watched=message.is_watched,
        watched_vms=message.watched_vms,
        refused_teardown=0,
    )


def labels_of(name: str, body: HostBody) -> tuple[tuple[str, str], ...]:
    """Return all labels of a host: the operators' beat the agent's, and what follows from the rest beats both."""
    found = dict(body.labels) | dict(body.own_labels)
    unavailable = {one.name for one in body.unavailable}
    found |= {f"{HAS_STORAGE}{storage}": YES for storage in body.storages if storage not in unavailable}
    found.pop(CAN_MIGRATE, None)
    if body.capabilities.live_migration:
        found[CAN_MIGRATE] = YES
    found |= {HOST_NAME: name, DRIVER: body.driver}
    return tuple(sorted(found.items()))


def has_local_storage(unavailable: Iterable[UnavailableStorage]) -> bool:
    """Say whether a host reaches the place of its local disks, and so knows all that it has."""
    return all(one.name for one in unavailable)


def is_unregistered(row: HostRow) -> bool:
    """Say whether a host has not registered since the database was restored from a backup.

    A restore takes the agent away that registered. A host that never had one, or was proved dead, is not waited for.
    """
    return not row.agent and row.epoch > 0 and row.state not in ("joined", "fenced")


def host_of(row: HostRow, body: HostBody) -> Host:
    """Return the host as the engine shall know it: without what VMs take that nobody ordered there."""
    return msgspec.structs.replace(host_alone(row, body), taken=body.taken)


def host_alone(row: HostRow, body: HostBody) -> Host:
    """Return the host with all that it may give: it takes VMs only while it reports and nobody keeps them away."""
    is_known = body.is_inventory_known and has_local_storage(body.unavailable)
    is_there = row.state == "ready" and is_known and not is_unregistered(row)
    is_taking = is_there and not (row.is_cordoned or row.is_draining)
    return Host(
        name=row.name,
        uid=row.id,
        version=row.version,
        capacity=_capacity(body),
        devices=tuple(Device(kind=device.kind, model=device.model) for device in body.size.devices),
        labels=labels_of(row.name, body),
        taints=body.own_taints,
        cordoned=not is_taking,
        overcommit=body.own_overcommit,
        reserve=body.own_reserve,
    )


def _capacity(body: HostBody) -> Amounts:
    """Return what a host has in all, and how many VMs it may hold: no more than a watchdog that works stops in time.

    A host without one holds any number: nothing is started elsewhere on the word of a watchdog there.
    """
    found = {CPU: body.size.cpu_millis, MEMORY: body.size.memory_bytes, STORAGE: body.size.disk_bytes}
    if body.is_watched and body.watched_vms > 1:  # 1: an older agent, whose watchdog proves little; VMs run there
        found[GUESTS] = min(body.watched_vms, MAX_AMOUNT)
    return amounts(found)


def sized(
    row: HostRow, body: HostBody, size: HostSize, settings: ControlSettings, *, lacks_names: str = ""
) -> HostBody:
    """Return a host as large as its agent says; as large as it was where nobody can count with so much.

    What is too much depends on what operators say, of which the agent knows nothing: hence no error that it would get.
    ``lacks_names`` says why the engine has no room for its names of devices. A host that has registered before has VMs,
    so it is kept as it was; one that never has is rejected, and tries again: DeviceNamesFullError.
    """
    if lacks_names and row.state == "joined":
        hint = "delete hosts that are not needed, or correct the device names that agents report"
        raise DeviceNamesFullError(lacks_names, hint=hint)
    if lacks_names:
        return msgspec.structs.replace(body, refused_size=lacks_names)
    body = msgspec.structs.replace(body, is_without_devices=False)
    taken = msgspec.structs.replace(body, size=checked_size(size), refused_size="")
    host = host_alone(row, taken)
    try:
        for resource in (CPU, MEMORY, STORAGE):
            may_give(host, resource, settings.overcommit, settings.reserve)
    except InputError as error:
        return msgspec.structs.replace(body, refused_size=error.message)
    return taken


def limit_of(row: HostRow, body: HostBody, settings: ControlSettings) -> HostSize | None:
    """Return what a host may give in all; None where that is the size that its agent told.

    Agents count by themselves what VMs take that nobody ordered.
    """
    host = host_alone(row, body)

    def give(resource: str) -> int:
        try:
            return may_give(host, resource, settings.overcommit, settings.reserve)
        except InputError:  # the service may overcommit more than when this size was taken; a host can be shown anyway
            return MAX_AMOUNT

    limit = msgspec.structs.replace(
        body.size, cpu_millis=give(CPU), memory_bytes=give(MEMORY), disk_bytes=give(STORAGE)
    )
    return limit if limit != body.size or body.refused_size else None
