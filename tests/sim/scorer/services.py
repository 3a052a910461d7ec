"""Services for tests: our own on a free port, one that plays a part, and a small fleet to fill."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

import numpy as np

from hostler.engine import typical_mix
from hostler.model import Device, DeviceRequest, GuestSpec, Host, amounts
from hostler.sim.fill_experiment import FillExperiment
from hostler.sim.scorer.client import ClientOptions, ScorerClient
from hostler.sim.scorer.network import shipped_network
from hostler.sim.scorer.service import ScoringService

GIB = 2**30
Server = TypeVar("Server", bound=ThreadingHTTPServer | ScoringService)


def small_fleet(guests: int = 60) -> FillExperiment:
    """Return six hosts of three kinds and guests of six kinds that ask for more than there is."""
    hosts = tuple(
        Host(
            name=f"node-{at}",
            uid=f"node-{at}",
            capacity=amounts({"cpu": 16_000 * (1 + at % 3), "memory": 64 * GIB, "guests": 100}),
            devices=(Device("gpu", ("T4", "P100", "V100")[at % 3]),) * (2 * (at % 3)),
            rank=(5 * at) % 6,
        )
        for at in range(6)
    )
    kinds = ((0, 0, ()), (1, 300, ()), (1, 810, ()), (1, 1000, ("P100",)), (2, 1000, ()), (1, 460, ("V100", "P100")))
    specs = tuple(
        GuestSpec(
            requests=amounts({"cpu": 500 * (1 + at % 5), "memory": GIB}),
            devices=(DeviceRequest("gpu", count, milli, models),) if count else (),
        )
        for at, (count, milli, models) in enumerate(kinds)
    )
    order = np.arange(guests, dtype=np.int64) * 7 % len(specs)
    order[::4] = 2
    return FillExperiment("small", hosts, specs, order, typical_mix(specs))


@contextmanager
def served(server: Server) -> Iterator[Server]:
    """Run a server in a thread."""
    arguments: dict[str, Any] = {"poll_interval": 0.02} if isinstance(server, ThreadingHTTPServer) else {}
    thread = threading.Thread(target=server.serve_forever, kwargs=arguments)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def our_service() -> Iterator[ScoringService]:
    """Run our own service with the shipped network."""
    service = ScoringService(shipped_network(), port=0)
    with served(service):
        yield service


class Part:
    """One request as a player of a part sees it."""

    def __init__(self, handler: BaseHTTPRequestHandler, body: bytes, number: int) -> None:
        self.handler = handler
        self.data: dict[str, Any] = json.loads(body)
        self.number = number  # of the request, from 1

    @property
    def nodes(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.data["nodes"]]

    def send(self, body: bytes, status: int = 200, length: int | None = None) -> None:
        self.handler.send_response(status)
        self.handler.send_header("Content-Length", str(len(body) if length is None else length))
        self.handler.end_headers()
        self.handler.wfile.write(body)

    def send_json(self, value: object) -> None:
        self.send(json.dumps(value).encode())

    def hang_up(self) -> None:
        self.handler.close_connection = True
        self.handler.connection.close()


@contextmanager
def playing(part: Callable[[Part], None], **options: Any) -> Iterator[ScorerClient]:
    """Run a server that plays a part, and yield a client that asks it."""
    numbers = iter(range(1, 1_000_000))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                part(Part(self, body, next(numbers)))
            except (BrokenPipeError, ConnectionResetError):  # the client has turned away, as it should
                self.close_connection = True

        def finish(self) -> None:
            try:
                super().finish()
            except (OSError, ValueError):  # the part hung up
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with served(server), asking(f"http://127.0.0.1:{server.server_port}/score", **options) as client:
        yield client


@contextmanager
def asking(endpoint: str, **options: Any) -> Iterator[ScorerClient]:
    """Return a client that does not sleep between tries, and gives a busy machine its time where nothing is said."""
    options = {"timeout_s": 120.0, **options}
    with ScorerClient(ClientOptions(endpoint=endpoint, **options), sleep=lambda _: None) as client:
        yield client
