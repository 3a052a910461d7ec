"""The process around a scheduler: signals, the lease's identity, the journal's files, the page of probes.

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
from typing import TypeAlias

from hostler._version import __version__
from hostler.engine.engine import Engine
from hostler.errors import HostlerError
from hostler.kube.api.client import Client
from hostler.kube.api.clock import NANOSECONDS, Clock, SteadyClock
from hostler.kube.extender.calling import HttpCalls
from hostler.kube.scheduler.changes import at_once, needing_a_new_start
from hostler.kube.scheduler.complaints import Complaints
from hostler.kube.scheduler.executor import Executor, OwnThread
from hostler.kube.scheduler.journal_files import JournalFiles
from hostler.kube.scheduler.log import Log
from hostler.kube.scheduler.preflight import check_server
from hostler.kube.scheduler.process import Ending, Scheduler
from hostler.kube.settings import SchedulerSettings
from hostler.model import Guest, GuestArrived, GuestSpec, Host, HostJoined, Policy, amounts

__all__ = ["Serve", "new_identity", "run_scheduler", "warm_kernels"]

Serve: TypeAlias = Callable[[Scheduler, Client, Executor, Clock], AbstractAsyncContextManager[object]]


def new_identity() -> str:
    """Name this process: the machine, and something that no other process has."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def warm_kernels(policies: tuple[Policy, ...]) -> None:
    """Load or compile what the first decision needs, so that it does not wait for that."""
    engine = Engine(policies)
    engine.apply(HostJoined(host=Host(name="warm", capacity=amounts({"cpu": 1000, "memory": 2**30, "guests": 10}))))
    for number in range(2):
        spec = GuestSpec(requests=amounts({"cpu": 10}))
        engine.apply(GuestArrived(guest=Guest(name=f"warm-{number}", uid=f"warm-{number}", spec=spec)))
    engine.step(0)


async def run_scheduler(
    connect: Callable[[], Client],
    settings: SchedulerSettings,
    *,
    log: Log,
    journal: JournalFiles | None = None,
    serve: Serve | None = None,
    reread: Callable[[], SchedulerSettings] | None = None,
) -> Ending:
    """Schedule until a signal or the loss of the lease ends it; ``serve`` opens the pages about it."""
    stop = asyncio.Event()
    executor = OwnThread()
    client, calls = connect(), HttpCalls()
    complaining: asyncio.Future[None] | None = None
    pages = AsyncExitStack()
    try:
        _log_start(log, settings)
        await check_server(client, settings, log.warn)
        await executor.run(lambda: warm_kernels(settings.policies))
        clock = SteadyClock()
        scheduler = Scheduler(
            client,
            settings,
            clock=clock,
            executor=executor,
            identity=new_identity(),
            random=random.Random(os.urandom(8)),
            journal=journal.write if journal is not None else None,
            calls=calls,
            timer=time.perf_counter_ns,
            on_synced=lambda: _settled(scheduler, log, (clock.now() - began) / NANOSECONDS),
            say=log.info,
        )
        began = clock.now()
        _give_log(scheduler, log)
        if journal is not None:
            journal.recorder = scheduler.recorder
        if serve is not None:
            await pages.enter_async_context(serve(scheduler, client, executor, clock))
        _on_signals(stop, log, lambda: _reload(scheduler, reread, log), scheduler.comparer.ask)
        if settings.election.is_on:
            log.info(f"waiting for the lease {settings.election.namespace}/{settings.election.name}")
        complaining = asyncio.ensure_future(Complaints(scheduler, log, clock).watch())
        ending = await scheduler.run(stop)
    finally:
        if complaining is not None:
            complaining.cancel()
            await asyncio.gather(complaining, return_exceptions=True)
        await pages.aclose()
        executor.close()
        await calls.close()
        await client.close()
    _log_end(log, scheduler, ending, (clock.now() - began) / NANOSECONDS)
    return ending


def _log_start(log: Log, settings: SchedulerSettings) -> None:
    """Say what is about to run, so that a log tells by itself what it is the log of."""
    limits, election = settings.limits, settings.election
    log.info(
        "starting",
        version=__version__,
        profiles=",".join(f"{one.scheduler_name}:{one.policy}" for one in settings.profiles),
        lease=f"{election.namespace}/{election.name}" if election.is_on else "none",
        max_in_flight=limits.max_in_flight,
        bind_timeout_s=limits.bind_timeout_s,
        extenders=len(settings.extenders),
        listen=settings.listen or "none",
    )
    for line in settings.notes:
        log.warn(line)


def _log_end(log: Log, scheduler: Scheduler, ending: Ending, seconds: float) -> None:
    """Say how it ended, and what was done."""
    if ending == "lost" and scheduler.mandate.last_error:
        log.warn(scheduler.mandate.last_error)
    binds, evictions, written = scheduler.binder.counts, scheduler.hands.evictor.counts, scheduler.trail.counts
    numbers = {
        "bound": binds.bound,
        "binds_refused": binds.refused,
        "evicted": evictions.evicted,
        "written": written.written,
        "not_written": written.refused,
        "seconds": seconds,
    }
    if ending == "lost":
        log.warn("the lease was lost: another scheduler may write now", **numbers)
    else:
        log.info("stopped", **numbers)


def _give_log(scheduler: Scheduler, log: Log) -> None:
    """Let the parts that act tell what they do."""
    scheduler.loop.log = scheduler.binder.log = scheduler.hands.evictor.log = log
    scheduler.breaker.on_open = lambda why: log.warn("the API server counts as away: few calls are made", why=why)
    go_on = scheduler.breaker.on_close

    def closed() -> None:
        log.info("the API server is back")
        go_on()

    scheduler.breaker.on_close = closed


def _settled(scheduler: Scheduler, log: Log, seconds: float) -> None:
    """What was listed stays: the collector need not look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    pods = scheduler.world.pods.values()
    log.info(
        "scheduling",
        nodes=len(scheduler.world.hosts),
        pods=len(pods),
        waiting=sum(pod.is_ours and not pod.node for pod in pods),
        seconds=seconds,
    )


def _on_signals(stop: asyncio.Event, log: Log, reload: Callable[[], None], compare: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()

    def end(name: str) -> None:
        if stop.is_set():
            os._exit(130)
        log.info(f"{name}: finishing what was sent")
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number.name)
    with suppress(AttributeError):
        loop.add_signal_handler(signal.SIGHUP, reload)
        loop.add_signal_handler(signal.SIGUSR2, compare)


def _reload(scheduler: Scheduler, reread: Callable[[], SchedulerSettings] | None, log: Log) -> None:
    """Read the configuration again; one that is wrong changes nothing."""
    if reread is None:
        log.warn("SIGHUP: there is no configuration file to read again")
        return
    old = scheduler.settings
    try:
        new = reread()
        scheduler.adopt(new)
    except HostlerError as error:
        log.warn("SIGHUP: nothing was changed: the file is refused", why=error.message, hint=error.hint or "none")
        return
    except Exception as error:  # whatever is wrong with a file, pods are placed as before
        log.warn("SIGHUP: nothing was changed: the file cannot be read", why=f"{type(error).__name__}: {error}")
        return
    changed, restart = at_once(old, new), needing_a_new_start(old, new)
    for line in changed:
        log.info(f"SIGHUP: {line}")
    for line in restart:
        log.warn(f"SIGHUP: not taken over, that needs a new start: {line}")
    for line in new.notes:
        log.warn(f"SIGHUP: {line}")
    if not changed and not restart:
        log.info("SIGHUP: the configuration was read again: nothing changed")
