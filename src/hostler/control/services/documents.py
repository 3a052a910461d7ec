"""What quotas, reservations and gangs share: documents of a project that the caller may know of."""

from __future__ import annotations

import msgspec

from hostler.control.services.callers import Caller
from hostler.control.store import Connection, documents, projects
from hostler.control.store.documents import Document, Kind
from hostler.control.store.errors import NotFoundError
from hostler.control.store.rows import Page

__all__ = ["check_project", "document", "find", "page_of", "written"]


def check_project(connection: Connection, project: str) -> None:
    """Refuse a project that does not exist; NotFoundError."""
    projects.get(connection, project)


def document(project: str, name: str, body: object, caller: Caller) -> Document:
    """Return a new document."""
    return Document(
        project=project,
        name=name,
        created_ns=caller.now_ns,
        updated_ns=caller.now_ns,
        body=msgspec.json.encode(body),
    )


def written(row: Document, body: object, caller: Caller) -> Document:
    """Return a document with another body."""
    return msgspec.structs.replace(row, updated_ns=caller.now_ns, body=msgspec.json.encode(body))


def find(connection: Connection, kind: Kind, project: str, name: str, caller: Caller) -> Document:
    """Return a document; NotFoundError also where the caller may not know of it."""
    if caller.principal.why_not(f"{kind}.read", project) is not None:
        raise NotFoundError(f"{kind} {name[:100]} does not exist in project {project[:100]}", hint="list what there is")
    return documents.get(connection, kind, project, name)


def page_of(
    connection: Connection, kind: Kind, caller: Caller, *, project: str, after: str, limit: int
) -> Page[Document]:
    """Return some documents that the caller may see, by project and name."""
    project = caller.principal.narrowed(project)
    caller.principal.check(f"{kind}.read", project)
    return documents.list_page(connection, kind, project or None, after=after, limit=limit)
