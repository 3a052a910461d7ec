"""Views and changes of hosts for operators: ``fleet.operator_actions`` with permissions and audit entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec import UNSET

from hostler.config.documents import Document as Source
from hostler.config.entries import Quantities, Quantity
from hostler.config.fleet.constraints import read_taints
from hostler.config.fleet.file_terms import TaintEntry
from hostler.control.access import tokens
from hostler.control.books import ledger
from hostler.control.fleet import operator_actions
from hostler.control.fleet.hosts.devices import taken_devices
from hostler.control.fleet.hosts.drains import StayingVm, list_staying
from hostler.control.fleet.hosts.host_body import HostBody, is_unregistered, labels_of, limit_of, read_body
from hostler.control.fleet.hosts.host_problems import describe_problems
from hostler.control.fleet.operator_actions import HostUpdate, lock_out
from hostler.control.schemas import Host, HostEdit, HostStuck, HostUse, Page, Vm
from hostler.control.services.callers import Caller, write_audit_note
from hostler.control.services.hosts.unavailable_hosts import out_of_reach
from hostler.control.services.times import format_optional_time, format_time
from hostler.control.services.versions import Versions, check_version
from hostler.control.services.visible_names import STRANGER, MayRead, readable
from hostler.control.services.vms.vm_views import show_vm
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection
from hostler.control.store.rows import hosts, placements
from hostler.control.store.rows.hosts import HostFilter, HostRow
from hostler.control.store.rows.placements import PlacementTotals as Used
from hostler.control.vms.guests import HAS_BRIDGE, YES
from hostler.errors import InputError, QuantityError
from hostler.model import (
    CPU,
    MEMORY,
    STORAGE,
    Amounts,
    amount_of,
    amounts,
    format_resource,
    labels,
    parse_ratio,
    parse_resource,
)

__all__ = ["ACTS", "ENDS_REGISTRATION", "act", "delete", "edit", "find", "get", "list_page", "list_vms"]

Heard = Callable[[str], int | None]
"""Returns when a host was last heard, in nanoseconds since 1970; None if that is unknown."""

Act = Callable[[Connection, HostRow, str | int, Caller], object]
_SOURCE = Source(None, "the request")


def find(connection: Connection, identity: str, caller: Caller, permission: str = "host.read") -> HostRow:
    """Return a host by its name or id; NotFoundError, HostDeletedError."""
    caller.principal.check(permission)
    return operator_actions.find_host(connection, identity)


def get(connection: Connection, identity: str, caller: Caller, settings: ControlSettings, heard: Heard) -> Host:
    """Return a host. If it is draining, the VMs that cannot leave it are included."""
    row = find(connection, identity, caller)
    stuck = [one for one in list_staying(connection, row.id) if one.is_stuck] if row.is_draining else []
    shown = _show(row, placements.use_by_host(connection), _devices_in_use(connection, [row]), settings, heard)
    may_read = readable(caller.principal)
    return msgspec.structs.replace(shown, stuck=[_stuck(one, may_read) for one in stuck])


def _stuck(one: StayingVm, may_read: MayRead) -> HostStuck:
    """Return a VM that cannot leave. If the caller may not read it, its name and its reasons are left out."""
    if may_read(one.project):
        return HostStuck(vm=one.vm, project=one.project, name=one.name, why=one.why)
    return HostStuck(vm="", project="", name=STRANGER, why="no other host takes it" if one.is_refused else one.why)


def list_page(
    connection: Connection,
    caller: Caller,
    wanted: HostFilter,
    settings: ControlSettings,
    heard: Heard,
    *,
    after: str,
    limit: int,
) -> Page[Host]:
    """Return hosts, oldest first."""
    caller.principal.check("host.read")
    page = hosts.list_page(connection, wanted, after=after, limit=limit)
    used, taken = placements.use_by_host(connection), _devices_in_use(connection, page.items)
    return Page(items=[_show(row, used, taken, settings, heard) for row in page.items], next=page.next)


def list_vms(connection: Connection, identity: str, caller: Caller) -> list[Vm]:
    """Return the VMs on a host and those that move there, by project and name, as far as the caller may see them."""
    row = find(connection, identity, caller)
    may_read = readable(caller.principal)
    seen = [show_vm(one) for one in ledger.load_of_host(connection, row.id) if may_read(one.vm.project)]
    return sorted(seen, key=lambda vm: (vm.project, vm.name))


def _devices_in_use(connection: Connection, rows: Sequence[HostRow]) -> Mapping[str, set[int]]:
    """Return the devices that VMs use, for hosts that have devices."""
    those = [row.id for row in rows if read_body(row).size.devices]
    return taken_devices(connection, those) if those else {}


def _cordon(connection: Connection, row: HostRow, _: str | int, caller: Caller) -> object:
    return operator_actions.cordon(connection, row.id, is_cordoned=True, actor=caller.actor, now_ns=caller.now_ns)


def _uncordon(connection: Connection, row: HostRow, _: str | int, caller: Caller) -> object:
    return operator_actions.cordon(connection, row.id, is_cordoned=False, actor=caller.actor, now_ns=caller.now_ns)


def _drain(connection: Connection, row: HostRow, _: str | int, caller: Caller) -> object:
    return operator_actions.drain(connection, row.id, is_draining=True, actor=caller.actor, now_ns=caller.now_ns)


def _undrain(connection: Connection, row: HostRow, _: str | int, caller: Caller) -> object:
    return operator_actions.drain(connection, row.id, is_draining=False, actor=caller.actor, now_ns=caller.now_ns)


def _force_offline(connection: Connection, row: HostRow, confirm: str | int, caller: Caller) -> object:
    return operator_actions.force_offline(
        connection, row.id, confirm=str(confirm), actor=caller.actor, now_ns=caller.now_ns
    )


def _confirm_dead(connection: Connection, row: HostRow, confirm: str | int, caller: Caller) -> object:
    return operator_actions.confirm_dead(
        connection, row.id, confirm=str(confirm), actor=caller.actor, now_ns=caller.now_ns
    )


def _allow_teardown(connection: Connection, row: HostRow, confirm: str | int, caller: Caller) -> object:
    return operator_actions.allow_teardown(
        connection, row.id, confirm=int(confirm), actor=caller.actor, now_ns=caller.now_ns
    )


def _rotate(connection: Connection, row: HostRow, _: str | int, caller: Caller) -> object:
    return operator_actions.rotate(connection, row.id, actor=caller.actor, now_ns=caller.now_ns)


def _revoke(connection: Connection, row: HostRow, _: str | int, caller: Caller) -> object:
    tokens.revoke_credential(connection, row.id, by=caller.principal)
    return lock_out(connection, row.id, actor=caller.actor, now_ns=caller.now_ns)


ACTS: Mapping[str, tuple[str, Act]] = {
    "cordon": ("host.operate", _cordon),
    "uncordon": ("host.operate", _uncordon),
    "drain": ("host.operate", _drain),
    "undrain": ("host.operate", _undrain),
    "force-offline": ("host.admin", _force_offline),
    "confirm-dead": ("host.admin", _confirm_dead),
    "allow-teardown": ("host.admin", _allow_teardown),
    "rotate-credential": ("host.admin", _rotate),
    "revoke-credential": ("host.admin", _revoke),
}


ENDS_REGISTRATION = frozenset(("force-offline", "confirm-dead", "rotate-credential", "revoke-credential"))
"""The acts after which an agent must register again; after all others its reports count on."""


def act(
    connection: Connection,
    identity: str,
    verb: str,
    confirm: str | int,
    caller: Caller,
    settings: ControlSettings,
    heard: Heard,
    *,
    versions: Versions = None,
) -> Host:
    """Apply one of ``ACTS`` to a host. After the commit of one of ``ENDS_REGISTRATION`` call ``Fleet.forget``."""
    permission, work = ACTS[verb]
    row = find(connection, identity, caller, permission)
    check_version(f"host {row.name}", row.version, versions)
    work(connection, row, confirm, caller)
    write_audit_note(connection, caller, f"host.{verb}", subject=row.id, name=row.name)
    return get(connection, row.id, caller, settings, heard)


def edit(
    connection: Connection,
    identity: str,
    asked: HostEdit,
    caller: Caller,
    settings: ControlSettings,
    heard: Heard,
    *,
    versions: Versions = None,
) -> Host:
    """Change the operator's labels, taints, overcommitment or reserve of a host."""
    row = find(connection, identity, caller, "host.admin")
    check_version(f"host {row.name}", row.version, versions)
    wish = HostUpdate(
        labels=None if asked.labels is UNSET else labels(asked.labels),
        taints=None if asked.taints is UNSET else read_taints(_SOURCE, ("taints",), asked.taints),
        overcommit=None if asked.overcommit is UNSET else _ratios(asked.overcommit),
        reserve=None if asked.reserve is UNSET else _reserve(asked.reserve),
    )
    operator_actions.change_host(connection, row.id, wish, settings, actor=caller.actor, now_ns=caller.now_ns)
    write_audit_note(connection, caller, "host.change", subject=row.id, name=row.name)
    return get(connection, row.id, caller, settings, heard)


def delete(connection: Connection, identity: str, confirm: str, caller: Caller, *, versions: Versions = None) -> str:
    """Delete a host and return its id; StillNeededError while it has VMs."""
    row = find(connection, identity, caller, "host.admin")
    check_version(f"host {row.name}", row.version, versions)
    operator_actions.delete_host(connection, row.id, confirm=confirm, actor=caller.actor, now_ns=caller.now_ns)
    write_audit_note(connection, caller, "host.delete", subject=row.id, name=row.name)
    return row.id


def _ratios(values: Quantities) -> Amounts:
    _check_names("overcommit", values)
    return amounts({name: _parse_values(f"overcommit.{name}", parse_ratio, value) for name, value in values.items()})


def _reserve(values: Quantities) -> Amounts:
    _check_names("reserve", values)
    parsers = {name: partial(parse_resource, name) for name in values}
    return tuple(
        sorted((name, _parse_values(f"reserve.{name}", parsers[name], value)) for name, value in values.items())
    )


def _parse_values(place: str, parse: Callable[[Quantity], int], value: Quantity) -> int:
    try:
        return parse(value)
    except QuantityError as error:
        raise QuantityError(f"{place}: {error.message}", hint=error.hint) from None


def _check_names(place: str, values: Quantities) -> None:
    for name in values:
        if name not in ("cpu", "memory", "storage"):
            raise InputError(f"{place}: {name[:60]!r} is no resource of hosts", hint="cpu, memory or storage")


def _show(
    row: HostRow, used: Mapping[str, Used], taken: Mapping[str, set[int]], settings: ControlSettings, heard: Heard
) -> Host:
    body = read_body(row)
    devices = [f"{one.kind}:{one.model}" if one.model else one.kind for one in body.size.devices]
    limit, unknown_use = limit_of(row, body, settings) or body.size, _unknown_use(body)
    here = used.get(row.id)
    return Host(
        id=row.id,
        name=row.name,
        state=row.state or "joined",
        cordoned=row.is_cordoned,
        draining=row.is_draining,
        driver=body.driver,
        agent_version=body.agent_version,
        capabilities=body.capabilities,
        size=HostUse(cpu_millis=row.cpu_millis, memory_bytes=row.memory_bytes, disk_bytes=row.disk_bytes),
        may_give=HostUse(
            cpu_millis=max(limit.cpu_millis - unknown_use.cpu_millis, 0),
            memory_bytes=max(limit.memory_bytes - unknown_use.memory_bytes, 0),
            disk_bytes=max(limit.disk_bytes - unknown_use.disk_bytes, 0),
        ),
        used=_use(here),
        vms=here.vms if here is not None else 0,
        devices=devices,
        devices_used=[one for number, one in enumerate(devices) if number in taken.get(row.id, ())],
        storages=list(body.storages),
        bridges=_bridges(body),
        labels=dict(labels_of(row.name, body)),
        own_labels=dict(body.own_labels),
        taints=[TaintEntry(key=one.key, value=one.value, effect=one.effect) for one in body.own_taints],
        overcommit={name: f"{ratio / 1_000_000:g}" for name, ratio in body.own_overcommit},
        reserve={name: format_resource(name, amount) for name, amount in body.own_reserve},
        unknown_vms=sorted({*body.unknown, *body.strangers}),
        unknown_use=unknown_use,
        registered=row.state not in ("", "joined") and not is_unregistered(row),
        trouble="; ".join(text for text in (out_of_reach(row, body), describe_problems(row, body)) if text),
        refused_teardown=body.refused_teardown,
        inventory_known=body.is_inventory_known,
        watched=body.is_watched,
        watched_vms=body.watched_vms if body.is_watched else 0,
        stuck=[],
        seen_at=format_optional_time(heard(row.id)),
        created_at=format_time(row.created_ns),
        updated_at=format_time(row.updated_ns),
        version=row.version,
    )


def _use(here: Used | None) -> HostUse:
    if here is None:
        return HostUse(cpu_millis=0, memory_bytes=0, disk_bytes=0)
    return HostUse(cpu_millis=here.cpu_millis, memory_bytes=here.memory_bytes, disk_bytes=here.disk_bytes)


def _unknown_use(body: HostBody) -> HostUse:
    return HostUse(
        cpu_millis=amount_of(body.taken, CPU),
        memory_bytes=amount_of(body.taken, MEMORY),
        disk_bytes=amount_of(body.taken, STORAGE),
    )


def _bridges(body: HostBody) -> list[str]:
    return [key.removeprefix(HAS_BRIDGE) for key, value in body.labels if key.startswith(HAS_BRIDGE) and value == YES]
