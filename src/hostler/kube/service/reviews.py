"""Who asks, and whether he may: TokenReview and SubjectAccessReview, remembered for a few seconds.

The API server decides, by whatever authenticators and authorizers it has; we only pass the question on. Without an
answer nobody gets in. Strangers cannot make us flood the server: few reviews are under way at once and few wait.
Used by ``guard``.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from hostler.kube.api.client import Client
from hostler.kube.api.clock import NANOSECONDS, Clock
from hostler.kube.api.failures import ApiError
from hostler.kube.api.transport import TransportError
from hostler.kube.service.problems import RefusedError

__all__ = ["Attributes", "Reviews", "User", "of_path", "of_pods"]

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_RIGHTS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_KEPT_NS = 10 * NANOSECONDS
_REMEMBERED = 1024
_AT_ONCE = 4
_WAITING = 64
_TIMEOUT_S = 5.0
_MAX_TOKEN = 16_384

Attributes: TypeAlias = tuple[tuple[str, str], ...]  # the fields of a question, and of which of the two kinds it is
T = TypeVar("T")


class User(msgspec.Struct, frozen=True):
    """Who somebody is to the API server."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _Status(msgspec.Struct):
    authenticated: bool = False
    allowed: bool = False
    user: _UserInfo | None = None
    reason: str = ""
    error: str = ""


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_read = msgspec.json.Decoder(_Review).decode


def of_path(path: str, verb: str) -> Attributes:
    """Ask for a path that is no resource."""
    return (("kind", "nonResourceAttributes"), ("path", path), ("verb", verb))


def of_pods(verb: str, namespace: str) -> Attributes:
    """Ask for pods in a namespace; empty: in all of them."""
    return (("kind", "resourceAttributes"), ("namespace", namespace), ("resource", "pods"), ("verb", verb))


class Reviews:
    """Asks the API server, and remembers what it said for ten seconds."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[object, tuple[int, Any]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._asking = 0

    async def user_of(self, token: str) -> User:
        """Find out whose token it is; nobody's is refused."""
        if not token or len(token) > _MAX_TOKEN:
            raise RefusedError(401, "the token is empty or too long", hint="send 'Authorization: Bearer TOKEN'")
        key = hashlib.sha256(token.encode()).digest()  # tokens are not kept
        found: User | str = await self._once(key, lambda: self._authenticate(token))
        if isinstance(found, str):
            raise RefusedError(401, f"the API server does not know the token: {found}", hint="get a new one")
        return found

    async def check(self, user: User, wanted: Attributes) -> None:
        """Refuse what a user may not do."""
        allowed, reason = await self._once((user, wanted), lambda: self._authorize(user, wanted))
        if allowed:
            return
        asked = dict(wanted)
        what = asked.get("path") or "pods " + (
            f"in namespace {asked['namespace']}" if asked["namespace"] else "everywhere"
        )
        raise RefusedError(
            403,
            f"user {user.username} may not {asked['verb']} {what}" + (f": {reason}" if reason else ""),
            hint=f"a role must allow the verb {asked['verb']} on {asked.get('path') or 'pods'}; "
            f"answers are remembered for {_KEPT_NS // NANOSECONDS} s, so one that was just granted may need a moment",
        )

    async def _once(self, key: object, ask: Callable[[], Awaitable[T]]) -> T:
        now = self._clock.now()
        known = self._known.get(key)
        if known is not None and known[0] > now:
            found: T = known[1]
            return found
        if self._asking >= _WAITING:
            raise RefusedError(429, "too many requests wait for the API server", hint="try again in a moment")
        self._asking += 1
        try:
            async with self._room:
                answer = await ask()
        except (ApiError, TransportError, msgspec.MsgspecError) as error:
            why = getattr(error, "message", "its answer cannot be read")
            raise RefusedError(503, f"nobody gets in while the API server cannot be asked: {why}") from error
        finally:
            self._asking -= 1
        self._known.pop(key, None)
        self._known[key] = (self._clock.now() + _KEPT_NS, answer)
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return answer

    async def _authenticate(self, token: str) -> User | str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = _read(await self._client.post(_TOKENS, body, timeout_s=_TIMEOUT_S)).status
        info = status.user
        if not status.authenticated or info is None or not info.username:
            return status.error or "it belongs to nobody"
        extra = tuple((name, tuple(values)) for name, values in sorted((info.extra or {}).items()))
        return User(info.username, info.uid, tuple(info.groups or ()), extra)

    async def _authorize(self, user: User, wanted: Attributes) -> tuple[bool, str]:
        fields = dict(wanted)
        kind = fields.pop("kind")
        spec: dict[str, object] = {"user": user.username, "uid": user.uid, "groups": list(user.groups)}
        spec |= {"extra": {name: list(values) for name, values in user.extra}, kind: fields}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status = _read(await self._client.post(_RIGHTS, body, timeout_s=_TIMEOUT_S)).status
        return status.allowed, status.reason
