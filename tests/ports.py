"""Ports for servers that are told where to listen before they do, and ports where nobody listens."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from hostler.kube.local.cluster import is_free

__all__ = ["free_port", "silent_port"]

# Below those of local clusters, and far below those that the kernel gives to outgoing connections: between the choice
# and the listening, no other process gets one of these by chance.
_FIRST, _LAST = 10_000, 20_000


def free_port() -> int:
    """Return a port of the loopback interface, picked by chance, so that tests beside each other pick others."""
    ports = (random.SystemRandom().randrange(_FIRST, _LAST) for _ in range(2_000))
    return next(port for port in ports if is_free(port))


@contextmanager
def silent_port() -> Iterator[int]:
    """Give a port of the loopback interface where nobody listens, nor will: it is taken until the end."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])
