"""Who we are to an API server: a token, a client certificate, and how either is renewed.

A credential hands out the identity that is good now; ``is_due`` is cheap enough to be asked before every call. Nothing
here shows a secret: not in errors, not in representations. Used by ``access`` and ``http``.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from hostler.errors import InputError, UnavailableError

__all__ = ["Credential", "FixedCredential", "Identity", "TokenFile"]

_REREAD_S = 60.0  # Kubernetes renews a mounted token when a fifth of its life is left: minutes at least


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
    """An identity that stands in a file and does not change."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    def is_due(self) -> bool:
        """Return False: there is nothing to renew."""
        return False

    async def renew(self) -> None:
        """Do nothing."""


class TokenFile:
    """A token in a file that somebody else renews; read again each minute and when the server refuses it."""

    def __init__(self, path: Path, *, certificate: bytes = b"", key: bytes = b"") -> None:
        self._path = path
        self._certificate = certificate
        self._key = key
        self._due_at = 0.0
        self.identity = self._read()

    def is_due(self) -> bool:
        """Say whether a minute has passed."""
        return asyncio.get_running_loop().time() >= self._due_at

    async def renew(self) -> None:
        """Read the file again; while it cannot be read the old token stays in use."""
        self._due_at = asyncio.get_running_loop().time() + _REREAD_S
        try:
            self.identity = self._read()
        except UnavailableError:
            if not self.identity.token:
                raise

    def _read(self) -> Identity:
        try:
            token = self._path.read_text("utf-8").strip()
        except (OSError, UnicodeError) as error:
            problem = getattr(error, "strerror", None) or "it is not text"
            raise UnavailableError(
                f"the token file {self._path} cannot be read: {problem}", hint="check tokenFile in the kubeconfig"
            ) from None
        if not token:
            raise UnavailableError(f"the token file {self._path} is empty", hint="whoever writes it may be late")
        return Identity(token=token, certificate=self._certificate, key=self._key)
