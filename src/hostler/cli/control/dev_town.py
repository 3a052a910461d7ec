"""A whole control plane in one event loop: the service, and the agents of a fleet that join it. Used by ``dev up``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from hostler.agent.fleet import Fleet, FleetPlan, asked_tokens
from hostler.agent.running import connect, stop_on_signals
from hostler.cli.control.agent_options import read_size
from hostler.cli.control.serving import write_secret
from hostler.cli.terminal import note
from hostler.control.serving import Serving, serve
from hostler.control.settings import ControlSettings, default_strategy
from hostler.telemetry.log import Log
from hostler.web.pages import mount

__all__ = ["run_town"]


async def run_town(
    folder: Path,
    listen: str,
    hosts: int,
    size: str,
    silent_after_s: float,
    environment: Mapping[str, str],
    *,
    is_compiled: bool,
    told: Callable[[str, Path], None],
) -> None:
    """Run until a signal ends it; ``told`` is called with the address and the file of the key once it answers."""
    log = Log(lambda line: note(line, label=""))
    stopping = asyncio.Event()
    stop_on_signals(stopping, lambda name: log.info(f"{name}: stopping"))
    key_file = folder / "admin.key"
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    settings = ControlSettings(
        strategy=default_strategy(environment),
        listen=listen,
        silent_after_s=silent_after_s,
        stop_after_s=0.8 * silent_after_s,
        heartbeat_s=min(5.0, silent_after_s / 3),
    )
    how = Serving(
        settings=settings,
        database_url=f"sqlite:///{folder / 'control.db'}",
        state=folder,
        is_compiled=is_compiled,
        mount=mount,
        on_admin_key=lambda secret: write_secret(key_file, secret),
        on_ready=lambda url: ready.set_result(url) if not ready.done() else None,
        tell=log.info,
    )
    serving = asyncio.ensure_future(serve(how, stopping))
    first: list[asyncio.Future[object]] = [serving, ready]  # type: ignore[list-item]
    await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        ready.cancel()
        serving.result()
        return
    url = ready.result()
    told(url, key_file)
    fleet = asyncio.ensure_future(_run_fleet(url, key_file, hosts, size, folder, log, stopping))
    try:
        await serving
    finally:
        stopping.set()
        await asyncio.gather(fleet, return_exceptions=True)


async def _run_fleet(
    url: str, key_file: Path, hosts: int, size: str, folder: Path, log: Log, stopping: asyncio.Event
) -> None:
    if not hosts:
        return
    transport = connect(url, authority_file=None, is_insecure=False)
    plan = FleetPlan(
        names=tuple(f"host-{number:02d}" for number in range(1, hosts + 1)),
        size=read_size(size),
        folder=folder / "hosts",
    )
    fleet = Fleet(transport, plan, asked_tokens(transport, key_file.read_text().strip()), warn=log.warn)
    try:
        await fleet.run(stopping)
    finally:
        await transport.close()
