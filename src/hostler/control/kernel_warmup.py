"""Work that a process does once before it answers: load or compile kernels, and tune the garbage collector.

Compilation takes up to a minute and cannot be interrupted, so it runs in a daemon thread. A process that is stopped
meanwhile closes what is open and calls ``exit_if_compiling``.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from contextlib import suppress

from hostler.control.settings import ControlSettings, policies_for
from hostler.engine import Engine
from hostler.errors import PluginError
from hostler.model import Gang, GangChanged, Guest, GuestArrived, GuestSpec, Host, HostChanged, HostJoined, amounts

__all__ = ["exit_if_compiling", "tune_garbage_collector", "warm_up", "warm_up_unless_stopped"]

_THREAD = "warm-up"
_SIZE = {"cpu": 1000, "memory": 2**30, "guests": 10}


async def warm_up_unless_stopped(stopping: asyncio.Event, settings: ControlSettings) -> bool:
    """Warm up in a thread. Return True when that is done, False as soon as ``stopping`` is set."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    errors: list[Exception] = []

    def work() -> None:
        try:
            warm_up(settings)
        except Exception as error:
            errors.append(error)
        with suppress(RuntimeError):  # the loop is closed: the wait is over
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=work, name=_THREAD, daemon=True).start()
    waits = [asyncio.ensure_future(event.wait()) for event in (done, stopping)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for one in waits:
        one.cancel()
    if errors:
        raise errors[0]
    return done.is_set()


def exit_if_compiling() -> None:
    """End the process here if a compilation is running: Python would end that thread inside LLVM, and crash."""
    if any(thread.name == _THREAD for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def tune_garbage_collector() -> None:
    """Exclude what was read so far from collections: with Python's defaults they took a third of all time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def warm_up(settings: ControlSettings) -> None:
    """Let a separate engine place a few small VMs and explain the decisions."""
    engine = Engine(policies_for(settings.without_own))
    engine.apply(HostJoined(host=_host(1)))
    for number in range(2):
        _ask(engine, f"warm-{number}", 10)
    with suppress(PluginError):  # of a plugin: the VMs on which it fails report it
        engine.step(0)
        _look_around(engine)


def _look_around(engine: Engine) -> None:
    """Do what a first step does not: preempt, place a gang, wake a waiting guest, explain, fork."""
    _ask(engine, "large", 1000, priority=1)
    _ask(engine, "larger", 2000)
    engine.apply(GangChanged(gang=Gang(name="warm", version=1, min_count=2)))
    for number in range(2):
        _ask(engine, f"member-{number}", 10, gang="default/warm")
    engine.step(0)
    for uid in ("warm-0", "large", "larger", "member-0"):
        engine.explain(uid)
    engine.apply(HostChanged(host=_host(2, cpu=4000)))
    engine.step(0)
    engine.fork().step(0)


def _host(version: int, *, cpu: int = 1000) -> Host:
    return Host(name="warm", version=version, capacity=amounts(_SIZE | {"cpu": cpu}))


def _ask(engine: Engine, name: str, cpu: int, *, priority: int = 0, gang: str = "") -> None:
    spec = GuestSpec(requests=amounts({"cpu": cpu}), priority=priority)
    engine.apply(GuestArrived(guest=Guest(name=name, uid=name, spec=spec, gang=gang)))
