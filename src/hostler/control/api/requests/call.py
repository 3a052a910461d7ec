"""One request while it is served: its caller, its decoded body and query, and access to the store.

``new_id`` returns ids of VMs, operations and requests: random UUIDs, generated in blocks. Reading random bytes releases
the interpreter's lock, and a computing thread then keeps it for a while, in the middle of a transaction. So bytes for
many ids are read at once.
"""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from starlette.requests import Request

from hostler.control.access.principals import Principal
from hostler.control.api.requests.context import ServiceContext
from hostler.control.api.requests.request_decoder import idempotency_key, versions_of
from hostler.control.services.callers import Caller
from hostler.control.services.versions import Versions
from hostler.control.store import Connection
from hostler.control.store.errors import StaleVersionError
from hostler.control.store.rows import idempotency
from hostler.control.store.rows.idempotency import RecordedAnswer

__all__ = ["ApiCall", "new_id"]

_TOGETHER = 256
_SIZE = 16
_lock = threading.Lock()
_ready: list[str] = []


def new_id() -> str:
    """Return a unique id. Callable from any thread."""
    with _lock:
        if not _ready:
            block = os.urandom(_SIZE * _TOGETHER)
            _ready.extend(uuid.UUID(bytes=block[at : at + _SIZE], version=4).hex for at in range(0, len(block), _SIZE))
        return _ready.pop()


T = TypeVar("T")
_NS = 1_000_000_000
_TRIES = 5


@dataclass(frozen=True)
class ApiCall:
    """One request, as its handler gets it."""

    context: ServiceContext
    request: Request
    principal: Principal
    request_id: str
    now_ns: int
    asked: object
    query: object
    raw: bytes = b""

    @property
    def caller(self) -> Caller:
        """Return the caller for the services."""
        strategies = self.context.books.strategies
        return Caller(principal=self.principal, now_ns=self.now_ns, request_id=self.request_id, strategies=strategies)

    @property
    def versions(self) -> Versions:
        """Return the versions that If-Match names; None without the header."""
        return versions_of(self.request.headers.get("if-match"))

    def body(self, kind: type[T]) -> T:
        """Return the decoded body, which has the type that the route declares."""
        assert isinstance(self.asked, kind)
        return self.asked

    def ask(self, kind: type[T]) -> T:
        """Return the decoded query, which has the type that the route declares."""
        assert isinstance(self.query, kind)
        return self.query

    def part(self, name: str) -> str:
        """Return a parameter of the path."""
        return str(self.request.path_params[name])

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Read on one snapshot."""
        return await self.context.database.read(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run a work that writes. After a version conflict it runs again, unless the caller named a version."""
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
        """Return whether the request has an Idempotency-Key."""
        return self.request.headers.get("idempotency-key") is not None

    async def write_once(self, work: Callable[[Connection], T], kind: type[T]) -> T:
        """Run a work that writes. With an Idempotency-Key it runs once; a repetition gets the first response.

        The response commits together with the change, so a repetition finds both or neither. Works take turns, so of
        several concurrent repetitions one runs.
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
            answer = RecordedAnswer(status=200, response=msgspec.json.encode(result))
            idempotency.remember(connection, scope, key, hashed, answer, now_ns=self.now_ns, expires_ns=expires_ns)
            return result

        return await self.write(once)
