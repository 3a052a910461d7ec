"""Leader election by a Lease: one process writes, and it stops before another one can begin.

Ages are measured by what this process saw change, on its own steady clock: clocks that differ between machines do not
matter. A holder that could not renew within ``renew_s`` stops writing, ``lease_s`` after its last renewal another takes
the lease, and binds sent last have timed out in between. Whoever takes a lease that was not given back waits for that
time-out once more before it reads the cluster. Used by ``process``.
"""

from __future__ import annotations

import asyncio
import random
from typing import Protocol

from hostler.errors import HostlerError, InputError
from hostler.kube.api.client import Client
from hostler.kube.api.clock import Clock
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import LEASES, Lease
from hostler.kube.scheduler.times import micro_time
from hostler.kube.settings import Election

__all__ = ["Leadership", "Mandate", "NoElection", "check_times"]

_SECOND = 1_000_000_000


def check_times(election: Election, bind_timeout_s: float) -> None:
    """Refuse times with which two schedulers could write at once."""
    if not 0 < election.retry_s < election.renew_s < election.lease_s:
        raise InputError(
            f"election times must grow: retry {election.retry_s} s, renewal {election.renew_s} s, "
            f"lease {election.lease_s} s",
            hint="for example 2, 10 and 15 seconds",
        )
    if not 0 < bind_timeout_s < election.lease_s - election.renew_s:
        raise InputError(
            f"a bind that may take {bind_timeout_s} s can outlive the lease of its sender",
            hint=f"keep it below lease less renewal, {election.lease_s - election.renew_s:g} s",
        )


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
            wait_s = await self._try()
            if wait_s is not None:
                self.changes += 1
                if wait_s:
                    await self._hold_for(wait_s)
                if self.is_held:
                    return
                self._lease = None
            await asyncio.sleep(self._rules.retry_s * (1 + 0.2 * self._random.random()))

    async def keep(self) -> None:
        """Renew until that fails for too long; then return: writing must end."""
        while True:
            await asyncio.sleep(self._rules.retry_s)
            await self._renew()
            if not self.is_held:
                self._lease = None
                return

    async def release(self) -> None:
        """Give the lease back, so that another need not wait; a failure only costs the other that time."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        try:
            await self._write(lease, holder="", renewed=self._clock.now())
        except HostlerError:
            return

    # -- internals -------------------------------------------------------------------------------------------------

    async def _hold_for(self, wait_s: float) -> None:
        """Keep renewing while the last binds of the holder before time out."""
        until = self._clock.now() + int(wait_s * _SECOND)
        while self._clock.now() < until and self.is_held:
            await asyncio.sleep(min(self._rules.retry_s, max(0.0, (until - self._clock.now()) / _SECOND)))
            await self._renew()

    async def _try(self) -> float | None:
        """Try to take the lease; return how long its last holder may still write, or None where it is not ours."""
        began = self._clock.now()
        try:
            found = await self._read()
        except ApiError as error:
            if not error.is_gone:
                self._fail(error)
                return None
            # Where there was one, its holder may still write: somebody deleted it under his hands.
            return await self._take(None, began, self._bind_timeout_s if self._seen[0] else 0.0)
        except (HostlerError, TimeoutError) as error:
            self._fail(error)
            return None
        self.last_error = ""
        holder = found.spec.holder_identity
        if holder in ("", self.identity):  # given back, or ours by a write whose answer was lost
            return await self._take(found, began, 0.0)
        version = str(found.metadata.resource_version)
        if self._seen[0] != version:
            self._seen = (version, self._clock.now())
        length_s = max(found.spec.lease_duration_seconds or 0, self._rules.lease_s)
        if self._clock.now() - self._seen[1] < length_s * _SECOND:
            return None
        return await self._take(found, began, self._bind_timeout_s)

    async def _take(self, found: Lease | None, began: int, wait_s: float) -> float | None:
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
            return None
        self._renewed_at, self.last_error = began, ""
        return wait_s

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
            "leaseDurationSeconds": int(self._rules.lease_s) if holder else 1,
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
