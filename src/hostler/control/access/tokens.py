"""How hosts join: a one-time token gives an agent its credential. Also rejoining, rotation and revocation.

A known host rejoins with its credential by registering. If the credential is lost, a new token that names this host
replaces it and invalidates the old one. No other token can take over a host's name.
"""

from __future__ import annotations

import hmac
import re

import msgspec

from hostler.control.access.errors import ForbiddenError, HostExistsError, JoinRejectedError, UnauthenticatedError, Why
from hostler.control.access.names import check_not_id
from hostler.control.access.principals import Principal
from hostler.control.access.secrets import Random, Secret, make_secret, parse_secret
from hostler.control.store import Connection
from hostler.control.store.errors import NotFoundError
from hostler.control.store.rows import hosts, keys
from hostler.control.store.rows.hosts import HostRow
from hostler.control.store.rows.keys import JoinTokenRow
from hostler.errors import InputError

__all__ = [
    "JoinedHost", "authenticate_agent", "check_credential", "create_token", "end_old_credential",
    "is_new_credential_unused", "join", "may_lack_new_credential", "revoke_credential", "revoke_token",
    "rotate_credential",
]  # fmt: skip

LEAST_S, USUAL_S, MOST_S = 60, 3600, 7 * 24 * 3600
OVERLAP_S = 300  # of a credential that was replaced, from the first use of the new one on: longer than any poll
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_NS = 1_000_000_000
_NEVER = 2**63 - 1


class JoinedHost(msgspec.Struct, frozen=True, kw_only=True):
    """A host that joined. The credential is shown once; ``is_new`` is false for a host that rejoined."""

    host: HostRow
    credential: str
    token: str  # the id of the token that was used
    is_new: bool

    def __repr__(self) -> str:
        return f"Admitted({self.host.name}, token {self.token}, is_new={self.is_new})"


def create_token(
    connection: Connection,
    *,
    by: Principal,
    ttl_s: int = USUAL_S,
    host_name: str = "",
    now_ns: int,
    random: Random,
) -> tuple[JoinTokenRow, str]:
    """Create a token with which one host can join, and return it with its secret, which is shown once."""
    by.check("token.create")
    if not LEAST_S <= ttl_s <= MOST_S:
        raise InputError(f"a token that lives {ttl_s} s", hint=f"choose {LEAST_S} s (a minute) to {MOST_S} s (a week)")
    if host_name:
        _check_name(host_name)
    expires_ns = now_ns + ttl_s * _NS
    if by.until_ns is not None and expires_ns > by.until_ns:
        raise ForbiddenError(
            "a key that expires cannot create a token that expires later", hint="choose a shorter life"
        )
    secret = make_secret("token", random)
    row = JoinTokenRow(
        id=secret.id, hash=secret.hash, expires_ns=expires_ns, host_name=host_name, actor=by.actor, created_ns=now_ns
    )
    return keys.insert_token(connection, row), secret.text


def join(connection: Connection, token: str, *, name: str, identity: str, now_ns: int, random: Random) -> JoinedHost:
    """Use up a token and give a host its credential; ``identity`` becomes the id of a new host.

    JoinRejectedError, HostExistsError. Run it as one work of the store: if it raises, the token stays unused.
    """
    try:
        parsed = parse_secret(token, "token")
    except UnauthenticatedError as error:
        raise JoinRejectedError(error.why, subject=error.subject, message=error.message, hint=error.hint) from error
    _check_name(name)
    before = hosts.find_by_name(connection, name)
    used_by = identity if before is None else before.id
    used = keys.use_token(connection, parsed.hash, host_name=name, used_by=used_by, now_ns=now_ns)
    if used is None:
        hint = "make a new one: hostler token create; each lets one host join once, in time, and under its own name"
        why = _why_rejected(connection, parsed, now_ns)
        raise JoinRejectedError(why, subject=parsed.id, message="the join token is not accepted", hint=hint)
    if before is not None and used.host_name != name:
        hint = f"start the agent with its credential, make a token for host {name}, or delete that host first"
        raise HostExistsError(f"host {name} joined before", hint=hint)
    fresh = HostRow(id=identity, name=name, created_ns=now_ns, updated_ns=now_ns)
    host = hosts.insert(connection, fresh) if before is None else before
    secret = make_secret("credential", random)
    host = hosts.set_credential(connection, host, secret.hash)
    return JoinedHost(host=host, credential=secret.text, token=used.id, is_new=before is None)


def authenticate_agent(connection: Connection, credential: str, now_ns: int) -> Principal:
    """Return the principal of an agent's credential; UnauthenticatedError."""
    parsed = parse_secret(credential, "credential")
    host = hosts.find_by_credential(connection, parsed.hash, now_ns)
    if host is None:
        raise UnauthenticatedError("unknown", subject=parsed.id)
    return Principal(id=host.id, name=host.name, kind="agent", scopes=(), host=host.id)


def check_credential(connection: Connection, credential: str, *, host: str, now_ns: int) -> None:
    """Reject a credential that is not valid for a host, or no longer; UnauthenticatedError.

    For every write that relies on it: the cached authentication may be older than a revocation on another replica.
    """
    parsed = parse_secret(credential, "credential")
    found = hosts.find_by_credential(connection, parsed.hash, now_ns)
    if found is None or found.id != host:
        raise UnauthenticatedError("unknown", subject=parsed.id)


def rotate_credential(connection: Connection, used: str, *, now_ns: int, random: Random) -> tuple[HostRow, str]:
    """Give an agent a new credential. The one that it used stays valid until the new one is used.

    That one is kept whatever was issued after it: an agent that lost the last response, or was killed before it stored
    the credential, asks again.
    """
    parsed = parse_secret(used, "credential")
    host = hosts.find_by_credential(connection, parsed.hash, now_ns)
    if host is None:
        raise UnauthenticatedError("unknown", subject=parsed.id)
    secret = make_secret("credential", random)
    host = hosts.set_credential(connection, host, parsed.hash)
    host = hosts.set_credential(connection, host, secret.hash, old_until_ns=_NEVER)
    return host, secret.text


def is_new_credential_unused(old_until_ns: int) -> bool:
    """Return whether the new credential of a host is unused, by the expiry of its old one."""
    return old_until_ns == _NEVER


def end_old_credential(connection: Connection, host: str, hashed: str, *, now_ns: int) -> None:
    """End a host's old credential after the overlap, because the new one with this hash is used now."""
    hosts.end_old_credential(connection, host, hashed, until_ns=now_ns + OVERLAP_S * _NS)


def may_lack_new_credential(connection: Connection, credential: str, *, is_same: bool) -> bool:
    """Return whether an agent shows a replaced credential because it does not have the new one.

    That is so if the new one was never used, and if the agent that received it (``is_same``) shows the old one.
    """
    hashed = parse_secret(credential, "credential").hash
    if hosts.find_by_credential(connection, hashed, _NEVER) is not None:
        return False
    return is_same or hosts.find_by_credential(connection, hashed, _NEVER - 1) is not None


def revoke_credential(connection: Connection, identity: str, *, by: Principal) -> HostRow:
    """Revoke an agent's credential, here at once, on other replicas when their cache expires. Its VMs keep running."""
    by.check("host.admin")
    return hosts.revoke_credential(connection, hosts.get(connection, identity))


def revoke_token(connection: Connection, identity: str, *, by: Principal, now_ns: int) -> JoinTokenRow:
    """Revoke a token. Does nothing if it is revoked."""
    by.check("token.revoke")
    row = keys.find_token(connection, identity)
    if row is None:
        raise NotFoundError.of("token", identity)
    return row if row.revoked_ns is not None else keys.revoke_token(connection, row, now_ns)


def _why_rejected(connection: Connection, secret: Secret, now_ns: int) -> Why:
    """Return for the audit log why a token is rejected; the caller does not see it."""
    row = keys.find_token(connection, secret.id)
    if row is None or not hmac.compare_digest(row.hash, secret.hash):
        return "unknown"
    if row.revoked_ns is not None:
        return "revoked"
    if row.used_ns is not None:
        return "used"
    return "expired" if now_ns >= row.expires_ns else "misnamed"


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        hint = "1 to 253 letters, digits, dots, dashes and underscores, a letter or digit at both ends"
        raise InputError(f"{name[:60]!r} is not a name for a host", hint=hint)
    check_not_id(name, "host")
