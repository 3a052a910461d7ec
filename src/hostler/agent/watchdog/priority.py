"""What a watchdog asks of the machine so that it works when nothing else does: memory, processor, and not to be killed.

A host that loses the control plane is often short of memory or busy. Each request may be rejected (a user without
rights, a container): that is reported, and the watchdog works without.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

__all__ = ["claim_priority"]

# From <sys/mman.h>: all pages, those of later too, but each only once it is used. Pages of the path that every look
# takes are used every second; the stacks of threads would otherwise take 8 MiB each.
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_CAP_IPC_LOCK = 14  # from <linux/capability.h>
_PRIORITY = 1  # the lowest of the real-time ones: above all VMs, below the kernel's own threads
_NICE = -20
_NEVER_KILLED = "-1000"


def claim_priority() -> tuple[str, ...]:
    """Ask for all of it; return what was rejected, in words for people."""
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
