"""A kube-scheduler beside a local cluster: it logs every score, and shows an extender which nodes fit."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from aiohttp import web

from hostler.kube.local import LocalCluster
from hostler.kube.local.binaries import find_binaries
from hostler.kube.local.cluster import scheduler_file
from tests.kube.oracle.logs import Log

__all__ = ["Onlooker", "kube_scheduler"]

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_FASTER = 5000  # requests a second that it may send: it should wait for nobody
_LINE_LIMIT = 2**20
_libc = ctypes.CDLL(None)


class Onlooker:
    """An extender that rejects nothing, and records for each pod which nodes passed all filters."""

    def __init__(self) -> None:
        self.passed: dict[str, list[list[str]]] = {}  # by uid, one list for each try

    async def filter(self, request: web.Request) -> web.Response:
        asked = msgspec.json.decode(await request.read())
        names = asked["NodeNames"] or []
        self.passed.setdefault(asked["Pod"]["metadata"]["uid"], []).append(names)
        return web.json_response({"NodeNames": names})

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Serve on a free port; give the address."""
        app = web.Application(client_max_size=2**24)
        app.router.add_post("/filter", self.filter)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


@contextlib.asynccontextmanager
async def kube_scheduler(cluster: LocalCluster, folder: Path, extender: str, log: Log) -> AsyncIterator[None]:
    """Run a kube-scheduler with its log in ``log``; it ends with the block, and with this process."""
    config = {
        "clientConnection": {"qps": _FASTER, "burst": _FASTER},
        "extenders": [{"urlPrefix": extender, "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "60s"}],
    }
    path = folder / "kube-scheduler.yaml"
    path.write_bytes(scheduler_file(config, cluster.kubeconfig("kube-scheduler")))
    binary = find_binaries(["kube-scheduler"], lambda line: None)["kube-scheduler"]
    process = await asyncio.create_subprocess_exec(
        str(binary.path),
        f"--config={path}",
        "--secure-port=0",
        "--v=0",
        "--vmodule=schedule_one=10",  # at 10 for all files it would also log the body of every request
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        limit=_LINE_LIMIT,
        preexec_fn=lambda: _libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL),
    )
    reading = asyncio.ensure_future(_read(process, log))
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        await reading


async def _read(process: asyncio.subprocess.Process, log: Log) -> None:
    assert process.stderr is not None
    while line := await process.stderr.readline():
        log.take(line.decode(errors="replace"))
