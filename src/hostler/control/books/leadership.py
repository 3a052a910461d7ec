"""Which replica decides, and by what time: one replica holds the lease, the others try to get it.

The leader steps the engine by ``EngineTime``. Engine time never goes back, and the log carries it to every replica. A
clock can go back: because it was corrected, or because the previous leader's clock was ahead. Then engine time
continues from where it is at half speed until the clock has caught up. So no decision stops, and delays at most double.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from hostler.control.settings import ControlSettings
from hostler.control.store import Connection, Database
from hostler.control.store.errors import LeaseLostError
from hostler.control.store.history import lease
from hostler.errors import HostlerError

__all__ = ["EngineTime", "ReplicaLeadership"]


class ReplicaLeadership:
    """The lease as one replica knows it.

    ``prepare`` is awaited after the lease was taken and before it is used. ``may_lead`` says whether to try for it.
    """

    def __init__(
        self,
        database: Database,
        settings: ControlSettings,
        *,
        replica: str,
        address: str,
        prepare: Callable[[lease.LeaderLease], Awaitable[None]],
        may_lead: Callable[[], bool],
        tell: Callable[[str], None],
    ) -> None:
        self.held: lease.LeaderLease | None = None
        self._database = database
        self._settings = settings
        self._replica = replica
        self._address = address
        self._prepare = prepare
        self._may_lead = may_lead
        self._tell = tell

    async def hold_for_ever(self) -> None:
        """Renew the lease while we hold it, and try to take it while we do not."""
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
        """Release the lease, so that others need not wait."""
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

    async def _prepare_or_give_back(self, taken: lease.LeaderLease) -> None:
        """Prepare to lead; release the lease if that fails."""
        try:
            await self._prepare(taken)
        except HostlerError:
            with suppress(HostlerError):  # then it runs out without a renewal
                await self._database.write(lambda connection: lease.release(connection, taken))
            raise

    def _take(self, connection: Connection) -> lease.LeaderLease | None:
        return lease.take(connection, self._replica, self._settings.lease_ttl_s, address=self._address)


_SLOWER = 2


class EngineTime:
    """The time of the next step, in nanoseconds since 1970."""

    def __init__(self, clock: Callable[[], int], steady: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._steady = steady
        self._from = 0  # where it began to go slower, by the engine's time
        self._since = 0  # and by the steady clock

    def now(self, reached: int) -> int:
        """Return the time for an engine that has already reached some time."""
        now, steady_ns = self._clock(), self._steady()
        slowed = self._from + (steady_ns - self._since) // _SLOWER if self._from else 0
        if now >= max(reached, slowed):
            self._from = 0
            return now
        if slowed < reached:
            self._from, self._since, slowed = reached, steady_ns, reached
        return slowed
