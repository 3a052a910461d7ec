"""What an API server says when it refuses, as typed errors.

``Status`` objects (kubernetes/kubernetes staging/src/k8s.io/apimachinery/pkg/apis/meta/v1) carry a code, a reason in
one word and a message. Callers ask for what they can act on: is it gone, did somebody else win, shall I wait.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hostler.errors import UnavailableError

__all__ = ["ApiError", "Status", "error_of"]

_LONGEST_WAIT_S = 60.0  # that we wait because a server says so: it may be wrong, and others wait with us
_RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})
_TOO_NEW = "too large resource version"


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """What a refusal adds for programs."""

    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The body of a refusal, and of some successes."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


class ApiError(UnavailableError):
    """The server answered, and the answer is no. ``retry_after_s`` is what it asked us to wait, or None."""

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
        """Say whether the object does not exist."""
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """Say whether somebody else changed the object first, or it is another one under the same name."""
        return self.status == 409

    @property
    def is_expired(self) -> bool:
        """Say whether the resource version asked for is too old to be served."""
        return self.status == 410 or self.reason in ("Expired", "Gone")

    @property
    def is_too_new(self) -> bool:
        """Say whether the server has not come as far as the resource version asked for (it was set back)."""
        return _TOO_NEW in self.text.lower()

    @property
    def is_forbidden(self) -> bool:
        """Say whether credentials or permissions are lacking."""
        return self.status in (401, 403)

    @property
    def may_have_acted(self) -> bool:
        """Say whether the outcome is unknown: the server failed or gave up somewhere on the way."""
        return self.status in (408, 500, 502, 503, 504)

    @property
    def is_away(self) -> bool:
        """Say whether nobody was there to answer but a proxy; an error of the server's own is an answer."""
        return self.status in (502, 503, 504)

    @property
    def is_worth_retrying(self) -> bool:
        """Say whether the same call may succeed later."""
        return self.status in _RETRYABLE


_read_status = msgspec.json.Decoder(Status).decode


def _bounded(wait: str | int) -> float:
    """Return the seconds that a server asks us to wait, as far as we obey."""
    is_long = len(wait) > 6 if isinstance(wait, str) else wait > _LONGEST_WAIT_S
    return _LONGEST_WAIT_S if is_long else min(float(wait), _LONGEST_WAIT_S)


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Read a refusal; a body that is no Status, such as a proxy's page, becomes the message."""
    wait = headers.get("retry-after", "")
    retry_after_s = _bounded(wait) if wait.isascii() and wait.isdecimal() else None
    try:
        answer = _read_status(body)
    except msgspec.MsgspecError:
        answer = Status(message=" ".join(body[:200].decode("utf-8", "replace").split()) or "no message")
    if retry_after_s is None and answer.details is not None and answer.details.retry_after_seconds > 0:
        retry_after_s = _bounded(answer.details.retry_after_seconds)
    return ApiError(status, answer.reason, answer.message, retry_after_s=retry_after_s)
