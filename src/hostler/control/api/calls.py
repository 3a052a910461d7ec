"""One request while it is served: who calls, what was read of it, and ways to the store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from starlette.requests import Request

from hostler.control.access.principals import Principal
from hostler.control.api.context import Context
from hostler.control.api.identities import new_id
from hostler.control.api.reading import idempotency_key, versions_of
from hostler.control.services.callers import Caller
from hostler.control.services.versions import Versions
from hostler.control.store import Connection, idempotency
from hostler.control.store.errors import StaleVersionError
from hostler.control.store.idempotency import Answer

__all__ = ["Call", "new_id"]

T = TypeVar("T")
_NS = 1_000_000_000
_TRIES = 5


@dataclass(frozen=True)
class Call:
    """What a handler works with."""

    context: Context
    request: Request
    principal: Principal
    request_id: str
    now_ns: int
    asked: object
    query: object
    raw: bytes = b""

    @property
    def caller(self) -> Caller:
        """Return who calls, as services want to know it."""
        return Caller(principal=self.principal, now_ns=self.now_ns, request_id=self.request_id)

    @property
    def versions(self) -> Versions:
        """Return which versions If-Match names; None without one."""
        return versions_of(self.request.headers.get("if-match"))

    def body(self, kind: type[T]) -> T:
        """Return the body, which was read as what the route says."""
        assert isinstance(self.asked, kind)
        return self.asked

    def ask(self, kind: type[T]) -> T:
        """Return the query, which was read as what the route says."""
        assert isinstance(self.query, kind)
        return self.query

    def part(self, name: str) -> str:
        """Return a part of the path."""
        return str(self.request.path_params[name])

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Read on one snapshot."""
        return await self.context.database.read(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Write; what changed meanwhile is read again, unless the caller named the version that he means."""
        tries = 1 if self.versions is not None else _TRIES
        for attempt in range(1, tries + 1):
            try:
                return await self.context.database.write(work)
            except StaleVersionError:
                if attempt == tries:
                    raise
        raise AssertionError("unreachable")

    @property
    def has_key(self) -> bool:
        """Say whether the request names a key by which a repetition of it is known."""
        return self.request.headers.get("idempotency-key") is not None

    async def write_once(self, work: Callable[[Connection], T], kind: type[T]) -> T:
        """Write, and with an Idempotency-Key only the first time: later the first answer is given again.

        The answer commits together with the change, so a repetition finds both or neither; of several at once one is
        carried out, since works take turns.
        """
        key = idempotency_key(self.request.headers.get("idempotency-key"))
        if key is None:
            return await self.write(work)
        method, path = self.request.method, self.request.scope["path"]
        scope = f"{self.principal.actor} {method} {path}"
        hashed = hashlib.sha256(self.raw).hexdigest()
        expires_ns = self.now_ns + int(self.context.settings.keep_idempotency_s * _NS)

        def once(connection: Connection) -> T:
            before = idempotency.recall(connection, scope, key, hashed, self.now_ns)
            if before is not None:
                return msgspec.json.decode(before.response, type=kind)
            result = work(connection)
            answer = Answer(status=200, response=msgspec.json.encode(result))
            idempotency.remember(connection, scope, key, hashed, answer, now_ns=self.now_ns, expires_ns=expires_ns)
            return result

        return await self.write(once)
