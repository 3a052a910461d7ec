"""How we authenticate to an API server: a token or a client certificate, and how either is renewed.

A credential returns the identity that is valid now. ``is_due`` is cheap enough to call before every request. Nothing
here shows a secret: not in errors, not in representations. Used by ``access`` and ``http``.

``ExecPlugin`` gets credentials from a program that the kubeconfig names, as cloud providers use it. The protocol is
client.authentication.k8s.io: the program's input is in an environment variable, and it prints an ExecCredential. Its
output is kept until it expires or the server rejects it.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from hostler.errors import HostlerError, InputError, UnavailableError
from hostler.kube.api.kubeconfig import ExecSettings
from hostler.runtime.clock import NANOSECONDS, Clock, SteadyClock

__all__ = ["ClientIdentity", "Credential", "ExecPlugin", "FileCredential", "FixedCredential", "TokenFile", "read_token"]

REREAD_S = 60.0  # tokens and certificates are renewed well before they expire: minutes at least
_TIMEOUT_S = 60.0
_EARLY_NS = 10 * NANOSECONDS  # a token that expires in flight is useless
_SHOWN_CHARACTERS = 500  # of a failing program's output


class ClientIdentity:
    """The token or certificate to present to the server; a certificate and its key are PEM."""

    __slots__ = ("certificate", "key", "token")

    def __init__(self, *, token: str = "", certificate: bytes = b"", key: bytes = b"") -> None:
        # A line end or control character in a header would raise an error that quotes the whole header.
        if not (token.isascii() and token.isprintable()):
            raise InputError(
                "the token has characters that are not allowed in a token",
                hint="it must be one line of plain ASCII text",
            )
        self.token = token
        self.certificate = certificate
        self.key = key

    def __repr__(self) -> str:
        shown = [name for name, value in (("token", self.token), ("certificate", self.certificate)) if value]
        return f"ClientIdentity({', '.join(f'{name}=…' for name in shown)})"

    def is_same(self, other: ClientIdentity) -> bool:
        """Return whether both present the same credentials."""
        return (self.token, self.certificate, self.key) == (other.token, other.certificate, other.key)


class Credential(Protocol):
    """A source of identities."""

    identity: ClientIdentity

    def is_due(self) -> bool:
        """Return whether the identity must be renewed before it is used."""
        ...

    async def renew(self) -> None:
        """Get a fresh identity; raise HostlerError if there is none."""
        ...


class FixedCredential:
    """An identity that does not change."""

    def __init__(self, identity: ClientIdentity) -> None:
        self.identity = identity

    def is_due(self) -> bool:
        """Return False: there is nothing to renew."""
        return False

    async def renew(self) -> None:
        """Do nothing."""


class FileCredential:
    """An identity in files that others renew. Read again each minute and when the server rejects it."""

    def __init__(self, read: Callable[[], ClientIdentity]) -> None:
        self._read = read
        self._due_at = 0.0
        self.identity = read()

    def is_due(self) -> bool:
        """Return whether a minute has passed."""
        return asyncio.get_running_loop().time() >= self._due_at

    async def renew(self) -> None:
        """Read the files again. While they are unusable or being changed, the old identity stays in use."""
        self._due_at = asyncio.get_running_loop().time() + REREAD_S
        with contextlib.suppress(HostlerError):
            found = self._read()
            if not found.is_same(self.identity):
                self.identity = found


class TokenFile(FileCredential):
    """A token in a file, as in pods."""

    def __init__(self, path: Path) -> None:
        super().__init__(lambda: ClientIdentity(token=read_token(path)))


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
        raise UnavailableError(f"the token file {path} is empty", hint="the program that writes it may be late")
    return token


class CredentialStatus(msgspec.Struct, rename="camel"):
    """The status in a plugin's output."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime.datetime | None = None


class ExecCredential(msgspec.Struct, rename="camel"):
    """The object that a plugin prints."""

    api_version: str = ""
    kind: str = ""
    status: CredentialStatus | None = None


class ExecPlugin:
    """Runs the program on demand, one at a time."""

    def __init__(
        self, settings: ExecSettings, folder: Path, cluster: Mapping[str, object], *, timeout_s: float = _TIMEOUT_S
    ) -> None:
        self.identity = ClientIdentity()
        self._settings = settings
        # A command with a slash is relative to the kubeconfig, as with kubectl; others are looked up in PATH.
        has_folder = "/" in settings.command
        self._command = str(folder / settings.command) if has_folder else settings.command
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._expires_at: int | None = 0  # in nanoseconds; None: never
        self._clock: Clock | None = None

    def is_due(self) -> bool:
        """Return whether there is no output yet, or it has expired."""
        return self._expires_at is not None and self._now() + _EARLY_NS >= self._expires_at

    async def renew(self) -> None:
        """Run the program and use what it prints."""
        answer = self._check(await self._run())
        self.identity = ClientIdentity(
            token=answer.token or "",
            certificate=(answer.client_certificate_data or "").encode(),
            key=(answer.client_key_data or "").encode(),
        )
        expiry = answer.expiration_timestamp
        if expiry is None:
            self._expires_at = None
        else:
            aware = expiry if expiry.tzinfo else expiry.replace(tzinfo=datetime.UTC)
            self._expires_at = int(aware.timestamp() * NANOSECONDS)

    def _now(self) -> int:
        if self._clock is None:
            self._clock = SteadyClock()
        return self._clock.now()

    async def _run(self) -> bytes:
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *self._settings.args or (),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                env=self._environment(),
            )
        except OSError as error:
            raise self._failure(f"cannot be started: {error.strerror or error}") from None
        try:
            async with asyncio.timeout(self._timeout_s):
                output, complaint = await process.communicate()
        except TimeoutError:
            raise self._failure(f"gave no answer within {self._timeout_s:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            said = " ".join(complaint.decode("utf-8", "replace").split())[:_SHOWN_CHARACTERS]
            raise self._failure(f"ended with status {process.returncode}: {said or 'no output'}")
        return output

    def _check(self, output: bytes) -> CredentialStatus:
        # The output holds secrets, so no error may quote it.
        try:
            answer = msgspec.json.decode(output, type=ExecCredential)
        except msgspec.MsgspecError:
            raise self._failure("printed something that is not an ExecCredential") from None
        if answer.kind != "ExecCredential" or answer.api_version != self._settings.api_version:
            raise self._failure(f"did not print an ExecCredential of {self._settings.api_version}")
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._failure("gave neither a token nor a certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._failure("gave a certificate without its key, or a key without its certificate")
        return status

    def _environment(self) -> dict[str, str]:
        spec: dict[str, object] = {"interactive": False}
        if self._settings.provide_cluster_info:
            spec["cluster"] = dict(self._cluster)
        info = {"apiVersion": self._settings.api_version, "kind": "ExecCredential", "spec": spec}
        extra = {entry.name: entry.value for entry in self._settings.env or ()}
        return {**os.environ, **extra, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}

    def _failure(self, what: str) -> UnavailableError:
        hint = self._settings.install_hint or "run the command by hand to see what it lacks"
        return UnavailableError(f"the credential plugin {self._settings.command} {what}", hint=hint)
