"""Commands and queries to a running QEMU: QMP in short sessions, on the socket in its private folder.

QEMU serves one session at a time and lets others wait, so none is held open: an agent, its watchdog and a look at the
host get along, also while a migration takes minutes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from qemu.qmp import ExecuteError, QMPClient, QMPError

from hostler.agent.driver import DriverError

__all__ = ["Answer", "CommandRejectedError", "MonitorError", "MonitorSession", "ask", "session"]

Answer = dict[str, Any]

_PATIENCE_S = 30.0  # emulated on a busy machine, QEMU may take its time

# A VM that ends while it is asked is nothing to log: the caller gets an error.
logging.getLogger("qemu.qmp").propagate = False


class MonitorError(DriverError):
    """QEMU does not answer."""

    code = "qemu_monitor"


class CommandRejectedError(DriverError):
    """QEMU answered that it cannot do that."""

    code = "qemu_refused"


class MonitorSession:
    """One session; commands that were sent are answered."""

    def __init__(self, client: QMPClient, vm: str) -> None:
        self._client = client
        self._vm = vm

    async def ask(self, command: str, **arguments: object) -> Answer:
        """Send a command and return its answer."""
        return await self.execute(command, arguments)

    async def execute(self, command: str, arguments: Mapping[str, object]) -> Answer:
        """Send a command whose arguments have names that Python does not allow."""
        answer = await self._execute(command, arguments)
        return answer if isinstance(answer, dict) else {}

    async def query(self, command: str, **arguments: object) -> list[Answer]:
        """Send a command that is answered by a list, and return that."""
        answer = await self._execute(command, arguments)
        return [one for one in answer if isinstance(one, dict)] if isinstance(answer, list) else []

    async def give(self, descriptor: int, name: str) -> None:
        """Give QEMU a descriptor of ours, known to it by that name."""
        self._client.send_fd_scm(descriptor)
        await self.ask("getfd", fdname=name)

    async def _execute(self, command: str, arguments: Mapping[str, object]) -> object:
        try:
            return await self._client.execute(command, arguments)
        except ExecuteError as error:
            raise CommandRejectedError(
                f"QEMU rejected {command} for {self._vm}: {error}", hint="see the VM's qemu.log"
            ) from error


@asynccontextmanager
async def session(socket: Path, vm: str, *, patience_s: float = _PATIENCE_S) -> AsyncIterator[MonitorSession]:
    """Open a session; whatever goes wrong with it is a ``MonitorError``."""
    client = QMPClient(vm)
    try:
        async with asyncio.timeout(patience_s):
            await _connect(client, socket)
            yield MonitorSession(client, vm)
    except (QMPError, OSError, EOFError) as error:  # a time-out is an OSError
        raise MonitorError(
            f"the monitor of {vm} does not answer: {type(error).__name__}: {error}", hint="is its process stuck?"
        ) from error
    finally:
        with suppress(QMPError, OSError, EOFError):
            await client.disconnect()


async def _connect(client: QMPClient, socket: Path) -> None:
    try:
        await client.connect(str(socket))
    except AssertionError as error:  # what the library takes for impossible: QEMU ended between two of its steps
        raise ConnectionResetError("the session ended while it began") from error


async def ask(socket: Path, vm: str, command: str, **arguments: object) -> Answer:
    """Ask one thing in a session of its own."""
    async with session(socket, vm) as opened:
        return await opened.ask(command, **arguments)
