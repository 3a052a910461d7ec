"""An agent with its watchdog beside it, or the watchdog alone, from the start until a signal ends it.

Used by ``hostler agent``. SIGTERM and SIGINT stop the agent; its VMs run on, and so does the watchdog.

The watchdog is a process started by the agent, found again by a lock, and independent of it. The control plane counts
on VMs being stopped if their order says so and their host is silent. So an agent checks regularly that its watchdog
runs, and a watchdog stays as long as it may have to stop a VM. Its pulse shows that it works; that it was started
proves nothing.

A watchdog asks the machine for what lets it work when nothing else does: memory, processor, and not to be killed. A
host that loses the control plane is often short of memory or busy. Each request may be rejected (a user without rights,
a container): that is reported, and the watchdog works without.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hostler.agent.background_thread import BackgroundThread
from hostler.agent.boot import boot_id, boottime_ns
from hostler.agent.driver import Driver
from hostler.agent.startup import (
    AgentFolder,
    DriverKind,
    DriverOptions,
    default_vm_folder,
    hypervisor_of,
    run_agent,
    stop_on_signals,
)
from hostler.agent.watchdog.deadlines import LOOK_S
from hostler.agent.watchdog.pulse import HaltCapacity, Pulse
from hostler.agent.watchdog.watchdog import Watchdog, WatchdogScan, describe
from hostler.errors import ConflictError, HostlerError
from hostler.telemetry.log import Log

if TYPE_CHECKING:
    from hostler.agent.connection.http import HttpTransport
    from hostler.agent.settings import AgentSettings

__all__ = [
    "claim_priority",
    "keep_watchdog",
    "run_watchdog",
    "run_watchdog_alone",
    "run_with_watchdog",
    "watchdog_command",
]

# From <sys/mman.h>: all pages, those of later too, but each only once it is used. Pages of the path that every look
# takes are used every second; the stacks of threads would otherwise take 8 MiB each.
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_CAP_IPC_LOCK = 14  # from <linux/capability.h>
_PRIORITY = 1  # the lowest of the real-time ones: above all VMs, below the kernel's own threads
_NICE = -20
_NEVER_KILLED = "-1000"
_PROGRAM = "import sys; from hostler.cli.main import main; sys.exit(main())"
_CHECK_S = 5.0
_FIRST_CHECK_S = 0.2
_LONGEST_LOG = 2**20
_LEAVES_AFTER_S = 60.0
_SECOND = 1_000_000_000


def claim_priority() -> tuple[str, ...]:
    """Ask the machine for memory, processor, and not to be killed; return what was rejected, as text."""
    requests: tuple[tuple[str, Callable[[], None]], ...] = (
        ("its memory is not locked", _lock_memory),
        ("its priority is not raised", _raise_priority),
        ("it may be killed when memory is short", _be_spared),
    )
    return tuple(why for what, ask in requests if (why := _ask(what, ask)))


def _ask(what: str, ask: Callable[[], None]) -> str:
    try:
        ask()
    except (OSError, ValueError, AttributeError) as error:
        return f"{what}: {error}"
    return ""


def _lock_memory() -> None:
    """Keep our pages in memory. Only without a limit: one that is reached later would end this process."""
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if limit != resource.RLIM_INFINITY and not _may_lock_any():
        raise PermissionError(f"the limit of locked memory is {limit} bytes")
    library = ctypes.CDLL(None, use_errno=True)
    if library.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _may_lock_any() -> bool:
    """Return whether no limit of locked memory holds for us."""
    lines = Path("/proc/self/status").read_text().splitlines()
    rights = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(rights, 16) >> _CAP_IPC_LOCK & 1)


def _raise_priority() -> None:
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_PRIORITY))
    except OSError:
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)


def _be_spared() -> None:
    Path("/proc/self/oom_score_adj").write_text(_NEVER_KILLED)


async def run_with_watchdog(
    home: AgentFolder,
    driver: Driver,
    transport: HttpTransport,
    settings: AgentSettings,
    token: str,
    words: Sequence[str],
    hypervisor: str,
    log: Log,
) -> None:
    """Run the agent, with a watchdog beside it if there is a command for one.

    Any watchdog counts that works on the hypervisor of this name.
    """
    stopping = asyncio.Event()
    stop_on_signals(stopping, lambda name: log.info(f"{name}: stopping; VMs run on"))
    tasks = []
    if words:
        keeping = keep_watchdog(home, words, log)
        tasks.append(asyncio.get_running_loop().create_task(keeping))
    try:
        await run_agent(
            home,
            driver,
            transport,
            settings,
            token=token,
            hypervisor=hypervisor,
            stopping=stopping,
            log=log,
        )
        log.info("stopped")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await transport.close()
        log.finish()


async def run_watchdog_alone(home: AgentFolder, driver: Driver, hypervisor: str, log: Log) -> None:
    """Run the watchdog instead of the agent."""
    stopping = asyncio.Event()
    stop_on_signals(stopping, lambda name: log.info(f"{name}: the watchdog stops"))
    log.info("watchdog starts", state=home.folder)
    await run_watchdog(
        home,
        driver,
        hypervisor=hypervisor,
        stopping=stopping,
        log=log,
        claim_priority=claim_priority,
    )


def watchdog_command(server: str, driver: DriverKind, options: DriverOptions) -> list[str]:
    """Return the command of a watchdog, without secrets; empty for VMs that no other process can see."""
    if not hypervisor_of(driver, options):
        return []
    words = ["agent", "--server", server, "--driver", driver, "--name", options.host, "--watchdog", "only"]
    words += ["--state-dir", str(options.folder)]
    if driver == "libvirt":
        return [*words, "--libvirt-uri", options.libvirt_uri, "--libvirt-pool", options.libvirt_pool]
    folder = options.vm_folder or default_vm_folder()
    words += ["--vm-dir", str(folder), "--vm-user", options.vm_user, "--vm-uids", options.vm_uids]
    # It boots nothing, so it need not find out how VMs run best here.
    return [*words, "--acceleration", "tcg"]


async def keep_watchdog(home: AgentFolder, words: Sequence[str], log: Log) -> None:
    """Start ``hostler`` with these arguments whenever no watchdog of this folder runs; until canceled.

    Before the first lease, the control plane was promised nothing, so there is nothing to watch.
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
                    log.info("watchdog started")
            except OSError as error:
                log.warn(f"no watchdog can be started: {error}")
            await asyncio.sleep(_CHECK_S if has_lease else _FIRST_CHECK_S)
    finally:
        if watchdog is not None:
            watchdog.returncode = watchdog.poll() or 0  # it outlives us, and that is meant so


async def run_watchdog(
    home: AgentFolder,
    driver: Driver,
    *,
    hypervisor: str,
    stopping: asyncio.Event,
    log: Log,
    leaves_after_s: float = _LEAVES_AFTER_S,
    claim_priority: Callable[[], tuple[str, ...]] = lambda: (),
) -> None:
    """Watch until stopped, or until the agent has been silent for long and no VM is left to stop.

    ``hypervisor`` names what the driver drives, so that an agent of another hypervisor does not count on this watchdog.
    ``claim_priority`` asks for what only a process of its own may ask for; it returns what was rejected.
    """
    log = log.without_failures()  # a disk that is full must not end the watchdog
    with _held(home.folder / "watchdog.lock") as lock:
        os.ftruncate(lock, 0)
        os.write(lock, b"%d\n" % os.getpid())  # for people
        refusals = claim_priority()
        for refusal in refusals:
            log.warn(refusal)
        pulse = Pulse(boot=boot_id(), looked_at=0, hypervisor=hypervisor, refusals=refusals)
        dog = Watchdog(driver, home.manifest, home.lease, boot=boot_id(), clock=boottime_ns)
        output = _WatchdogOutput(home, pulse, leaves_after_s, log)
        is_open, needed_at = False, boottime_ns()
        try:
            while not stopping.is_set():
                looked_at = boottime_ns()
                # Whatever is raised here, the next look is made: nothing else on this host stops VMs in silence.
                try:
                    if not is_open:
                        await driver.open()
                        is_open = True
                    look = await dog.look()
                except Exception as error:
                    look = WatchdogScan(failed=(f"this look came to nothing: {describe(error)}",))
                is_needed, _ = await asyncio.gather(_write_output(output, look, looked_at), _wait(stopping))
                if is_needed:
                    needed_at = boottime_ns()
                if boottime_ns() - needed_at > leaves_after_s * _SECOND:
                    log.info("nothing left to watch")
                    return
        finally:
            _clear(home)
            await driver.close()


class _WatchdogOutput:
    """What a watchdog writes after a scan: its log and its pulse."""

    def __init__(self, home: AgentFolder, pulse: Pulse, leaves_after_s: float, log: Log) -> None:
        self._home = home
        self._pulse = pulse
        self._leaves_after_s = leaves_after_s
        self._log = log
        self._capacity = HaltCapacity()
        self.thread = BackgroundThread("writing the log and the pulse")

    def write(self, look: WatchdogScan, looked_at: int) -> bool:
        """Renew the pulse after a successful scan, and clear it after a failed one; return whether we are needed."""
        for vm in look.stopped:
            self._log.info(f"stopped {vm}: the control plane did not hear of this host for too long")
        for why in look.failed:
            self._log.warn(why)
        try:
            if look.failed:
                self._home.pulse.clear()
            elif not look.stopped:  # a look that stopped VMs measured nothing
                count = self._capacity.note(look.stoppable, rehearsed=look.rehearsed)
                self._home.pulse.write(msgspec.structs.replace(self._pulse, looked_at=looked_at, stoppable=count))
        except OSError as error:
            self._log.warn(f"the pulse cannot be renewed: {error}")
        return _is_needed(self._home, self._leaves_after_s)


async def _write_output(output: _WatchdogOutput, look: WatchdogScan, looked_at: int) -> bool:
    """Write in a thread while the watchdog rests: a hanging disk must not delay the next scan."""
    try:
        async with asyncio.timeout(LOOK_S):
            return await output.thread.run(lambda: output.write(look, looked_at))
    except Exception:  # a timeout or another failure: the answer is unknown
        return True


def _clear(home: AgentFolder) -> None:
    with suppress(OSError):  # then it gets old
        home.pulse.clear()


def _is_needed(home: AgentFolder, within_s: float) -> bool:
    """Say whether there is an agent, or a VM that silence stops, or whether that is unknown."""
    try:
        lease = home.lease.read()
        is_fresh = lease is not None and lease.boot == boot_id()
        if is_fresh and lease is not None and boottime_ns() - lease.renewed_at < within_s * _SECOND:
            return True
        return any(record.when_silent == "stop" for record in home.manifest.peek())
    except (OSError, HostlerError):
        return True


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
