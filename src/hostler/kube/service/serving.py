"""The service of a scheduler, and of those that follow it: listens, answers, and ends with whoever opened it."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from hostler.errors import InputError
from hostler.kube.api.client import Client
from hostler.kube.api.clock import Clock
from hostler.kube.scheduler.executor import Executor
from hostler.kube.scheduler.process import Scheduler
from hostler.kube.service.certificates import ServedCertificate
from hostler.kube.service.health import Health
from hostler.kube.service.listening import Limits, Listener
from hostler.kube.service.missing import MissingEvents
from hostler.kube.service.pages import Pages
from hostler.kube.service.questions import Questions
from hostler.kube.service.reviews import Reviews

__all__ = ["Service", "check_listen", "is_reachable", "open_service", "serve"]

_EXAMPLE = "127.0.0.1:10359"
_USUAL = Limits()


def check_listen(listen: str, *, has_tls: bool, is_insecure: bool) -> tuple[str, int]:
    """Read an address; one that others can reach needs TLS, for tokens are sent to it."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"{listen[:60]!r} is not an address to listen on", hint=f"write it as {_EXAMPLE}, or none")
    if not (has_tls or is_insecure) and is_reachable(listen):
        raise InputError(
            f"{listen} can be reached by others, and tokens would be sent there in clear text",
            hint="give a certificate and its key, listen on 127.0.0.1, or say --insecure-listen",
        )
    return host, int(port)


def is_reachable(listen: str) -> bool:
    """Say whether others than this machine's own reach an address."""
    host = listen.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True


class Service:
    """A listening address, and the pages of the scheduler that is shown there."""

    def __init__(
        self,
        client: Client,
        *,
        executor: Executor,
        clock: Clock,
        with_shared_metrics: bool = False,
        limits: Limits = _USUAL,
    ) -> None:
        self.address = ""
        self._client = client
        self._executor = executor
        self._clock = clock
        self._with_shared_metrics = with_shared_metrics
        self._limits = limits
        self._shown: _Shown | None = None
        self._door: _Door | None = None
        self._listening: asyncio.Server | None = None

    async def show(self, scheduler: Scheduler) -> None:
        """Show this scheduler from now on; who is connected and waits has to connect anew."""
        before = self._shown
        if before is not None and before.scheduler is scheduler:
            return
        self._shown = _Shown(
            scheduler, self._client, self._executor, self._clock, self._limits, with_shared=self._with_shared_metrics
        )
        server = await self._shown.start()
        if self._door is None:
            self._door = _Door(server, self._limits)
        else:
            self._door.lead_to(server)
        if before is not None:
            await before.close()

    async def listen(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        """Take connections; OSError where the address cannot be had."""
        assert self._door is not None
        self._listening = await self._door.start(host, port, context)
        taken = self._listening.sockets[0].getsockname()
        host = f"[{taken[0]}]" if ":" in taken[0] else taken[0]
        self.address = f"{'https' if context else 'http'}://{host}:{taken[1]}"

    async def close(self) -> None:
        """Take no more connections, and end those there are."""
        if self._listening is not None:
            self._listening.close()
        if self._shown is not None:
            await self._shown.close()


class _Door(Listener):
    """A listener whose next connections may go to another application."""

    def lead_to(self, server: web.Server) -> None:
        self._server = server


class _Shown:
    """The pages of one scheduler, and what looks after it for them."""

    def __init__(
        self,
        scheduler: Scheduler,
        client: Client,
        executor: Executor,
        clock: Clock,
        limits: Limits,
        *,
        with_shared: bool,
    ) -> None:
        self.scheduler = scheduler
        self._health = Health(scheduler, executor, clock)
        self._missing = MissingEvents(scheduler, client, clock)
        pages = Pages(
            scheduler,
            Questions(scheduler, executor, clock),
            self._health,
            clock,
            missing_events=lambda: self._missing.count,
            with_shared_metrics=with_shared,
            body_s=limits.body_s,
        )
        scheduler.meters.group_of = lambda uid: pod.group if (pod := scheduler.world.pods.get(uid)) is not None else ""
        self._runner = web.AppRunner(pages.app(Reviews(client, clock)), handle_signals=False, shutdown_timeout=1.0)
        self._tasks: list[asyncio.Future[None]] = []

    async def start(self) -> web.Server:
        await self._runner.setup()
        assert self._runner.server is not None
        self._tasks = [asyncio.ensure_future(self._health.watch()), asyncio.ensure_future(self._missing.find())]
        return self._runner.server

    async def close(self) -> None:
        await _end(self._tasks)
        await self._runner.cleanup()


@asynccontextmanager
async def open_service(
    scheduler: Scheduler,
    client: Client,
    listen: str,
    *,
    executor: Executor,
    clock: Clock,
    tls: tuple[Path, Path] | None = None,
    is_insecure: bool = False,
    with_shared_metrics: bool = False,
    limits: Limits = _USUAL,
    reread_s: float = 10.0,
    say: Callable[[str], None] = lambda text: None,
) -> AsyncIterator[Service]:
    """Serve the pages of a scheduler, and of those that follow it, while the context is open.

    ``tls``: files of a certificate and its key, looked at every ``reread_s``. ``with_shared_metrics``: kube-scheduler's
    metrics under its own prefix too. Port 0 takes any that is free.
    """
    host, port = check_listen(listen, has_tls=tls is not None, is_insecure=is_insecure)
    shown = ServedCertificate(*tls, say) if tls is not None else None
    service = Service(client, executor=executor, clock=clock, with_shared_metrics=with_shared_metrics, limits=limits)
    tasks = [asyncio.ensure_future(shown.watch(reread_s))] if shown is not None else []
    try:
        await service.show(scheduler)
        try:
            await service.listen(host, port, shown.context if shown is not None else None)
        except OSError as error:
            raise InputError(
                f"cannot listen on {listen}: {error.strerror}", hint="name another address by --listen, or 'none'"
            ) from error
        say(f"probes, metrics and explanations at {service.address}")
        yield service
    finally:
        await _end(tasks)
        await service.close()


@asynccontextmanager
async def serve(scheduler: Scheduler, client: Client, listen: str, **options: object) -> AsyncIterator[str]:
    """Serve the pages of one scheduler that nobody follows, as ``open_service``; give the address that was taken."""
    async with open_service(scheduler, client, listen, **options) as service:  # type: ignore[arg-type]
        yield service.address


async def _end(tasks: Sequence[asyncio.Future[None]]) -> None:
    """Cancel tasks and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
