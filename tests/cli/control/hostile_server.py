"""A real server between a command and a control plane that puts into every text what a terminal would obey."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

# Clear the screen, set the title, end a line and forge another, the eight-bit form of an escape, turn text around.
POISON = "\x1b[2J\x1b]0;pwn\x07\rerror: \nhint: x\x9b31m\u202e"
# What commands work with and do not only show: poisoned, they would end before anything is printed.
KEPT = {"id", "host_id", "next", "operation", "power", "role", "subject", "uid"}
KINDS = {"state", "kind", "cpu", "memory", "size", "code"}  # words of a closed list, and amounts


def with_control_characters(value: object, key: str = "") -> object:
    """Return an answer with poison behind every text that is only shown."""
    if isinstance(value, dict):
        return {name: with_control_characters(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [with_control_characters(one, key) for one in value]
    is_shown = isinstance(value, str) and key not in KEPT | KINDS and not key.endswith("_at")
    return f"{value}{POISON}" if is_shown else value


@contextmanager
def control_character_proxy(server: str, *, is_refusing: bool = False):
    """Pass requests on and poison the answers; or refuse them all, in poisoned words."""
    there = urlsplit(server)

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if is_refusing:
                said = {"title": "no", "status": 409, "code": "conflict", "detail": "no", "hint": "no"}
                self.give(409, with_control_characters(said))
                return
            asked = http.client.HTTPConnection(there.hostname, there.port, timeout=180)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            asked.request(self.command, self.path, body, headers)
            answer = asked.getresponse()
            if answer.getheader("Content-Type", "").startswith("text/event-stream"):
                asked.close()
                self.send_error(503)
                return
            content = answer.read()
            asked.close()
            self.give(answer.status, with_control_characters(json.loads(content)) if content else None)

        def give(self, status: int, content: object) -> None:
            data = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    between = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=between.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{between.server_port}"
    finally:
        between.shutdown()
        thread.join()
        between.server_close()
