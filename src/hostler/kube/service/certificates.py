"""The certificate that the pages show, renewed while they are served: who rotates it only replaces two files.

A context takes a new certificate for connections to come; those that are open go on. Used by ``serving``.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

from hostler.errors import InputError
from hostler.kube.api.credentials import Identity
from hostler.kube.api.tls import load_certificate

__all__ = ["ServedCertificate"]


class ServedCertificate:
    """Two files as a context for a server; InputError where they cannot be used at the start."""

    def __init__(self, certificate: Path, key: Path, say: Callable[[str], None] = lambda text: None) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._certificate = certificate
        self._key = key
        self._say = say
        self._complaint = ""
        self._shown = Identity()
        self._take()

    async def watch(self, every_s: float) -> None:
        """Look at the files now and then; cancelled to end."""
        while True:
            await asyncio.sleep(every_s)
            self.look()

    def look(self) -> None:
        """Take what the files hold now; half of a new pair, or nonsense, is left aside until it is whole."""
        try:
            if self._take():
                self._say(f"{self._certificate}: the new certificate is shown from now on")
            self._complaint = ""
        except InputError as error:
            if error.message != self._complaint:
                self._say(f"{error.message}; the old one is still shown")
            self._complaint = error.message

    def _take(self) -> bool:
        """Show what the files hold; say whether that is something new."""
        try:
            found = Identity(certificate=self._certificate.read_bytes(), key=self._key.read_bytes())
            if found.is_same(self._shown):
                return False
            load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), found)  # one that is in use must not be spoilt
            load_certificate(self.context, found)
        except InputError as error:
            problem = error.message
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
        else:
            self._shown = found
            return True
        where = f"the certificate {self._certificate} or its key {self._key}"
        raise InputError(f"{where} cannot be used: {problem}", hint="both must be PEM and belong together")
