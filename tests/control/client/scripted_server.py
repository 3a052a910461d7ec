"""A real HTTP server whose answers a test writes down beforehand, for what no control plane does on purpose."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class ScriptedAnswer:
    """One answer; ``is_cut``: the connection ends in the middle of it."""

    status: int = 200
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class ReceivedRequest:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Script:
    """What is answered, in order, and what was asked."""

    def __init__(self, answers: list[ScriptedAnswer]) -> None:
        self.answers = answers
        self.heard: list[ReceivedRequest] = []
        self.address = ""


@contextmanager
def scripted_server(*answers: ScriptedAnswer):
    script = Script(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            script.heard.append(ReceivedRequest(self.command, self.path, headers, self.rfile.read(size)))
            said = script.answers.pop(0)
            self.close_connection = True
            self.send_response(said.status)
            for name, value in {
                "Content-Length": str(len(said.content)),
                "Connection": "close",
                **said.headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said.content[: len(said.content) // 2] if said.is_cut else said.content)

        do_GET = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    script.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
