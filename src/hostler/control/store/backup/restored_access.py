"""Who may use a restored database: access that was revoked, spent or replaced after the backup stays invalid.

A backup does not know what happened after it. The replaced database does, if it is a later state of the same control
plane: then a key or credential stays valid only if that database accepts it too. Without one (an empty target,
``--in-place``, a damaged or foreign database), every key waits for an administrator. Agents' credentials then stay as
the backup has them, and are reported: an agent must be able to register without a visit to its host, and new
credentials would lock out all agents if the same backup were restored again.

A work of the store, done in the transaction that renumbers (``restored_numbers``), before the database is served.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from sqlalchemy import Connection, RowMapping, delete, select, update

from hostler.control.store.errors import BackupError
from hostler.control.store.history import log
from hostler.control.store.tables import api_keys, hosts, join_tokens, settings

__all__ = [
    "ALL", "SESSION_SECRET", "AccessChoices", "AccessReport", "AccessSnapshot", "RestoredHost", "RestoredKey",
    "limit_access", "read_access",
]  # fmt: skip

ALL = "all"
"""Names every key or every host in ``AccessChoices``."""

SESSION_SECRET = "session-secret"
UNCONFIRMED = "unconfirmed_ns"
_NO_CREDENTIAL = {"credential_hash": None, "old_credential_hash": None, "old_credential_until_ns": 0}
_CREDENTIALS = (hosts.c.credential_hash, hosts.c.old_credential_hash, hosts.c.old_credential_until_ns)


class AccessSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What a database accepts before it is replaced: keys by their end, credentials by host."""

    keys: dict[str, int | None]  # when each was or will be revoked; None: not
    unconfirmed: frozenset[str]
    credentials: dict[str, dict[str, object]]  # of hosts that are not deleted


class AccessChoices(msgspec.Struct, frozen=True, kw_only=True):
    """What the restoring operator decides; ids and names, or ``ALL``.

    ``make_admin_key`` writes an administrator's key and returns its secret; it is called if no other is accepted.
    ``note_restore`` returns the log entry that reports the restore: its source, the resulting access, and when.
    """

    confirmed_keys: tuple[str, ...] = ()
    revoked_hosts: tuple[str, ...] = ()
    make_admin_key: Callable[[Connection, int], str] | None = None
    note_restore: Callable[[str, AccessReport, int], log.NewEntry] | None = None


class RestoredKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key that was valid when the backup was made, and its state after the restore."""

    id: str
    name: str
    role: str
    project: str
    state: Literal["accepted", "unconfirmed", "revoked"]


class RestoredHost(msgspec.Struct, frozen=True, kw_only=True):
    """A host of the backup, and whether its agent's credential is valid.

    ``accepted``: as in the replaced database. If there was none to compare with (``AccessReport.is_compared``), as in
    the backup, though it may have been revoked or replaced since. ``revoked``: it is rejected.
    """

    id: str
    name: str
    credential: Literal["accepted", "revoked"]


class AccessReport(msgspec.Struct, frozen=True, kw_only=True):
    """Who may use the database after a restore, and whether a replaced database was compared.

    ``admin_key`` is the secret of a new key, shown only once.
    """

    is_compared: bool
    keys: tuple[RestoredKey, ...]
    hosts: tuple[RestoredHost, ...]
    void_tokens: tuple[str, ...]
    admin_key: str = ""


def read_access(connection: Connection) -> AccessSnapshot:
    """Return what a database accepts before it is replaced."""
    rows = list(connection.execute(select(api_keys.c.id, api_keys.c.revoked_ns, api_keys.c.body)))
    alive = connection.execute(select(hosts.c.id, *_CREDENTIALS).where(hosts.c.deleted_ns.is_(None))).mappings()
    return AccessSnapshot(
        keys={identity: revoked_ns for identity, revoked_ns, _ in rows},
        unconfirmed=frozenset(identity for identity, _, body in rows if _read(body).get(UNCONFIRMED)),
        credentials={row["id"]: {column.name: row[column.name] for column in _CREDENTIALS} for row in alive},
    )


def limit_access(
    connection: Connection, replaced: AccessSnapshot | None, choices: AccessChoices, source: str, now_ns: int
) -> AccessReport:
    """Revoke access that must not come back, and report who may use the database, also as an event.

    ``source`` names the backup; it is empty if the database was restored by other means.
    """
    report = _limit(connection, replaced, choices, now_ns)
    if choices.note_restore is not None:
        log.append_alone(connection, [choices.note_restore(source, report, now_ns)])
    return report


def _limit(
    connection: Connection, replaced: AccessSnapshot | None, choices: AccessChoices, now_ns: int
) -> AccessReport:
    rows = list(connection.execute(select(api_keys)).mappings())
    if replaced is not None and not _is_same_control_plane(connection, rows, replaced):
        replaced = None
    connection.execute(delete(settings).where(settings.c.project == "", settings.c.name == SESSION_SECRET))
    keys = _limit_keys(connection, rows, replaced, choices.confirmed_keys, now_ns)
    report = AccessReport(
        is_compared=replaced is not None,
        keys=keys,
        hosts=_limit_hosts(connection, replaced, choices.revoked_hosts),
        void_tokens=_void_tokens(connection, now_ns),
    )
    accepted = {key.id for key in keys if key.state == "accepted"}
    if choices.make_admin_key is None or any(row["id"] in accepted and _is_administrator(row) for row in rows):
        return report
    return msgspec.structs.replace(report, admin_key=choices.make_admin_key(connection, now_ns))


def _is_same_control_plane(connection: Connection, rows: Sequence[RowMapping], replaced: AccessSnapshot) -> bool:
    """Say whether both databases share a key or a host. Their ids are random, so that is proof."""
    return any(row["id"] in replaced.keys for row in rows) or any(
        identity in replaced.credentials for identity in connection.execute(select(hosts.c.id)).scalars()
    )


def _limit_keys(
    connection: Connection,
    rows: Sequence[RowMapping],
    replaced: AccessSnapshot | None,
    confirmed: Sequence[str],
    now_ns: int,
) -> tuple[RestoredKey, ...]:
    _check_known(confirmed, {str(row["id"]) for row in rows}, "API key")
    found = []
    for row in sorted(rows, key=lambda row: (row["created_ns"], row["id"])):
        if any(end_ns is not None and end_ns <= now_ns for end_ns in (row["revoked_ns"], row["expires_ns"])):
            continue  # it was over when the backup was made, or is by now
        values, state = _limit_key(row, replaced, now_ns, is_confirmed=ALL in confirmed or row["id"] in confirmed)
        changed = update(api_keys).where(api_keys.c.id == row["id"])
        connection.execute(changed.values(**values, version=api_keys.c.version + 1))
        found.append(RestoredKey(id=row["id"], name=row["name"], role=row["role"], project=row["project"], state=state))
    return tuple(found)


def _limit_key(
    row: RowMapping, replaced: AccessSnapshot | None, now_ns: int, *, is_confirmed: bool
) -> tuple[dict[str, object], Literal["accepted", "unconfirmed", "revoked"]]:
    """Return the state of one key. Nothing confirms a key that the replaced database has revoked."""
    identity = row["id"]
    is_known = replaced is not None and identity in replaced.keys
    revoked_ns = row["revoked_ns"]
    if replaced is not None and is_known:
        revoked_ns = min(
            (end_ns for end_ns in (revoked_ns, replaced.keys[identity]) if end_ns is not None), default=None
        )
        if revoked_ns is not None and revoked_ns <= now_ns:
            return {"revoked_ns": revoked_ns}, "revoked"
    body = _read(row["body"])
    is_good = is_known and replaced is not None and identity not in replaced.unconfirmed and not body.get(UNCONFIRMED)
    if is_good or is_confirmed:
        body.pop(UNCONFIRMED, None)
        return {"revoked_ns": revoked_ns, "body": msgspec.json.encode(body)}, "accepted"
    body[UNCONFIRMED] = now_ns
    return {"revoked_ns": revoked_ns, "body": msgspec.json.encode(body)}, "unconfirmed"


def _limit_hosts(
    connection: Connection, replaced: AccessSnapshot | None, revoked: Sequence[str]
) -> tuple[RestoredHost, ...]:
    columns = (hosts.c.id, hosts.c.name, hosts.c.body, hosts.c.credential_hash)
    rows = list(connection.execute(select(*columns).where(hosts.c.deleted_ns.is_(None)).order_by(hosts.c.name)))
    _check_known(revoked, {row.name for row in rows}, "host")
    found = []
    # Credentials are unique: first none of these hosts has one that it is about to lose to another.
    changes: list[tuple[str, dict[str, object]]] = []
    for row in rows:
        if row.credential_hash is None and (replaced is None or row.id not in replaced.credentials):
            continue  # it was locked out when the backup was made
        values, state = _limit_credential(row.id, replaced, is_revoked=ALL in revoked or row.name in revoked)
        if state == "revoked":
            connection.execute(update(hosts).where(hosts.c.id == row.id).values(**_NO_CREDENTIAL))
        body = _read(row.body) | {"is_locked_out": state == "revoked"}
        changes.append((row.id, {**values, "body": msgspec.json.encode(body), "version": hosts.c.version + 1}))
        found.append(RestoredHost(id=row.id, name=row.name, credential=state))
    for identity, values in changes:
        connection.execute(update(hosts).where(hosts.c.id == identity).values(**values))
    return tuple(found)


def _limit_credential(
    identity: str, replaced: AccessSnapshot | None, *, is_revoked: bool
) -> tuple[dict[str, object], Literal["accepted", "revoked"]]:
    """Return the state of one host's credentials: those of the replaced database count, if there is one."""
    if is_revoked:
        return dict(_NO_CREDENTIAL), "revoked"
    if replaced is None:
        return {}, "accepted"
    known = replaced.credentials.get(identity, _NO_CREDENTIAL)
    return dict(known), "revoked" if known["credential_hash"] is None else "accepted"


def _void_tokens(connection: Connection, now_ns: int) -> tuple[str, ...]:
    """Revoke every open token, because it may have been spent since the backup."""
    is_open = (join_tokens.c.used_ns.is_(None), join_tokens.c.revoked_ns.is_(None), join_tokens.c.expires_ns > now_ns)
    found = tuple(connection.execute(select(join_tokens.c.id).where(*is_open).order_by(join_tokens.c.id)).scalars())
    values = {"revoked_ns": now_ns, "version": join_tokens.c.version + 1}
    connection.execute(update(join_tokens).where(*is_open).values(**values))
    return found


def _check_known(named: Sequence[str], known: set[str], what: str) -> None:
    for name in named:
        if name != ALL and name not in known:
            raise BackupError(f"the backup has no {what} {name[:100]}", hint=f"name one that it has, or {ALL!r}")


def _is_administrator(row: RowMapping) -> bool:
    """Say whether a key may confirm all others, and has no end of its own."""
    scopes = _read(row["body"]).get("scopes", ["*"])
    is_lasting = row["expires_ns"] is None and row["revoked_ns"] is None
    return row["role"] == "admin" and not row["project"] and scopes == ["*"] and is_lasting


def _read(body: bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(body, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise BackupError(
            f"an API key or host of the backup cannot be read: {error}", hint="take another backup"
        ) from error
