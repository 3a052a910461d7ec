"""API keys over a connection of the store: making, knowing, rotating and revoking them.

Nobody makes a key that may do more than he may himself, elsewhere, or for longer. A key is revoked from a time on;
while it is rotated that time lies ahead, so that both keys work and clients can change over.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostler.control.access.errors import ForbiddenError, UnauthenticatedError, Why
from hostler.control.access.principals import Principal
from hostler.control.access.roles import ALL_SCOPES, check_role, check_scopes
from hostler.control.access.secrets import Random, make_secret, parse_secret
from hostler.control.store import Connection, keys
from hostler.control.store.errors import NotFoundError
from hostler.control.store.keys import ApiKeyRow
from hostler.errors import InputError

__all__ = [
    "KeyBody", "authenticate", "confirm_key", "create_key", "first_admin_key", "known_key", "make_admin_key",
    "principal_of", "read_again", "read_body", "revoke_key", "rotate_key",
]  # fmt: skip

MOST_NAME = 253  # characters
MOST_OVERLAP_S = 7 * 24 * 3600
_NO_RIGHT_HINT = "ask an administrator who may, or leave out what is more than you have"


class KeyBody(msgspec.Struct, frozen=True):
    """What a row keeps as JSON."""

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
    """Make a key and return it with its secret, which is shown this once; without scopes it has its maker's."""
    by.check("key.create", project)
    wanted = by.scopes if scopes is None else check_scopes(scopes)
    if not 0 < len(name) <= MOST_NAME or not name.isprintable():
        raise InputError("a key needs a name", hint=f"1 to {MOST_NAME} printable characters that say what it is for")
    if expires_ns is not None and expires_ns <= now_ns:
        raise InputError("the key would have expired already", hint="choose a time that lies ahead")
    return _grant(connection, by, name, check_role(role), project, wanted, expires_ns, now_ns, random)


def make_admin_key(connection: Connection, *, name: str, now_ns: int, random: Random) -> tuple[ApiKeyRow, str]:
    """Make a key that may do everything; for whoever may write to the database anyway, when no other key is left."""
    secret = make_secret("key", random)
    row = ApiKeyRow(id=secret.id, hash=secret.hash, name=name, role="admin", actor="system", created_ns=now_ns)
    return keys.insert_key(connection, row), secret.text


def first_admin_key(connection: Connection, now_ns: int, random: Random) -> str | None:
    """Make an administrator's key if there was never any key, and return its secret; else None.

    Of several replicas that start at once on an empty database one makes it: run it by ``Database.write``, whose works
    take turns, those of other replicas too.
    """
    if keys.count_keys(connection):
        return None
    return make_admin_key(connection, name="first administrator", now_ns=now_ns, random=random)[1]


def authenticate(connection: Connection, secret: str, now_ns: int) -> Principal:
    """Return whose key this is; UnauthenticatedError."""
    parsed = parse_secret(secret, "key")
    row = keys.find_key_by_hash(connection, parsed.hash)
    if row is None:
        raise UnauthenticatedError("unknown", subject=parsed.id)
    return principal_of(row, now_ns)


def known_key(connection: Connection, identity: str, now_ns: int) -> Principal:
    """Return the principal of a key by its id, for a session that was opened with it; UnauthenticatedError."""
    row = keys.find_key(connection, identity)
    if row is None:
        raise UnauthenticatedError("unknown", subject=identity)
    return principal_of(row, now_ns)


def read_again(connection: Connection, by: Principal, now_ns: int) -> Principal:
    """Return what a caller's key is worth in this transaction; UnauthenticatedError if it has ended.

    For whatever outlives the request: what let it in may be older than a revocation on another replica, or than one
    that came while its body was on the way.
    """
    return msgspec.structs.replace(known_key(connection, by.id, now_ns), kind=by.kind)


def principal_of(row: ApiKeyRow, now_ns: int) -> Principal:
    """Return what a key makes of its bearer; UnauthenticatedError if it is not good now."""
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
    """Accept a key again that a restore brought back; nothing happens to one that is accepted.

    Only by a key of all projects that could grant the same rights itself.
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
    """Make a key with the same rights and the same end, and end the old one after an overlap.

    Everybody may rotate his own key; another's needs ``key.create``.
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
    """Make a key useless from now on; nothing happens to one that is. Everybody may revoke his own.

    Tell the doorkeeper of this process too; other replicas notice within the life of their caches.
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
        raise NotFoundError(f"key {identity} does not exist", hint="list what there is")
    return row


def read_body(row: ApiKeyRow) -> KeyBody:
    """Return what a row keeps; no scopes at all if it cannot be read, so that damage never gives rights."""
    try:
        return msgspec.json.decode(row.body, type=KeyBody)
    except msgspec.MsgspecError:
        return KeyBody(scopes=())
