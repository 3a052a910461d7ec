"""Quotas: the guaranteed minimum and the maximum of each project. One fact tells the engine all of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from hostler.control.schemas import Page, Quota, QuotaCreate, QuotaEdit
from hostler.control.services.callers import Caller, log_fact, write_audit_note
from hostler.control.services.tenancy.project_documents import check_project, find, new_document, page_of, with_body
from hostler.control.services.times import format_time
from hostler.control.services.versions import Versions, check_version
from hostler.control.store import Connection
from hostler.control.store.rows import documents
from hostler.control.store.rows.documents import DocumentRow
from hostler.engine import Engine
from hostler.errors import InputError, QuantityError
from hostler.model import (
    CPU,
    GUESTS,
    MAX_AMOUNT,
    MEMORY,
    Amounts,
    QuotasChanged,
    amount_of,
    format_resource,
    parse_resource,
)
from hostler.model import tenancy as model
from hostler.model.resources import STORAGE

__all__ = [
    "QuotaBody", "all_quotas", "create", "delete", "edit", "get", "list_all", "list_page", "log_quotas",
    "with_use",
]  # fmt: skip

NAME = "quota"  # a project has one
_RESOURCES = (CPU, MEMORY, STORAGE, GUESTS)  # what VMs use; a limit of anything else would have no effect


class QuotaBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a quota that its row keeps as JSON."""

    min: Amounts = ()
    max: Amounts = ()


def create(connection: Connection, asked: QuotaCreate, caller: Caller, used: Mapping[str, Amounts]) -> Quota:
    """Create the quota of a project; NameTakenError if it has one."""
    caller.principal.check("quota.change")
    check_project(connection, asked.project)
    body = _check_order(_read("min", asked.min), _read("max", asked.max))
    row = documents.insert(connection, "quota", new_document(asked.project, NAME, body, caller))
    _log_change(connection, caller, "quota.create", asked.project)
    return _show(row, used)


def edit(
    connection: Connection,
    project: str,
    asked: QuotaEdit,
    caller: Caller,
    used: Mapping[str, Amounts],
    *,
    versions: Versions = None,
) -> Quota:
    """Change a quota."""
    row = find(connection, "quota", project, NAME, caller)
    caller.principal.check("quota.change")
    check_version(f"the quota of {project}", row.version, versions)
    old = msgspec.json.decode(row.body, type=QuotaBody)
    body = _check_order(
        old.min if asked.min is UNSET else _read("min", asked.min),
        old.max if asked.max is UNSET else _read("max", asked.max),
    )
    row = documents.save(connection, "quota", with_body(row, body, caller))
    _log_change(connection, caller, "quota.change", project)
    return _show(row, used)


def delete(connection: Connection, project: str, caller: Caller, *, versions: Versions = None) -> None:
    """Delete the quota of a project: nothing is guaranteed, and nothing limits it."""
    row = find(connection, "quota", project, NAME, caller)
    caller.principal.check("quota.delete")
    check_version(f"the quota of {project}", row.version, versions)
    documents.drop(connection, "quota", row)
    _log_change(connection, caller, "quota.delete", project)


def get(connection: Connection, project: str, caller: Caller, used: Mapping[str, Amounts]) -> Quota:
    """Return the quota of a project; NotFoundError."""
    return _show(find(connection, "quota", project, NAME, caller), used)


def list_all(connection: Connection, caller: Caller, used: Mapping[str, Amounts], project: str = "") -> Page[Quota]:
    """Return all quotas that the caller may see, in one page."""
    project = caller.principal.limit_project(project)
    caller.principal.check("quota.read", project)
    rows = documents.list_all(connection, "quota", project or None)
    return Page(items=[_show(row, used) for row in rows])


def list_page(
    connection: Connection, caller: Caller, used: Mapping[str, Amounts], *, project: str, after: str, limit: int
) -> Page[Quota]:
    """Return the quotas that the caller may see, by project."""
    page = page_of(connection, "quota", caller, project=project, after=after, limit=limit)
    return Page(items=[_show(row, used) for row in page.items], next=page.next)


def log_quotas(connection: Connection, caller: Caller, project: str) -> None:
    """Log a fact with all current quotas for the engine."""
    fact = QuotasChanged(quotas=all_quotas(connection))
    log_fact(connection, caller, fact, subject=project, project=project)


def all_quotas(connection: Connection) -> tuple[model.Quota, ...]:
    """Return the quotas of all projects, as the engine knows them."""
    rows = documents.list_all(connection, "quota")
    bodies = [(row, msgspec.json.decode(row.body, type=QuotaBody)) for row in rows]
    return tuple(model.Quota(tenant=row.project, version=row.version, min=b.min, max=b.max) for row, b in bodies)


def _log_change(connection: Connection, caller: Caller, what: str, project: str) -> None:
    log_quotas(connection, caller, project)
    write_audit_note(connection, caller, what, subject=project, name=project, project=project)


def _read(place: str, values: Mapping[str, str | int | float]) -> Amounts:
    """Parse amounts. A zero counts, because a missing amount means no maximum."""
    found = {}
    for name, value in values.items():
        if name not in _RESOURCES:
            hint = "cpu, memory, storage (disks on hosts) and guests (how many VMs) are; devices are not"
            raise InputError(f"{place}: {name[:40]!r} is not counted by quotas", hint=hint)
        try:
            amount = parse_resource(name, value)
        except QuantityError as error:
            raise QuantityError(f"{place}.{name}: {error.message}", hint=error.hint) from None
        if not 0 <= amount <= MAX_AMOUNT:
            raise InputError(f"{place}.{name}: out of range", hint="0 to 2^62 units")
        found[name] = amount
    return tuple(sorted(found.items()))


def _check_order(least: Amounts, most: Amounts) -> QuotaBody:
    for name, limit in most:
        if amount_of(least, name) > limit:
            raise InputError(f"max.{name} is below min.{name}", hint="raise max or lower min")
    return QuotaBody(tuple((name, amount) for name, amount in least if amount), most)


def _show(row: DocumentRow, used: Mapping[str, Amounts]) -> Quota:
    body = msgspec.json.decode(row.body, type=QuotaBody)
    return Quota(
        project=row.project,
        min=_texts(body.min),
        max=_texts(body.max),
        used=_texts(used.get(row.project, ())),
        created_at=format_time(row.created_ns),
        updated_at=format_time(row.updated_ns),
        version=row.version,
        note=_note(row.project, body.max, used.get(row.project, ())),
    )


def with_use(engine: Engine, found: Quota) -> Quota:
    """Return a changed quota with what the project uses: the engine counts only the resources that quotas name."""
    most = _read("max", found.max)
    known = engine.view.quotas.by_tenant
    if found.project not in known or known[found.project].version < found.version:
        changed = model.Quota(tenant=found.project, version=found.version, min=_read("min", found.min), max=most)
        engine.apply(QuotasChanged(quotas=tuple({**known, found.project: changed}.values())))
    used = tuple(sorted(engine.view.quotas.used.get(found.project, {}).items()))
    return msgspec.structs.replace(found, used=_texts(used), note=_note(found.project, most, used))


def _note(project: str, most: Amounts, used: Amounts) -> str:
    """Say that the VMs of a project use more than a maximum; empty if they do not."""
    over = [(name, limit) for name, limit in most if amount_of(used, name) > limit]
    if not over:
        return ""
    has = ", ".join(f"{name} {format_resource(name, amount_of(used, name))}" for name, _ in over)
    limits = ", ".join(f"{name} {format_resource(name, limit)}" for name, limit in over)
    more = " or ".join(name for name, _ in over)
    return (
        f"the VMs of {project} use {has}, more than the maximum {limits}: they keep it, and no VM that needs more "
        f"{more} is placed until they use less"
    )


def _texts(values: Amounts) -> dict[str, str]:
    return {name: format_resource(name, amount) for name, amount in values}
