"""Projects: the owners of VMs, keys and quotas. Their labels are the engine's namespace labels."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from hostler.control.schemas import Page, Project, ProjectCreate, ProjectEdit
from hostler.control.services.callers import Caller, log_fact, write_audit_note
from hostler.control.services.errors import TooManyInServiceError
from hostler.control.services.tenancy.quotas import log_quotas
from hostler.control.services.times import format_time
from hostler.control.services.versions import Versions, check_version
from hostler.control.settings import check_strategy
from hostler.control.store import Connection
from hostler.control.store.errors import NotFoundError
from hostler.control.store.rows import documents, keys, projects
from hostler.control.store.rows.projects import ProjectRow
from hostler.control.store.rows.versioned_rows import MOST_IN_A_PAGE
from hostler.control.store.rows.vms import count_by_project
from hostler.control.vms.spec import VmSpec, check_labels
from hostler.errors import InputError
from hostler.model import Event, GangLeft, NamespaceChanged, ReservationLeft, labels

__all__ = [
    "MAX_PROJECTS", "ProjectBody", "create", "delete", "edit", "get", "highest_priority", "labels_fact", "list_page",
    "with_strategies", "with_strategy",
]  # fmt: skip


MAX_PROJECTS = 10_000  # the engine keeps the labels of each


class ProjectBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a project that its row keeps as JSON."""

    description: str = ""
    labels: dict[str, str] = {}
    max_priority: int = 0
    strategy: str = ""


def create(connection: Connection, asked: ProjectCreate, caller: Caller) -> Project:
    """Create a project; NameTakenError."""
    caller.principal.check("project.create")
    if asked.max_priority:
        caller.principal.check("priority.raise")
    check_labels("labels", asked.labels)
    _check_description(asked.description)
    if (there := projects.count(connection)) >= MAX_PROJECTS:
        hint = "delete unused projects"
        raise TooManyInServiceError(f"there are {there} projects, the limit of the service", hint=hint)
    body = ProjectBody(asked.description, asked.labels, asked.max_priority, _check_strategy(asked.strategy, caller))
    row = ProjectRow(
        name=asked.name, created_ns=caller.now_ns, updated_ns=caller.now_ns, body=msgspec.json.encode(body)
    )
    projects.insert(connection, row)
    if asked.labels:
        _log_change(connection, caller, row.name, body)
    write_audit_note(connection, caller, "project.create", subject=row.name, name=row.name, project=row.name)
    return _show(row, 0)


def _check_description(text: str) -> None:
    """Reject control characters that move the cursor or hide text; several lines are allowed."""
    if not text.replace("\n", "").isprintable():
        raise InputError("description: it has control characters", hint="write plain text")


def edit(
    connection: Connection, name: str, asked: ProjectEdit, caller: Caller, *, versions: Versions = None
) -> Project:
    """Change a project."""
    row = _row(connection, name, caller)
    caller.principal.check("project.change", name)
    check_version(f"project {name}", row.version, versions)
    old = _read(row)
    body = ProjectBody(
        old.description if asked.description is UNSET else asked.description,
        old.labels if asked.labels is UNSET else asked.labels,
        old.max_priority if asked.max_priority is UNSET else asked.max_priority,
        old.strategy if asked.strategy is UNSET else _check_strategy(asked.strategy, caller),
    )
    if body.max_priority != old.max_priority:
        caller.principal.check("priority.raise")
    check_labels("labels", body.labels)
    if body.description != old.description:
        _check_description(body.description)
    changed = msgspec.structs.replace(row, updated_ns=caller.now_ns, body=msgspec.json.encode(body))
    row = projects.save(connection, changed)
    if body.labels != old.labels:
        _log_change(connection, caller, name, body)
    write_audit_note(connection, caller, "project.change", subject=name, name=name, project=name)
    return _read_view(connection, row)


def delete(connection: Connection, name: str, caller: Caller, *, versions: Versions = None) -> list[str]:
    """Delete a project that has no VMs, with its gangs, quotas and reservations; StillUsedError.

    Its keys are revoked, because they would open a later project of the same name. Returns the ids of these keys;
    notify the authenticator after the commit.
    """
    row = _row(connection, name, caller)
    caller.principal.check("project.delete")
    check_version(f"project {name}", row.version, versions)
    facts: list[Event] = [GangLeft(key=f"{name}/{one.name}") for one in documents.list_all(connection, "gang", name)]
    kept = documents.list_all(connection, "reservation", name)
    facts += [ReservationLeft(name=f"{name}/{one.name}") for one in kept]
    if _read(row).labels:
        facts.append(NamespaceChanged(name=name))
    had_quota = bool(documents.list_all(connection, "quota", name))
    projects.drop(connection, row)
    for fact in facts:
        log_fact(connection, caller, fact, subject=name, project=name)
    if had_quota:
        log_quotas(connection, caller, name)
    revoked = _revoke_keys(connection, name, caller)
    write_audit_note(connection, caller, "project.delete", subject=name, name=name, project=name)
    return revoked


def _revoke_keys(connection: Connection, project: str, caller: Caller) -> list[str]:
    revoked: list[str] = []
    after, is_more = "", True
    while is_more:
        page = keys.list_keys(connection, project=project, after=after, limit=MOST_IN_A_PAGE)
        for row in page.items:
            if row.revoked_ns is None or row.revoked_ns > caller.now_ns:
                keys.revoke_key(connection, row, caller.now_ns)
                text = f"key {row.id} ({row.name}) is revoked: its project is deleted"
                write_audit_note(
                    connection, caller, "key.revoke", subject=row.id, name=row.name, project=project, text=text
                )
                revoked.append(row.id)
        after, is_more = page.next, bool(page.next)
    return revoked


def get(connection: Connection, name: str, caller: Caller) -> Project:
    """Return a project; NotFoundError."""
    return _read_view(connection, _row(connection, name, caller))


def list_page(connection: Connection, caller: Caller, *, after: str, limit: int) -> Page[Project]:
    """Return the projects that the caller may see, by name."""
    only = caller.principal.project
    caller.principal.check("project.read", only)
    if only:
        found = projects.find(connection, only)
        return Page(items=[_read_view(connection, found)] if found is not None and only > after else [])
    rows = projects.list_after(connection, after, limit + 1)
    vms = count_by_project(connection)
    shown = [_show(row, vms.get(row.name, 0)) for row in rows[:limit]]
    return Page(items=shown, next=rows[limit - 1].name if len(rows) > limit else "")


def highest_priority(connection: Connection, name: str) -> int:
    """Return the highest priority that VMs and gangs of a project may have; NotFoundError."""
    return _read(projects.get(connection, name)).max_priority


def with_strategy(connection: Connection, project: str, spec: VmSpec) -> VmSpec:
    """Return a spec with its project's strategy, if it names none and the project has one."""
    return with_strategies(connection, [(project, spec)])[0]


def with_strategies(connection: Connection, asked: Sequence[tuple[str, VmSpec]]) -> list[VmSpec]:
    """Return specs with the strategies of their projects; each project is read once."""
    known: dict[str, str] = {}
    result: list[VmSpec] = []
    for project, spec in asked:
        if not spec.strategy and project not in known:
            row = projects.find(connection, project)
            known[project] = "" if row is None else _read(row).strategy
        strategy = spec.strategy or known[project]
        result.append(spec if strategy == spec.strategy else msgspec.structs.replace(spec, strategy=strategy))
    return result


def _check_strategy(strategy: str, caller: Caller) -> str:
    return check_strategy(strategy, caller.strategies) if strategy else ""


def _read(row: ProjectRow) -> ProjectBody:
    return msgspec.json.decode(row.body, type=ProjectBody)


def _row(connection: Connection, name: str, caller: Caller) -> ProjectRow:
    if caller.principal.why_not("project.read", name) is not None:
        raise NotFoundError.of("project", name[:100])
    return projects.get(connection, name)


def _log_change(connection: Connection, caller: Caller, name: str, body: ProjectBody) -> None:
    log_fact(connection, caller, _labels_fact(name, body), subject=name, project=name)


def labels_fact(row: ProjectRow) -> NamespaceChanged:
    """Return the fact about a project's labels."""
    return _labels_fact(row.name, _read(row))


def _labels_fact(name: str, body: ProjectBody) -> NamespaceChanged:
    return NamespaceChanged(name=name, labels=labels(body.labels))


def _read_view(connection: Connection, row: ProjectRow) -> Project:
    return _show(row, count_by_project(connection, row.name).get(row.name, 0))


def _show(row: ProjectRow, vms: int) -> Project:
    body = _read(row)
    return Project(
        name=row.name,
        description=body.description,
        labels=body.labels,
        max_priority=body.max_priority,
        strategy=body.strategy,
        vms=vms,
        created_at=format_time(row.created_ns),
        updated_at=format_time(row.updated_ns),
        version=row.version,
    )
