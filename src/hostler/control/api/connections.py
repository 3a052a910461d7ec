"""Connections that send no request, or only half the head of one, are closed after a while.

The server by itself waits for them for ever, and each costs a file descriptor: a few thousand would shut everybody out.
How long bodies are waited for is the business of whoever reads them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

__all__ = ["patient"]


def patient(head_s: float) -> type[asyncio.Protocol]:
    """Return the protocol of a server that waits so long for the head of a request."""
    base: Any = AutoHTTPProtocol  # of either parser: both know their request by the same name

    class Patient(base):  # type: ignore[misc]
        """Closes the connection unless the head of a request is there in time; answers may take any time."""

        _ending: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            """Wait for the first head."""
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            """Wait for the rest, if this was only a part of a head."""
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._wait_no_more()
            elif self._ending is None:
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            """Wait for nothing."""
            self._wait_no_more()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._ending = self.loop.call_later(head_s, self.transport.abort)

        def _wait_no_more(self) -> None:
            if self._ending is not None:
                self._ending.cancel()
                self._ending = None

    return Patient
