"""The watchdog as a process beside the agent: started by it, found again by a lock, and alive when the agent is not.

The control plane counts on VMs to be stopped whose order says so when their host is silent. So an agent looks again and
again whether its watchdog is there, and a watchdog stays as long as there is something that it may have to stop. That
it works is shown by its pulse, never by its having been started.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hostler.agent.boot import boot_id
from hostler.agent.drivers.driver import Driver, DriverError
from hostler.agent.pulse import LOOK_S, Pulse
from hostler.agent.running import Home
from hostler.agent.watchdog import Watchdog
from hostler.errors import ConflictError

__all__ = ["keep_watchdog", "run_watchdog"]

_PROGRAM = "import sys; from hostler.cli.main import main; sys.exit(main())"
_CHECK_S = 5.0
_FIRST_CHECK_S = 0.2
_LONGEST_LOG = 2**20
_LEAVES_AFTER_S = 60.0
_SECOND = 1_000_000_000


async def keep_watchdog(
    home: Home, words: Sequence[str], *, say: Callable[[str], None], warn: Callable[[str], None]
) -> None:
    """Start ``hostler`` with these words whenever no watchdog of this folder runs; until cancelled.

    Before the first lease the control plane was promised nothing, so there is nothing to watch.
    """
    watchdog: subprocess.Popen[bytes] | None = None
    has_lease = False
    try:
        while True:
            if watchdog is not None and watchdog.poll() is not None:
                watchdog = None
            try:
                has_lease = home.lease.read() is not None
                if has_lease and watchdog is None and not _is_held(home.folder / "watchdog.lock"):
                    watchdog = _spawn(home.folder / "watchdog.log", words)
                    say("watchdog started")
            except OSError as error:
                warn(f"no watchdog can be started: {error}")
            await asyncio.sleep(_CHECK_S if has_lease else _FIRST_CHECK_S)
    finally:
        if watchdog is not None:
            watchdog.returncode = watchdog.poll() or 0  # it outlives us, and that is meant so


async def run_watchdog(
    home: Home,
    driver: Driver,
    *,
    hypervisor: str,
    stopping: asyncio.Event,
    say: Callable[[str], None],
    warn: Callable[[str], None],
    leaves_after_s: float = _LEAVES_AFTER_S,
) -> None:
    """Watch until told to stop, or until the agent has been silent for long and nothing is left to be stopped.

    ``hypervisor`` names what the driver drives, so that an agent of another one does not count on this watchdog.
    """
    with _held(home.folder / "watchdog.lock") as lock:
        os.ftruncate(lock, 0)
        os.write(lock, b"%d\n" % os.getpid())  # for people
        dog = Watchdog(driver, home.manifest, home.lease, boot=boot_id(), clock=time.monotonic_ns)
        is_open, needed_at = False, time.monotonic_ns()
        try:
            while not stopping.is_set():
                try:
                    if not is_open:
                        await driver.open()
                        is_open = True
                    looked_at = time.monotonic_ns()
                    if await _look(dog, say, warn):
                        home.pulse.write(Pulse(boot=boot_id(), looked_at=looked_at, hypervisor=hypervisor))
                except DriverError as error:
                    warn(error.message)
                except OSError as error:
                    warn(f"this look came to nothing: {error}")
                if _is_needed(home, leaves_after_s):
                    needed_at = time.monotonic_ns()
                if time.monotonic_ns() - needed_at > leaves_after_s * _SECOND:
                    say("nothing left to watch")
                    return
                await _wait(stopping)
        finally:
            home.pulse.clear()
            await driver.close()


async def _look(dog: Watchdog, say: Callable[[str], None], warn: Callable[[str], None]) -> bool:
    """Look once; say whether that worked."""
    stopped, failed = await dog.look()
    for vm in stopped:
        say(f"stopped {vm}: the control plane did not hear of this host for too long")
    for why in failed:
        warn(why)
    return not failed


def _is_needed(home: Home, within_s: float) -> bool:
    """Say whether an agent is there, or a VM that silence stops."""
    lease = home.lease.read()
    is_fresh = lease is not None and lease.boot == boot_id()
    if is_fresh and lease is not None and time.monotonic_ns() - lease.renewed_at < within_s * _SECOND:
        return True
    return any(record.when_silent == "stop" for record in home.manifest.peek())


async def _wait(stopping: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK_S):
            await stopping.wait()


def _spawn(log: Path, words: Sequence[str]) -> subprocess.Popen[bytes]:
    if log.exists() and log.stat().st_size > _LONGEST_LOG:
        log.unlink()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=descriptor,
            start_new_session=True,  # a signal to the agent's terminal is not for it
        )
    finally:
        os.close(descriptor)


@contextmanager
def _held(path: Path) -> Iterator[int]:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConflictError(f"another watchdog works in {path.parent}", hint="one is enough") from error
        yield descriptor
    finally:
        os.close(descriptor)


def _is_held(path: Path) -> bool:
    try:
        with _held(path):
            return False
    except ConflictError:
        return True
