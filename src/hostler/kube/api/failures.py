"""Error responses of an API server as typed errors.

``Status`` objects (kubernetes/kubernetes staging/src/k8s.io/apimachinery/pkg/apis/meta/v1) carry a code, a reason in
one word and a message. Callers ask for what they can act on: is the object gone, is this a conflict, should the call be
retried later.

``unsent`` and ``lost_answer`` describe a failed connection and say whether the server may have acted. A connection that
was never made carried nothing. Everything later may have arrived.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping

import aiohttp
import msgspec

from hostler.errors import UnavailableError
from hostler.kube.api.access import Access
from hostler.runtime.transport import TransportError

__all__ = ["ApiError", "Status", "error_of", "is_worth_retrying", "lost_answer", "unsent"]

_LONGEST_WAIT_S = 60.0  # limit of a wait that a server asks for: it may be wrong, and other calls wait with this one
_RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})
_TOO_NEW = "too large resource version"


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """The machine-readable part of an error."""

    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The body of an error, and of some successes."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


class ApiError(UnavailableError):
    """The server rejected the call. ``retry_after_s`` is how long it asks us to wait, or None."""

    code = "kubernetes_api"

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after_s: float | None = None, hint: str = ""
    ) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}", hint=hint)
        self.status = status
        self.reason = reason
        self.text = message
        self.retry_after_s = retry_after_s

    @property
    def is_gone(self) -> bool:
        """Return whether the object does not exist."""
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """Return whether the object was changed first, or is another one of the same name."""
        return self.status == 409

    @property
    def is_expired(self) -> bool:
        """Return whether the requested resource version is too old to be served."""
        return self.status == 410 or self.reason in ("Expired", "Gone")

    @property
    def is_too_new(self) -> bool:
        """Return whether the requested resource version is ahead of the server (it was restored from a backup)."""
        return _TOO_NEW in self.text.lower()

    @property
    def is_forbidden(self) -> bool:
        """Return whether credentials or permissions are missing."""
        return self.status in (401, 403)

    @property
    def may_have_acted(self) -> bool:
        """Return whether the outcome is unknown: the server failed or timed out on the way."""
        return self.status in (408, 500, 502, 503, 504)

    @property
    def is_away(self) -> bool:
        """Return whether only a proxy answered. An error of the server itself counts as an answer."""
        return self.status in (502, 503, 504)

    @property
    def is_worth_retrying(self) -> bool:
        """Return whether the same call may succeed later."""
        return self.status in _RETRYABLE


_read_status = msgspec.json.Decoder(Status).decode


def _limit_wait(wait: str | int) -> float:
    """Return the seconds that a server asks us to wait, limited to the longest wait that we accept."""
    is_long = len(wait) > 6 if isinstance(wait, str) else wait > _LONGEST_WAIT_S
    return _LONGEST_WAIT_S if is_long else min(float(wait), _LONGEST_WAIT_S)


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Read an error response. A body that is no Status, such as a proxy's page, becomes the message."""
    wait = headers.get("retry-after", "")
    retry_after_s = _limit_wait(wait) if wait.isascii() and wait.isdecimal() else None
    try:
        answer = _read_status(body)
    except msgspec.MsgspecError:
        answer = Status(message=" ".join(body[:200].decode("utf-8", "replace").split()) or "no message")
    if retry_after_s is None and answer.details is not None and answer.details.retry_after_seconds > 0:
        retry_after_s = _limit_wait(answer.details.retry_after_seconds)
    return ApiError(status, answer.reason, answer.message, retry_after_s=retry_after_s)


def unsent(access: Access, error: BaseException) -> TransportError:
    """Return the error for a connection that was not made: the server did nothing."""
    what, hint = _explain(error)
    return TransportError(f"{access.server}: {what}", may_have_acted=False, hint=hint)


def lost_answer(access: Access, error: Exception, timeout_s: float) -> TransportError:
    """Return the error for a connection that failed later, or for a time-out."""
    if isinstance(error, aiohttp.InvalidURL):
        return TransportError(f"{access.server}: the address is not valid", may_have_acted=False)
    if isinstance(error, TimeoutError):
        return TransportError(f"{access.server}: no answer within {timeout_s:g} s", may_have_acted=True)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        what = "the server closed the connection without an answer"
    elif isinstance(error, aiohttp.ClientPayloadError):
        what = "the connection broke in the middle of the answer"
    elif isinstance(error, aiohttp.ClientResponseError | ValueError):
        what = "the server does not speak HTTP"
    else:
        what = f"the connection broke ({_reason(error)})"
    return TransportError(f"{access.server}: {what}", may_have_acted=True)


def is_worth_retrying(error: Exception) -> bool:
    """Return whether the same call may succeed later. Says nothing about whether repeating it is safe."""
    return isinstance(error, TransportError) or (isinstance(error, ApiError) and error.is_worth_retrying)


def _explain(error: BaseException) -> tuple[str, str]:
    """Return why a connection was not made, and what the user can do."""
    cause: BaseException = error
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
    if isinstance(cause, ssl.SSLCertVerificationError):
        if "hostname" in cause.verify_message.lower() or "ip address" in cause.verify_message.lower():
            hint = "use a name in the certificate, or set tls-server-name in the kubeconfig"
            return f"the server's certificate is for another name ({cause.verify_message})", hint
        hint = "the kubeconfig's certificate-authority is not that of this cluster; was the cluster recreated?"
        return f"the server's certificate is not trusted ({cause.verify_message})", hint
    if isinstance(cause, ssl.SSLError | ssl.CertificateError):
        return f"TLS failed ({_reason(cause)})", "does the server speak TLS at this port?"
    if isinstance(cause, socket.gaierror):
        return "the server's name cannot be resolved", "check the server's address in the kubeconfig"
    if isinstance(error, TimeoutError):
        return "no connection in time", "is the server reachable from here?"
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused", "is the cluster up, and does the kubeconfig name the right port?"
    return f"no connection ({_reason(cause)})", "is the cluster up, and reachable from here?"


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
