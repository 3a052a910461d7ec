"""The processes of a contest: a real service on a database of its own, and a fleet of fake hosts that joined it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = [
    "PATIENCE_S", "ControlPlaneProcess", "answers", "free_port", "open_control_plane", "postgres_url", "start",
    "stop", "until",
]  # fmt: skip

_TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE_S = 180.0


class ControlPlaneProcess:
    """A control plane under load."""

    def __init__(self, url: str, key: str, service: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.key = key
        self._service = service

    def service_cpu_s(self) -> float:
        """Return the processor time that the service took so far."""
        fields = Path(f"/proc/{self._service.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def get(self, path: str) -> dict[str, object]:
        """Ask the service."""
        request = urllib.request.Request(f"{self.url}{path}", headers={"Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: dict[str, object] = json.loads(answer.read())
            return found

    def wait_until_placed(self, *, patience_s: float = PATIENCE_S) -> float | None:
        """Wait until no VM waits for a host; return how long that took, or None if one still waits."""
        began = time.perf_counter()
        while self.get("/v1/vms?state=pending&limit=1")["items"]:
            if time.perf_counter() - began >= patience_s:
                return None
            time.sleep(0.1)
        return time.perf_counter() - began


@contextmanager
def open_control_plane(
    hosts: int, *, database_url: str = "", is_limited: bool = False, progress: Callable[[str], None]
) -> Iterator[ControlPlaneProcess]:
    """Start a service and its fleet, and leave nothing of them behind."""
    with TemporaryDirectory(prefix="hostler-bench-") as folder:
        place = Path(folder)
        port = free_port()
        url, key_file = f"http://127.0.0.1:{port}", place / "admin.key"
        database = database_url or f"sqlite:///{place / 'control.db'}"
        limits = () if is_limited else ("--no-rate-limits",)
        service = start(place / "service.log", "serve", "--database-url", database, "--listen", f"127.0.0.1:{port}",
                         "--admin-key-file", str(key_file), *limits, "--no-dashboard")  # fmt: skip
        fleet: subprocess.Popen[bytes] | None = None
        try:
            until(lambda: key_file.is_file() and answers(f"{url}/readyz"), "the service answers", service)
            control_plane = ControlPlaneProcess(url, key_file.read_text().strip(), service)
            # Real agents have machines of their own: these must not take the service's.
            fleet = start(place / "fleet.log", "dev", "fleet", "--server", url, "--key-file", str(key_file),
                           "--hosts", str(hosts), "--size", "cpu=64,memory=256Gi,disk=4Ti", niceness=10)  # fmt: skip
            progress(f"{hosts:,} agents join")
            until(lambda: _ready_hosts(control_plane) >= hosts, "all hosts are ready", fleet)
            yield control_plane
        finally:
            for process in (fleet, service):
                if process is not None:
                    stop(process)


@contextmanager
def postgres_url() -> Iterator[str]:
    """Start a PostgreSQL server that syncs to disk, and give the URL of an empty database."""
    from tests.control.postgres import PostgresServer

    server = PostgresServer(fsync="on", shared_buffers="128MB")
    try:
        yield server.address(server.new_database())
    finally:
        server.close()


def start(log: Path, *words: str, niceness: int = 0) -> subprocess.Popen[bytes]:
    """Start a command of ours; what it prints goes to a file, and what it keeps for later stands beside that."""
    command = ["nice", "-n", str(niceness), sys.executable, "-m", "hostler", *words]
    environment = os.environ | {"XDG_STATE_HOME": str(log.parent)}
    with log.open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, env=environment)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process in good order, or by force."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def until(condition: Callable[[], bool], what: str, process: subprocess.Popen[bytes], *, look_s: float = 0.1) -> None:
    """Wait for something that a process does."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end or process.poll() is not None:
            raise RuntimeError(f"never happened: {what}")
        time.sleep(look_s)


def answers(url: str) -> bool:
    """Say whether an address is answered well."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status) == 200
    except OSError:
        return False


def _ready_hosts(control_plane: ControlPlaneProcess) -> int:
    count, after = 0, ""
    while True:
        page = control_plane.get(f"/v1/hosts?state=ready&limit=500{f'&after={after}' if after else ''}")
        count += len(page["items"])
        after = str(page.get("next") or "")
        if not after:
            return count


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
