"""API keys and join tokens as rows, with hashes only. Used by ``control.access``.

A join token works once: one statement finds it unused and marks it used.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, RowMapping, func, or_, select, update

from hostler.control.store.errors import NameTakenError
from hostler.control.store.rows.bulk import is_among, keys
from hostler.control.store.rows.versioned_rows import RowPage, change, insert_new, read_page
from hostler.control.store.tables import api_keys, join_tokens

__all__ = [
    "ApiKeyRow", "JoinTokenRow", "count_keys", "find_key", "find_key_by_hash", "find_keys", "find_token",
    "insert_key", "insert_token", "list_keys", "list_tokens", "note_use", "revoke_key", "revoke_token", "save_body",
    "use_token",
]  # fmt: skip


class ApiKeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A key. An empty project means all of them; ``body`` holds scopes, as JSON that the store does not read."""

    id: str
    hash: str
    name: str = ""
    project: str = ""
    role: str = ""
    actor: str = ""  # who made it
    version: int = 1
    created_ns: int = 0
    expires_ns: int | None = None
    revoked_ns: int | None = None
    used_ns: int | None = None
    body: bytes = b"{}"


class JoinTokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A token for one host to join with; ``host_name``, where given, says which."""

    id: str
    hash: str
    expires_ns: int
    host_name: str = ""
    actor: str = ""
    version: int = 1
    created_ns: int = 0
    used_ns: int | None = None
    used_by: str = ""
    revoked_ns: int | None = None


def insert_key(connection: Connection, row: ApiKeyRow) -> ApiKeyRow:
    """Write a new key."""
    if not insert_new(connection, api_keys, msgspec.structs.asdict(row)):
        raise NameTakenError(f"key {row.id} exists already", hint="make a new one")
    return row


def find_key(connection: Connection, identity: str) -> ApiKeyRow | None:
    """Return a key by its id, good or not."""
    row = connection.execute(select(api_keys).where(api_keys.c.id == identity)).mappings().one_or_none()
    return None if row is None else _key(row)


def find_key_by_hash(connection: Connection, hashed: str) -> ApiKeyRow | None:
    """Return a key by the hash of its secret, good or not."""
    row = connection.execute(select(api_keys).where(api_keys.c.hash == hashed)).mappings().one_or_none()
    return None if row is None else _key(row)


def find_keys(connection: Connection, identities: Sequence[str]) -> dict[str, ApiKeyRow]:
    """Return those of some keys that there are, by id, good or not."""
    rows = connection.execute(select(api_keys).where(is_among(api_keys.c.id)), keys(identities)).mappings()
    return {row["id"]: _key(row) for row in rows}


def list_keys(
    connection: Connection, *, project: str | None = None, after: str = "", limit: int = 100
) -> RowPage[ApiKeyRow]:
    """Return keys, oldest first, a page at a time."""
    query = select(api_keys)
    if project is not None:
        query = query.where(api_keys.c.project == project)
    return read_page(connection, query, api_keys, _key, after, limit)


def count_keys(connection: Connection) -> int:
    """Return how many keys there are: at the first start none."""
    found: int = connection.execute(select(func.count()).select_from(api_keys)).scalar_one()
    return found


def count_project_keys(connection: Connection, project: str, now_ns: int) -> int:
    """Return how many keys of a project are good now."""
    key = api_keys.c
    is_live = key.revoked_ns.is_(None) & (key.expires_ns.is_(None) | (key.expires_ns > now_ns))
    query = select(func.count()).select_from(api_keys).where(key.project == project, is_live)
    found: int = connection.execute(query).scalar_one()
    return found


def revoke_key(connection: Connection, row: ApiKeyRow, now_ns: int) -> ApiKeyRow:
    """Revoke a key for good."""
    version = change(connection, api_keys, {"id": row.id}, row.version, {"revoked_ns": now_ns}, f"key {row.id}")
    return msgspec.structs.replace(row, revoked_ns=now_ns, version=version)


def save_body(connection: Connection, row: ApiKeyRow, body: bytes) -> ApiKeyRow:
    """Write what a key keeps as JSON."""
    version = change(connection, api_keys, {"id": row.id}, row.version, {"body": body}, f"key {row.id}")
    return msgspec.structs.replace(row, body=body, version=version)


def note_use(connection: Connection, identity: str, now_ns: int) -> None:
    """Remember when a key was used last; neither its version nor an older time is touched."""
    is_newer = or_(api_keys.c.used_ns.is_(None), api_keys.c.used_ns < now_ns)
    connection.execute(update(api_keys).where(api_keys.c.id == identity, is_newer).values(used_ns=now_ns))


def insert_token(connection: Connection, row: JoinTokenRow) -> JoinTokenRow:
    """Write a new token."""
    if not insert_new(connection, join_tokens, msgspec.structs.asdict(row)):
        raise NameTakenError(f"token {row.id} exists already", hint="make a new one")
    return row


def find_token(connection: Connection, identity: str) -> JoinTokenRow | None:
    """Return a token by its id, good or not."""
    row = connection.execute(select(join_tokens).where(join_tokens.c.id == identity)).mappings().one_or_none()
    return None if row is None else _token(row)


def list_tokens(connection: Connection, *, after: str = "", limit: int = 100) -> RowPage[JoinTokenRow]:
    """Return tokens, oldest first, a page at a time."""
    return read_page(connection, select(join_tokens), join_tokens, _token, after, limit)


def revoke_token(connection: Connection, row: JoinTokenRow, now_ns: int) -> JoinTokenRow:
    """Revoke a token."""
    key, values = {"id": row.id}, {"revoked_ns": now_ns}
    version = change(connection, join_tokens, key, row.version, values, f"token {row.id}")
    return msgspec.structs.replace(row, revoked_ns=now_ns, version=version)


def use_token(connection: Connection, hashed: str, *, host_name: str, used_by: str, now_ns: int) -> JoinTokenRow | None:
    """Use a token up for a host; None if it is unknown, used, revoked, too old, or for another host."""
    columns = join_tokens.c
    statement = (
        update(join_tokens)
        .where(columns.hash == hashed, columns.used_ns.is_(None), columns.revoked_ns.is_(None))
        .where(columns.expires_ns > now_ns, columns.host_name.in_(("", host_name)))
        .values(used_ns=now_ns, used_by=used_by, version=columns.version + 1)
        .returning(*columns)
    )
    row = connection.execute(statement).mappings().one_or_none()
    return None if row is None else _token(row)


def _key(row: RowMapping) -> ApiKeyRow:
    return ApiKeyRow(**row)


def _token(row: RowMapping) -> JoinTokenRow:
    return JoinTokenRow(**row)
