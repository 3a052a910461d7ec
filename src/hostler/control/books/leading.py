"""Who decides: one replica holds the lease, renews it, and gives it back; the others try to get it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from hostler.control.settings import ControlSettings
from hostler.control.store import Connection, Database, lease
from hostler.control.store.errors import LeaseLostError
from hostler.errors import HostlerError

__all__ = ["Leadership"]


class Leadership:
    """The lease as one replica knows it.

    ``prepare`` is awaited with a lease just taken, before it is used; ``may_lead`` says whether to try to get it.
    """

    def __init__(
        self,
        database: Database,
        settings: ControlSettings,
        *,
        replica: str,
        address: str,
        prepare: Callable[[lease.Lease], Awaitable[None]],
        may_lead: Callable[[], bool],
        tell: Callable[[str], None],
    ) -> None:
        self.held: lease.Lease | None = None
        self._database = database
        self._settings = settings
        self._replica = replica
        self._address = address
        self._prepare = prepare
        self._may_lead = may_lead
        self._tell = tell

    async def hold_for_ever(self) -> None:
        """Renew the lease while we have it, and try to get it while we do not."""
        while True:
            try:
                await self._renew_or_take()
            except LeaseLostError as error:
                self.lose(error.message)
            except HostlerError as error:
                self._tell(f"the lease: {error.message}")
            await asyncio.sleep(self._settings.renew_s)

    def lose(self, why: str) -> None:
        """Stop deciding: the lease is not ours."""
        if self.held is not None:
            self._tell(f"no longer leading: {why}")
        self.held = None

    async def release(self) -> None:
        """Give the lease back, so that others need not wait."""
        held, self.held = self.held, None
        if held is not None:
            await self._database.write(lambda connection: lease.release(connection, held))

    async def _renew_or_take(self) -> None:
        held = self.held
        if held is not None:
            renewed = await self._database.write(lambda connection: lease.renew(connection, held))
            if self.held is held:  # else it was lost meanwhile
                self.held = renewed
            return
        if not self._may_lead():
            return
        current = await self._database.read(lease.read)
        if current.is_held and current.holder != self._replica:
            return
        taken = await self._database.write(self._take)
        if taken is not None:
            await self._prepare_or_give_back(taken)
            self.held = taken
            self._tell(f"leading with epoch {taken.epoch}")

    async def _prepare_or_give_back(self, taken: lease.Lease) -> None:
        """Get ready to lead; who cannot leaves the lease to others."""
        try:
            await self._prepare(taken)
        except HostlerError:
            with suppress(HostlerError):  # then it runs out, since nobody renews it
                await self._database.write(lambda connection: lease.release(connection, taken))
            raise

    def _take(self, connection: Connection) -> lease.Lease | None:
        return lease.take(connection, self._replica, self._settings.lease_ttl_s, address=self._address)
