"""Leader election by a Lease: one process writes, and it stops before another one can begin.

Ages are measured by what this process saw change, on its own steady clock: clocks that differ between machines do not
matter. A holder that could not renew within ``renew_s`` stops writing, ``lease_s`` after its last renewal another takes
the lease, and binds sent last have timed out in between. Whoever takes a lease that was not given back waits for that
time-out once more before it reads the cluster, and before it gives the lease back. Used by ``process``.
"""

from __future__ import annotations

import asyncio
import math
import random
from contextlib import suppress
from typing import Protocol

from hostler.errors import HostlerError
from hostler.kube.api.client import Client
from hostler.kube.api.clock import Clock
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import LEASES, Lease
from hostler.kube.configuration.election import LONGEST_LEASE_S
from hostler.kube.scheduler.times import micro_time
from hostler.kube.settings import Election

__all__ = ["Leadership", "Mandate", "NoElection"]

_SECOND = 1_000_000_000
_MOST_TRANSITIONS = 2**31 - 1  # what the API can write
_TICK_S = 0.001  # timers are less exact than clocks


class Mandate(Protocol):
    """The right to write. ``last_error``: why it could not be had or kept, as long as that lasts."""

    last_error: str

    @property
    def is_held(self) -> bool:
        """Say whether writing is allowed at this moment."""
        ...

    async def acquire(self) -> None:
        """Wait until writing is allowed."""
        ...

    async def keep(self) -> None:
        """Hold on as long as possible; when this returns writing must end."""
        ...

    async def release(self) -> None:
        """Let others write."""
        ...


class Leadership:
    """This process's claim on the lease."""

    def __init__(
        self,
        client: Client,
        election: Election,
        identity: str,
        *,
        bind_timeout_s: float,
        clock: Clock,
        random: random.Random,
    ) -> None:
        self.identity = identity
        self.changes = 0
        self.last_error = ""
        self._client = client
        self._rules = election
        self._bind_timeout_s = bind_timeout_s
        self._clock = clock
        self._random = random
        self._lease: Lease | None = None  # as we wrote it last
        self._renewed_at = 0  # when the last renewal that succeeded was begun
        self._safe_at = 0  # from when on nobody who held it before can still write
        self._is_unsure = False  # a write that was to take it had no answer: it may be ours
        self._seen: tuple[str, int] = ("", 0)  # the version of another holder's lease, and since when we know it

    # -- asking ----------------------------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Say whether writing is allowed at this moment."""
        return self._lease is not None and self._clock.now() - self._renewed_at < self._rules.renew_s * _SECOND

    # -- holding ---------------------------------------------------------------------------------------------------

    async def acquire(self) -> None:
        """Wait until the lease is ours and whoever held it before can no longer write."""
        while True:
            if await self._try():
                self.changes += 1
                await self._hold()
                if self.is_held:
                    return
                self._lease = None
            await asyncio.sleep(self._rules.retry_s * (1 + 0.2 * self._random.random()))

    async def keep(self) -> None:
        """Renew until that fails for too long; then return: writing must end."""
        while True:
            # No renewal is waited for beyond the moment from which on nothing may be written.
            left_ns = self._renewed_at + self._rules.renew_s * _SECOND - self._clock.now()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, left_ns / _SECOND) + _TICK_S):
                    await asyncio.sleep(self._rules.retry_s)
                    await self._renew()
            if not self.is_held:
                self._lease = None
                return

    async def release(self) -> None:
        """Give the lease back, so that another need not wait; a failure only costs the other that time."""
        lease, self._lease = self._lease, None
        try:
            if lease is None and self._is_unsure:
                found = await self._read()
                lease = found if found.spec.holder_identity == self.identity else None
            if lease is None:
                return
            # Whoever finds it given back begins at once, so not before those before us can no longer write.
            await asyncio.sleep(max(0, self._safe_at - self._clock.now()) / _SECOND)
            await self._give_back(lease)
        except (HostlerError, TimeoutError):
            return

    # -- internals -------------------------------------------------------------------------------------------------

    async def _give_back(self, lease: Lease) -> None:
        try:
            await self._write(lease, holder="", renewed=self._clock.now())
        except ApiError as error:
            if not error.is_conflict:
                raise
            # A renewal that was cut short may have been written after all.
            found = await self._read()
            if found.spec.holder_identity == self.identity:
                await self._write(found, holder="", renewed=self._clock.now())

    async def _hold(self) -> None:
        """Keep renewing while the last binds of the holder before time out."""
        while self._clock.now() < self._safe_at and self.is_held:
            await asyncio.sleep(min(self._rules.retry_s, max(0.0, (self._safe_at - self._clock.now()) / _SECOND)))
            await self._renew()

    async def _try(self) -> bool:
        """Try to take the lease; say whether it is ours. Whoever held it may still write until ``_safe_at``."""
        began = self._clock.now()
        try:
            found = await self._read()
        except ApiError as error:
            if not error.is_gone:
                self._fail(error)
                return False
            # Where there was one, its holder may still write: somebody deleted it under his hands.
            return await self._take(None, began, self._bind_timeout_s if self._seen[0] else 0.0)
        except (HostlerError, TimeoutError) as error:
            self._fail(error)
            return False
        self.last_error = ""
        holder = found.spec.holder_identity
        if holder in ("", self.identity):  # given back, or ours by a write whose answer was lost
            return await self._take(found, began, 0.0)
        version = str(found.metadata.resource_version)
        if self._seen[0] != version:
            self._seen = (version, self._clock.now())
        if self._clock.now() - self._seen[1] < self._length_s(found) * _SECOND:
            return False
        return await self._take(found, began, self._bind_timeout_s)

    def _length_s(self, found: Lease) -> float:
        """Return how long another's lease counts after its last renewal: as it says, but not for years.

        It may say anything, and nobody would schedule until then. A holder that lives renews much more often.
        """
        said_s = found.spec.lease_duration_seconds or 0
        if said_s > LONGEST_LEASE_S:
            self.last_error = (
                f"the lease {self._rules.namespace}/{self._rules.name}: {found.spec.holder_identity} holds it for "
                f"{said_s} s; it is taken over once it was not renewed for {LONGEST_LEASE_S:g} s"
            )
        return max(min(said_s, LONGEST_LEASE_S), self._rules.lease_s)

    async def _take(self, found: Lease | None, began: int, wait_s: float) -> bool:
        self._safe_at = max(self._safe_at, self._clock.now() + int(wait_s * _SECOND))
        self._is_unsure = True
        try:
            if found is None:
                body = self._body(None, self.identity, began, transitions=0)
                self._lease = await self._client.create(
                    LEASES, self._rules.namespace, body, timeout_s=self._rules.retry_s
                )
            else:
                self._lease = await self._write(found, holder=self.identity, renewed=began)
        except HostlerError as error:
            # Somebody else was faster, or we shall see it as ours and take it when it expires.
            self._fail(error)
            return False
        self._renewed_at, self.last_error, self._is_unsure = began, "", False
        return True

    def _fail(self, error: Exception) -> None:
        """Remember why the lease could not be read or written, for those who ask."""
        if not (isinstance(error, ApiError) and error.is_conflict):
            why = error.message if isinstance(error, HostlerError) else f"no answer within {self._rules.retry_s:g} s"
            self.last_error = f"the lease {self._rules.namespace}/{self._rules.name}: {why}"

    async def _renew(self) -> None:
        """Renew once; after a conflict or an unknown outcome look whose the lease is."""
        if self._lease is None:
            return
        began = self._clock.now()
        try:
            self._lease = await self._write(self._lease, holder=self.identity, renewed=began)
        except HostlerError as error:
            self._fail(error)
            try:
                found = await self._read()
            except (HostlerError, TimeoutError):
                return
            # Ours still: only the version that we knew was old. It is renewed by the next write that succeeds.
            self._lease = found if found.spec.holder_identity == self.identity else None
            return
        self._renewed_at, self.last_error = began, ""

    async def _read(self) -> Lease:
        """Read the lease; an answer that takes long is asked for again."""
        async with asyncio.timeout(self._rules.retry_s):
            return await self._client.get(LEASES, self._rules.namespace, self._rules.name)

    async def _write(self, lease: Lease, *, holder: str, renewed: int) -> Lease:
        is_new = holder != lease.spec.holder_identity
        transitions = (lease.spec.lease_transitions or 0) + (1 if is_new and holder else 0)
        if transitions > _MOST_TRANSITIONS:  # whoever wrote it so high: nobody would ever lead again
            transitions = 0
        body = self._body(lease, holder, renewed, transitions=transitions)
        return await self._client.replace(
            LEASES, self._rules.namespace, self._rules.name, body, timeout_s=self._rules.retry_s
        )

    def _body(self, lease: Lease | None, holder: str, renewed: int, *, transitions: int) -> dict[str, object]:
        metadata: dict[str, object] = {"name": self._rules.name, "namespace": self._rules.namespace}
        if lease is not None:
            metadata["resourceVersion"] = str(lease.metadata.resource_version)
        at = micro_time(renewed)
        is_same = lease is not None and lease.spec.holder_identity == holder
        spec: dict[str, object] = {
            "holderIdentity": holder,
            "leaseDurationSeconds": math.ceil(self._rules.lease_s) if holder else 1,
            "acquireTime": lease.spec.acquire_time if is_same and lease is not None and lease.spec.acquire_time else at,
            "renewTime": at,
            "leaseTransitions": transitions,
        }
        return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}


class NoElection:
    """Writing is always allowed: somebody else sees to it that one scheduler runs."""

    is_held = True
    last_error = ""

    async def acquire(self) -> None:
        """There is nothing to wait for."""

    async def keep(self) -> None:
        """Hold for ever."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """There is nothing to give back."""
