"""The process around its schedulers: signals, the identity for the lease, journal files, the HTTP service.

SIGTERM and SIGINT stop it cleanly, a second signal at once; SIGHUP reads the configuration again; SIGUSR2 compares our
copies with the API. Used by the command ``hostler kube schedule``.

When the lease is lost, a fresh scheduler waits for it again: the next term. Nothing of a term is used in the next one,
so a term begins like a new process: the last writes of the old term have timed out before the new one reads, and it
reads after its own lease write. Each term needs an identity of its own, because a lease that already has our name is
taken without waiting.
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
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Protocol, TypeAlias

from hostler.engine.policy.registry import Registry
from hostler.engine.warmup import warm_kernels
from hostler.kube.api.client import KubeClient
from hostler.kube.extender.http_calls import HttpCalls
from hostler.kube.scheduler.changes import Changes
from hostler.kube.scheduler.journal_files import JournalFiles
from hostler.kube.scheduler.meters import SchedulerMeters
from hostler.kube.scheduler.notices import Complaints, TermReport, log_synced, reload
from hostler.kube.scheduler.preflight import check_server
from hostler.kube.scheduler.process import Ending, Scheduler
from hostler.kube.settings import SchedulerSettings
from hostler.runtime.clock import Clock, SteadyClock
from hostler.runtime.engine_thread import EngineThread, Executor
from hostler.runtime.tasks import end_tasks, finish_before
from hostler.telemetry.log import Log

__all__ = ["Make", "SchedulerDisplay", "Serve", "Terms", "new_identity", "run_scheduler"]

Make: TypeAlias = Callable[[SchedulerSettings, str], Scheduler]  # by an identity
RunTerm: TypeAlias = Callable[[Scheduler, asyncio.Event], Awaitable[Ending]]


class SchedulerDisplay(Protocol):
    """What shows a scheduler to users, such as its pages."""

    async def show(self, scheduler: Scheduler) -> None:
        """Show this scheduler from now on."""
        ...


Serve: TypeAlias = Callable[[Scheduler, KubeClient, Executor, Clock], AbstractAsyncContextManager[SchedulerDisplay]]


def new_identity() -> str:
    """Return a unique name for this process: the host name and a random part."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


async def run_scheduler(
    connect: Callable[[], KubeClient],
    settings: SchedulerSettings,
    *,
    log: Log,
    journal: JournalFiles | None = None,
    serve: Serve | None = None,
    reread: Callable[[], SchedulerSettings] | None = None,
    registry: Registry | None = None,
) -> None:
    """Schedule until a signal ends it; ``serve`` opens the pages about it.

    After a lost lease, a new scheduler without any state of the last one waits for it again.
    """
    stop = asyncio.Event()
    clock, executor, meters = SteadyClock(), EngineThread(), SchedulerMeters()
    client, calls = connect(), HttpCalls()
    pages: SchedulerDisplay | None = None

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
            log=log,
            meters=meters,
            on_synced=lambda synced: _log_synced_and_freeze(synced, log, clock),
        )
        if journal is not None:
            journal.recorder = made.recorder
        return made

    async def term(scheduler: Scheduler, stop: asyncio.Event) -> Ending:
        if pages is not None:
            await pages.show(scheduler)
        return await _run_term(scheduler, stop, log, clock)

    async with AsyncExitStack() as opened:
        opened.callback(log.finish)
        opened.push_async_callback(client.close)
        opened.push_async_callback(calls.close)
        opened.callback(executor.close)
        # The engine's thread loads its kernels while we list: its first step comes after that by itself.
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


async def _run_term(scheduler: Scheduler, stop: asyncio.Event, log: Log, clock: Clock) -> Ending:
    """Run one term and log how it ended."""
    gc.unfreeze()
    gc.collect()  # the last term
    report = TermReport(scheduler, log, clock)
    complaining = asyncio.ensure_future(Complaints(scheduler, log, clock).watch())
    try:
        ending = await scheduler.run(stop)
    finally:
        await end_tasks([complaining])
    report.log_end(ending)
    return ending


def _log_synced_and_freeze(scheduler: Scheduler, log: Log, clock: Clock) -> None:
    """Log that the cluster is listed; listed objects stay, so the garbage collector can skip them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    log_synced(log, scheduler, clock)


def _on_signals(stop: asyncio.Event, log: Log, reread: Callable[[], None], compare: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()

    def end(name: str) -> None:
        if stop.is_set():
            os._exit(130)
        log.info(f"{name}: waiting for open calls")
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number.name)
    with suppress(AttributeError):
        loop.add_signal_handler(signal.SIGHUP, reread)
        loop.add_signal_handler(signal.SIGUSR2, compare)


async def _run(scheduler: Scheduler, stop: asyncio.Event) -> Ending:
    return await scheduler.run(stop)


class Terms:
    """One scheduler after the other; ``current`` is the present one. ``serve`` runs one term."""

    def __init__(
        self, make: Make, settings: SchedulerSettings, executor: Executor, *, identity: str, serve: RunTerm = _run
    ) -> None:
        self.lost = 0
        self._make = make
        self._executor = executor
        self._identity = identity
        self._serve = serve
        self.current = make(settings, identity)

    async def adopt(self, settings: SchedulerSettings) -> Changes:
        """Switch to other settings, in whatever term that is by then; return what took effect and what did not."""
        while True:
            term = self.current
            changes = await term.adopt(settings)
            if term is self.current:
                return changes

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until stopped, and wait for the lease again whenever it is lost."""
        while await self._serve(self.current, stop) == "lost":
            self.lost += 1
            self.current.meters.lease_losses.inc()
            # A running step of the old engine cannot be stopped, and its entries belong to the old journal.
            if not await self._has_rested(stop):
                return
            # Settings of a reloaded file stay in effect.
            self.current = self._make(self.current.settings, f"{self._identity}-{self.lost + 1}")

    async def _has_rested(self, stop: asyncio.Event) -> bool:
        """Wait for all running work, at most until stopped; return whether it is done."""
        stopping = asyncio.ensure_future(stop.wait())
        try:
            return await finish_before(stopping, self._executor.run(_do_nothing))
        finally:
            stopping.cancel()


def _do_nothing() -> None:
    """Do nothing; it runs after everything that waits for the executor."""
