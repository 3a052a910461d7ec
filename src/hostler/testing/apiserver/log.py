"""The log of the API server in memory: every request, when it took effect, what its sender learned."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.testing.apiserver.calls import Call

__all__ = ["LogEntry"]


class LogEntry(msgspec.Struct, kw_only=True):
    """One request. Times are the clock's nanoseconds; None: it never came to that."""

    number: int
    user: str
    agent: str
    method: str
    path: str
    body: bytes
    sent: int
    arrived: int | None = None
    deadline: int | None = None  # from here on the server does nothing more for it
    committed: int | None = None  # when it changed something
    version: int | None = None  # the version after that change
    status: int | None = None  # what the server decided
    told: int | None = None  # what the sender was told: a status, 0 for "it never arrived", None for nothing
    told_at: int | None = None
    call: Call | None = None

    def decoded(self) -> Any:  # noqa: ANN401 - JSON
        """Return the body."""
        return msgspec.json.decode(self.body) if self.body else {}

    @property
    def is_bind(self) -> bool:
        """Say whether it asks to bind a pod."""
        return self.method == "POST" and self.path.partition("?")[0].endswith("/binding")
