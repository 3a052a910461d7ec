"""Stores what agents report: a work of the store, for ``agent_service``.

Transactions of all replicas come one after the other, so an epoch that is valid here is valid until COMMIT. Nothing of
a message with an invalid epoch is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hostler.agent.messages import MOST_UNKNOWN, Report
from hostler.control.books import ledger
from hostler.control.books.ledger import StoredVm
from hostler.control.fleet.agents.unbooked_vms import (
    is_booked,
    remains_of,
    strangers_of,
    unbooked_use,
    without_used_permission,
)
from hostler.control.fleet.errors import HostDeletedError, StaleReportError
from hostler.control.fleet.hosts.host_body import HostBody, read_body, with_reported_size
from hostler.control.fleet.hosts.host_problems import update_reported_problems
from hostler.control.fleet.hosts.host_writes import agent_of, announce, get_live_host, write_changes
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import HostRow
from hostler.control.vms import reports
from hostler.control.vms.state import Vm, VmChange, merge_changes
from hostler.errors import HostlerError

__all__ = ["HostReport", "take_reports"]

_replace = msgspec.structs.replace
_PLAIN = ControlSettings()


class HostReport(msgspec.Struct, frozen=True, kw_only=True):
    """A report, its host, and whether it ends the host's relearning."""

    host: str
    message: Report
    has_relearned: bool = False
    told_stop_s: float = 0.0  # what the registration told it under which it reports: that is what it goes by
    settings: ControlSettings = _PLAIN
    lacks_names: str = ""  # see ``hosts.with_reported_size``
    now_ns: int


def take_reports(connection: Connection, told: Sequence[HostReport]) -> list[HostBody | HostlerError]:
    """Store what changed on hosts, as a joint work; StaleReportError for an ended epoch, HostDeletedError."""
    outcomes: list[HostBody | HostlerError] = []
    for some in _apart(told):
        outcomes += _take_apart(connection, some)
    return outcomes


def _apart(told: Sequence[HostReport]) -> list[list[HostReport]]:
    """Split reports, in order, into parts without two reports about the same host or VM."""
    parts: list[list[HostReport]] = []
    seen: set[str] = set()
    for one in told:
        about = {one.host, *_vms_of(one.message)}
        if not parts or seen & about:
            parts.append([])
            seen = set()
        parts[-1].append(one)
        seen |= about
    return parts


def _take_apart(connection: Connection, told: Sequence[HostReport]) -> list[HostBody | HostlerError]:
    rows = hosts.find_some(connection, [one.host for one in told])
    loaded = ledger.load_many(connection, {vm for one in told for vm in (*_vms_of(one.message), *_takers_of(one))})
    outcomes: list[HostBody | HostlerError] = []
    changes: list[tuple[StoredVm, VmChange]] = []
    actors: dict[str, str] = {}
    for one in told:
        mine = {vm: loaded[vm] for vm in _vms_of(one.message) if vm in loaded}
        try:
            row = _checked(rows.get(one.host), one.message)
            known = read_body(row)
            body = _reported(connection, row, one, mine)
            if one.message.taken is not None:
                body = _replace(body, taken=unbooked_use(one.message.taken, _booked_among(one, loaded)))
        except HostlerError as error:
            outcomes.append(error)
            continue
        outcomes.append(body)
        if body != known:
            row = get_live_host(connection, one.host)
            new = _replace(row, generation=row.generation + (body.remains != known.remains))
            body, text = update_reported_problems(known, body, one.now_ns)
            announce(connection, row, new, body, actor=agent_of(one.host), now_ns=one.now_ns, text=text)
        changes += [(stored, _told_of(stored.vm, one)) for stored in mine.values()]
        actors |= dict.fromkeys(mine, agent_of(one.host))
    write_changes(connection, changes, actor=actors, now_ns=max(one.now_ns for one in told))
    return outcomes


def _vms_of(message: Report) -> tuple[str, ...]:
    return (*(report.vm for report in message.vms), *_gone_of(message))


def _takers_of(told: HostReport) -> tuple[str, ...]:
    return tuple(one.vm for one in told.message.taken or ())


def _booked_among(told: HostReport, loaded: Mapping[str, StoredVm]) -> set[str]:
    """Return those VMs without an order that are booked on their host all the same, as after a restore."""
    return {vm for vm in _takers_of(told) if vm in loaded and is_booked(loaded[vm].vm, told.host)}


def _gone_of(message: Report) -> dict[str, int]:
    """Return the VMs that are gone, with the generation of their order; 0 if the agent does not send it."""
    return dict.fromkeys(message.gone, 0) | {one.vm: one.generation for one in message.departed}


def _checked(row: HostRow | None, message: Report) -> HostRow:
    if row is None or row.deleted_ns is not None:
        raise HostDeletedError("this host was deleted", hint="join again with a new token")
    if (row.epoch, row.agent, row.boot) != (message.epoch, message.agent, message.boot):
        raise StaleReportError("this registration is over", hint="register again")
    return row


def _told_of(vm: Vm, told: HostReport) -> VmChange:
    """Return the change of one VM that follows from a report."""
    change = VmChange(vm=vm)
    for report in told.message.vms:
        if report.vm == vm.id:
            change = reports.apply_report(vm, told.host, report)
    gone = _gone_of(told.message)
    if vm.id not in gone:
        return change
    return merge_changes(change, reports.apply_absence(change.vm, told.host, gone[vm.id]))


def _reported(connection: Connection, row: HostRow, one: HostReport, loaded: Mapping[str, StoredVm]) -> HostBody:
    host, message, body = one.host, one.message, read_body(row)
    told = {report.vm: report for report in message.vms}
    gone = _gone_of(message)
    kept = [vm for vm in body.remains if vm not in gone and vm not in told]
    body = _replace(
        body,
        unknown=message.unknown[:MOST_UNKNOWN] if message.unknown is not None else body.unknown,
        unknown_left_out=message.unknown_left_out if message.unknown is not None else body.unknown_left_out,
        strangers=strangers_of([vm for vm in body.strangers if vm not in gone and vm not in told], told, loaded),
        refused_teardown=max(message.refused_teardown, 0),
        is_watched=message.is_watched,
        watched_vms=message.watched_vms,
        told_stop_s=one.told_stop_s,
        remains=remains_of(kept, told, loaded, host),
        must_relearn=body.must_relearn and not one.has_relearned,
    )
    if message.size is not None:
        body = with_reported_size(row, body, message.size, one.settings, lacks_names=one.lacks_names)
    believed = [vm for vm in gone if vm not in loaded or not reports.is_old_news(loaded[vm].vm, host, gone[vm])]
    return without_used_permission(connection, host, body, believed)
