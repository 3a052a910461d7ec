"""Gangs: VMs that are placed together or not at all. VMs name their gang in their spec."""

from __future__ import annotations

from functools import cache

import msgspec

from hostler.config.times import parse_duration
from hostler.control.access.errors import ForbiddenError
from hostler.control.books import ledger
from hostler.control.schemas import Gang, GangCreate, GangEdit, Page
from hostler.control.services.callers import Caller, log_fact, write_audit_note
from hostler.control.services.merge_patch import apply_edit
from hostler.control.services.tenancy.bounds import MAX_GANGS_OF_PROJECT, check_count, check_priority
from hostler.control.services.tenancy.project_documents import check_project, find, new_document, page_of, with_body
from hostler.control.services.times import format_time
from hostler.control.services.versions import Versions, check_version
from hostler.control.services.vms.vm_views import SEARCHING, WAITING, Gathers
from hostler.control.store import Connection
from hostler.control.store.errors import StillUsedError
from hostler.control.store.rows import documents, vms
from hostler.control.store.rows.documents import DocumentRow
from hostler.control.store.rows.vms import VmFilter
from hostler.control.vms.status_texts import describe_incomplete_gang, is_search_reason
from hostler.errors import InputError, QuantityError
from hostler.model import GangChanged, GangLeft
from hostler.model import tenancy as model
from hostler.model.vocabulary import plural

__all__ = ["create", "delete", "edit", "gang_of", "get", "list_page", "with_search", "with_stopped_members"]

_BODY = msgspec.json.Decoder(GangCreate)
_replace = msgspec.structs.replace
_PASS = "choose head_of_line skip, by which others pass it, or ask an administrator of all projects"


def create(connection: Connection, asked: GangCreate, caller: Caller) -> Gang:
    """Create a gang; NameTakenError. VMs that name it may exist already."""
    caller.principal.check("gang.change", asked.project)
    check_project(connection, asked.project)
    _model(asked, 1)
    check_priority(connection, asked.project, asked.priority or 0, caller)
    _check_holding(asked, caller)
    there = len(documents.list_all(connection, "gang", asked.project))
    check_count(asked.project, "gangs", there, MAX_GANGS_OF_PROJECT)
    row = documents.insert(connection, "gang", new_document(asked.project, asked.name, asked, caller))
    _log_change(connection, caller, "gang.create", row)
    return _show(connection, row)


def edit(
    connection: Connection, project: str, name: str, asked: GangEdit, caller: Caller, *, versions: Versions = None
) -> Gang:
    """Change a gang."""
    row = find(connection, "gang", project, name, caller)
    caller.principal.check("gang.change", project)
    check_version(f"gang {name}", row.version, versions)
    old = _BODY.decode(row.body)
    body = apply_edit(old, asked)
    _model(body, 1)
    check_priority(connection, project, body.priority or 0, caller, before=old.priority or 0)
    if old.head_of_line != body.head_of_line:
        _check_holding(body, caller)
    row = documents.save(connection, "gang", with_body(row, body, caller))
    _log_change(connection, caller, "gang.change", row)
    return _show(connection, row)


def delete(connection: Connection, project: str, name: str, caller: Caller, *, versions: Versions = None) -> None:
    """Delete a gang that no VM names; StillUsedError."""
    row = find(connection, "gang", project, name, caller)
    caller.principal.check("gang.delete", project)
    check_version(f"gang {name}", row.version, versions)
    members = vms.count(connection, VmFilter(project=project, gang=name))
    if members:
        raise StillUsedError(
            f"gang {name} has {plural(members, 'VM')}", hint="delete its VMs first: they would wait forever"
        )
    documents.drop(connection, "gang", row)
    log_fact(connection, caller, GangLeft(key=f"{project}/{name}"), subject=name, project=project)
    write_audit_note(connection, caller, "gang.delete", subject=name, name=name, project=project)


def get(connection: Connection, project: str, name: str, caller: Caller) -> Gang:
    """Return a gang; NotFoundError."""
    return _show(connection, find(connection, "gang", project, name, caller))


def list_page(connection: Connection, caller: Caller, *, project: str, after: str, limit: int) -> Page[Gang]:
    """Return the gangs that the caller may see, by project and name."""
    page = page_of(connection, "gang", caller, project=project, after=after, limit=limit)
    return Page(items=[_show(connection, row) for row in page.items], next=page.next)


def with_search(found: Gang, gathers: Gathers) -> Gang:
    """Return a gang with whether the search for its room is in progress. The rows of its members do not have that."""
    gang = f"{found.project}/{found.name}"
    why = gathers(gang)
    if found.reason != WAITING or not is_search_reason(why, gang):
        return found
    return _replace(found, reason=SEARCHING, why=_with_stopped_text(why, found.stopped))


def _check_holding(asked: GangCreate, caller: Caller) -> None:
    """Reject a gang with ``head_of_line: reserve`` unless its author may reserve room: no quota counts it."""
    why = caller.principal.why_not("reservation.change") if asked.head_of_line == "reserve" else None
    if why is not None:
        raise ForbiddenError(f"head_of_line: reserve holds room that others need, and {why}", hint=_PASS)


def _log_change(connection: Connection, caller: Caller, what: str, row: DocumentRow) -> None:
    fact = GangChanged(gang=gang_of(row))
    log_fact(connection, caller, fact, subject=row.name, project=row.project)
    write_audit_note(connection, caller, what, subject=row.name, name=row.name, project=row.project)


def gang_of(row: DocumentRow) -> model.Gang:
    """Return a gang as the engine knows it."""
    return _model(_BODY.decode(row.body), row.version)


def _model(asked: GangCreate, version: int) -> model.Gang:
    """Return a gang for the engine; InputError."""
    if asked.max_count and asked.max_count < asked.min_count:
        raise InputError("max_count: it is below min_count", hint="raise it, or leave it out for any number")
    if not asked.topology.isprintable() or " " in asked.topology:
        raise InputError("topology: not the key of a label", hint="name a label of hosts, without spaces")
    return model.Gang(
        name=asked.name,
        namespace=asked.project,
        version=version,
        min_count=asked.min_count,
        max_count=asked.max_count,
        priority=asked.priority,
        topology=asked.topology,
        disruption=asked.disruption,
        when_broken=asked.when_broken,
        release_after_ns=_duration("release_after", asked.release_after),
        head_of_line=asked.head_of_line,
    )


def _duration(place: str, text: str) -> int:
    """Parse a duration; QuantityError names the field."""
    try:
        return parse_duration(text)
    except QuantityError as error:
        raise QuantityError(f"{place}: {error.message}", hint=error.hint) from None


def _show(connection: Connection, row: DocumentRow) -> Gang:
    body = _BODY.decode(row.body)
    members = VmFilter(project=row.project, gang=row.name)
    waiting = vms.count(connection, _replace(members, host=""))
    total = vms.count(connection, members)
    stopped = _count_stopped(connection, members)
    there = total - stopped - vms.count(connection, _replace(members, power="absent"))
    pending = vms.list_page(connection, _replace(members, state="pending"), limit=1).items
    # The decision about the first member counts if the gang is complete.
    why = describe_incomplete_gang(there, body.min_count) or ledger.read_row(pending[0]).vm.why if pending else ""
    return Gang(
        project=row.project,
        name=row.name,
        min_count=body.min_count,
        max_count=body.max_count,
        priority=body.priority,
        topology=body.topology,
        disruption=body.disruption,
        when_broken=body.when_broken,
        release_after=body.release_after,
        head_of_line=body.head_of_line,
        members=total,
        placed=total - waiting,
        stopped=stopped,
        why=_with_stopped_text(why, stopped),
        reason=WAITING if pending else "",
        created_at=format_time(row.created_ns),
        updated_at=format_time(row.updated_ns),
        version=row.version,
    )


def with_stopped_members(connection: Connection, gathers: Gathers) -> Gathers:
    """Return what gangs lack, including how many of their members are stopped: these do not count.

    A gang whose search is in progress lacks no members.
    """

    @cache
    def said(gang: str) -> str:
        lacks = gathers(gang)
        project, _, name = gang.partition("/")
        if not lacks or is_search_reason(lacks, gang):
            return lacks
        return _with_stopped_text(lacks, _count_stopped(connection, VmFilter(project=project, gang=name)))

    return said


def _count_stopped(connection: Connection, members: VmFilter) -> int:
    return vms.count(connection, _replace(members, power="stopped"))


def _with_stopped_text(why: str, stopped: int) -> str:
    if not stopped:
        return why
    some = "1 is stopped" if stopped == 1 else f"{stopped} are stopped"
    return f"{why}; {some}" if why else some
