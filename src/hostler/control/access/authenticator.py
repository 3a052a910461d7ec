"""Authentication of callers without SQL for each request: what was looked up stays valid for five seconds.

A revocation in this process is passed to ``forget`` and counts at once. A revocation by another replica counts when
the cached entry expires. Streams check every five seconds, so both together stay within the promised ten seconds.
Only hashes of secrets are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from hostler.control.access import keys, tokens
from hostler.control.access.errors import UnauthenticatedError
from hostler.control.access.limits import FailureGuard, LeastRecentlyUsed, RateLimits
from hostler.control.access.principals import Principal
from hostler.control.access.secrets import Secret, hash_secret, parse_secret
from hostler.control.access.sessions import DashboardSession, session_principal, unseal
from hostler.control.store import Connection

__all__ = ["Authenticator", "KeyCache", "StoreReader"]

LIFE_S = 5
MOST_KEPT = 20_000
_NS = 1_000_000_000
T = TypeVar("T")


class StoreReader(Protocol):
    """The part of the store that is needed: ``Database`` implements it."""

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run a work that only reads."""


class _Known(msgspec.Struct, frozen=True):
    principal: Principal
    until_ns: int


class KeyCache:
    """Principals by the hash or id that found them, for a short time."""

    def __init__(self, *, life_s: int = LIFE_S, most: int = MOST_KEPT) -> None:
        self._life_ns = life_s * _NS
        self._most = most
        self._known: LeastRecentlyUsed[_Known] = LeastRecentlyUsed(most)
        self._names: dict[str, set[str]] = {}
        self.turn = 0  # raised by every forgetting

    def __len__(self) -> int:
        return len(self._known)

    def find(self, name: str, now_ns: int) -> Principal | None:
        """Return the principal cached under a name, unless the entry or the principal has expired."""
        known = self._known.get(name)
        return known.principal if known is not None and now_ns < known.until_ns else None

    def has_met(self, name: str) -> bool:
        """Return whether a principal was ever found by that name."""
        return self._known.get(name) is not None

    def keep(self, name: str, principal: Principal, now_ns: int, turn: int) -> None:
        """Cache what was read when the turn was ``turn``. Does nothing if something was forgotten since then."""
        if turn != self.turn:
            return
        until_ns = now_ns + self._life_ns
        if principal.until_ns is not None:
            until_ns = min(until_ns, principal.until_ns)
        self._known.put(name, _Known(principal, until_ns))
        self._names.setdefault(principal.id, set()).add(name)
        if len(self._names) > 2 * self._most:
            self._tidy()

    def forget(self, identity: str) -> None:
        """Forget a key or a host by its id, and every lookup in progress."""
        self.turn += 1
        for name in self._names.pop(identity, ()):
            self._known.drop(name)

    def _tidy(self) -> None:
        """Remove forgotten names to make room."""
        for identity, names in list(self._names.items()):
            kept = {name for name in names if name in self._known}
            if kept:
                self._names[identity] = kept
            else:
                del self._names[identity]


class Authenticator:
    """Authenticates callers. Times are wall times, because keys expire by wall time.

    ``guard`` is public for other failures from an address: joining with a bad token counts there too.
    ``on_forget`` wakes open streams, so that they authenticate again.
    """

    def __init__(
        self,
        reader: StoreReader,
        *,
        limits: RateLimits | None = None,
        cache: KeyCache | None = None,
        guard: FailureGuard | None = None,
    ) -> None:
        self._reader = reader
        self._cache = cache or KeyCache()
        self.guard = guard or FailureGuard(limits)
        self.on_forget: Callable[[], None] = lambda: None
        self._uses: dict[str, int] = {}
        self._projects: LeastRecentlyUsed[str] = LeastRecentlyUsed(MOST_KEPT)

    async def key(self, secret: str, address: str, now_ns: int) -> Principal:
        """Return whose API key this is; UnauthenticatedError, TooManyRequestsError."""

        def look(connection: Connection) -> Principal:
            return keys.authenticate(connection, secret, now_ns)

        # What is kept for one door must not open the other.
        name = f"secret key {hash_secret(secret)}"
        return await self._known(name, address, now_ns, look, lambda: parse_secret(secret, "key"))

    async def agent(self, credential: str, address: str, now_ns: int) -> Principal:
        """Return whose agent's credential this is; UnauthenticatedError, TooManyRequestsError."""

        def look(connection: Connection) -> Principal:
            return tokens.authenticate_agent(connection, credential, now_ns)

        name = f"credential {hash_secret(credential)}"
        return await self._known(name, address, now_ns, look, lambda: parse_secret(credential, "credential"))

    async def session(
        self, cookie: str, signing: bytes, address: str, now_ns: int
    ) -> tuple[DashboardSession, Principal]:
        """Return the session of a cookie and who acts in it; UnauthenticatedError, TooManyRequestsError."""
        try:
            session = unseal(cookie, signing, now_ns)
        except UnauthenticatedError as error:
            self.guard.check(address, now_ns)
            if error.why != "expired":
                self.guard.note_failure(address, now_ns)
            raise

        def look(connection: Connection) -> Principal:
            return keys.find_key(connection, session.key, now_ns)

        key = await self._known(f"key {session.key}", address, now_ns, look)
        return session, session_principal(session, key)

    def forget(self, identity: str) -> None:
        """Drop a key or a host from the cache. Call it after the commit that revoked, rotated or deleted it."""
        self._cache.forget(identity)
        self.on_forget()

    def project_of(self, identity: str) -> str:
        """Return the project of an authenticated key; empty for a key of all projects."""
        return self._projects.get(identity) or ""

    def take_uses(self) -> dict[str, int]:
        """Return when keys were used since the last call, for ``store.rows.keys.note_use``."""
        taken, self._uses = self._uses, {}
        return taken

    async def _known(
        self,
        name: str,
        address: str,
        now_ns: int,
        look: Callable[[Connection], Principal],
        parse: Callable[[], Secret] | None = None,
    ) -> Principal:
        found = self._cache.find(name, now_ns)
        if found is None:
            # A caller that was accepted before is looked up even if another one locked out its address.
            if not self._cache.has_met(name):
                self.guard.check(address, now_ns)
            turn = self._cache.turn
            try:
                if parse is not None:
                    parse()  # what is mistyped costs no SQL
                found = await self._reader.read(look)
            except UnauthenticatedError as error:
                if error.why != "missing":
                    self.guard.note_failure(address, now_ns)
                raise
            self._cache.keep(name, found, now_ns, turn)
            self._projects.put(found.id, found.project)
        if found.kind != "agent":
            self._uses[found.id] = now_ns
        return found
