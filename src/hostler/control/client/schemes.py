"""Which of http and https a server speaks, for whoever wrote the other one: what the network says then helps nobody."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

__all__ = ["is_not_tls", "other_scheme", "speaks_tls"]

_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")  # versions of OpenSSL differ
_ASK_S = 2.0


def is_not_tls(error: Exception) -> bool:
    """Say whether a handshake failed because what came back is no TLS at all."""
    text = str(error).upper().replace(" ", "_")
    return any(word in text for word in _NOT_TLS)


def other_scheme(server: str) -> str:
    """Return an address with https for http, and the other way round."""
    scheme, _, rest = server.partition("://")
    return f"{'http' if scheme == 'https' else 'https'}://{rest}"


def speaks_tls(server: str) -> bool:
    """Ask a server for a handshake and say nothing more, so it does not matter who answers."""
    address = urlsplit(server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((address.hostname or "", address.port or 80), timeout=_ASK_S) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except OSError:
        return False
