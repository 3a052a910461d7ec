"""Who this agent is, in a file that only its owner may read; and what joins it the first time: a token in a file."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Protocol

import msgspec

from hostler.errors import InputError
from hostler.runtime.files import write_durably

__all__ = ["AgentIdentity", "CredentialFile", "CredentialStore", "MemoryCredentials", "is_usable", "read_token"]


_LONGEST_SECRET = 4096
_VISIBLE = re.compile(r"[!-~]+")
_LONGEST_FILE = 2**16


class AgentIdentity(msgspec.Struct, frozen=True):
    """The host that the control plane knows this agent as, and the secret that proves it."""

    host: str
    credential: str

    def __repr__(self) -> str:
        return f"Identity(host={self.host!r})"  # so that no log ever holds the secret


def is_usable(credential: str) -> bool:
    """Say whether a credential can stand in a request's header."""
    return 0 < len(credential) <= _LONGEST_SECRET and bool(_VISIBLE.fullmatch(credential))


class CredentialStore(Protocol):
    """Where an identity is kept."""

    def load(self) -> AgentIdentity | None:
        """Return the identity; None before the first join."""
        ...

    def save(self, identity: AgentIdentity) -> None:
        """Keep an identity, durably where the store is."""
        ...


class MemoryCredentials:
    """An identity that lasts as long as this object."""

    def __init__(self, identity: AgentIdentity | None = None) -> None:
        self._identity = identity

    def load(self) -> AgentIdentity | None:
        """Return the identity."""
        return self._identity

    def save(self, identity: AgentIdentity) -> None:
        """Keep an identity."""
        self._identity = identity


class CredentialFile:
    """An identity in a file of mode 0600; one that others may read is refused."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> AgentIdentity | None:
        """Read the identity."""
        if not self._path.exists():
            return None
        try:
            identity = msgspec.json.decode(_read_secret(self._path), type=AgentIdentity)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            identity = None
        if identity is None or not is_usable(identity.credential):
            raise InputError(
                f"{self._path} does not hold an agent's credential", hint="move it away and join with a new token"
            )
        return identity

    def save(self, identity: AgentIdentity) -> None:
        """Write the identity."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_durably(self._path, msgspec.json.encode(identity))


def read_token(path: Path) -> str:
    """Read a join token from a file."""
    token = _read_secret(path).decode("ascii", "replace").strip()
    if not token:
        raise InputError(f"{path} is empty", hint="it must hold the token that the control plane gave out")
    if not is_usable(token):
        raise InputError(f"{path} holds no token", hint="it must hold the token that the control plane gave out")
    return token


def _read_secret(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise InputError(f"{path} is no file", hint="name the file that holds it")
        if stat.S_IMODE(mode) & 0o077:
            raise InputError(f"others than its owner may use {path}", hint=f"chmod 600 {path}")
        with path.open("rb") as file:
            content = file.read(_LONGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", hint="is it there, and readable to you?") from error
    if len(content) > _LONGEST_FILE:
        raise InputError(f"{path} is too long", hint="it must hold what the control plane gave out and nothing else")
    return content
