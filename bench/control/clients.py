"""Clients of a control plane: as many requests as possible, or at a pace, each timed from its sending to its answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import aiohttp
import msgspec

from bench.control.processes import ControlPlaneProcess

__all__ = ["CallTimes", "as_fast_as_possible", "paced", "until_running"]

_SPEC = {"cpu": "100m", "memory": "64Mi"}


class CallTimes(msgspec.Struct):
    """Milliseconds of all calls that were answered well, in the order of their answers."""

    waits_ms: list[float] = []
    failed: int = 0
    why: str = ""  # the last that failed did
    took_s: float = 0.0

    @property
    def count(self) -> int:
        """Return how many calls there were."""
        return len(self.waits_ms) + self.failed

    @property
    def per_second(self) -> float:
        """Return answers in a second."""
        return len(self.waits_ms) / self.took_s if self.took_s else 0.0

    @property
    def spoiled(self) -> str:
        """Say why its figures count for nothing; empty if each call was answered well."""
        return f"{self.failed} of {self.count} creates failed, {self.why}" if self.failed else ""

    def percentile(self, percent: float) -> float:
        """Return the wait that so many calls did not exceed; there must have been one."""
        ordered = sorted(self.waits_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def as_fast_as_possible(control_plane: ControlPlaneProcess, *, clients: int, seconds: float) -> CallTimes:
    """Let clients create VMs one after the other for so long."""

    async def load(create: Callable[[str], Awaitable[None]]) -> None:
        end = time.perf_counter() + seconds

        async def client(number: int) -> None:
            count = 0
            while time.perf_counter() < end:
                await create(f"fast-{number}-{count}")
                count += 1

        await asyncio.gather(*(client(number) for number in range(clients)))

    return _measured(control_plane, load)


def paced(
    control_plane: ControlPlaneProcess, *, rate: int, seconds: float, name: str, project: str = "default", key: str = ""
) -> CallTimes:
    """Begin a create every 1/rate seconds, whether or not the ones before were answered; of VMs that begin so."""

    async def load(create: Callable[[str], Awaitable[None]]) -> None:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
                group.create_task(create(f"{name}-{number}"))

    return _measured(control_plane, load, project=project, key=key)


def until_running(control_plane: ControlPlaneProcess, *, count: int) -> CallTimes:
    """Create VMs one after the other and wait each time until it runs; one that does not has failed."""

    async def load(create: Callable[[str], Awaitable[None]]) -> None:
        for number in range(count):
            await create(f"single-{number}")

    return _measured(control_plane, load, query="?wait=30", is_good=_runs)


def _runs(status: int, told: bytes) -> bool:
    return status == 200 and msgspec.json.decode(told)["vm"]["state"] == "running"


def _measured(
    control_plane: ControlPlaneProcess,
    load: Callable[[Callable[[str], Awaitable[None]]], Awaitable[None]],
    *,
    query: str = "",
    project: str = "default",
    key: str = "",
    is_good: Callable[[int, bytes], bool] = lambda status, _: status in (200, 202),
) -> CallTimes:
    """Measure a load; RuntimeError if not one call was answered well, for then there is nothing to tell."""
    outcome = CallTimes(waits_ms=[])

    async def run() -> None:
        headers = {"Authorization": f"Bearer {key or control_plane.key}", "Content-Type": "application/json"}
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

            async def create(name: str) -> None:
                body = msgspec.json.encode({"name": name, "project": project, "spec": _SPEC})
                sent = time.perf_counter()
                async with session.post(f"{control_plane.url}/v1/vms{query}", data=body) as answer:
                    told = await answer.read()
                    if is_good(answer.status, told):
                        outcome.waits_ms.append(1000 * (time.perf_counter() - sent))
                    else:
                        outcome.failed += 1
                        outcome.why = f"{answer.status}: {told[:200].decode(errors='replace')}"

            await create(f"first-{time.perf_counter_ns()}")
            outcome.waits_ms.clear()
            began = time.perf_counter()
            await load(create)
            outcome.took_s = time.perf_counter() - began

    asyncio.run(run())
    if not outcome.waits_ms:
        raise RuntimeError(f"nothing to measure: {outcome.spoiled or 'no requests'}")
    return outcome
