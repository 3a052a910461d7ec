"""Reservations: room that hosts keep for the VMs of a project, or of one gang."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from hostler.config.documents import Document as Source
from hostler.config.entries import Quantities
from hostler.config.fleet.file_tenancy import ReservationEntry
from hostler.config.fleet.tenancy import read_reservation
from hostler.control.schemas import Page, Reservation, ReservationCreate, ReservationEdit
from hostler.control.services.callers import Caller, log_fact, write_audit_note
from hostler.control.services.merge_patch import apply_edit
from hostler.control.services.reservation_coverage import check_holdable, coverage_text, measure_coverage, spread_total
from hostler.control.services.tenancy.bounds import (
    MAX_RESERVATIONS,
    MAX_RESERVATIONS_OF_PROJECT,
    check_count,
    check_resources,
    check_total,
)
from hostler.control.services.tenancy.project_documents import check_project, find, new_document, page_of, with_body
from hostler.control.services.times import format_time, parse_time
from hostler.control.services.versions import Versions, check_version
from hostler.control.store import Connection
from hostler.control.store.rows import documents
from hostler.control.store.rows.documents import DocumentRow
from hostler.control.vms.spec import check_selector, check_texts, check_word
from hostler.engine import Engine
from hostler.errors import FactError, InputError
from hostler.model import ReservationChanged, ReservationLeft, format_resource
from hostler.model import tenancy as model

__all__ = [
    "check_amounts", "checked", "create", "delete", "edit", "get", "get_body", "has_any", "list_page",
    "reservation_of", "with_note",
]  # fmt: skip

_MOST_TERMS = 64  # every host is compared with each of them
_BODY = msgspec.json.Decoder(ReservationCreate)


def create(connection: Connection, asked: ReservationCreate, caller: Caller) -> Reservation:
    """Create a reservation; NameTakenError."""
    caller.principal.check("reservation.change")
    check_project(connection, asked.project)
    _check_names(asked)
    _model(asked, 1)
    others = _resources(connection)
    check_total("reservations", len(others), MAX_RESERVATIONS)
    own = sum(project == asked.project for project, _ in others)
    check_count(asked.project, "reservations", own, MAX_RESERVATIONS_OF_PROJECT)
    check_resources(asked.project, asked.name, asked.amounts, others)
    row = documents.insert(connection, "reservation", new_document(asked.project, asked.name, asked, caller))
    _log_change(connection, caller, "reservation.create", row)
    return _show(row)


def checked(engine: Engine, asked: ReservationCreate) -> ReservationCreate:
    """Return a reservation with amounts for each host, also if a total was asked for; InputError. Asks a fork."""
    if bool(asked.amounts) == bool(asked.total):
        raise InputError("give either amounts or total", hint="amounts are kept on each host, total on all together")
    _check_names(asked)
    if not asked.total:
        check_amounts(engine, asked)
        return asked
    total = _model(msgspec.structs.replace(asked, amounts=asked.total), 1)
    share, hosts = spread_total(engine, total, total.amounts)
    amounts: Quantities = {name: format_resource(name, amount) for name, amount in share}
    return msgspec.structs.replace(asked, amounts=amounts, total={}, hosts=hosts, host_selector={})


def check_amounts(engine: Engine, asked: ReservationCreate) -> None:
    """Reject amounts that no matching host can hold; InputError."""
    check_holdable(engine, _model(asked, 1))


def edit(
    connection: Connection,
    project: str,
    name: str,
    asked: ReservationEdit,
    caller: Caller,
    *,
    versions: Versions = None,
) -> Reservation:
    """Change a reservation."""
    row = find(connection, "reservation", project, name, caller)
    caller.principal.check("reservation.change")
    check_version(f"reservation {name}", row.version, versions)
    body = apply_edit(_BODY.decode(row.body), asked)
    _check_names(body)
    _model(body, 1)
    check_resources(project, name, body.amounts, _resources(connection))
    row = documents.save(connection, "reservation", with_body(row, body, caller))
    _log_change(connection, caller, "reservation.change", row)
    return _show(row)


def delete(connection: Connection, project: str, name: str, caller: Caller, *, versions: Versions = None) -> None:
    """Delete a reservation."""
    row = find(connection, "reservation", project, name, caller)
    caller.principal.check("reservation.delete")
    check_version(f"reservation {name}", row.version, versions)
    documents.drop(connection, "reservation", row)
    fact = ReservationLeft(name=f"{project}/{name}")
    log_fact(connection, caller, fact, subject=name, project=project)
    write_audit_note(connection, caller, "reservation.delete", subject=name, name=name, project=project)


def get(connection: Connection, project: str, name: str, caller: Caller) -> Reservation:
    """Return a reservation; NotFoundError."""
    return _show(find(connection, "reservation", project, name, caller))


def get_body(connection: Connection, project: str, name: str, caller: Caller) -> ReservationCreate:
    """Return what was asked for a reservation; NotFoundError."""
    return _BODY.decode(find(connection, "reservation", project, name, caller).body)


def list_page(connection: Connection, caller: Caller, *, project: str, after: str, limit: int) -> Page[Reservation]:
    """Return the reservations that the caller may see, by project and name."""
    page = page_of(connection, "reservation", caller, project=project, after=after, limit=limit)
    return Page(items=[_show(row) for row in page.items], next=page.next)


def has_any(connection: Connection) -> bool:
    """Return whether there are any reservations."""
    return bool(documents.list_page(connection, "reservation", limit=1).items)


def with_note(engine: Engine, found: Reservation) -> Reservation:
    """Return a reservation with its current coverage, or with the reason why the engine rejects it."""
    asked = ReservationCreate(
        name=found.name,
        project=found.project,
        amounts=dict(found.amounts),
        gang=found.gang,
        host_selector=found.host_selector,
        hosts=found.hosts,
        since=found.since,
        until=found.until,
    )
    whom = f"gang {found.gang} of project {found.project}" if found.gang else f"project {found.project}"
    try:
        note = coverage_text(measure_coverage(engine, _model(asked, found.version)), whom)
    except FactError as error:  # a row that was written before the API had its bounds
        note = f"nothing is kept: {error.message}"
    return msgspec.structs.replace(found, note=note)


def _log_change(connection: Connection, caller: Caller, what: str, row: DocumentRow) -> None:
    fact = ReservationChanged(reservation=reservation_of(row))
    log_fact(connection, caller, fact, subject=row.name, project=row.project)
    write_audit_note(connection, caller, what, subject=row.name, name=row.name, project=row.project)


def reservation_of(row: DocumentRow) -> model.Reservation:
    """Return a reservation as the engine knows it."""
    return _model(_BODY.decode(row.body), row.version)


def _resources(connection: Connection) -> dict[tuple[str, str], Collection[str]]:
    """Return the resources that each reservation names, by project and name."""
    rows = documents.list_all(connection, "reservation")
    return {(row.project, row.name): _BODY.decode(row.body).amounts for row in rows}


def _check_names(asked: ReservationCreate) -> None:
    """Reject names with hidden characters; InputError. Existing names stay readable."""
    if len(asked.hosts) > _MOST_TERMS:
        raise InputError(f"hosts: {len(asked.hosts)} terms", hint=f"write at most {_MOST_TERMS}, or use a selector")
    check_texts("amounts", list(asked.amounts))
    check_texts("hosts", msgspec.to_builtins(asked.hosts))


def _model(asked: ReservationCreate, version: int) -> model.Reservation:
    """Return a reservation for the engine; InputError."""
    check_word("gang", asked.gang)
    check_selector("host_selector", asked.host_selector)
    since, until = parse_time("since", asked.since), parse_time("until", asked.until)
    if until and until <= since:
        raise InputError("until: it is not after since", hint="let it end after it begins, or leave it out: never")
    entry = ReservationEntry(
        name=f"{asked.project}/{asked.name}",
        amounts=asked.amounts,
        host_selector=asked.host_selector,
        hosts=asked.hosts,
        tenant="" if asked.gang else asked.project,
        gang=f"{asked.project}/{asked.gang}" if asked.gang else "",
    )
    found = read_reservation(Source(None, "the request"), (), entry)
    return msgspec.structs.replace(found, version=version, since=since, until=until)


def _show(row: DocumentRow) -> Reservation:
    body = _BODY.decode(row.body)
    kept = _model(body, row.version)
    return Reservation(
        project=row.project,
        name=row.name,
        amounts={name: format_resource(name, amount) for name, amount in kept.amounts},
        gang=body.gang,
        host_selector=body.host_selector,
        hosts=body.hosts,
        since=format_time(kept.since) if kept.since else "",
        until=format_time(kept.until) if kept.until else "",
        created_at=format_time(row.created_ns),
        updated_at=format_time(row.updated_ns),
        version=row.version,
    )
