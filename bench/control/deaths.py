"""How long no service answers: a service that starts with many VMs, and replicas whose leader is killed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.control.processes import answers, free_port, postgres_url, start, stop, until
from bench.results import Row
from hostler.control.store import open_database
from tests.control.kills import test_start as many

__all__ = ["starting", "taking_over"]

Progress = Callable[[str], None]


class _Replica:
    """A service that is killed and started again."""

    def __init__(self, folder: Path, database: str, name: str) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._words = ("serve", "--database-url", database, "--listen", self.url.removeprefix("http://"),
                       "--admin-key-file", str(folder / f"{name}.key"), "--no-dashboard")  # fmt: skip
        self._log = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def exec(self) -> subprocess.Popen[bytes]:
        self.process = start(self._log, *self._words)
        return self.process

    def ready(self) -> None:
        assert self.process is not None
        until(lambda: answers(f"{self.url}/readyz"), "the service answers", self.process, look_s=0.01)

    def leads(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return bool(json.loads(answer.read())["is_leader"])
        except OSError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


def starting(progress: Progress, *, count: int = 3) -> Row:
    """Measure from exec to the first answer, after a death that saved nothing."""
    progress(f"a database with {many.VMS:,} VMs")
    with TemporaryDirectory(prefix="hostler-bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'control.db'}"
        database = open_database(url)
        try:
            asyncio.run(many.fill(database))
        finally:
            database.close()
        took = []
        for _ in range(count):
            replica = _Replica(Path(folder), url, "service")
            began = time.perf_counter()
            replica.exec()
            replica.ready()
            took.append(time.perf_counter() - began)
            replica.kill()
    return Row(
        name="start",
        what=f"from exec to the first answer with {many.VMS:,} VMs on {many.HOSTS:,} hosts, after kill -9: median",
        unit="s",
        target=5,
        sense="at most",
        measured=round(median(took), 2),
        note="of " + ", ".join(f"{one:.2f}" for one in sorted(took)),
    )


def taking_over(progress: Progress, *, count: int = 5) -> Row:
    """Measure from the leader's death until another replica leads."""
    progress("replicas that take over")
    took = []
    with TemporaryDirectory(prefix="hostler-bench-") as folder, postgres_url() as url:
        replicas = [_Replica(Path(folder), url, name) for name in ("first", "second")]
        try:
            for replica in replicas:
                replica.exec()
                replica.ready()
            for _ in range(count):
                leader = _leader(replicas)
                other = next(one for one in replicas if one is not leader)
                assert other.process is not None
                began = time.perf_counter()
                leader.kill()
                until(other.leads, "the other replica leads", other.process, look_s=0.01)
                took.append(time.perf_counter() - began)
                leader.exec()
                leader.ready()
        finally:
            for replica in replicas:
                if replica.process is not None:
                    stop(replica.process)
    return Row(
        name="takeover",
        what="two replicas on PostgreSQL, from kill -9 of the leader until the other leads: the longest",
        unit="s",
        target=5,
        sense="at most",
        measured=round(max(took), 2),
        note="of " + ", ".join(f"{one:.2f}" for one in sorted(took)),
    )


def _leader(replicas: list[_Replica]) -> _Replica:
    process = replicas[0].process
    assert process is not None
    until(lambda: any(one.leads() for one in replicas), "one of them leads", process)
    return next(one for one in replicas if one.leads())
