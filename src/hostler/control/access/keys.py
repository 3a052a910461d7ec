"""API keys in the store: create, authenticate, rotate and revoke.

A key cannot create another key with more rights, more projects or a longer life than its own. A revocation has a time.
During a rotation that time is in the future, so both keys work until clients have changed over.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostler.control.access.errors import ForbiddenError, UnauthenticatedError, Why
from hostler.control.access.principals import Principal
from hostler.control.access.roles import ALL_SCOPES, check_role, check_scopes
from hostler.control.access.secrets import Random, make_secret, parse_secret
from hostler.control.store import Connection
from hostler.control.store.errors import NotFoundError
from hostler.control.store.rows import keys
from hostler.control.store.rows.keys import ApiKeyRow
from hostler.errors import InputError

__all__ = [
    "KeyBody",
    "authenticate",
    "confirm_key",
    "create_key",
    "find_key",
    "first_admin_key",
    "make_admin_key",
    "principal_of",
    "read_body",
    "recheck_key",
    "revoke_key",
    "rotate_key",
]  # fmt: skip

MOST_NAME = 253  # characters
MOST_OVERLAP_S = 7 * 24 * 3600
_NO_RIGHT_HINT = "ask an administrator who may, or leave out what is more than you have"


class KeyBody(msgspec.Struct, frozen=True):
    """The part of a key that its row keeps as JSON."""

    scopes: tuple[str, ...] = ALL_SCOPES
    unconfirmed_ns: int | None = None  # when a restore brought it back, until an administrator confirms it


def create_key(
    connection: Connection,
    *,
    by: Principal,
    name: str,
    role: str,
    project: str = "",
    scopes: Iterable[str] | None = None,
    expires_ns: int | None = None,
    now_ns: int,
    random: Random,
) -> tuple[ApiKeyRow, str]:
    """Create a key and return it with its secret, which is shown once. Without scopes it gets its creator's."""
    by.check("key.create", project)
    wanted = by.scopes if scopes is None else check_scopes(scopes)
    if not 0 < len(name) <= MOST_NAME or not name.isprintable():
        raise InputError("a key needs a name", hint=f"1 to {MOST_NAME} printable characters that say what it is for")
    if expires_ns is not None and expires_ns <= now_ns:
        raise InputError("the key would have expired already", hint="choose a time that lies ahead")
    return _grant(connection, by, name, check_role(role), project, wanted, expires_ns, now_ns, random)


def make_admin_key(connection: Connection, *, name: str, now_ns: int, random: Random) -> tuple[ApiKeyRow, str]:
    """Create a key that may do everything, for an operator who can write to the database and lost all keys."""
    secret = make_secret("key", random)
    row = ApiKeyRow(id=secret.id, hash=secret.hash, name=name, role="admin", actor="system", created_ns=now_ns)
    return keys.insert_key(connection, row), secret.text


def first_admin_key(connection: Connection, now_ns: int, random: Random) -> str | None:
    """Create an administrator's key if there never was any key, and return its secret; else None.

    If several replicas start on an empty database at once, one of them creates it: run this by ``Database.write``,
    which serializes the works of all replicas.
    """
    if keys.count_keys(connection):
        return None
    return make_admin_key(connection, name="first administrator", now_ns=now_ns, random=random)[1]


def authenticate(connection: Connection, secret: str, now_ns: int) -> Principal:
    """Return the principal of a secret; UnauthenticatedError."""
    parsed = parse_secret(secret, "key")
    row = keys.find_key_by_hash(connection, parsed.hash)
    if row is None:
        raise UnauthenticatedError("unknown", subject=parsed.id)
    return principal_of(row, now_ns)


def find_key(connection: Connection, identity: str, now_ns: int) -> Principal:
    """Return the principal of a key by its id, for a session that was opened with it; UnauthenticatedError."""
    row = keys.find_key(connection, identity)
    if row is None:
        raise UnauthenticatedError("unknown", subject=identity)
    return principal_of(row, now_ns)


def recheck_key(connection: Connection, by: Principal, now_ns: int) -> Principal:
    """Return the caller's rights as they are in this transaction; UnauthenticatedError if the key has ended.

    For anything that outlives the request: the cached authentication may be older than a revocation on another replica,
    or older than one that happened while the body was on its way.
    """
    return msgspec.structs.replace(find_key(connection, by.id, now_ns), kind=by.kind)


def principal_of(row: ApiKeyRow, now_ns: int) -> Principal:
    """Return the principal of a key's row; UnauthenticatedError if the key is not valid now."""
    ended: tuple[tuple[Why, int | None], ...] = (("revoked", row.revoked_ns), ("expired", row.expires_ns))
    for why, end_ns in ended:
        if end_ns is not None and now_ns >= end_ns:
            raise UnauthenticatedError(why, subject=row.id)
    body = read_body(row)
    if body.unconfirmed_ns is not None:
        raise UnauthenticatedError("unconfirmed", subject=row.id)
    until_ns = min((end_ns for _, end_ns in ended if end_ns is not None), default=None)
    return Principal(
        id=row.id, name=row.name, role=row.role, project=row.project, scopes=body.scopes, until_ns=until_ns
    )


def confirm_key(connection: Connection, identity: str, *, by: Principal, now_ns: int) -> ApiKeyRow:
    """Accept a key again after a restore. Does nothing if the key is accepted already.

    Only a key of all projects that could grant the same rights may do this.
    """
    by.check("key.confirm")
    row = _row(connection, identity)
    if (row.revoked_ns is not None and row.revoked_ns <= now_ns) or (row.expires_ns or now_ns + 1) <= now_ns:
        raise InputError(f"key {identity} is revoked or expired", hint="make a new one")
    body = read_body(row)
    if body.unconfirmed_ns is None:
        return row
    reason = by.why_not_grant(row.role, row.project, body.scopes, row.expires_ns)
    if reason is not None:
        raise ForbiddenError(reason, hint=_NO_RIGHT_HINT)
    return keys.save_body(connection, row, msgspec.json.encode(msgspec.structs.replace(body, unconfirmed_ns=None)))


def rotate_key(
    connection: Connection, identity: str, *, by: Principal, now_ns: int, random: Random, overlap_s: int = 0
) -> tuple[ApiKeyRow, str]:
    """Create a key with the same rights and the same expiry, and end the old one after an overlap.

    Every caller may rotate their own key; another's needs ``key.create``.
    """
    if not 0 <= overlap_s <= MOST_OVERLAP_S:
        raise InputError(f"an overlap of {overlap_s} s", hint=f"choose 0 to {MOST_OVERLAP_S} s")
    row = _row(connection, identity)
    if row.id != by.id or by.kind == "agent":
        by.check("key.create", row.project)
    if row.revoked_ns is not None or (row.expires_ns is not None and now_ns >= row.expires_ns):
        raise InputError(f"key {identity} is revoked or expired", hint="make a new one")
    body = read_body(row)
    if body.unconfirmed_ns is not None:
        raise InputError(f"key {identity} waits for confirmation since a restore", hint="confirm it, or make a new one")
    made = _grant(connection, by, row.name, row.role, row.project, body.scopes, row.expires_ns, now_ns, random)
    keys.revoke_key(connection, row, now_ns + overlap_s * 1_000_000_000)
    return made


def revoke_key(connection: Connection, identity: str, *, by: Principal, now_ns: int) -> ApiKeyRow:
    """Revoke a key from now on. Does nothing if it is revoked. Every caller may revoke their own key.

    Notify the authenticator of this process too. Other replicas notice when their cached entry expires.
    """
    row = _row(connection, identity)
    if row.id != by.id or by.kind == "agent":
        by.check("key.revoke", row.project)
    if row.revoked_ns is not None and row.revoked_ns <= now_ns:
        return row
    return keys.revoke_key(connection, row, now_ns)


def _grant(
    connection: Connection,
    by: Principal,
    name: str,
    role: str,
    project: str,
    scopes: tuple[str, ...],
    expires_ns: int | None,
    now_ns: int,
    random: Random,
) -> tuple[ApiKeyRow, str]:
    reason = by.why_not_grant(role, project, scopes, expires_ns)
    if reason is not None:
        raise ForbiddenError(reason, hint=_NO_RIGHT_HINT)
    secret = make_secret("key", random)
    row = ApiKeyRow(
        id=secret.id,
        hash=secret.hash,
        name=name,
        project=project,
        role=role,
        actor=by.actor,
        created_ns=now_ns,
        expires_ns=expires_ns,
        body=msgspec.json.encode(KeyBody(scopes)),
    )
    return keys.insert_key(connection, row), secret.text


def _row(connection: Connection, identity: str) -> ApiKeyRow:
    row = keys.find_key(connection, identity)
    if row is None:
        raise NotFoundError.of("key", identity)
    return row


def read_body(row: ApiKeyRow) -> KeyBody:
    """Return what a row keeps. If it cannot be read the key has no scopes, so damage never grants rights."""
    try:
        return msgspec.json.decode(row.body, type=KeyBody)
    except msgspec.MsgspecError:
        return KeyBody(scopes=())
