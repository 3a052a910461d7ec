"""An agent with its watchdog beside it, or the watchdog alone, from the start until a signal ends it.

Used by ``hostler agent``. SIGTERM and SIGINT stop the agent; its VMs run on, and so does the watchdog.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
from hostler.agent.watchdog.priority import claim_priority
from hostler.agent.watchdog_process import keep_watchdog, run_watchdog

if TYPE_CHECKING:
    from hostler.agent.connection.http import HttpTransport
    from hostler.agent.driver import Driver
    from hostler.agent.settings import AgentSettings
    from hostler.telemetry.log import Log

__all__ = ["run_watchdog_alone", "run_with_watchdog", "watchdog_command"]


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
