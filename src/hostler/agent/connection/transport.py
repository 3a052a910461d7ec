"""A complete answer of the control plane, and the interface of the transports that carry it.

``http`` implements the interface, and so do tests. The caller passes the credential, so one transport can serve a whole
fleet.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from hostler.runtime.transport import Transport

__all__ = ["AgentTransport", "ServerResponse"]


class ServerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer. ``retry_after_s``: how long the server asked us to wait."""

    status: int
    body: bytes = b""
    retry_after_s: float = 0.0


AgentTransport: TypeAlias = Transport[ServerResponse]
