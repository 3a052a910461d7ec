"""Reservations: room that hosts keep for the VMs of a project, or of one gang."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from hostler.config.documents import Document as Source
from hostler.config.entries import read_amounts
from hostler.config.fleet.file_tenancy import ReservationEntry
from hostler.config.fleet.file_terms import NameExpressionEntry, TermEntry
from hostler.config.fleet.tenancy import read_reservation
from hostler.control.schemas import Page, Reservation, ReservationBody, ReservationCreate, ReservationEdit
from hostler.control.services.callers import Caller, log_fact, write_audit_note
from hostler.control.services.errors import TakesAllRoomError
from hostler.control.services.merge_patch import apply_edit
from hostler.control.services.reservation_coverage import (
    check_holdable,
    coverage_text,
    divide_total,
    find_closed,
    measure_coverage,
)
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
from hostler.model import Amounts, ReservationChanged, ReservationLeft, format_resource
from hostler.model import tenancy as model

__all__ = [
    "create", "delete", "edit", "get", "get_body", "has_any", "list_page", "needs_engine", "prepare_edit",
    "prepare_new", "reservation_of", "with_note",
]  # fmt: skip

_MOST_TERMS = 64  # every host is compared with each of them
_BODY = msgspec.json.Decoder(ReservationBody)
_REQUEST = Source(None, "the request")
_NOT_ONE = InputError("give either amounts or total", hint="amounts are kept on each host, total on all together")


def create(connection: Connection, wish: ReservationCreate, caller: Caller) -> Reservation:
    """Create a reservation, prepared if it has a total; NameTakenError."""
    asked = _as_body(wish)
    caller.principal.check("reservation.change")
    check_project(connection, asked.project)
    _check_names(asked)
    _model(asked, 1)
    others = _resources(connection)
    check_total("reservations", len(others), MAX_RESERVATIONS)
    own = sum(project == asked.project for project, _ in others)
    check_count(asked.project, "reservations", own, MAX_RESERVATIONS_OF_PROJECT)
    check_resources(asked.project, asked.name, _names_of(asked), others)
    row = documents.insert(connection, "reservation", new_document(asked.project, asked.name, asked, caller))
    _log_change(connection, caller, "reservation.create", row)
    return _show(row)


def prepare_new(engine: Engine, asked: ReservationCreate) -> ReservationBody:
    """Return the body of a new reservation, with a total divided; InputError, TakesAllRoomError. Asks a fork."""
    if bool(asked.amounts) == bool(asked.total):
        raise _NOT_ONE
    body = _as_body(asked)
    _check_names(body)
    if body.total:
        body = _with_shares(engine, body)
    else:
        check_holdable(engine, _model(body, 1))
    return _with_room_left(engine, body)


def prepare_edit(engine: Engine, before: ReservationBody, edit: ReservationEdit) -> ReservationBody:
    """Return the body of an edited reservation, with a total divided again; InputError, TakesAllRoomError."""
    body = _edited(before, edit)
    _check_names(body)
    if body.total and not body.shares:
        body = _with_shares(engine, body)
    elif edit.amounts is not UNSET:
        check_holdable(engine, _model(body, 1))
    return _with_room_left(engine, body)


def needs_engine(edit: ReservationEdit) -> bool:
    """Return whether an edit changes what hosts keep, so that it is prepared with an engine."""
    return any(getattr(edit, name) is not UNSET for name in ("amounts", "total", "host_selector", "hosts"))


def _edited(before: ReservationBody, edit: ReservationEdit) -> ReservationBody:
    """Return a body after an edit; a total that is to be divided again has no shares."""
    body = apply_edit(before, edit)
    if edit.amounts is not UNSET and edit.total is not UNSET:
        raise _NOT_ONE
    are_hosts_new = edit.host_selector is not UNSET or edit.hosts is not UNSET
    if edit.host_selector and not edit.hosts:
        body = replace(body, hosts=[])
    elif edit.hosts and not edit.host_selector:
        body = replace(body, host_selector={})
    if edit.amounts is not UNSET:
        if before.shares and not are_hosts_new:  # hosts that joined since keep nothing
            body = replace(body, hosts=[_by_name(before.shares)], host_selector={})
        return replace(body, total={}, shares={})
    if edit.total is not UNSET:
        return replace(body, amounts={}, shares={})
    return replace(body, shares={}) if body.total and are_hosts_new else body


def _with_shares(engine: Engine, body: ReservationBody) -> ReservationBody:
    """Return a body with its total divided over the matching hosts; InputError."""
    total = _model(replace(body, amounts=body.total, total={}), 1)
    shares = divide_total(engine, total, total.amounts)
    return replace(body, shares={host: dict(_as_texts(amounts)) for host, amounts in shares.items()})


def _with_room_left(engine: Engine, body: ReservationBody) -> ReservationBody:
    """Return a body as it is stored; TakesAllRoomError if it was to leave room and does not."""
    if body.leave_room and (closed := find_closed(engine, _model(body, 1))):
        raise TakesAllRoomError(
            f"no host would have {' or '.join(closed)} left for others than {_whom(body.project, body.gang)}",
            hint="reserve less, or send it without leave_room",
        )
    return replace(body, leave_room=False)


def _as_body(asked: ReservationCreate) -> ReservationBody:
    """Return what was asked as a body, without shares unless it is one already."""
    if isinstance(asked, ReservationBody):
        return asked
    return ReservationBody(**{name: getattr(asked, name) for name in asked.__struct_fields__})


def _as_texts(amounts: Amounts) -> dict[str, str]:
    return {name: format_resource(name, amount) for name, amount in amounts}


def _by_name(hosts: Iterable[str]) -> TermEntry:
    """Return a term that matches these hosts."""
    names: list[str | NameExpressionEntry] = [*sorted(hosts)]
    return TermEntry(names=names)


def _whom(project: str, gang: str) -> str:
    return f"gang {gang} of project {project}" if gang else f"project {project}"


def edit(
    connection: Connection,
    project: str,
    name: str,
    asked: ReservationEdit,
    caller: Caller,
    *,
    versions: Versions = None,
    prepared: ReservationBody | None = None,
) -> Reservation:
    """Change a reservation; ``prepared`` is its new body, if the edit needs the engine."""
    row = find(connection, "reservation", project, name, caller)
    caller.principal.check("reservation.change")
    check_version(f"reservation {name}", row.version, versions)
    body = _edited(_BODY.decode(row.body), asked) if prepared is None else prepared
    _check_names(body)
    _model(body, 1)
    check_resources(project, name, _names_of(body), _resources(connection))
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


def get_body(connection: Connection, project: str, name: str, caller: Caller) -> tuple[ReservationBody, int]:
    """Return a reservation as it is stored, and its version; NotFoundError."""
    row = find(connection, "reservation", project, name, caller)
    return _BODY.decode(row.body), row.version


def list_page(connection: Connection, caller: Caller, *, project: str, after: str, limit: int) -> Page[Reservation]:
    """Return the reservations that the caller may see, by project and name."""
    page = page_of(connection, "reservation", caller, project=project, after=after, limit=limit)
    return Page(items=[_show(row) for row in page.items], next=page.next)


def has_any(connection: Connection) -> bool:
    """Return whether there are any reservations."""
    return bool(documents.list_page(connection, "reservation", limit=1).items)


def with_note(engine: Engine, found: Reservation) -> Reservation:
    """Return a reservation with its current coverage, or with the reason why the engine rejects it."""
    body = ReservationBody(
        name=found.name,
        project=found.project,
        amounts=dict(found.amounts),
        shares={host: dict(amounts) for host, amounts in (found.shares or {}).items()},
        gang=found.gang,
        host_selector=found.host_selector,
        hosts=found.hosts,
        since=found.since,
        until=found.until,
    )
    try:
        coverage = measure_coverage(engine, _model(body, found.version))
        note = coverage_text(coverage, _whom(found.project, found.gang))
    except FactError as error:  # a row that was written before the API had its bounds
        note = f"nothing is kept: {error.message}"
    return replace(found, note=note)


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
    return {(row.project, row.name): _names_of(_BODY.decode(row.body)) for row in rows}


def _names_of(body: ReservationBody) -> Collection[str]:
    """Return the resources that a reservation names."""
    return {*body.amounts, *body.total}


def _check_names(asked: ReservationBody) -> None:
    """Reject names with hidden characters; InputError. Existing names stay readable."""
    if len(asked.hosts) > _MOST_TERMS:
        raise InputError(f"hosts: {len(asked.hosts)} terms", hint=f"write at most {_MOST_TERMS}, or use a selector")
    check_texts("amounts", list(asked.amounts))
    check_texts("total", list(asked.total))
    check_texts("hosts", msgspec.to_builtins(asked.hosts))


def _model(asked: ReservationBody, version: int) -> model.Reservation:
    """Return a reservation for the engine; InputError. Equal shares are amounts on hosts by name."""
    if asked.shares:
        first, *more = asked.shares.values()
        names = [_by_name(asked.shares)]
        is_equal = all(one == first for one in more)
        asked = replace(
            asked, host_selector={}, **({"amounts": first, "hosts": names, "shares": {}} if is_equal else {})
        )
    check_word("gang", asked.gang)
    check_selector("host_selector", asked.host_selector)
    since, until = parse_time("since", asked.since), parse_time("until", asked.until)
    if until and until <= since:
        raise InputError("until: it is not after since", hint="let it end after it begins, or leave it out: never")
    entry = ReservationEntry(
        name=f"{asked.project}/{asked.name}",
        amounts=asked.amounts,
        shares=asked.shares,
        host_selector=asked.host_selector,
        hosts=[] if asked.shares else asked.hosts,
        tenant="" if asked.gang else asked.project,
        gang=f"{asked.project}/{asked.gang}" if asked.gang else "",
    )
    found = read_reservation(_REQUEST, (), entry)
    return replace(found, version=version, since=since, until=until)


def _show(row: DocumentRow) -> Reservation:
    body = _BODY.decode(row.body)
    kept = _model(body, row.version)
    return Reservation(
        project=row.project,
        name=row.name,
        amounts=_as_texts(kept.amounts),
        gang=body.gang,
        host_selector={} if body.shares else body.host_selector,
        hosts=_hosts_of(body, kept),
        since=format_time(kept.since) if kept.since else "",
        until=format_time(kept.until) if kept.until else "",
        created_at=format_time(row.created_ns),
        updated_at=format_time(row.updated_ns),
        version=row.version,
        total=_as_texts(read_amounts(_REQUEST, ("total",), body.total)) or UNSET,
        shares={host: _as_texts(amounts) for host, amounts in kept.shares} or UNSET,
    )


def _hosts_of(body: ReservationBody, kept: model.Reservation) -> list[TermEntry]:
    """Return the terms of a reservation's hosts; of one in equal shares, their names."""
    if not body.shares:
        return body.hosts
    return [] if kept.shares else [_by_name(body.shares)]
