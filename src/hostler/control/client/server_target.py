"""The control plane that a client talks to: address, API key, and trusted certificates.

A key is read from a file that only its owner can read, or from standard input. It is never an argument of a command.
"""

from __future__ import annotations

import ssl
import sys
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from hostler.config.secret_files import looks_secret, read_private
from hostler.errors import InputError

__all__ = ["STANDARD_INPUT", "ServerTarget", "check_server", "read_key", "tls_context"]

STANDARD_INPUT = "-"
DEFAULT_PROJECT = "default"

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LONGEST_KEY = 4096


class ServerTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A control plane and the key for it; ``project`` applies to names without a project."""

    server: str
    key: str = ""
    ca_file: Path | None = None
    project: str = DEFAULT_PROJECT
    is_insecure: bool = False
    context: str = ""  # the name of the context that this is from, if any

    def __repr__(self) -> str:
        return f"Reach({self.server}, project {self.project})"  # without the key


def check_server(server: str, *, is_insecure: bool = False) -> str:
    """Return the normalized address of a server; InputError, also if a key would travel unencrypted."""
    if looks_secret(server):
        raise InputError("the address of the server looks like a key", hint="write https://host:port, without a key")
    try:
        address = urlsplit(server)
        host, _ = address.hostname, address.port
    except ValueError:
        host = None
    if host is None or address.scheme not in ("http", "https") or address.query or address.fragment or address.username:
        raise InputError(f"{server[:200]!r} is not the address of a server", hint="write https://host:port")
    if address.scheme == "http" and host not in _LOOPBACK and not is_insecure:
        hint = "use https://, or allow it for a safe network: hostler context set … --insecure"
        raise InputError(f"{server} is not on this machine and not encrypted", hint=hint)
    return server.rstrip("/")


def read_key(path: str, *, option: str = "--key-file") -> str:
    """Read an API key from a private file, or from standard input for ``-``."""
    shown = "the file" if looks_secret(path) else path
    try:
        if path == STANDARD_INPUT:
            content = sys.stdin.read(_LONGEST_KEY + 1)
        else:
            content = read_private(Path(path).expanduser(), _LONGEST_KEY + 1, option=option, shown=shown)
    except (OSError, ValueError) as error:
        if looks_secret(path):
            hint = (
                "write the key into a file that only you can read, and name that file; revoke this key if others saw it"
            )
            raise InputError(f"{option}: that looks like a key, not a file", hint=hint) from None
        problem = (getattr(error, "strerror", None) or "not plain text").lower()
        raise InputError(f"{option}: {path} cannot be read: {problem}", hint="check the path and its owner") from None
    words = content.split()
    if len(words) != 1 or len(content) > _LONGEST_KEY or not words[0].isprintable():
        problem = (
            "is empty" if not words else "holds more than one key" if len(content) <= _LONGEST_KEY else "is too long"
        )
        raise InputError(f"{option}: {shown} {problem}", hint="it must hold one API key and nothing else")
    return words[0]


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Return the TLS context: certificates of a file, else those that this machine trusts."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        hint = "name a file with the authority's certificate in PEM"
        raise InputError(f"{ca_file} has no certificates: {error}", hint=hint) from error
