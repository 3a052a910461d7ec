"""Stores what agents say when they register: a work of the store, for ``agent_service``.

A registration says all that a host is and has, and begins an epoch: messages of older epochs no longer count.
"""

from __future__ import annotations

import msgspec

from hostler.agent.messages import MOST_UNKNOWN, PROTOCOL, Capabilities, Register, VmReport
from hostler.control.books import ledger
from hostler.control.fleet.agents.host_orders import KEEPS_SHARED
from hostler.control.fleet.agents.unbooked_vms import remains_of, strangers_of, unbooked_use, without_used_permission
from hostler.control.fleet.errors import AgentInUseError, StaleReportError
from hostler.control.fleet.hosts.host_body import (
    HostBody,
    has_local_storage,
    is_unregistered,
    read_body,
    with_registration,
    with_reported_size,
)
from hostler.control.fleet.hosts.host_problems import update_reported_problems
from hostler.control.fleet.hosts.host_writes import agent_of, announce, get_live_host, write_changes
from hostler.control.fleet.watchdog_times import stop_age_s, with_stop_age
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import HostRow
from hostler.control.vms import reports
from hostler.control.vms.state import Vm, VmChange

__all__ = ["take_registration"]

_replace = msgspec.structs.replace
_FORMER_AGENTS = 16
_PLAIN = ControlSettings()


def take_registration(
    connection: Connection,
    host: str,
    message: Register,
    *,
    protocol: int = PROTOCOL,
    settings: ControlSettings = _PLAIN,
    lacks_names: str = "",
    now_ns: int,
) -> tuple[HostRow, HostBody]:
    """Begin a new epoch with all that a host is and has, in a protocol that both sides speak.

    ``lacks_names``: see ``host_body.with_reported_size``. Raises HostDeletedError, StaleReportError, AgentInUseError or
    DeviceNamesFullError.
    """
    before = get_live_host(connection, host)
    known = read_body(before)
    _check_new(connection, before, known, message)
    told = {report.vm: report for report in message.vms}
    loaded = ledger.load_of_host(connection, host)
    here = {stored.vm.id for stored in loaded}
    others = ledger.load_many(connection, (vm for vm in told if vm not in here))
    body = _replace(
        with_reported_size(before, with_registration(known, message), message.size, settings, lacks_names=lacks_names),
        protocol=protocol,
        must_rotate=False,
        capabilities=_capabilities(message, protocol),
        unknown=message.unknown[:MOST_UNKNOWN],
        unknown_left_out=message.unknown_left_out,
        remains=remains_of((), told, others, host),
        strangers=strangers_of((), told, {*here, *others}),
        taken=unbooked_use(message.taken, here),
        registrations=message.sequence,
        former_agents=_former_agents(before, known, message),
    )
    missing = [vm for vm in here if vm not in told and vm not in message.unknown]
    body = without_used_permission(connection, host, body, missing if _tells_all(message) else [])
    body = with_stop_age(before, body, stop_age_s(body, settings))
    row = _replace(
        before,
        state="ready",
        boot=message.boot,
        agent=message.agent,
        epoch=before.epoch + 1,
        seen_ns=now_ns,
        generation=before.generation + (body.remains != known.remains),
    )
    body, trouble = update_reported_problems(known, body, now_ns)
    text = "; ".join(part for part in (_how_heard(before), trouble) if part)
    # Other replicas may hold an older registration of this host: they are to look.
    row = announce(connection, before, row, body, actor=agent_of(host), now_ns=now_ns, text=text, is_news=True)
    has_orders = message.agent == before.agent  # an agent that just started knows none yet
    found = [(stored, _found(stored.vm, host, told.get(stored.vm.id), message, has_orders)) for stored in loaded]
    write_changes(connection, found, actor=agent_of(host), now_ns=now_ns)
    return row, body


def _how_heard(before: HostRow) -> str:
    """Say for people what a registration ends; empty for a healthy host."""
    if is_unregistered(before):
        return "registered again after the restore"
    return {"joined": "registered for the first time", "ready": ""}.get(before.state, "heard again")


def _capabilities(message: Register, protocol: int) -> Capabilities:
    """Return what a host can do: agents that cannot leave shared disks alone take no part in moves."""
    known = message.capabilities
    return known if protocol >= KEEPS_SHARED else _replace(known, live_migration=False)


def _check_new(connection: Connection, row: HostRow, body: HostBody, message: Register) -> None:
    """Reject a repeated or late registration: it would speak for VMs that have come and gone since."""
    if message.agent in body.former_agents:
        hint = "one agent per host: stop the older one"
        raise StaleReportError("another agent has taken this host over", hint=hint)
    if message.agent == row.agent and body.registrations and message.sequence <= body.registrations:
        hint = "a replay or a delayed packet: nothing was changed"
        raise StaleReportError(f"registration {message.sequence} comes after {body.registrations}", hint=hint)
    if hosts.is_agent_elsewhere(connection, message.agent, host=row.id):
        hint = "every start of an agent has an id of its own: start it again"
        raise AgentInUseError("another host's agent has this id", hint=hint)


def _former_agents(row: HostRow, body: HostBody, message: Register) -> tuple[str, ...]:
    if not row.agent or row.agent == message.agent:
        return body.former_agents
    return (*body.former_agents, row.agent)[-_FORMER_AGENTS:]


def _tells_all(message: Register) -> bool:
    """Say whether a VM that a registration omits is not on its host."""
    has_room = not (message.vms_left_out or message.unknown_left_out)
    return has_room and message.is_inventory_known and has_local_storage(message.unavailable)


def _found(vm: Vm, host: str, report: VmReport | None, message: Register, has_orders: bool) -> VmChange:
    """Return the change of a VM that follows from a complete list of a host.

    An agent that has only records of a VM reports it as absent, for example after its disks were replaced.
    """
    vm = reports.mark_heard(vm).vm
    may_be_there = not _tells_all(message) or vm.id in message.unknown or len(message.unknown) >= MOST_UNKNOWN
    if report is not None:
        is_missing = report.state == "absent" and not (may_be_there or has_orders) and reports.had_disk(vm, host)
        return reports.apply_missing(vm, host) if is_missing else reports.apply_report(vm, host, report)
    return VmChange(vm=vm) if may_be_there else reports.apply_missing(vm, host)
