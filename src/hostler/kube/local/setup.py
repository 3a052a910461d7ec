"""The few API calls that set up a cluster, with the standard library only: no event loop, no client."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from hostler.kube.api.failures import error_of

__all__ = ["Api"]

_PATIENCE_S = 30.0

Object = dict[str, Any]


class Api:
    """A connection to an API server, for one thread; use it in a ``with`` block."""

    def __init__(self, url: str, authority: Path, token: str, *, timeout_s: float = _PATIENCE_S) -> None:
        where = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._connection = http.client.HTTPSConnection(
            where.hostname or "",
            where.port,
            timeout=timeout_s,
            context=ssl.create_default_context(cafile=str(authority)),
        )

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def send(
        self, method: str, path: str, body: Object | None = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Send a request and return the status and the body; raise OSError or HTTPException without a response."""
        content = json.dumps(body).encode() if body is not None else None
        try:
            self._connection.request(method, path, content, {**self._headers, "Content-Type": content_type})
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next request opens a new one
            raise

    def call(self, method: str, path: str, body: Object | None = None) -> Object:
        """Send a request and return the object of the response; raise ApiError if it is rejected."""
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        status, content = self.send(method, path, body, kind)
        if status >= 300:
            raise error_of(status, {}, content)
        answer: Object = json.loads(content)
        return answer

    def apply(self, collection: str, content: Object) -> None:
        """Create an object, or replace the one of the same name."""
        status, answer = self.send("POST", collection, content)
        if status == 409:
            status, answer = self.send("PUT", f"{collection}/{content['metadata']['name']}", content)
        if status >= 300:
            raise error_of(status, {}, answer)

    def create(self, collection: str, content: Object) -> bool:
        """Create an object; return False if one of that name exists already."""
        status, answer = self.send("POST", collection, content)
        if status == 409:
            return False
        if status >= 300:
            raise error_of(status, {}, answer)
        return True
