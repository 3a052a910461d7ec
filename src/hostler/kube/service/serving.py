"""The service of one scheduler: listens, answers, and ends with whoever opened it."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Callable
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

__all__ = ["check_listen", "serve"]

_EXAMPLE = "127.0.0.1:10359"
_USUAL = Limits()


def check_listen(listen: str, *, has_tls: bool, is_insecure: bool) -> tuple[str, int]:
    """Read an address; one that others can reach needs TLS, for tokens are sent to it."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"{listen[:60]!r} is not an address to listen on", hint=f"write it as {_EXAMPLE}")
    if not (has_tls or is_insecure or _is_loopback(host)):
        raise InputError(
            f"{listen} can be reached by others, and tokens would be sent there in clear text",
            hint="give a certificate and its key, listen on 127.0.0.1, or say --insecure-listen",
        )
    return host, int(port)


@asynccontextmanager
async def serve(
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
) -> AsyncIterator[str]:
    """Serve the pages of a scheduler while the context is open; give the address that was taken.

    ``tls``: files of a certificate and its key, looked at every ``reread_s``. ``with_shared_metrics``: kube-scheduler's
    metrics under its own prefix too. Port 0 takes any that is free.
    """
    host, port = check_listen(listen, has_tls=tls is not None, is_insecure=is_insecure)
    shown = ServedCertificate(*tls, say) if tls is not None else None
    context = shown.context if shown is not None else None
    health, questions = Health(scheduler, executor, clock), Questions(scheduler, executor, clock)
    missing = MissingEvents(scheduler, client, clock)
    pages = Pages(
        scheduler,
        questions,
        health,
        clock,
        missing_events=lambda: missing.count,
        with_shared_metrics=with_shared_metrics,
        body_s=limits.body_s,
    )
    scheduler.meters.group_of = lambda uid: pod.group if (pod := scheduler.world.pods.get(uid)) is not None else ""
    runner = web.AppRunner(pages.app(Reviews(client, clock)), handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    assert runner.server is not None
    tasks = [asyncio.ensure_future(health.watch()), asyncio.ensure_future(missing.find())]
    if shown is not None:
        tasks.append(asyncio.ensure_future(shown.watch(reread_s)))
    listening: asyncio.Server | None = None
    try:
        try:
            listening = await Listener(runner.server, limits).start(host, port, context)
        except OSError as error:
            raise InputError(
                f"cannot listen on {listen}: {error.strerror}", hint="name another address, or none, by --listen"
            ) from error
        taken = listening.sockets[0].getsockname()
        address = f"{'https' if context else 'http'}://{f'[{taken[0]}]' if ':' in taken[0] else taken[0]}:{taken[1]}"
        say(f"probes, metrics and explanations at {address}")
        yield address
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if listening is not None:
            listening.close()
        await runner.cleanup()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
