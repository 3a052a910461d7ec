"""What a new database needs before it can be used."""

from __future__ import annotations

from hostler.control.access.keys import first_admin_key
from hostler.control.access.secrets import Random
from hostler.control.store import Connection
from hostler.control.store.rows import projects
from hostler.control.store.rows.projects import ProjectRow

__all__ = ["DEFAULT_PROJECT", "prepare"]

DEFAULT_PROJECT = "default"


def prepare(connection: Connection, now_ns: int, random: Random) -> str | None:
    """Create the default project and, the first time, an administrator's key; return its secret, else None.

    The project is created with the first key only: if an administrator deletes it, it stays deleted.
    """
    secret = first_admin_key(connection, now_ns, random)
    if secret is not None and projects.find(connection, DEFAULT_PROJECT) is None:
        projects.insert(connection, ProjectRow(name=DEFAULT_PROJECT, created_ns=now_ns, updated_ns=now_ns))
    return secret
