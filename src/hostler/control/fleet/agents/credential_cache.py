"""Credentials and epochs of all hosts, read together every few seconds, so that a heartbeat needs no SQL.

Invariant: an expired cache answers nothing. Otherwise a replica without its database would let agents believe that the
control plane still hears them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hostler.control.access import Authenticator, UnauthenticatedError, tokens
from hostler.control.access.secrets import hash_secret
from hostler.control.fleet.agents.sessions import AgentSessions
from hostler.control.fleet.errors import HostDeletedError
from hostler.control.fleet.times import SECOND
from hostler.control.store import Database
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import HostCredentialRow

__all__ = ["CredentialCache"]


class CredentialCache:
    """Hosts by id and by the hash of their credentials."""

    def __init__(
        self,
        database: Database,
        authenticator: Authenticator,
        sessions: AgentSessions,
        *,
        life_s: float,
        clock: Callable[[], int],
        steady: Callable[[], int],
    ) -> None:
        self.rows: dict[str, HostCredentialRow] = {}
        self._database = database
        self._doorkeeper = authenticator
        self._sessions = sessions
        self._life_ns = int(life_s * SECOND)
        self._clock = clock
        self._steady = steady
        self._by_hash: dict[str, HostCredentialRow] = {}
        self._read_at: int | None = None
        self._turn = 0  # raised by every spoiling
        self._read_in = 0  # the turn in which what is known was read
        self._reading = asyncio.Lock()

    async def host_of(self, credential: str, remote: str) -> str:
        """Return the id of the host with this credential; UnauthenticatedError, HostDeletedError."""
        await self.refresh()
        hashed, now_ns = hash_secret(credential), self._clock()
        row = self._by_hash.get(hashed)
        if row is not None and (row.credential_hash == hashed or now_ns < row.old_credential_until_ns):
            if row.credential_hash == hashed and tokens.is_new_credential_unused(row.old_credential_until_ns):
                await self._end_outgoing(row.id, hashed, now_ns)
            return row.id
        try:
            found = await self._doorkeeper.agent(credential, remote, now_ns)
        except UnauthenticatedError:
            if await self._database.read(lambda connection: hosts.is_buried(connection, hashed)):
                raise HostDeletedError("this host was deleted", hint="join again with a new token") from None
            raise
        return found.host

    async def _end_outgoing(self, host: str, hashed: str, now_ns: int) -> None:
        """Note that a host uses its new credential, so that the old one ends."""
        await self._database.write(
            lambda connection: tokens.end_old_credential(connection, host, hashed, now_ns=now_ns)
        )
        self.invalidate()

    async def refresh(self) -> None:
        """Read the cache again if it has expired.

        It includes every ``invalidate`` before this call. A later one may be missing, and is seen by the next call.
        """
        asked_in = self._turn
        if self._is_fresh(asked_in):
            return
        async with self._reading:
            if self._is_fresh(asked_in):
                return
            started, turn = self._steady(), self._turn
            rows = await self._database.read(hosts.list_credentials)
            self.rows = {row.id: row for row in rows}
            self._by_hash = {
                hashed: row for row in rows for hashed in (row.credential_hash, row.old_credential_hash) if hashed
            }
            self._read_at, self._read_in = started, turn
            self._sessions.compare(self.rows, started)

    def invalidate(self) -> None:
        """Read again at the next call: the current read may be older than what was just written."""
        self._turn += 1

    def _is_fresh(self, turn: int) -> bool:
        if self._read_at is None or self._read_in < turn:
            return False
        return self._steady() - self._read_at < self._life_ns
