"""Credentials from a program that the kubeconfig names, as cloud providers have it.

The protocol is client.authentication.k8s.io: what the program should know is in an environment variable, and it prints
an ExecCredential. Its answer is kept until it expires or the server refuses it. Used by ``access``.
"""

from __future__ import annotations

import asyncio
import datetime
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hostler.errors import UnavailableError
from hostler.kube.api.clock import NANOSECONDS, Clock, SteadyClock
from hostler.kube.api.credentials import Identity
from hostler.kube.api.kubeconfig import ExecSettings

__all__ = ["ExecPlugin"]

_TIMEOUT_S = 60.0
_EARLY_NS = 10 * NANOSECONDS  # a token that expires on the way is no use
_SHOWN_CHARACTERS = 500  # of what a failing program says


class CredentialStatus(msgspec.Struct, rename="camel"):
    """What a plugin answers."""

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
    """Runs the program when it is needed, one at a time."""

    def __init__(
        self, settings: ExecSettings, folder: Path, cluster: Mapping[str, object], *, timeout_s: float = _TIMEOUT_S
    ) -> None:
        self.identity = Identity()
        self._settings = settings
        # A command with a slash is relative to the kubeconfig, as with kubectl; others are looked up in PATH.
        has_folder = "/" in settings.command
        self._command = str(folder / settings.command) if has_folder else settings.command
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._expires_at: int | None = 0  # in nanoseconds; None: never
        self._clock: Clock | None = None

    def is_due(self) -> bool:
        """Say whether there is no answer yet, or it expires."""
        return self._expires_at is not None and self._now() + _EARLY_NS >= self._expires_at

    async def renew(self) -> None:
        """Run the program and take what it prints."""
        answer = self._check(await self._run())
        self.identity = Identity(
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
            raise self._failure(f"ended with status {process.returncode}: {said or 'it said nothing'}")
        return output

    def _check(self, output: bytes) -> CredentialStatus:
        # What it printed holds secrets, so no error may quote it.
        try:
            answer = msgspec.json.decode(output, type=ExecCredential)
        except msgspec.MsgspecError:
            raise self._failure("printed something that is no ExecCredential") from None
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
