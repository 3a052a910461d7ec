"""Where the service may listen, and which Host headers it accepts.

On loopback it may speak plain HTTP. Elsewhere others could read the traffic, so it needs a certificate and
authentication, unless ``--insecure`` is given. The Host header must be a name of the service. That prevents DNS
rebinding: a page of another site can point its own name at this service, but cannot change the Host header.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

import msgspec

from hostler.control.access.errors import InsecureListenError, MisdirectedError
from hostler.errors import InputError

__all__ = ["Address", "allowed_names", "check_host", "check_listening", "is_loopback", "parse_listen"]

DEFAULT_PORT = 8470
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")
_HINT = "write HOST:PORT, such as 127.0.0.1:8470 or [::1]:8470"


class Address(msgspec.Struct, frozen=True):
    """Where to listen; ``host`` is a name or an address without brackets."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can connect."""
        return is_loopback(self.host)


def parse_listen(text: str) -> Address:
    """Parse ``HOST:PORT``, ``HOST``, ``:PORT`` or ``PORT``. The default host is loopback, never all interfaces."""
    host, port = _split(f":{text}" if text.isdecimal() else text)
    if port is not None and not 0 <= port <= 65_535:
        raise InputError(f"{text!r} is not an address to listen on", hint=_HINT)
    name = _normal(host) if host else "127.0.0.1"
    if name is None:
        raise InputError(f"{text!r} is not an address to listen on", hint=_HINT)
    return Address(name.strip("[]"), DEFAULT_PORT if port is None else port)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine only. Names other than localhost count as remote."""
    if host.lower() == "localhost":
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)


def check_listening(
    address: Address, *, has_tls: bool, has_authentication: bool = True, is_insecure: bool = False
) -> str | None:
    """Reject an unsafe listen address; InsecureListenError. Returns a warning for what ``--insecure`` allows."""
    missing = [] if has_tls else ["no TLS certificate"]
    missing += [] if has_authentication else ["no authentication"]
    if address.is_loopback or not missing:
        return None
    said = f"{address.host}:{address.port} is reached from other machines and has {' and '.join(missing)}"
    if is_insecure:
        return f"{said}: others can read keys and credentials on the network"
    hint = "give --tls-cert and --tls-key, listen on 127.0.0.1, or say --insecure if the network is private"
    raise InsecureListenError(said, hint=hint)


def allowed_names(address: Address, configured: Iterable[str] = ()) -> frozenset[str]:
    """Return the accepted Host headers: the loopback names, the listen address, and the configured names."""
    names = set(LOOPBACK_NAMES)
    for host in (address.host, *configured):
        name = _normal(f"[{host}]" if ":" in host and not host.startswith("[") else host)
        if name is None:
            raise InputError(f"{host!r} is not a host name", hint="write a name or an address, without port and path")
        if name not in ("0.0.0.0", "[::]"):
            names.add(name)
    return frozenset(names)


def check_host(header: str, allowed: frozenset[str]) -> None:
    """Reject a Host header of another service; MisdirectedError. Any port is accepted, because tunnels change it."""
    try:
        host, _ = _split(header)
    except InputError:
        host = ""
    if _normal(host) not in allowed:
        hint = f"use one of {', '.join(sorted(allowed))}, or start the service with --name for each other name"
        raise MisdirectedError(f"this service does not go by the name {header[:100]!r}", hint=hint)


def _split(text: str) -> tuple[str, int | None]:
    """Return host, in brackets if it is IPv6, and port."""
    found = re.fullmatch(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(:(?P<port>[0-9]{1,5}))?", text, re.ASCII)
    if found is None:
        raise InputError(f"{text[:100]!r} is not a host and a port", hint=_HINT)
    return found["host"], None if found["port"] is None else int(found["port"])


def _normal(host: str) -> str | None:
    """Return the canonical spelling of a host, or None if it is not a host."""
    inner = host[1:-1] if host.startswith("[") and host.endswith("]") else ""
    try:
        if inner:
            return f"[{ipaddress.IPv6Address(inner)}]"
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        pass
    name = host.lower().removesuffix(".")
    is_name = 0 < len(name) <= 253 and all(_LABEL.fullmatch(label) for label in name.split("."))
    return name if is_name else None
