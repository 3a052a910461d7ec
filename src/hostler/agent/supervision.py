"""An agent with its watchdog beside it, or the watchdog alone, from the start until a signal ends it.

Used by ``hostler agent``. SIGTERM and SIGINT stop the agent; its VMs run on, and so does the watchdog.

A watchdog asks the machine for what lets it work when nothing else does: memory, processor, and not to be killed. A
host that loses the control plane is often short of memory or busy. Each request may be rejected (a user without rights,
a container): that is reported, and the watchdog works without.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hostler.agent.startup import (
    AgentFolder,
    DriverKind,
    DriverOptions,
    default_vm_folder,
    hypervisor_of,
    run_agent,
    stop_on_signals,
)
from hostler.agent.watchdog_process import keep_watchdog, run_watchdog

if TYPE_CHECKING:
    from hostler.agent.connection.http import HttpTransport
    from hostler.agent.driver import Driver
    from hostler.agent.settings import AgentSettings
    from hostler.telemetry.log import Log

__all__ = ["claim_priority", "run_watchdog_alone", "run_with_watchdog", "watchdog_command"]

# From <sys/mman.h>: all pages, those of later too, but each only once it is used. Pages of the path that every look
# takes are used every second; the stacks of threads would otherwise take 8 MiB each.
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_CAP_IPC_LOCK = 14  # from <linux/capability.h>
_PRIORITY = 1  # the lowest of the real-time ones: above all VMs, below the kernel's own threads
_NICE = -20
_NEVER_KILLED = "-1000"


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
