"""How hosts join: a token that works once gives an agent its credential; and how it rejoins, rotates and is locked out.

A host that exists rejoins with its credential, simply by registering. If that is lost, a fresh token that names exactly
this host replaces it, and the old credential is worth nothing from then on. No other token takes over a host's name.
"""

from __future__ import annotations

import hmac
import re

import msgspec

from hostler.control.access.errors import ForbiddenError, HostExistsError, JoinRefusedError, UnauthenticatedError, Why
from hostler.control.access.names import check_not_id
from hostler.control.access.principals import Principal
from hostler.control.access.secrets import Random, Secret, make_secret, parse_secret
from hostler.control.store import Connection, hosts, keys
from hostler.control.store.errors import NotFoundError
from hostler.control.store.hosts import HostRow
from hostler.control.store.keys import JoinTokenRow
from hostler.errors import InputError

__all__ = [
    "Admitted", "authenticate_agent", "check_credential", "create_token", "end_outgoing", "is_awaited", "join",
    "may_lack_new_one", "revoke_credential", "revoke_token", "rotate_credential",
]  # fmt: skip

LEAST_S, USUAL_S, MOST_S = 60, 3600, 7 * 24 * 3600
OVERLAP_S = 300  # of a credential that was replaced, from the first use of the new one on: longer than any poll
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_NS = 1_000_000_000
_NEVER = 2**63 - 1


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """A host that joined. The credential is shown this once; ``is_new`` is false for one that came back."""

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
    """Make a token for one host to join with, and return it with its secret, which is shown this once."""
    by.check("token.create")
    if not LEAST_S <= ttl_s <= MOST_S:
        raise InputError(f"a token that lives {ttl_s} s", hint=f"choose {LEAST_S} s (a minute) to {MOST_S} s (a week)")
    if host_name:
        _check_name(host_name)
    expires_ns = now_ns + ttl_s * _NS
    if by.until_ns is not None and expires_ns > by.until_ns:
        raise ForbiddenError("a key that expires makes no token that outlives it", hint="choose a shorter life")
    secret = make_secret("token", random)
    row = JoinTokenRow(
        id=secret.id, hash=secret.hash, expires_ns=expires_ns, host_name=host_name, actor=by.actor, created_ns=now_ns
    )
    return keys.insert_token(connection, row), secret.text


def join(connection: Connection, token: str, *, name: str, identity: str, now_ns: int, random: Random) -> Admitted:
    """Use a token up and give a host its credential; ``identity`` is the id of the host if it is a new one.

    JoinRefusedError, HostExistsError. Run it as one work of the store: when it raises, the token stays unused.
    """
    try:
        parsed = parse_secret(token, "token")
    except UnauthenticatedError as error:
        raise JoinRefusedError(error.why, subject=error.subject, message=error.message, hint=error.hint) from error
    _check_name(name)
    before = hosts.find_by_name(connection, name)
    used_by = identity if before is None else before.id
    used = keys.use_token(connection, parsed.hash, host_name=name, used_by=used_by, now_ns=now_ns)
    if used is None:
        hint = "make a new one: hostler token create; each lets one host join once, in time, and under its own name"
        why = _why_refused(connection, parsed, now_ns)
        raise JoinRefusedError(why, subject=parsed.id, message="the join token is not accepted", hint=hint)
    if before is not None and used.host_name != name:
        hint = f"start the agent with its credential, make a token for host {name}, or delete that host first"
        raise HostExistsError(f"host {name} joined before", hint=hint)
    fresh = HostRow(id=identity, name=name, created_ns=now_ns, updated_ns=now_ns)
    host = hosts.insert(connection, fresh) if before is None else before
    secret = make_secret("credential", random)
    host = hosts.set_credential(connection, host, secret.hash)
    return Admitted(host=host, credential=secret.text, token=used.id, is_new=before is None)


def authenticate_agent(connection: Connection, credential: str, now_ns: int) -> Principal:
    """Return the agent whose credential this is; UnauthenticatedError."""
    parsed = parse_secret(credential, "credential")
    host = hosts.find_by_credential(connection, parsed.hash, now_ns)
    if host is None:
        raise UnauthenticatedError("unknown", subject=parsed.id)
    return Principal(id=host.id, name=host.name, kind="agent", scopes=(), host=host.id)


def check_credential(connection: Connection, credential: str, *, host: str, now_ns: int) -> None:
    """Refuse a credential that is not, or no longer, good for a host; UnauthenticatedError.

    For whatever is written on the strength of one: what let it in may be older than its end on another replica.
    """
    parsed = parse_secret(credential, "credential")
    found = hosts.find_by_credential(connection, parsed.hash, now_ns)
    if found is None or found.id != host:
        raise UnauthenticatedError("unknown", subject=parsed.id)


def rotate_credential(connection: Connection, used: str, *, now_ns: int, random: Random) -> tuple[HostRow, str]:
    """Give an agent a new credential for the one that it used, which stays good until the new one is used.

    What it used is kept, whatever was given out after it: an agent that never got the last answer, or was killed before
    it wrote it down, asks again.
    """
    parsed = parse_secret(used, "credential")
    host = hosts.find_by_credential(connection, parsed.hash, now_ns)
    if host is None:
        raise UnauthenticatedError("unknown", subject=parsed.id)
    secret = make_secret("credential", random)
    host = hosts.set_credential(connection, host, parsed.hash)
    host = hosts.set_credential(connection, host, secret.hash, old_until_ns=_NEVER)
    return host, secret.text


def is_awaited(old_until_ns: int) -> bool:
    """Say by the end of a host's old credential whether nobody has used the new one yet."""
    return old_until_ns == _NEVER


def end_outgoing(connection: Connection, host: str, hashed: str, *, now_ns: int) -> None:
    """Let a host's old credential end with the overlap, since the new one, of that hash, is used by now."""
    hosts.end_old_credential(connection, host, hashed, until_ns=now_ns + OVERLAP_S * _NS)


def may_lack_new_one(connection: Connection, credential: str, *, is_same: bool) -> bool:
    """Say whether an agent shows a credential that was replaced because it does not have the new one.

    So it is where nobody has used that yet, and where the very agent that was given it (``is_same``) shows the old one.
    """
    hashed = parse_secret(credential, "credential").hash
    if hosts.find_by_credential(connection, hashed, _NEVER) is not None:
        return False
    return is_same or hosts.find_by_credential(connection, hashed, _NEVER - 1) is not None


def revoke_credential(connection: Connection, identity: str, *, by: Principal) -> HostRow:
    """Lock a host's agent out, at once here and within the life of the cache on other replicas; its VMs run on."""
    by.check("host.admin")
    return hosts.revoke_credential(connection, hosts.get(connection, identity))


def revoke_token(connection: Connection, identity: str, *, by: Principal, now_ns: int) -> JoinTokenRow:
    """Make a token useless; nothing happens to one that is."""
    by.check("token.revoke")
    row = keys.find_token(connection, identity)
    if row is None:
        raise NotFoundError(f"token {identity} does not exist", hint="list what there is")
    return row if row.revoked_ns is not None else keys.revoke_token(connection, row, now_ns)


def _why_refused(connection: Connection, secret: Secret, now_ns: int) -> Why:
    """Return for the audit what is wrong with a token; the one who showed it is not told."""
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
