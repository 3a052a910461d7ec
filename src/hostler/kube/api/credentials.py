"""Who we are to an API server: a token, a client certificate, and how either is renewed.

A credential hands out the identity that is good now; ``is_due`` is cheap enough to be asked before every call. Nothing
here shows a secret: not in errors, not in representations. Used by ``access`` and ``http``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from hostler.errors import HostlerError, InputError, UnavailableError

__all__ = ["Credential", "FileCredential", "FixedCredential", "Identity", "TokenFile", "read_token"]

REREAD_S = 60.0  # tokens and certificates are renewed when a part of their life is left: minutes at least


class Identity:
    """What is shown to the server; a certificate and its key are PEM."""

    __slots__ = ("certificate", "key", "token")

    def __init__(self, *, token: str = "", certificate: bytes = b"", key: bytes = b"") -> None:
        # A line end or another control character in a header would be an error that quotes the whole header.
        if not (token.isascii() and token.isprintable()):
            raise InputError(
                "the token has characters that no token has", hint="it must be one line of plain ASCII text"
            )
        self.token = token
        self.certificate = certificate
        self.key = key

    def __repr__(self) -> str:
        shown = [name for name, value in (("token", self.token), ("certificate", self.certificate)) if value]
        return f"Identity({', '.join(f'{name}=…' for name in shown)})"

    def is_same(self, other: Identity) -> bool:
        """Say whether both show the same."""
        return (self.token, self.certificate, self.key) == (other.token, other.certificate, other.key)


class Credential(Protocol):
    """Where identities come from."""

    identity: Identity

    def is_due(self) -> bool:
        """Say whether the identity must be renewed before it is used."""
        ...

    async def renew(self) -> None:
        """Get a fresh identity; raise HostlerError where there is none."""
        ...


class FixedCredential:
    """An identity that does not change."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    def is_due(self) -> bool:
        """Return False: there is nothing to renew."""
        return False

    async def renew(self) -> None:
        """Do nothing."""


class FileCredential:
    """An identity in files that somebody else renews; read again each minute and when the server refuses it."""

    def __init__(self, read: Callable[[], Identity]) -> None:
        self._read = read
        self._due_at = 0.0
        self.identity = read()

    def is_due(self) -> bool:
        """Say whether a minute has passed."""
        return asyncio.get_running_loop().time() >= self._due_at

    async def renew(self) -> None:
        """Read the files again; while they cannot be used, or are changed just now, the old identity stays in use."""
        self._due_at = asyncio.get_running_loop().time() + REREAD_S
        with contextlib.suppress(HostlerError):
            found = self._read()
            if not found.is_same(self.identity):
                self.identity = found


class TokenFile(FileCredential):
    """A token in a file, as pods have it."""

    def __init__(self, path: Path) -> None:
        super().__init__(lambda: Identity(token=read_token(path)))


def read_token(path: Path) -> str:
    """Read the token in a file."""
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not text"
        raise UnavailableError(
            f"the token file {path} cannot be read: {problem}", hint="check tokenFile in the kubeconfig"
        ) from None
    if not token:
        raise UnavailableError(f"the token file {path} is empty", hint="whoever writes it may be late")
    return token
