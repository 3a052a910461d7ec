"""One tenant beside another that does the worst it may: creates of the one, alone and beside the other, in one run.

The loud tenant has its own process. It has gangs of 64 that no zone can hold and that are searched for all the time,
VMs with as many rules about others as one may have, what-ifs, explanations, and creates at the limit of its keys.
The service limits rates as it does by default.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp
import msgspec

from bench.control.clients import CallTimes, paced
from bench.control.processes import ControlPlaneProcess, stop
from bench.results import Row

__all__ = ["be_loud", "beside_a_loud_tenant", "neighbor_row"]

_RATE = 4  # creates of the quiet tenant in a second: within the default limit of 300 a minute for one key
_TERMS = 64  # in one list; two lists are what a VM may have
_GANGS = 20
_MEMBERS = 64
_KEYS = 4
_SMALL = {"cpu": "10m", "memory": "16Mi"}
_WARM_S = 15.0

_BE_LOUD = "from bench.control.neighbors import be_loud; be_loud()"
_ROOT = Path(__file__).resolve().parents[2]  # so that the other process finds this package


def beside_a_loud_tenant(control_plane: ControlPlaneProcess, seconds: float, progress: Callable[[str], None]) -> Row:
    """Measure how much longer creates of one project take while another does the worst that it may."""
    quiet, loud = (_new_project(control_plane, name) for name in ("quiet", "loud"))
    progress("a tenant alone")
    alone = paced(control_plane, rate=_RATE, seconds=seconds, name="alone", project="quiet", key=quiet)
    progress("the tenant beside one that does the worst it may")
    # Real clients have machines of their own: this one must not take the service's.
    command = ["nice", "-n", "10", sys.executable, "-c", _BE_LOUD, control_plane.url, loud, control_plane.key]
    with subprocess.Popen(command, cwd=_ROOT) as neighbor:
        try:
            time.sleep(_WARM_S)
            before, began = control_plane.service_cpu_s(), time.perf_counter()
            beside = paced(control_plane, rate=_RATE, seconds=seconds, name="beside", project="quiet", key=quiet)
            share = (control_plane.service_cpu_s() - before) / (time.perf_counter() - began)
            ended = neighbor.poll()
        finally:
            stop(neighbor)
    return neighbor_row(alone, beside, share, ended)


def neighbor_row(alone: CallTimes, beside: CallTimes, share: float, ended: int | None) -> Row:
    """Return the row; it counts for nothing if the loud tenant ended by itself, with that exit code."""
    gone = "" if ended is None else f"the loud tenant ended before it was told to, with exit code {ended}"
    return Row(
        name="loud neighbor",
        what="p99 of one project's creates beside another that does the worst it may, to that alone",
        unit="x",
        target=2,
        sense="at most",
        measured=round(beside.percentile(99) / alone.percentile(99), 2),
        note=(
            f"p99 {alone.percentile(99):.0f} ms alone and {beside.percentile(99):.0f} ms beside it, p95 "
            f"{alone.percentile(95):.0f} and {beside.percentile(95):.0f} ms, p50 {alone.percentile(50):.0f} and "
            f"{beside.percentile(50):.0f} ms, of {alone.count} creates each; the service took "
            f"{share:.2f} cores beside it"
        ),
        spoiled="; ".join(why for why in (alone.spoiled, beside.spoiled, gone) if why),
    )


def _new_project(control_plane: ControlPlaneProcess, name: str) -> str:
    """Make a project; return the key of an editor of it."""

    async def work() -> str:
        async with _session(control_plane.key) as session:
            await _ask(session, "POST", f"{control_plane.url}/v1/projects", {"name": name})
            return await _new_key(session, control_plane.url, name)

    return asyncio.run(work())


async def _new_key(session: aiohttp.ClientSession, url: str, project: str) -> str:
    body = {"name": f"bench-{time.perf_counter_ns()}", "role": "editor", "project": project}
    status, told = await _ask(session, "POST", f"{url}/v1/keys", body)
    if status != 201:
        raise RuntimeError(f"no key: {status} {told[:200]!r}")
    secret: str = msgspec.json.decode(told)["secret"]
    return secret


def _session(key: str) -> aiohttp.ClientSession:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers)


async def _ask(session: aiohttp.ClientSession, method: str, url: str, body: object = None) -> tuple[int, bytes]:
    data = None if body is None else msgspec.json.encode(body)
    async with session.request(method, url, data=data) as answer:
        told = await answer.read()
        if answer.status == 429:
            await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))
        return answer.status, told


# -- the loud tenant --------------------------------------------------------------------------------------------------


def _apart(app: str) -> list[dict[str, object]]:
    return [{"topology": "kubernetes.io/hostname", "selector": {"app": app}}]


async def _fill(session: aiohttp.ClientSession, url: str, number: int) -> None:
    """Make gangs one after the other whose members can never be apart from each other; then VMs with many rules."""
    for gang in range(_GANGS):
        name = f"gang-{number}-{gang}"
        await _ask(session, "POST", f"{url}/v1/gangs", {"project": "loud", "name": name, "min_count": _MEMBERS})
        for member in range(_MEMBERS):
            # Two of three sizes take half a host and more, so that amounts alone do not tell that it is hopeless.
            size = {"cpu": str(20 + 14 * (member % 3)), "memory": "64Mi"}
            spec = {**size, "gang": name, "labels": {"app": name}, "anti_affinity": _apart(name)}
            body = {"project": "loud", "name": f"{name}-{member}", "spec": spec}
            while (await _ask(session, "POST", f"{url}/v1/vms", body))[0] == 429:
                pass
    for count in itertools.count():
        rules = [{"topology": "zone", "selector": {"app": f"x{number}-{count}-{at}"}} for at in range(_TERMS)]
        liked = [{"weight": 1, "term": {**rule, "topology": "rack"}} for rule in rules]
        spec = {**_SMALL, "anti_affinity": rules, "preferred_affinity": liked}
        await _ask(
            session, "POST", f"{url}/v1/vms", {"project": "loud", "name": f"many-{number}-{count}", "spec": spec}
        )


async def _wonder(session: aiohttp.ClientSession, url: str) -> None:
    """Ask what-ifs and explanations without a pause."""
    for count in itertools.count():
        spec = {**_SMALL, "anti_affinity": _apart("web"), "labels": {"app": "web"}}
        vms = [{"project": "loud", "name": f"if-{at}", "count": 500, "spec": spec} for at in range(4)]
        if count % 2:
            await _ask(session, "POST", f"{url}/v1/plan", {"vms": vms})
        else:
            await _ask(session, "POST", f"{url}/v1/candidates", {"project": "loud", "spec": spec})


async def _explain(session: aiohttp.ClientSession, url: str) -> None:
    while True:
        _, told = await _ask(session, "GET", f"{url}/v1/vms?project=loud&limit=50")
        vms = msgspec.json.decode(told).get("items", []) if told else []
        for vm in vms:
            await _ask(session, "GET", f"{url}/v1/vms/{vm['id']}/decision")
        await asyncio.sleep(0.05)


async def _be_loud(url: str, key: str, admin: str) -> None:
    async with _session(admin) as session:
        keys = [key, *[await _new_key(session, url, "loud") for _ in range(_KEYS - 1)]]
    sessions = [_session(one) for one in keys]
    try:
        async with asyncio.TaskGroup() as group:
            for number, session in enumerate(sessions):
                group.create_task(_fill(session, url, number))
                group.create_task(_wonder(session, url))
                group.create_task(_explain(session, url))
    finally:
        for session in sessions:
            await session.close()


def be_loud() -> None:
    """Do the worst that a tenant may, until the process is ended; started with an address and two keys."""
    asyncio.run(_be_loud(*sys.argv[1:4]))
