"""What operators see of hosts and do to them: ``fleet.operating``, with who may and a trace in the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec import UNSET

from hostler.config.documents import Document as Source
from hostler.config.entries import Quantities, Quantity
from hostler.config.fleet_constraints import read_taints
from hostler.config.fleet_file_terms import TaintEntry
from hostler.control.access import tokens
from hostler.control.api.shapes import Host, HostEdit, HostStuck, HostUse, Page, Vm
from hostler.control.books import ledger
from hostler.control.fleet import operating
from hostler.control.fleet.devices import taken_devices
from hostler.control.fleet.draining import Staying, staying
from hostler.control.fleet.hosts import HostBody, is_unregistered, labels_of, limit_of, read_body
from hostler.control.fleet.lockout import lock_out
from hostler.control.fleet.operating import HostWish
from hostler.control.fleet.troubles import trouble_of
from hostler.control.services.callers import Caller, note
from hostler.control.services.discretion import STRANGER, MayRead, readable
from hostler.control.services.showing import show_vm
from hostler.control.services.standing import out_of_reach
from hostler.control.services.times import at, maybe_at
from hostler.control.services.versions import Versions, check_version
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection, hosts, placements
from hostler.control.store.hosts import HostFilter, HostRow
from hostler.control.store.placements import HostUse as Used
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
"""Says when a host was heard last, in nanoseconds since 1970; None where nobody knows."""

Act = Callable[[Connection, HostRow, str | int, Caller], object]
_SOURCE = Source(None, "the request")


def find(connection: Connection, identity: str, caller: Caller, permission: str = "host.read") -> HostRow:
    """Return a host by its name or id; NotFoundError, HostDeletedError."""
    caller.principal.check(permission)
    return operating.find_host(connection, identity)


def get(connection: Connection, identity: str, caller: Caller, settings: ControlSettings, heard: Heard) -> Host:
    """Return a host, and who cannot leave it while it is drained."""
    row = find(connection, identity, caller)
    stuck = [one for one in staying(connection, row.id) if one.is_stuck] if row.is_draining else []
    shown = _show(row, placements.use_by_host(connection), _taken(connection, [row]), settings, heard)
    may_read = readable(caller.principal)
    return msgspec.structs.replace(shown, stuck=[_stuck(one, may_read) for one in stuck])


def _stuck(one: Staying, may_read: MayRead) -> HostStuck:
    """Return who cannot leave; of a VM that the caller may not read neither who it is nor what was decided about it."""
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
    used, taken = placements.use_by_host(connection), _taken(connection, page.items)
    return Page(items=[_show(row, used, taken, settings, heard) for row in page.items], next=page.next)


def list_vms(connection: Connection, identity: str, caller: Caller) -> list[Vm]:
    """Return the VMs on a host and those that land there, by project and name, as far as the caller may see them."""
    row = find(connection, identity, caller)
    may_read = readable(caller.principal)
    seen = [show_vm(one) for one in ledger.of_host(connection, row.id) if may_read(one.vm.project)]
    return sorted(seen, key=lambda vm: (vm.project, vm.name))


def _taken(connection: Connection, rows: Sequence[HostRow]) -> Mapping[str, set[int]]:
    """Return which devices VMs have, of those hosts that have any."""
    those = [row.id for row in rows if read_body(row).size.devices]
    return taken_devices(connection, those) if those else {}


def _cordon(connection: Connection, row: HostRow, _: str | int, caller: Caller) -> object:
    return operating.cordon(connection, row.id, is_cordoned=True, actor=caller.actor, now_ns=caller.now_ns)


def _uncordon(connection: Connection, row: HostRow, _: str | int, caller: Caller) -> object:
    return operating.cordon(connection, row.id, is_cordoned=False, actor=caller.actor, now_ns=caller.now_ns)


def _drain(connection: Connection, row: HostRow, _: str | int, caller: Caller) -> object:
    return operating.drain(connection, row.id, is_draining=True, actor=caller.actor, now_ns=caller.now_ns)


def _undrain(connection: Connection, row: HostRow, _: str | int, caller: Caller) -> object:
    return operating.drain(connection, row.id, is_draining=False, actor=caller.actor, now_ns=caller.now_ns)


def _force_offline(connection: Connection, row: HostRow, confirm: str | int, caller: Caller) -> object:
    return operating.force_offline(connection, row.id, confirm=str(confirm), actor=caller.actor, now_ns=caller.now_ns)


def _confirm_dead(connection: Connection, row: HostRow, confirm: str | int, caller: Caller) -> object:
    return operating.confirm_dead(connection, row.id, confirm=str(confirm), actor=caller.actor, now_ns=caller.now_ns)


def _allow_teardown(connection: Connection, row: HostRow, confirm: str | int, caller: Caller) -> object:
    return operating.allow_teardown(connection, row.id, confirm=int(confirm), actor=caller.actor, now_ns=caller.now_ns)


def _rotate(connection: Connection, row: HostRow, _: str | int, caller: Caller) -> object:
    return operating.rotate(connection, row.id, actor=caller.actor, now_ns=caller.now_ns)


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
    """Do one of ``ACTS`` to a host. After the commit of one of ``ENDS_REGISTRATION`` tell ``Fleet.forget``."""
    permission, work = ACTS[verb]
    row = find(connection, identity, caller, permission)
    check_version(f"host {row.name}", row.version, versions)
    work(connection, row, confirm, caller)
    note(connection, caller, f"host.{verb}", subject=row.id, name=row.name)
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
    """Change the labels, taints, overcommitment or reserve that operators give a host."""
    row = find(connection, identity, caller, "host.admin")
    check_version(f"host {row.name}", row.version, versions)
    wish = HostWish(
        labels=None if asked.labels is UNSET else labels(asked.labels),
        taints=None if asked.taints is UNSET else read_taints(_SOURCE, ("taints",), asked.taints),
        overcommit=None if asked.overcommit is UNSET else _ratios(asked.overcommit),
        reserve=None if asked.reserve is UNSET else _reserve(asked.reserve),
    )
    operating.change_host(connection, row.id, wish, settings, actor=caller.actor, now_ns=caller.now_ns)
    note(connection, caller, "host.change", subject=row.id, name=row.name)
    return get(connection, row.id, caller, settings, heard)


def delete(connection: Connection, identity: str, confirm: str, caller: Caller, *, versions: Versions = None) -> str:
    """Let a host go for good, and return its id; StillNeededError while it has VMs."""
    row = find(connection, identity, caller, "host.admin")
    check_version(f"host {row.name}", row.version, versions)
    operating.delete_host(connection, row.id, confirm=confirm, actor=caller.actor, now_ns=caller.now_ns)
    note(connection, caller, "host.delete", subject=row.id, name=row.name)
    return row.id


def _ratios(values: Quantities) -> Amounts:
    _check_names("overcommit", values)
    return amounts({name: _parsed(f"overcommit.{name}", parse_ratio, value) for name, value in values.items()})


def _reserve(values: Quantities) -> Amounts:
    _check_names("reserve", values)
    parsers = {name: partial(parse_resource, name) for name in values}
    return tuple(sorted((name, _parsed(f"reserve.{name}", parsers[name], value)) for name, value in values.items()))


def _parsed(place: str, parse: Callable[[Quantity], int], value: Quantity) -> int:
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
        trouble="; ".join(text for text in (out_of_reach(row, body), trouble_of(row, body)) if text),
        refused_teardown=body.refused_teardown,
        inventory_known=body.is_inventory_known,
        watched=body.is_watched,
        watched_vms=body.watched_vms if body.is_watched else 0,
        stuck=[],
        seen_at=maybe_at(heard(row.id)),
        created_at=at(row.created_ns),
        updated_at=at(row.updated_ns),
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
