"""The benchmark of the control plane tells figures only of what was done: failures are a miss, or end the run."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from types import SimpleNamespace
from typing import cast

import pytest

from bench.control import latencies, throughput
from bench.control.clients import CallTimes
from bench.control.neighbors import neighbor_row
from bench.control.processes import ControlPlaneProcess
from bench.results import Report, describe_machine, table

Answer = tuple[int, dict[str, object]]
RUNNING: Answer = (200, {"vm": {"state": "running"}})
WAITING: Answer = (202, {"vm": {"state": "pending"}})
BUSY: Answer = (503, {"title": "busy"})


@contextmanager
def a_service(create: Callable[[int], Answer], *, pending: int = 0) -> Iterator[ControlPlaneProcess]:
    """Answer creates by their number, and say of so many VMs that they wait for a place."""
    numbers = count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet for an answer

        def do_GET(self) -> None:
            self._say(200, {"items": [{}] * pending})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._say(*create(next(numbers)))

        def _say(self, status: int, told: dict[str, object]) -> None:
            body = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 256

    server = Server(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    this_process = cast("subprocess.Popen[bytes]", SimpleNamespace(pid=os.getpid()))
    try:
        yield ControlPlaneProcess(f"http://127.0.0.1:{server.server_port}", "key", this_process)
    finally:
        server.shutdown()
        server.server_close()


def creates(plane: ControlPlaneProcess):
    return throughput(plane, "SQLite", 0.001, 50, 0.2, lambda _: None, patience_s=0.0)


def waits(plane: ControlPlaneProcess):
    return list(latencies(plane, 50, 0.1, lambda _: None))


def test_what_is_all_answered_and_placed_is_judged_by_its_target():
    with a_service(lambda _: RUNNING) as plane:
        rows = [creates(plane), *waits(plane)]
    assert [row.spoiled for row in rows] == ["", "", ""]
    assert rows[0].judged().verdict == "pass"
    assert "all placed" in rows[0].note


@pytest.mark.parametrize("measure", [creates, waits])
def test_where_all_creates_fail_there_is_no_figure(measure: Callable[[ControlPlaneProcess], object]):
    with a_service(lambda _: BUSY) as plane, pytest.raises(RuntimeError, match=r"creates failed, 503: .*busy"):
        measure(plane)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_row_with_failures_is_a_miss(which: int):
    def some_fail(number: int) -> Answer:
        return BUSY if number % 5 == 4 else RUNNING

    with a_service(some_fail) as plane:
        row = [*waits(plane), creates(plane)][which]
    assert row.judged().verdict == "miss"
    assert "creates failed, 503" in row.spoiled


def test_a_vm_that_does_not_run_in_time_has_not_reached_its_agent():
    with a_service(lambda number: WAITING if number == 5 else RUNNING) as plane:
        reaches, paced = waits(plane)
    assert "1 of 20 creates failed, 202" in reaches.spoiled
    assert not paced.spoiled


def test_creates_with_one_vm_still_pending_are_a_miss():
    with a_service(lambda _: WAITING, pending=1) as plane:
        row = creates(plane)
    assert row.judged().verdict == "miss"
    assert "not all of them were placed" in row.spoiled
    assert "all placed" not in row.note


def test_the_table_says_why_a_figure_counts_for_nothing():
    with a_service(lambda _: WAITING, pending=1) as plane:
        row = creates(plane).judged()
    report = Report(bench="control", quick=False, runs_per_figure=1, machine=describe_machine((0, 0, 0)), rows=(row,))
    assert "creates, SQLite counts for nothing: not all of them were placed" in table(report)


@pytest.mark.parametrize(("ended", "verdict"), [(None, "pass"), (1, "miss")])
def test_loud_neighbor_that_ended_by_itself_is_a_miss(ended: int | None, verdict: str):
    """A neighbor that could not start left the tenant alone: the ratio was better than ever."""
    row = neighbor_row(CallTimes(waits_ms=[10.0]), CallTimes(waits_ms=[11.0]), 0.1, ended).judged()
    assert row.verdict == verdict
    assert ("the loud tenant ended" in row.spoiled) is (ended is not None)
