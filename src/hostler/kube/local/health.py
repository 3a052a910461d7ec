"""Asks each part of a control plane whether it is well, the way a kubelet's probe would."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path

from hostler.kube.local.credentials import token_of
from hostler.kube.local.state import State

__all__ = ["is_healthy"]

# part: where it answers
_PATHS = {
    "etcd": "/health",
    "apiserver": "/readyz",
    "controllers": "/healthz",
    "scheduler": "/readyz",
    "kwok": "/healthz",
}
_PLAIN = ("etcd", "kwok")  # without TLS


def is_healthy(part: str, folder: Path, state: State, *, timeout_s: float = 5.0) -> bool:
    """Say whether a part answers, and says that it is well."""
    port = getattr(state.ports, part)
    headers = {}
    connection: http.client.HTTPConnection
    if part in _PLAIN:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    else:
        trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout_s, context=trust)
    if part == "apiserver":
        headers["Authorization"] = f"Bearer {token_of(folder, 'admin')}"
    try:
        connection.request("GET", _PATHS[part], headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
