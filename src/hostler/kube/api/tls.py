"""TLS contexts: the authorities that we trust, and the certificate that we present.

Python reads a client certificate only from files, so one that was given as data is written to a private file while it
is loaded. Used by ``access`` for reading and by ``http`` for connecting.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from hostler.errors import HostlerError, InputError
from hostler.kube.api.credentials import REREAD_S, ClientIdentity

__all__ = ["Authority", "load_certificate", "make_tls", "read_pem"]


def read_pem(data: str, path: str, folder: str, what: str) -> bytes:
    """Read PEM from base64 data or from a file. Data takes precedence, as with kubectl. Empty if neither is given."""
    if data:
        try:
            pem = base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            raise InputError(f"{what}-data is not base64", hint="copy the kubeconfig again") from None
    elif path:
        file = Path(folder) / path
        try:
            pem = file.read_bytes()
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            raise InputError(f"{what}: {file}: cannot be read: {problem}", hint="check the kubeconfig") from None
    else:
        return b""
    if b"-----BEGIN " not in pem:
        raise InputError(f"{what} is not PEM", hint="it begins with '-----BEGIN'")
    return pem


class Authority:
    """The authorities that we trust. If they are in a file, ``read`` reads it again each minute."""

    def __init__(self, pem: bytes, read: Callable[[], bytes] | None) -> None:
        self.pem = pem
        self._read = read
        self._due_at = 0.0

    def renew(self, now_s: float) -> bool:
        """Read the file if it is due; return whether it changed. An unusable file is ignored."""
        if self._read is None or now_s < self._due_at:
            return False
        self._due_at = now_s + REREAD_S
        try:
            pem = self._read()
            if not pem or pem == self.pem:
                return False
            make_tls(pem, ClientIdentity())
        except HostlerError:
            return False
        self.pem = pem
        return True


def make_tls(authority: bytes, identity: ClientIdentity, *, is_insecure: bool = False) -> ssl.SSLContext:
    """Make a context that trusts the authority, or the system's if none is given, and presents the identity."""
    if not authority:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=authority.decode("ascii", "replace"))
        except (ssl.SSLError, ValueError):
            raise InputError(
                "certificate-authority has no readable certificate", hint="copy the kubeconfig again"
            ) from None
    # As in Go: a certificate that is trusted directly needs no authority above it, and old formats are accepted.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if identity.certificate:
        load_certificate(context, identity)
    return context


def load_certificate(context: ssl.SSLContext, identity: ClientIdentity) -> None:
    """Load a certificate into a context; InputError if it and its key do not match."""
    # A temporary file can be read by its owner only.
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(identity.certificate.rstrip() + b"\n" + identity.key)
        file.flush()
        try:
            context.load_cert_chain(file.name, password=_reject_password)
        except (ssl.SSLError, ValueError, OSError) as error:
            problem = getattr(error, "reason", None) or "it cannot be read"
            raise InputError(
                f"the certificate or its key is invalid: {str(problem).replace('_', ' ').lower()}",
                hint="they must match and be PEM",
            ) from None


def _reject_password() -> NoReturn:
    """Keep OpenSSL from asking at the terminal."""
    raise InputError("the client key is encrypted", hint="give a key without a password")
