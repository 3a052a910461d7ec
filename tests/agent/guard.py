"""A watchdog as a real process that looks at a fake host, so that it can be killed or made to stand still."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

_PROGRAM = """
import asyncio, sys
from pathlib import Path
from hostler.agent.drivers.fake import FakeDriver
from hostler.agent.supervision import run_watchdog
from hostler.agent.startup import AgentFolder
from hostler.telemetry.log import Log
async def main():
    await run_watchdog(
        AgentFolder(Path(sys.argv[1])), FakeDriver(), hypervisor=sys.argv[2], stopping=asyncio.Event(), log=Log(print)
    )
asyncio.run(main())
"""


@asynccontextmanager
async def watchdog_process(folder: Path, hypervisor: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a watchdog of this folder; ended at the end whatever happens."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _PROGRAM, folder, hypervisor)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()
