"""Reservations: what hosts keep free for the VMs of a project, or of one gang."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from hostler.config.documents import Document as Source
from hostler.config.fleet_file_tenancy import ReservationEntry
from hostler.config.fleet_tenancy import read_reservation
from hostler.control.api.shapes import Page, Reservation, ReservationCreate, ReservationEdit
from hostler.control.services.bounds import (
    MAX_RESERVATIONS,
    MAX_RESERVATIONS_OF_PROJECT,
    check_count,
    check_resources,
    check_total,
)
from hostler.control.services.callers import Caller, note, tell_engine
from hostler.control.services.covering import covering, said
from hostler.control.services.documents import check_project, document, find, page_of, written
from hostler.control.services.merging import changed
from hostler.control.services.times import at, parse_time
from hostler.control.services.versions import Versions, check_version
from hostler.control.store import Connection, documents
from hostler.control.store.documents import Document
from hostler.control.vms.spec import check_selector, check_texts, check_word
from hostler.engine import Engine
from hostler.errors import FactError, InputError
from hostler.model import ReservationChanged, ReservationLeft, format_resource
from hostler.model import tenancy as model

__all__ = ["are_there", "create", "delete", "edit", "get", "list_page", "noted", "reservation_of"]

_MOST_TERMS = 64  # every host is compared with each of them
_BODY = msgspec.json.Decoder(ReservationCreate)


def create(connection: Connection, asked: ReservationCreate, caller: Caller) -> Reservation:
    """Keep room; NameTakenError."""
    caller.principal.check("reservation.change")
    check_project(connection, asked.project)
    _check_names(asked)
    _model(asked, 1)
    others = _resources(connection)
    check_total("reservations", len(others), MAX_RESERVATIONS)
    own = sum(project == asked.project for project, _ in others)
    check_count(asked.project, "reservations", own, MAX_RESERVATIONS_OF_PROJECT)
    check_resources(asked.project, asked.name, asked.amounts, others)
    row = documents.insert(connection, "reservation", document(asked.project, asked.name, asked, caller))
    _tell(connection, caller, "reservation.create", row)
    return _show(row)


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
    body = changed(_BODY.decode(row.body), asked)
    _check_names(body)
    _model(body, 1)
    check_resources(project, name, body.amounts, _resources(connection))
    row = documents.save(connection, "reservation", written(row, body, caller))
    _tell(connection, caller, "reservation.change", row)
    return _show(row)


def delete(connection: Connection, project: str, name: str, caller: Caller, *, versions: Versions = None) -> None:
    """Give the room back."""
    row = find(connection, "reservation", project, name, caller)
    caller.principal.check("reservation.delete")
    check_version(f"reservation {name}", row.version, versions)
    documents.drop(connection, "reservation", row)
    fact = ReservationLeft(name=f"{project}/{name}")
    tell_engine(connection, caller, fact, subject=name, project=project)
    note(connection, caller, "reservation.delete", subject=name, name=name, project=project)


def get(connection: Connection, project: str, name: str, caller: Caller) -> Reservation:
    """Return a reservation; NotFoundError."""
    return _show(find(connection, "reservation", project, name, caller))


def list_page(connection: Connection, caller: Caller, *, project: str, after: str, limit: int) -> Page[Reservation]:
    """Return the reservations that the caller may see, by project and name."""
    page = page_of(connection, "reservation", caller, project=project, after=after, limit=limit)
    return Page(items=[_show(row) for row in page.items], next=page.next)


def are_there(connection: Connection) -> bool:
    """Say whether anybody keeps any room."""
    return bool(documents.list_page(connection, "reservation", limit=1).items)


def noted(engine: Engine, found: Reservation) -> Reservation:
    """Return a reservation with what it does now, as a twin of the engine sees it, or why the engine rejects it."""
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
        note = said(covering(engine, _model(asked, found.version)), whom)
    except FactError as error:  # a row that was written before the API had its bounds
        note = f"nothing is kept: {error.message}"
    return msgspec.structs.replace(found, note=note)


def _tell(connection: Connection, caller: Caller, what: str, row: Document) -> None:
    fact = ReservationChanged(reservation=reservation_of(row))
    tell_engine(connection, caller, fact, subject=row.name, project=row.project)
    note(connection, caller, what, subject=row.name, name=row.name, project=row.project)


def reservation_of(row: Document) -> model.Reservation:
    """Return a reservation as the engine knows it."""
    return _model(_BODY.decode(row.body), row.version)


def _resources(connection: Connection) -> dict[tuple[str, str], Collection[str]]:
    """Return the resources that each reservation names, by project and name."""
    rows = documents.list_all(connection, "reservation")
    return {(row.project, row.name): _BODY.decode(row.body).amounts for row in rows}


def _check_names(asked: ReservationCreate) -> None:
    """Refuse names that hide something from who reads them; InputError. What was taken before stays readable."""
    if len(asked.hosts) > _MOST_TERMS:
        raise InputError(f"hosts: {len(asked.hosts)} terms", hint=f"write at most {_MOST_TERMS}, or use a selector")
    check_texts("amounts", list(asked.amounts))
    check_texts("hosts", msgspec.to_builtins(asked.hosts))


def _model(asked: ReservationCreate, version: int) -> model.Reservation:
    """Return what the engine is told; InputError."""
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


def _show(row: Document) -> Reservation:
    body = _BODY.decode(row.body)
    kept = _model(body, row.version)
    return Reservation(
        project=row.project,
        name=row.name,
        amounts={name: format_resource(name, amount) for name, amount in kept.amounts},
        gang=body.gang,
        host_selector=body.host_selector,
        hosts=body.hosts,
        since=at(kept.since) if kept.since else "",
        until=at(kept.until) if kept.until else "",
        created_at=at(row.created_ns),
        updated_at=at(row.updated_ns),
        version=row.version,
    )
