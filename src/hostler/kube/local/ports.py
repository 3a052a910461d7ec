"""Free ports of the loopback interface, below those that the kernel gives to outgoing connections."""

from __future__ import annotations

import secrets
import socket

from hostler.errors import UnavailableError
from hostler.kube.local.state import Ports

__all__ = ["free_ports", "is_free"]

# The kernel gives 32768 and above to whoever calls out, an API server to its etcd for example: one of those may be
# taken again before we listen on it.
_FIRST, _LAST = 20_000, 32_000
_TRIES = 2_000


def free_ports() -> Ports:
    """Pick a free port for each part, by chance, so that clusters that start together seldom pick the same."""
    found: list[int] = []
    wanted = len(Ports.__struct_fields__)
    for _ in range(_TRIES):
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        if port not in found and is_free(port):
            found.append(port)
        if len(found) == wanted:
            return Ports(*found)
    raise UnavailableError(f"no {wanted} free ports between {_FIRST} and {_LAST}", hint="see who listens: ss -ltn")


def is_free(port: int) -> bool:
    """Say whether one could listen on this port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
