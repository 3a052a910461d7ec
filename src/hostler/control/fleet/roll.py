"""The roll of all hosts, read at once every few seconds: credentials and epochs without SQL for each heartbeat.

Nothing is answered by a roll that is older than its time: a replica that is cut off from the database must not keep
agents believing that the control plane hears them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hostler.control.access import Doorkeeper, UnauthenticatedError, tokens
from hostler.control.access.secrets import hash_secret
from hostler.control.fleet.errors import HostDeletedError
from hostler.control.fleet.sessions import Sessions
from hostler.control.fleet.times import SECOND
from hostler.control.store import Database, hosts
from hostler.control.store.hosts import RollRow

__all__ = ["Roll"]


class Roll:
    """Hosts by id and by the hash of their credentials."""

    def __init__(
        self,
        database: Database,
        doorkeeper: Doorkeeper,
        sessions: Sessions,
        *,
        life_s: float,
        clock: Callable[[], int],
        steady: Callable[[], int],
    ) -> None:
        self.rows: dict[str, RollRow] = {}
        self._database = database
        self._doorkeeper = doorkeeper
        self._sessions = sessions
        self._life_ns = int(life_s * SECOND)
        self._clock = clock
        self._steady = steady
        self._by_hash: dict[str, RollRow] = {}
        self._read_at: int | None = None
        self._turn = 0  # raised by every spoiling
        self._read_in = 0  # the turn in which what is known was read
        self._reading = asyncio.Lock()

    async def host_of(self, credential: str, remote: str) -> str:
        """Return the id of the host whose credential this is; UnauthenticatedError, HostDeletedError."""
        await self.refresh()
        hashed, now_ns = hash_secret(credential), self._clock()
        row = self._by_hash.get(hashed)
        if row is not None and (row.credential_hash == hashed or now_ns < row.old_credential_until_ns):
            if row.credential_hash == hashed and tokens.is_awaited(row.old_credential_until_ns):
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
        """Write down that the new credential of a host is used, so that the old one ends."""
        await self._database.write(lambda connection: tokens.end_outgoing(connection, host, hashed, now_ns=now_ns))
        self.spoil()

    async def refresh(self) -> None:
        """Read the roll if it is too old to be believed.

        What was spoiled before this was asked counts. What is spoiled later may be missing: whoever asks then, looks.
        """
        asked_in = self._turn
        if self._is_fresh(asked_in):
            return
        async with self._reading:
            if self._is_fresh(asked_in):
                return
            started, turn = self._steady(), self._turn
            rows = await self._database.read(hosts.roll)
            self.rows = {row.id: row for row in rows}
            self._by_hash = {
                hashed: row for row in rows for hashed in (row.credential_hash, row.old_credential_hash) if hashed
            }
            self._read_at, self._read_in = started, turn
            self._sessions.compare(self.rows, started)

    def spoil(self) -> None:
        """Read it again for whoever asks from now on: what is being read may be older than what was just written."""
        self._turn += 1

    def _is_fresh(self, turn: int) -> bool:
        if self._read_at is None or self._read_in < turn:
            return False
        return self._steady() - self._read_at < self._life_ns
