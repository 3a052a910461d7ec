"""API keys and join tokens: ``access`` with audit entries that contain no secrets."""

from __future__ import annotations

from collections.abc import Mapping

from hostler.control.access import keys as access_keys
from hostler.control.access import tokens as access_tokens
from hostler.control.access.keys import read_body
from hostler.control.access.secrets import Random
from hostler.control.access.sessions import renew_signing_secret
from hostler.control.schemas import Key, KeyCreate, KeyMade, KeyRotate, Page, Token, TokenCreate, TokenMade
from hostler.control.services.callers import Caller, write_audit_note
from hostler.control.services.tenancy.bounds import MAX_KEYS_OF_PROJECT, check_count
from hostler.control.services.tenancy.project_documents import check_project
from hostler.control.services.times import format_optional_time, format_time
from hostler.control.store import Connection
from hostler.control.store.errors import NotFoundError
from hostler.control.store.rows import keys
from hostler.control.store.rows.keys import ApiKeyRow, JoinTokenRow
from hostler.control.store.rows.versioned_rows import MOST_IN_A_PAGE

__all__ = [
    "confirm_key", "create_key", "create_token", "end_sessions", "get_key", "get_token", "list_keys", "list_tokens",
    "list_unconfirmed", "note_uses", "revoke_key", "revoke_token", "rotate_key",
]  # fmt: skip

_NS = 1_000_000_000


def create_key(connection: Connection, asked: KeyCreate, caller: Caller, random: Random) -> KeyMade:
    """Create a key with no more rights than the caller's."""
    caller.principal.check("key.create", asked.project)
    if asked.project:
        check_project(connection, asked.project)
        there = keys.count_project_keys(connection, asked.project, caller.now_ns)
        check_count(asked.project, "keys", there, MAX_KEYS_OF_PROJECT)
    row, secret = access_keys.create_key(
        connection,
        by=caller.principal,
        name=asked.name,
        role=asked.role,
        project=asked.project,
        scopes=asked.scopes,
        expires_ns=None if asked.ttl_s is None else caller.now_ns + asked.ttl_s * _NS,
        now_ns=caller.now_ns,
        random=random,
    )
    write_audit_note(
        connection, caller, "key.create", subject=row.id, name=row.name, project=row.project, text=_rights(row)
    )
    return KeyMade(key=_show_key(row), secret=secret)


def rotate_key(connection: Connection, identity: str, asked: KeyRotate, caller: Caller, random: Random) -> KeyMade:
    """Create a key with the same rights, and end the old one after an overlap."""
    _known_key(connection, identity, caller)
    row, secret = access_keys.rotate_key(
        connection, identity, by=caller.principal, now_ns=caller.now_ns, random=random, overlap_s=asked.overlap_s
    )
    text = f"key {identity} gives way to {row.id} after {asked.overlap_s} s"
    write_audit_note(connection, caller, "key.rotate", subject=identity, name=row.name, project=row.project, text=text)
    return KeyMade(key=_show_key(row), secret=secret)


def revoke_key(connection: Connection, identity: str, caller: Caller) -> Key:
    """Revoke a key from now on."""
    _known_key(connection, identity, caller)
    row = access_keys.revoke_key(connection, identity, by=caller.principal, now_ns=caller.now_ns)
    write_audit_note(connection, caller, "key.revoke", subject=row.id, name=row.name, project=row.project)
    return _show_key(row)


def confirm_key(connection: Connection, identity: str, caller: Caller) -> Key:
    """Accept a key again after a restore."""
    caller.principal.check("key.confirm")
    _known_key(connection, identity, caller)
    row = access_keys.confirm_key(connection, identity, by=caller.principal, now_ns=caller.now_ns)
    write_audit_note(
        connection, caller, "key.confirm", subject=row.id, name=row.name, project=row.project, text=_rights(row)
    )
    return _show_key(row)


def end_sessions(connection: Connection, caller: Caller, random: Random) -> bytes:
    """End every session of the dashboard, and return the new signing secret."""
    caller.principal.check("key.revoke")
    secret = renew_signing_secret(connection, caller.now_ns, random)
    write_audit_note(
        connection, caller, "session.end", subject="sessions", name="all", text="all sessions of the dashboard ended"
    )
    return secret


def note_uses(connection: Connection, uses: Mapping[str, int]) -> None:
    """Write when keys were used last, from ``Authenticator.take_uses``."""
    for identity, used_ns in sorted(uses.items()):
        keys.note_use(connection, identity, used_ns)


def get_key(connection: Connection, identity: str, caller: Caller) -> Key:
    """Return a key without its secret; NotFoundError."""
    return _show_key(_known_key(connection, identity, caller))


def list_keys(connection: Connection, caller: Caller, *, project: str, after: str, limit: int) -> Page[Key]:
    """Return the keys that the caller may see."""
    project = caller.principal.limit_project(project)
    caller.principal.check("key.read", project)
    page = keys.list_keys(connection, project=project or None, after=after, limit=limit)
    return Page(items=[_show_key(row) for row in page.items], next=page.next)


def list_unconfirmed(connection: Connection, caller: Caller) -> list[Key]:
    """Return the keys of all projects that wait for confirmation since a restore."""
    caller.principal.check("key.confirm")
    found, after = [], ""
    while True:
        page = keys.list_keys(connection, after=after, limit=MOST_IN_A_PAGE)
        found += [_show_key(row) for row in page.items if row.revoked_ns is None and read_body(row).unconfirmed_ns]
        if not page.next:
            return found
        after = page.next


def create_token(connection: Connection, asked: TokenCreate, caller: Caller, random: Random) -> TokenMade:
    """Create a token with which one host can join."""
    row, secret = access_tokens.create_token(
        connection,
        by=caller.principal,
        ttl_s=asked.ttl_s,
        host_name=asked.host_name,
        now_ns=caller.now_ns,
        random=random,
    )
    text = f"a token for {row.host_name or 'any new host'}, good for {asked.ttl_s} s"
    write_audit_note(connection, caller, "token.create", subject=row.id, name=row.host_name, text=text)
    return TokenMade(token=_show_token(row), secret=secret)


def revoke_token(connection: Connection, identity: str, caller: Caller) -> Token:
    """Revoke a token."""
    row = access_tokens.revoke_token(connection, identity, by=caller.principal, now_ns=caller.now_ns)
    write_audit_note(connection, caller, "token.revoke", subject=row.id, name=row.host_name)
    return _show_token(row)


def get_token(connection: Connection, identity: str, caller: Caller) -> Token:
    """Return a token without its secret; NotFoundError."""
    caller.principal.check("token.read")
    row = keys.find_token(connection, identity)
    if row is None:
        raise NotFoundError.of("token", identity[:100])
    return _show_token(row)


def list_tokens(connection: Connection, caller: Caller, *, after: str, limit: int) -> Page[Token]:
    """Return all tokens."""
    caller.principal.check("token.read")
    page = keys.list_tokens(connection, after=after, limit=limit)
    return Page(items=[_show_token(row) for row in page.items], next=page.next)


def _known_key(connection: Connection, identity: str, caller: Caller) -> ApiKeyRow:
    row = keys.find_key(connection, identity)
    is_own = row is not None and row.id == caller.principal.id
    if row is None or (not is_own and caller.principal.why_not("key.read", row.project) is not None):
        caller.principal.check("key.read", caller.principal.project)
        raise NotFoundError.of("key", identity[:100])
    return row


def _rights(row: ApiKeyRow) -> str:
    where = f"project {row.project}" if row.project else "all projects"
    return f"key {row.id} ({row.name}): {row.role} in {where}"


def _show_key(row: ApiKeyRow) -> Key:
    body = read_body(row)
    return Key(
        id=row.id,
        name=row.name,
        role=row.role,
        project=row.project,
        scopes=list(body.scopes),
        actor=row.actor,
        created_at=format_time(row.created_ns),
        expires_at=format_optional_time(row.expires_ns),
        revoked_at=format_optional_time(row.revoked_ns),
        used_at=format_optional_time(row.used_ns),
        unconfirmed_since=format_optional_time(body.unconfirmed_ns),
    )


def _show_token(row: JoinTokenRow) -> Token:
    return Token(
        id=row.id,
        host_name=row.host_name,
        actor=row.actor,
        created_at=format_time(row.created_ns),
        expires_at=format_time(row.expires_ns),
        used_at=format_optional_time(row.used_ns),
        used_by=row.used_by,
        revoked_at=format_optional_time(row.revoked_ns),
    )
