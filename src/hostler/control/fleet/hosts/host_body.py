"""A host as its agent and its operators describe it, and as the engine sees it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostler.agent.messages import Capabilities, HostSize, Register, UnavailableStorage
from hostler.control.fleet.errors import DeviceNamesFullError
from hostler.control.settings import ControlSettings
from hostler.control.store.rows.hosts import HostRow
from hostler.control.vms.guests import CAN_MIGRATE, HAS_BRIDGE, HAS_STORAGE, YES
from hostler.control.vms.spec import HOST_NAME, check_labels, check_word
from hostler.errors import InputError
from hostler.model import CPU, GUESTS, MEMORY, STORAGE, Amounts, Device, Host, Taint, amounts, may_give
from hostler.model.hosts import MAX_DEVICES
from hostler.model.quantities import MAX_AMOUNT

__all__ = [
    "DRIVER", "HostBody", "check_host_size", "check_registration", "has_local_storage", "host_alone", "host_of",
    "is_unregistered", "labels_of", "limit_of", "read_body", "with_body", "with_registration", "with_reported_size",
]  # fmt: skip

DRIVER = "hostler/driver"

_MOST_NAMES = 64  # of storages, and of bridges


class HostBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is stored of a host beside its columns. Operators wrote the fields ``own_*``, its agent the rest."""

    protocol: int = 1
    driver: str = ""
    agent_version: str = ""
    capabilities: Capabilities = Capabilities()
    size: HostSize = HostSize(cpu_millis=0, memory_bytes=0)
    refused_size: str = ""  # why the size that its agent told last is not taken: ``size`` is one before
    is_without_devices: bool = False  # ``size`` is that size without devices: others took the last device names
    labels: tuple[tuple[str, str], ...] = ()
    storages: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()  # VMs without an order there: never touched
    unknown_left_out: int = 0  # more of them, whose names its agent did not tell
    strangers: tuple[str, ...] = ()  # VMs that its agent takes for ours and that no row knows: never touched
    taken: Amounts = ()  # by VMs that have no order and no booking there: the engine must not give it away
    strangers_told_ns: int = 0  # when an event named strangers last
    strangers_untold: int = 0  # found since then, without an event
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
    is_locked_out: bool = False  # its credential was revoked, and no agent joined by a new token since
    registrations: int = 0  # the number of the last one that its agent sent, where it counts them
    former_agents: tuple[str, ...] = ()  # the last ones before the agent that it has now: they are dead


_BODY = msgspec.json.Decoder(HostBody)
_ENCODER = msgspec.json.Encoder()


def read_body(row: HostRow) -> HostBody:
    """Decode the body of a row."""
    return _BODY.decode(row.body)


def with_body(row: HostRow, body: HostBody) -> HostRow:
    """Return a row with this body, and with the columns that follow from it."""
    return msgspec.structs.replace(
        row,
        body=_ENCODER.encode(body),
        labels=labels_of(row.name, body),
        cpu_millis=body.size.cpu_millis,
        memory_bytes=body.size.memory_bytes,
        disk_bytes=body.size.disk_bytes,
    )


def check_registration(message: Register) -> Register:
    """Reject an invalid registration; InputError."""
    check_host_size(message.size)
    check_labels("labels", dict(message.labels))
    for place, names in (("storages", message.storages), ("bridges", message.bridges)):
        if len(names) > _MOST_NAMES:
            raise InputError(f"{place}: {len(names)} of them", hint=f"a host names at most {_MOST_NAMES}")
        for name in names:
            check_word(place, name)
    if not message.boot or not message.agent:
        raise InputError("a registration names neither boot nor agent", hint="send both")
    return message


def check_host_size(size: HostSize) -> HostSize:
    """Reject a size that the engine cannot count with; InputError."""
    for name in ("cpu_millis", "memory_bytes", "disk_bytes"):
        if not 0 <= getattr(size, name) <= MAX_AMOUNT:
            raise InputError(f"size.{name}: {getattr(size, name)} is out of range", hint="0 to 2^62")
    if len(size.devices) > MAX_DEVICES:
        raise InputError(f"size.devices: {len(size.devices)} of them", hint=f"a host has at most {MAX_DEVICES}")
    if any(not device.kind for device in size.devices):
        raise InputError("size.devices: one has no kind", hint="name what it is")
    return size


def with_registration(body: HostBody, message: Register) -> HostBody:
    """Return the body of a host after a registration; for its size see ``with_reported_size``."""
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
    """Return all labels of a host: operators' labels beat the agent's, and computed labels beat both."""
    found = dict(body.labels) | dict(body.own_labels)
    unavailable = {one.name for one in body.unavailable}
    found |= {f"{HAS_STORAGE}{storage}": YES for storage in body.storages if storage not in unavailable}
    found.pop(CAN_MIGRATE, None)
    if body.capabilities.live_migration:
        found[CAN_MIGRATE] = YES
    found |= {HOST_NAME: name, DRIVER: body.driver}
    return tuple(sorted(found.items()))


def has_local_storage(unavailable: Iterable[UnavailableStorage]) -> bool:
    """Say whether a host can see its local disks, and so knows all of its VMs."""
    return all(one.name for one in unavailable)


def is_unregistered(row: HostRow) -> bool:
    """Say whether a host has not registered since the database was restored from a backup.

    A restore removes the id of the agent. A host that never had one, or was declared dead, is not waited for.
    """
    return not row.agent and row.epoch > 0 and row.state not in ("joined", "fenced")


def host_of(row: HostRow, body: HostBody) -> Host:
    """Return the host for the engine: without the room that unordered VMs take."""
    return msgspec.structs.replace(host_alone(row, body), taken=body.taken)


def host_alone(row: HostRow, body: HostBody) -> Host:
    """Return the host with all that it may give: it takes VMs only while it reports and is not closed."""
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
    """Return a host's resources, and how many VMs it may have: no more than its watchdog stops in time.

    A host without a watchdog has no such limit, because nothing is started elsewhere on its watchdog's word.
    """
    found = {CPU: body.size.cpu_millis, MEMORY: body.size.memory_bytes, STORAGE: body.size.disk_bytes}
    if body.is_watched and body.watched_vms > 1:  # 1: an older agent, whose watchdog proves little; VMs run there
        found[GUESTS] = min(body.watched_vms, MAX_AMOUNT)
    return amounts(found)


def with_reported_size(
    row: HostRow, body: HostBody, size: HostSize, settings: ControlSettings, *, lacks_names: str = ""
) -> HostBody:
    """Return the body with the size that the agent reports, or with the old size if that is unusable.

    Whether a size is too large depends on operators' settings, which the agent does not know. So the agent gets no
    error. ``lacks_names`` says why the engine has no room for its device names. A host that has registered before has
    VMs, so it keeps its old size. A new host is rejected, and tries again: DeviceNamesFullError.
    """
    if lacks_names and row.state == "joined":
        hint = "delete hosts that are not needed, or correct the device names that agents report"
        raise DeviceNamesFullError(lacks_names, hint=hint)
    if lacks_names:
        return msgspec.structs.replace(body, refused_size=lacks_names)
    body = msgspec.structs.replace(body, is_without_devices=False)
    taken = msgspec.structs.replace(body, size=check_host_size(size), refused_size="")
    host = host_alone(row, taken)
    try:
        for resource in (CPU, MEMORY, STORAGE):
            may_give(host, resource, settings.overcommit, settings.reserve)
    except InputError as error:
        return msgspec.structs.replace(body, refused_size=error.message)
    return taken


def limit_of(row: HostRow, body: HostBody, settings: ControlSettings) -> HostSize | None:
    """Return what a host may give in total; None if that is the size that its agent reported.

    Agents themselves count the room of unordered VMs.
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
