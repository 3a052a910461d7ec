"""From a kubeconfig to a client, in one call; what most callers need."""

from __future__ import annotations

from pathlib import Path

from hostler.kube.api.access import read_access
from hostler.kube.api.client import Client
from hostler.kube.api.http import AiohttpTransport

__all__ = ["client_for"]


def client_for(
    kubeconfig: Path | None = None, context: str = "", *, user_agent: str = "hostler", max_connections: int = 128
) -> Client:
    """Make a client; nothing is sent yet. Close it after use."""
    transport = AiohttpTransport(read_access(kubeconfig, context), max_connections=max_connections)
    return Client(transport, user_agent=user_agent)
