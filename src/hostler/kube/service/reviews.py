"""Authentication and authorization by the API server: TokenReview and SubjectAccessReview, cached for a few seconds.

The API server decides, with its own authenticators and authorizers. Without its answer no request is allowed.
Unauthenticated clients cannot make us flood the server: few reviews run at once and few may wait. Used by ``pages``.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from hostler.kube.api.client import KubeClient
from hostler.kube.api.failures import ApiError
from hostler.runtime.clock import NANOSECONDS, Clock
from hostler.runtime.listener import RequestRejectedError
from hostler.runtime.transport import TransportError

__all__ = ["Attributes", "ReviewedUser", "Reviews", "of_path", "of_pods"]

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_RIGHTS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_KEPT_NS = 10 * NANOSECONDS
_REMEMBERED = 1024
_AT_ONCE = 4
_WAITING = 64
_TIMEOUT_S = 5.0
_MAX_TOKEN = 16_384

Attributes: TypeAlias = tuple[tuple[str, str], ...]  # the fields of a review, and which of the two kinds it is
T = TypeVar("T")


class ReviewedUser(msgspec.Struct, frozen=True):
    """A user as the API server knows it."""

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
    """Return the review attributes of a non-resource path."""
    return (("kind", "nonResourceAttributes"), ("path", path), ("verb", verb))


def of_pods(verb: str, namespace: str) -> Attributes:
    """Return the review attributes of pods in a namespace; empty: in all namespaces."""
    return (("kind", "resourceAttributes"), ("namespace", namespace), ("resource", "pods"), ("verb", verb))


class Reviews:
    """Asks the API server and caches its answers for ten seconds."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[object, tuple[int, Any]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._asking = 0

    async def user_of(self, token: str) -> ReviewedUser:
        """Return the user of a token; reject an invalid one."""
        if not token or len(token) > _MAX_TOKEN:
            raise RequestRejectedError(401, "the token is empty or too long", hint="send 'Authorization: Bearer TOKEN'")
        key = hashlib.sha256(token.encode()).digest()  # tokens are not stored
        found: ReviewedUser | str = await self._once(key, lambda: self._authenticate(token))
        if isinstance(found, str):
            raise RequestRejectedError(401, f"the API server rejects the token: {found}", hint="get a new one")
        return found

    async def check(self, user: ReviewedUser, wanted: Attributes) -> None:
        """Reject what a user may not do."""
        allowed, reason = await self._once((user, wanted), lambda: self._authorize(user, wanted))
        if allowed:
            return
        asked = dict(wanted)
        what = asked.get("path") or "pods " + (
            f"in namespace {asked['namespace']}" if asked["namespace"] else "everywhere"
        )
        raise RequestRejectedError(
            403,
            f"user {user.username} may not {asked['verb']} {what}" + (f": {reason}" if reason else ""),
            hint=f"a role must allow the verb {asked['verb']} on {asked.get('path') or 'pods'}; "
            f"reviews are cached for {_KEPT_NS // NANOSECONDS} s, so a new grant may take a moment",
        )

    async def _once(self, key: object, ask: Callable[[], Awaitable[T]]) -> T:
        now = self._clock.now()
        known = self._known.get(key)
        if known is not None and known[0] > now:
            found: T = known[1]
            return found
        if self._asking >= _WAITING:
            raise RequestRejectedError(
                429, "too many requests are waiting for the API server", hint="try again in a moment"
            )
        self._asking += 1
        try:
            async with self._room:
                answer = await ask()
        except (ApiError, TransportError, msgspec.MsgspecError) as error:
            why = getattr(error, "message", "its answer cannot be read")
            raise RequestRejectedError(503, f"no access while the API server cannot be reached: {why}") from error
        finally:
            self._asking -= 1
        self._known.pop(key, None)
        self._known[key] = (self._clock.now() + _KEPT_NS, answer)
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return answer

    async def _authenticate(self, token: str) -> ReviewedUser | str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = _read(await self._client.post(_TOKENS, body, timeout_s=_TIMEOUT_S)).status
        info = status.user
        if not status.authenticated or info is None or not info.username:
            return status.error or "it is not valid"
        extra = tuple((name, tuple(values)) for name, values in sorted((info.extra or {}).items()))
        return ReviewedUser(info.username, info.uid, tuple(info.groups or ()), extra)

    async def _authorize(self, user: ReviewedUser, wanted: Attributes) -> tuple[bool, str]:
        fields = dict(wanted)
        kind = fields.pop("kind")
        spec: dict[str, object] = {"user": user.username, "uid": user.uid, "groups": list(user.groups)}
        spec |= {"extra": {name: list(values) for name, values in user.extra}, kind: fields}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status = _read(await self._client.post(_RIGHTS, body, timeout_s=_TIMEOUT_S)).status
        return status.allowed, status.reason
