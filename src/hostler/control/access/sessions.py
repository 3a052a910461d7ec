"""Sessions of the dashboard: an API key typed into a form gives a signed cookie that every replica can check.

The cookie holds the key's id, never the key, and is valid only while the key is: each request looks the key up through
the authenticator's cache. Changes also need a CSRF token, and an Origin or Referer of this service.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import SplitResult, urlsplit

import msgspec

from hostler.control.access.errors import ForgedRequestError, UnauthenticatedError
from hostler.control.access.principals import Principal
from hostler.control.access.secrets import Random
from hostler.control.store import Connection
from hostler.control.store.rows import documents
from hostler.control.store.rows.documents import DocumentRow
from hostler.errors import InternalError

__all__ = [
    "DashboardSession", "SigningSecret", "check_origin", "check_request", "clear_cookie", "cookie_name", "csrf_token",
    "open_session", "read_signing_secret", "renew_signing_secret", "seal", "session_principal", "set_cookie",
    "signing_secret", "unseal",
]  # fmt: skip

LIFE_S = 12 * 3600
SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
_SETTING = "session-secret"
_PREFIX = "hs_"
_SECRET_BYTES, _SEED_BYTES = 32, 24
_MOST = 4096  # characters of a cookie
_NS = 1_000_000_000
_PORTS = {"http": 80, "https": 443}
_HINT = "open the page again in the same window and repeat what you did"


class DashboardSession(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The content of a cookie. ``seed`` makes sessions of one key differ, and binds the CSRF token to one session."""

    key: str
    role: str
    project: str
    expires_ns: int
    seed: str


class SigningSecret(msgspec.Struct, frozen=True):
    """The part of the setting that is kept as JSON."""

    secret: bytes


def signing_secret(connection: Connection, now_ns: int, random: Random) -> bytes:
    """Return the secret that all replicas sign with; the first one creates it. Run it by ``Database.write``."""
    found = documents.find(connection, "setting", "", _SETTING)
    if found is None:
        body = msgspec.json.encode(SigningSecret(random(_SECRET_BYTES)))
        fresh = DocumentRow(project="", name=_SETTING, created_ns=now_ns, updated_ns=now_ns, body=body)
        found = documents.insert(connection, "setting", fresh)
    secret = msgspec.json.decode(found.body, type=SigningSecret).secret
    if len(secret) < _SECRET_BYTES:
        raise InternalError("the secret that sessions are signed with is too short", hint="renew it")
    return secret


def read_signing_secret(connection: Connection) -> bytes:
    """Return the secret that all replicas sign with now, or nothing if there is none yet."""
    found = documents.find(connection, "setting", "", _SETTING)
    return b"" if found is None else msgspec.json.decode(found.body, type=SigningSecret).secret


def renew_signing_secret(connection: Connection, now_ns: int, random: Random) -> bytes:
    """Replace the signing secret. All sessions end, on each replica when it reads the new secret."""
    signing_secret(connection, now_ns, random)
    before = documents.get(connection, "setting", "", _SETTING)
    secret = random(_SECRET_BYTES)
    body = msgspec.json.encode(SigningSecret(secret))
    documents.save(connection, "setting", msgspec.structs.replace(before, body=body, updated_ns=now_ns))
    return secret


def open_session(principal: Principal, *, now_ns: int, random: Random, life_s: int = LIFE_S) -> DashboardSession:
    """Begin a session for an authenticated key; it never outlives the key."""
    if principal.kind != "key":
        raise UnauthenticatedError("missing", message="an API key is needed to log in", hint="type in an API key")
    expires_ns = now_ns + life_s * _NS
    if principal.until_ns is not None:
        expires_ns = min(expires_ns, principal.until_ns)
    return DashboardSession(principal.id, principal.role, principal.project, expires_ns, _encode(random(_SEED_BYTES)))


def seal(session: DashboardSession, secret: bytes) -> str:
    """Return the value of the cookie."""
    payload = _encode(msgspec.json.encode(session))
    return f"{_PREFIX}{payload}.{_sign(secret, 'session', payload)}"


def unseal(cookie: str, secret: bytes, now_ns: int) -> DashboardSession:
    """Return the session of a cookie, after a check of its signature; UnauthenticatedError."""
    payload, dot, signature = cookie.removeprefix(_PREFIX).partition(".")
    is_ours = len(cookie) <= _MOST and cookie.isascii() and cookie.startswith(_PREFIX) and dot == "."
    # The texts are compared, not the bytes they stand for: base64 has more than one spelling.
    if not is_ours or not hmac.compare_digest(signature, _sign(secret, "session", payload)):
        raise UnauthenticatedError("forged", hint="log in again")
    try:
        session = msgspec.json.decode(
            base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=DashboardSession
        )
    except (ValueError, msgspec.MsgspecError) as error:
        raise UnauthenticatedError("changed", hint="log in again") from error  # ours, but of another version
    if now_ns >= session.expires_ns:
        raise UnauthenticatedError("expired", subject=session.key, hint="log in again")
    return session


def session_principal(session: DashboardSession, key: Principal) -> Principal:
    """Return the principal of a session, given the key's rights now: never more than at the login."""
    same = (session.key, session.role, session.project) == (key.id, key.role, key.project)
    if not same or key.kind != "key":
        raise UnauthenticatedError("changed", subject=session.key, hint="log in again")
    return msgspec.structs.replace(key, kind="session")


def csrf_token(session: DashboardSession, secret: bytes) -> str:
    """Return the CSRF token for forms of this session."""
    return _sign(secret, "form", _encode(msgspec.json.encode(session)))


def check_request(
    session: DashboardSession,
    secret: bytes,
    *,
    method: str,
    host: str,
    origin: str = "",
    referer: str = "",
    token: str = "",
    is_secure: bool = False,
) -> None:
    """Reject a change that was not sent by a page of this session; ForgedRequestError. ``host`` is the header.

    If the service has TLS (``is_secure``), a page without TLS counts as another site.
    """
    if method.upper() in SAFE_METHODS:
        return
    check_origin(host=host, origin=origin, referer=referer, is_secure=is_secure)
    if not token.isascii() or not hmac.compare_digest(token, csrf_token(session, secret)):
        raise ForgedRequestError("the form's token is missing or belongs to another session", hint=_HINT)


def check_origin(*, host: str, origin: str = "", referer: str = "", is_secure: bool = False) -> None:
    """Reject a form that another site sent; ForgedRequestError. For the login, before there is a session."""
    source = origin or referer
    if not source or not _is_from(source, host, ("https",) if is_secure else ("http", "https")):
        said = "another site" if source else "nowhere (neither Origin nor Referer)"
        raise ForgedRequestError(f"the request came from {said}", hint=_HINT)


def cookie_name(*, is_secure: bool) -> str:
    """Return the cookie's name. With TLS the prefix makes browsers send it to this host only."""
    return "__Host-hostler" if is_secure else "hostler"


def set_cookie(value: str, *, is_secure: bool, life_s: int = LIFE_S) -> str:
    """Return the Set-Cookie header that begins a session; ``is_secure`` everywhere except on plain loopback."""
    attributes = f"Path=/; Max-Age={life_s}; HttpOnly; SameSite=Strict"
    return f"{cookie_name(is_secure=is_secure)}={value}; {attributes}{'; Secure' if is_secure else ''}"


def clear_cookie(*, is_secure: bool) -> str:
    """Return the Set-Cookie header that ends a session in the browser."""
    return set_cookie("", is_secure=is_secure, life_s=0)


def _is_from(source: str, host: str, schemes: tuple[str, ...]) -> bool:
    """Return whether a URL belongs to the host that a request was sent to."""
    try:
        url = urlsplit(source)
        there, here = _authority(url), _authority(urlsplit(f"{url.scheme}://{host}"))
    except ValueError:
        return False
    return url.scheme in schemes and bool(there[0]) and there == here


def _authority(url: SplitResult) -> tuple[str, int | None]:
    return (url.hostname or "").removesuffix("."), url.port or _PORTS.get(url.scheme)


def _sign(secret: bytes, purpose: str, payload: str) -> str:
    return _encode(hmac.new(secret, f"hostler {purpose} {payload}".encode(), hashlib.sha256).digest())


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
