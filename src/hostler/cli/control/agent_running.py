"""Runs an agent or its watchdog in an event loop until a signal ends it; used by ``agent``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hostler.agent.guarding import keep_watchdog, run_watchdog
from hostler.agent.process_priority import claim_priority
from hostler.agent.running import (
    DriverKind,
    DriverOptions,
    Home,
    default_vm_folder,
    hypervisor_of,
    run_agent,
    stop_on_signals,
)

if TYPE_CHECKING:
    from hostler.agent.drivers.driver import Driver
    from hostler.agent.http import HttpTransport
    from hostler.agent.settings import Settings
    from hostler.telemetry.log import Log

__all__ = ["run", "watch", "watchdog_words"]


async def run(
    home: Home,
    driver: Driver,
    transport: HttpTransport,
    settings: Settings,
    token: str,
    words: Sequence[str],
    hypervisor: str,
    log: Log,
) -> None:
    """Run the agent, with a watchdog beside it where there are words to start one.

    Whoever started it, a watchdog counts when it works on the hypervisor of this name.
    """
    stopping = asyncio.Event()
    stop_on_signals(stopping, lambda name: log.info(f"{name}: stopping; VMs run on"))
    tasks = []
    if words:
        keeping = keep_watchdog(home, words, say=log.info, warn=log.warn)
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
            say=log.info,
            warn=log.warn,
        )
        log.info("stopped")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await transport.close()
        log.finish()


async def watch(home: Home, driver: Driver, hypervisor: str, log: Log) -> None:
    """Run the watchdog instead of the agent."""
    stopping = asyncio.Event()
    stop_on_signals(stopping, lambda name: log.info(f"{name}: the watchdog stops"))
    log.info("watchdog starts", state=home.folder)
    await run_watchdog(
        home,
        driver,
        hypervisor=hypervisor,
        stopping=stopping,
        say=log.info,
        warn=log.warn,
        claim_priority=claim_priority,
    )


def watchdog_words(server: str, driver: DriverKind, options: DriverOptions) -> list[str]:
    """Return the command of a watchdog, nothing of it secret; none for VMs that no other process sees."""
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
