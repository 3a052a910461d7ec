"""Quotas of projects: what each is guaranteed and may have at most. The engine is told all of them at once."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from hostler.config.entries import Quantities
from hostler.control.api.shapes import Page, Quota, QuotaCreate, QuotaEdit
from hostler.control.services.callers import Caller, note, tell_engine
from hostler.control.services.documents import check_project, document, find, page_of, written
from hostler.control.services.times import at
from hostler.control.services.versions import Versions, check_version
from hostler.control.store import Connection, documents
from hostler.control.store.documents import Document
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

__all__ = ["QuotaBody", "all_quotas", "create", "delete", "edit", "get", "list_all", "list_page", "retell"]

NAME = "quota"  # a project has one
_RESOURCES = (CPU, MEMORY, STORAGE, GUESTS)  # what VMs are counted by; a limit of anything else would limit nobody


class QuotaBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a row keeps as JSON."""

    min: Amounts = ()
    max: Amounts = ()


def create(connection: Connection, asked: QuotaCreate, caller: Caller, used: Mapping[str, Amounts]) -> Quota:
    """Give a project a quota; NameTakenError if it has one."""
    caller.principal.check("quota.change")
    check_project(connection, asked.project)
    body = _checked(_read("min", asked.min), _read("max", asked.max))
    row = documents.insert(connection, "quota", document(asked.project, NAME, body, caller))
    _told(connection, caller, "quota.create", asked.project)
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
    body = _checked(
        old.min if asked.min is UNSET else _read("min", asked.min),
        old.max if asked.max is UNSET else _read("max", asked.max),
    )
    row = documents.save(connection, "quota", written(row, body, caller))
    _told(connection, caller, "quota.change", project)
    return _show(row, used)


def delete(connection: Connection, project: str, caller: Caller, *, versions: Versions = None) -> None:
    """Take a project's quota away: nothing is guaranteed, and nothing limits it."""
    row = find(connection, "quota", project, NAME, caller)
    caller.principal.check("quota.delete")
    check_version(f"the quota of {project}", row.version, versions)
    documents.drop(connection, "quota", row)
    _told(connection, caller, "quota.delete", project)


def get(connection: Connection, project: str, caller: Caller, used: Mapping[str, Amounts]) -> Quota:
    """Return the quota of a project; NotFoundError."""
    return _show(find(connection, "quota", project, NAME, caller), used)


def list_all(connection: Connection, caller: Caller, used: Mapping[str, Amounts], project: str = "") -> Page[Quota]:
    """Return all quotas that the caller may see, in one page."""
    project = caller.principal.narrowed(project)
    caller.principal.check("quota.read", project)
    rows = documents.list_all(connection, "quota", project or None)
    return Page(items=[_show(row, used) for row in rows])


def list_page(
    connection: Connection, caller: Caller, used: Mapping[str, Amounts], *, project: str, after: str, limit: int
) -> Page[Quota]:
    """Return the quotas that the caller may see, by project."""
    page = page_of(connection, "quota", caller, project=project, after=after, limit=limit)
    return Page(items=[_show(row, used) for row in page.items], next=page.next)


def retell(connection: Connection, caller: Caller, project: str) -> None:
    """Tell the engine which quotas hold from now on."""
    fact = QuotasChanged(quotas=all_quotas(connection))
    tell_engine(connection, caller, fact, subject=project, project=project)


def all_quotas(connection: Connection) -> tuple[model.Quota, ...]:
    """Return the quotas of all projects, as the engine knows them."""
    rows = documents.list_all(connection, "quota")
    bodies = [(row, msgspec.json.decode(row.body, type=QuotaBody)) for row in rows]
    return tuple(model.Quota(tenant=row.project, version=row.version, min=b.min, max=b.max) for row, b in bodies)


def _told(connection: Connection, caller: Caller, what: str, project: str) -> None:
    retell(connection, caller, project)
    note(connection, caller, what, subject=project, name=project, project=project)


def _read(place: str, values: Quantities) -> Amounts:
    """Read amounts; a zero counts, since without it there would be no maximum."""
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


def _checked(least: Amounts, most: Amounts) -> QuotaBody:
    for name, limit in most:
        if amount_of(least, name) > limit:
            raise InputError(f"max.{name} is below min.{name}", hint="raise max or lower min")
    return QuotaBody(tuple((name, amount) for name, amount in least if amount), most)


def _show(row: Document, used: Mapping[str, Amounts]) -> Quota:
    body = msgspec.json.decode(row.body, type=QuotaBody)
    return Quota(
        project=row.project,
        min=_texts(body.min),
        max=_texts(body.max),
        used=_texts(used.get(row.project, ())),
        created_at=at(row.created_ns),
        updated_at=at(row.updated_ns),
        version=row.version,
    )


def _texts(values: Amounts) -> dict[str, str]:
    return {name: format_resource(name, amount) for name, amount in values}
