"""Leader election by a Lease: one process writes, and it stops before another one can start.

States of a process:

    standby ──takes the lease──▶ holding off ──old binds timed out──▶ leading ──not renewed for renew_s──▶ lost
       ▲                         (renews, does not read or write)        │
       └────────────────────── another holder ◀───── gives the lease back┘

Times after the last successful renewal of a leader that dies or is cut off:

    0                     renew_s                          lease_s
    ├─ leader may write ──┼─ sends nothing more; its ──────┼─ another process takes the lease, waits for
    │                     │  last binds time out           │  bind_timeout_s, lists the cluster, and writes

Invariant: no write of an earlier leader can be executed once a later one reads the cluster. It follows from four rules:

- The age of our own lease counts from the moment at which the renewal was *sent*, which is never after the moment at
  which the server wrote it.
- The age of another holder's lease counts from the moment at which this process *saw* its version change, which is
  never before. Both use this process's steady clock, so clocks that differ between machines do not matter.
- ``check_election`` makes sure that binds time out between ``renew_s`` and ``lease_s``.
- A process that takes a lease that was not given back waits for the bind time-out once more (``_safe_at``), before it
  reads the cluster and before it gives the lease back, because the old holder may have been slow to notice.

A write with an unknown outcome may have succeeded: ``_is_unsure`` makes ``release`` read the lease first. Used by
``process``.
"""

from __future__ import annotations

import asyncio
import math
import random
from contextlib import suppress
from typing import Protocol

from hostler.errors import HostlerError
from hostler.kube.api.client import KubeClient
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import LEASES, LeaseObject
from hostler.kube.configuration.election import LONGEST_LEASE_S
from hostler.kube.scheduler.times import micro_time
from hostler.kube.settings import Election
from hostler.runtime.clock import Clock

__all__ = ["LeaseMandate", "Mandate", "NoElection"]

_SECOND = 1_000_000_000
_MOST_TRANSITIONS = 2**31 - 1  # leaseTransitions is an int32
_TICK_S = 0.001  # added to time limits, since timers may fire slightly early


class Mandate(Protocol):
    """The right to write. ``last_error``: why it could not be acquired or kept, while that lasts."""

    last_error: str

    @property
    def is_held(self) -> bool:
        """Return whether writing is allowed at this moment."""
        ...

    async def acquire(self) -> None:
        """Wait until writing is allowed."""
        ...

    async def keep(self) -> None:
        """Keep the mandate as long as possible; when this returns, writing must end."""
        ...

    async def release(self) -> None:
        """Allow others to write."""
        ...


class LeaseMandate:
    """This process's claim on the lease."""

    def __init__(
        self,
        client: KubeClient,
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
        self._lease: LeaseObject | None = None  # as we wrote it last
        self._renewed_at = 0  # when the last successful renewal was sent, which is before the server wrote it
        self._safe_at = 0  # after this, no write of an earlier holder can be executed
        self._is_unsure = False  # the write that takes it had no response: the lease may be ours
        self._seen: tuple[str, int] = ("", 0)  # the version of another holder's lease, and when we first saw it

    # -- asking ----------------------------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Return whether writing is allowed at this moment."""
        return self._lease is not None and self._clock.now() - self._renewed_at < self._rules.renew_s * _SECOND

    # -- holding ---------------------------------------------------------------------------------------------------

    async def acquire(self) -> None:
        """Wait until the lease is ours and no earlier holder can write any more."""
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
            # A renewal is not awaited beyond the deadline: a hanging call must not delay the end of writing.
            left_ns = self._renewed_at + self._rules.renew_s * _SECOND - self._clock.now()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, left_ns / _SECOND) + _TICK_S):
                    await asyncio.sleep(self._rules.retry_s)
                    await self._renew()
            if not self.is_held:
                self._lease = None
                return

    async def release(self) -> None:
        """Give the lease back, so that the next leader need not wait for it to expire. Failures are ignored."""
        lease, self._lease = self._lease, None
        try:
            if lease is None and self._is_unsure:
                found = await self._read()
                lease = found if found.spec.holder_identity == self.identity else None
            if lease is None:
                return
            # The next leader starts at once after a release, so wait until earlier holders cannot write any more.
            await asyncio.sleep(max(0, self._safe_at - self._clock.now()) / _SECOND)
            await self._give_back(lease)
        except (HostlerError, TimeoutError):
            return

    # -- internals -------------------------------------------------------------------------------------------------

    async def _give_back(self, lease: LeaseObject) -> None:
        try:
            await self._write(lease, holder="", renewed=self._clock.now())
        except ApiError as error:
            if not error.is_conflict:
                raise
            # A renewal that was cancelled may have been written after all.
            found = await self._read()
            if found.spec.holder_identity == self.identity:
                await self._write(found, holder="", renewed=self._clock.now())

    async def _hold(self) -> None:
        """Keep renewing until the last binds of the earlier holder have timed out."""
        while self._clock.now() < self._safe_at and self.is_held:
            await asyncio.sleep(min(self._rules.retry_s, max(0.0, (self._safe_at - self._clock.now()) / _SECOND)))
            await self._renew()

    async def _try(self) -> bool:
        """Try to take the lease; return whether it is ours. Its last holder may write until ``_safe_at``."""
        began = self._clock.now()
        try:
            found = await self._read()
        except ApiError as error:
            if not error.is_gone:
                self._fail(error)
                return False
            # If we saw a lease before, it was deleted while it was held, and its holder may still write.
            return await self._take(None, began, self._bind_timeout_s if self._seen[0] else 0.0)
        except (HostlerError, TimeoutError) as error:
            self._fail(error)
            return False
        self.last_error = ""
        holder = found.spec.holder_identity
        if holder in ("", self.identity):  # given back, or ours by a write whose response was lost
            return await self._take(found, began, 0.0)
        version = str(found.metadata.resource_version)
        # The age counts from when we saw the version, never from renewTime: the holder's clock may be wrong.
        if self._seen[0] != version:
            self._seen = (version, self._clock.now())
        if self._clock.now() - self._seen[1] < self._length_s(found) * _SECOND:
            return False
        return await self._take(found, began, self._bind_timeout_s)

    def _length_s(self, found: LeaseObject) -> float:
        """Return how long another's lease counts after its last renewal: its own duration, up to a limit.

        A lease may name any duration, and no pod would be scheduled until then. A live holder renews much more often.
        """
        said_s = found.spec.lease_duration_seconds or 0
        if said_s > LONGEST_LEASE_S:
            self.last_error = (
                f"the lease {self._rules.namespace}/{self._rules.name}: {found.spec.holder_identity} holds it for "
                f"{said_s} s; it is taken over when it has not been renewed for {LONGEST_LEASE_S:g} s"
            )
        return max(min(said_s, LONGEST_LEASE_S), self._rules.lease_s)

    async def _take(self, found: LeaseObject | None, began: int, wait_s: float) -> bool:
        # Both are set before the write: it may succeed without a response, and the lease is ours then.
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
            # Another process was faster, or the write succeeded and the next try finds the lease ours.
            self._fail(error)
            return False
        self._renewed_at, self.last_error, self._is_unsure = began, "", False
        return True

    def _fail(self, error: Exception) -> None:
        """Remember why the lease could not be read or written, for ``last_error``."""
        if not (isinstance(error, ApiError) and error.is_conflict):
            why = error.message if isinstance(error, HostlerError) else f"no answer within {self._rules.retry_s:g} s"
            self.last_error = f"the lease {self._rules.namespace}/{self._rules.name}: {why}"

    async def _renew(self) -> None:
        """Renew once; after a conflict or an unknown outcome, read who holds the lease."""
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
            # If it is still ours, only our version was old. `_renewed_at` stays: only a successful write renews.
            self._lease = found if found.spec.holder_identity == self.identity else None
            return
        self._renewed_at, self.last_error = began, ""

    async def _read(self) -> LeaseObject:
        """Read the lease, with a time limit; the caller retries."""
        async with asyncio.timeout(self._rules.retry_s):
            return await self._client.get(LEASES, self._rules.namespace, self._rules.name)

    async def _write(self, lease: LeaseObject, *, holder: str, renewed: int) -> LeaseObject:
        is_new = holder != lease.spec.holder_identity
        transitions = (lease.spec.lease_transitions or 0) + (1 if is_new and holder else 0)
        if transitions > _MOST_TRANSITIONS:  # otherwise the server would reject every write of the lease
            transitions = 0
        body = self._body(lease, holder, renewed, transitions=transitions)
        return await self._client.replace(
            LEASES, self._rules.namespace, self._rules.name, body, timeout_s=self._rules.retry_s
        )

    def _body(self, lease: LeaseObject | None, holder: str, renewed: int, *, transitions: int) -> dict[str, object]:
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
    """Writing is always allowed: the deployment makes sure that only one scheduler runs."""

    is_held = True
    last_error = ""

    async def acquire(self) -> None:
        """Return at once: there is nothing to wait for."""

    async def keep(self) -> None:
        """Wait forever."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Do nothing: there is no lease."""
