"""The service as users run it: a ``hostler serve`` process on loopback that can be stopped, killed, started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import httpx

from tests.wait import GIVE_UP_S, until

__all__ = ["CALM", "GIVE_UP_S", "PROGRAM", "ServiceProcess", "until"]

CALM = ("--heartbeat", "2", "--silent-after", "600")  # nobody counts as silent only because the machine is busy
PROGRAM = ("-m", "hostler", "serve")


class ServiceProcess:
    """One process. Its port and its database stay the same over its lives."""

    def __init__(
        self,
        folder: Path,
        url: str,
        *,
        name: str = "serve",
        options: tuple[str, ...] = (),
        program: tuple[str, ...] = PROGRAM,
    ) -> None:
        # Bound and not listening, it keeps the port from everybody who takes any, and not from the service.
        kept = socket.socket()
        weakref.finalize(self, kept.close)
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        self.port: int = kept.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.url = url
        self.key_file = folder / "admin.key"
        self.log = folder / f"{name}.log"
        self.state = folder / "state"  # of the machine that it runs on
        self.program = program  # of the next start
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def key(self) -> str:
        """Return the first administrator's key."""
        return self.key_file.read_text().strip()

    def exec(self) -> None:
        """Start the process and wait for nothing. The kernel ends it with us."""
        assert self._process is None
        tie = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        words = [sys.executable, *self.program, "--database-url", self.url]
        words += ["--listen", f"127.0.0.1:{self.port}", "--admin-key-file", str(self.key_file)]
        words += ["--no-rate-limits", "--no-dashboard", *self._options]
        with self.log.open("ab") as output:
            environment = os.environ | {"XDG_STATE_HOME": str(self.state)}
            self._process = subprocess.Popen([*tie, *words], stdout=output, stderr=output, env=environment)

    def exit_code(self) -> int | None:
        """Return how it ended by itself; None while it runs, or after it was ended."""
        return None if self._process is None else self._process.poll()

    async def start(self) -> None:
        """Start the process and wait until it answers."""
        self.exec()
        await self.ready()

    async def ready(self, *, leads: bool = False) -> dict[str, Any]:
        """Wait until it answers, or leads; return what it says then."""
        found: dict[str, Any] = {}

        async def is_ready() -> bool:
            nonlocal found
            assert self._process is not None, "it was never started"
            assert self._process.poll() is None, self.log.read_text()[-4000:]
            try:
                answer = await client.get("/readyz")
            except httpx.TransportError:
                return False
            found = answer.json()
            return answer.status_code == 200 and (not leads or found["is_leader"])

        async with httpx.AsyncClient(base_url=self.address, timeout=30) as client:
            await until(is_ready, f"{self.address} is ready")
        return found

    def kill(self) -> None:
        """End it as the kernel does when memory is short."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(GIVE_UP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"it did not end: {self.log.read_text()[-4000:]}") from None
