"""The process around its schedulers: signals, the lease's identity, the journal's files, the page of probes.

SIGTERM and SIGINT stop it cleanly, a second one at once; SIGHUP reads the configuration again; SIGUSR2 compares our
view with the API. Used by the command ``hostler kube schedule``.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Protocol, TypeAlias

from hostler.engine.registry import Registry
from hostler.engine.warming import warm_kernels
from hostler.kube.api.client import Client
from hostler.kube.api.clock import Clock, SteadyClock
from hostler.kube.extender.calling import HttpCalls
from hostler.kube.scheduler.complaints import Complaints
from hostler.kube.scheduler.executor import Executor, OwnThread
from hostler.kube.scheduler.journal_files import JournalFiles
from hostler.kube.scheduler.meters import Meters
from hostler.kube.scheduler.preflight import check_server
from hostler.kube.scheduler.process import Ending, Scheduler
from hostler.kube.scheduler.telling import Telling, reload
from hostler.kube.scheduler.terms import Terms
from hostler.kube.settings import SchedulerSettings
from hostler.telemetry.log import Log

__all__ = ["Pages", "Serve", "new_identity", "run_scheduler"]


class Pages(Protocol):
    """What shows a scheduler to others."""

    async def show(self, scheduler: Scheduler) -> None:
        """Show this one from now on."""
        ...


Serve: TypeAlias = Callable[[Scheduler, Client, Executor, Clock], AbstractAsyncContextManager[Pages]]


def new_identity() -> str:
    """Name this process: the machine, and something that no other process has."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


async def run_scheduler(
    connect: Callable[[], Client],
    settings: SchedulerSettings,
    *,
    log: Log,
    journal: JournalFiles | None = None,
    serve: Serve | None = None,
    reread: Callable[[], SchedulerSettings] | None = None,
    registry: Registry | None = None,
) -> None:
    """Schedule until a signal ends it; ``serve`` opens the pages about it.

    A lease that is lost is waited for again, by a scheduler that knows nothing of the one before.
    """
    stop = asyncio.Event()
    clock, executor, meters = SteadyClock(), OwnThread(), Meters()
    client, calls = connect(), HttpCalls()
    pages: Pages | None = None

    def make(wanted: SchedulerSettings, identity: str) -> Scheduler:
        if journal is not None:
            journal.start_over()
        made = Scheduler(
            client,
            wanted,
            clock=clock,
            executor=executor,
            identity=identity,
            random=random.Random(os.urandom(8)),
            journal=journal.write if journal is not None else None,
            calls=calls,
            timer=time.perf_counter_ns,
            registry=registry,
            say=log.info,
            meters=meters,
        )
        if journal is not None:
            journal.recorder = made.recorder
        return made

    async def term(scheduler: Scheduler, stop: asyncio.Event) -> Ending:
        if pages is not None:
            await pages.show(scheduler)
        return await _told(scheduler, stop, log, clock)

    async with AsyncExitStack() as opened:
        opened.callback(log.finish)
        opened.push_async_callback(client.close)
        opened.push_async_callback(calls.close)
        opened.callback(executor.close)
        # The engine's thread loads its kernels while we ask and list: its first step comes after that by itself.
        warming = asyncio.ensure_future(executor.run(lambda: warm_kernels(settings.policies, registry)))
        opened.callback(warming.cancel)
        await check_server(client, settings, log.warn)
        terms = Terms(make, settings, executor, identity=new_identity(), serve=term)
        if serve is not None:
            pages = await opened.enter_async_context(serve(terms.current, client, executor, clock))
        reloads: set[asyncio.Task[None]] = set()

        def read_again() -> None:
            task = asyncio.ensure_future(reload(terms.adopt, reread, log))
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        _on_signals(stop, log, read_again, lambda: terms.current.comparer.ask())
        if settings.election.is_on:
            log.info(f"waiting for the lease {settings.election.namespace}/{settings.election.name}")
        await terms.run(stop)


async def _told(scheduler: Scheduler, stop: asyncio.Event, log: Log, clock: Clock) -> Ending:
    """Let one term pass, and tell what becomes of it."""
    gc.unfreeze()
    gc.collect()  # the term before
    telling = Telling(scheduler, log, clock)
    scheduler.on_synced = lambda: _settled(telling)
    complaining = asyncio.ensure_future(Complaints(scheduler, log, clock).watch())
    try:
        ending = await scheduler.run(stop)
    finally:
        complaining.cancel()
        await asyncio.gather(complaining, return_exceptions=True)
    telling.ended(ending)
    return ending


def _settled(telling: Telling) -> None:
    """What was listed stays: the collector need not look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    telling.synced()


def _on_signals(stop: asyncio.Event, log: Log, reread: Callable[[], None], compare: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()

    def end(name: str) -> None:
        if stop.is_set():
            os._exit(130)
        log.info(f"{name}: finishing what was sent")
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number.name)
    with suppress(AttributeError):
        loop.add_signal_handler(signal.SIGHUP, reread)
        loop.add_signal_handler(signal.SIGUSR2, compare)
