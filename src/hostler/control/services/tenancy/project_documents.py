"""Documents of a project that quotas, reservations and gangs share."""

from __future__ import annotations

import msgspec

from hostler.control.services.callers import Caller
from hostler.control.store import Connection
from hostler.control.store.rows import documents, projects
from hostler.control.store.rows.documents import DocumentRow, Kind
from hostler.control.store.rows.versioned_rows import RowPage

__all__ = ["check_project", "find", "new_document", "page_of", "with_body"]


def check_project(connection: Connection, project: str) -> None:
    """Reject a project that does not exist; NotFoundError."""
    projects.get(connection, project)


def new_document(project: str, name: str, body: object, caller: Caller) -> DocumentRow:
    """Return a new document."""
    return DocumentRow(
        project=project,
        name=name,
        created_ns=caller.now_ns,
        updated_ns=caller.now_ns,
        body=msgspec.json.encode(body),
    )


def with_body(row: DocumentRow, body: object, caller: Caller) -> DocumentRow:
    """Return a document with another body."""
    return msgspec.structs.replace(row, updated_ns=caller.now_ns, body=msgspec.json.encode(body))


def find(connection: Connection, kind: Kind, project: str, name: str, caller: Caller) -> DocumentRow:
    """Return a document; NotFoundError also if the caller may not read it."""
    if caller.principal.why_not(f"{kind}.read", project) is not None:
        raise documents.missing(kind, project[:100], name[:100])
    return documents.get(connection, kind, project, name)


def page_of(
    connection: Connection, kind: Kind, caller: Caller, *, project: str, after: str, limit: int
) -> RowPage[DocumentRow]:
    """Return a page of the documents that the caller may see, by project and name."""
    project = caller.principal.limit_project(project)
    caller.principal.check(f"{kind}.read", project)
    return documents.list_page(connection, kind, project or None, after=after, limit=limit)
