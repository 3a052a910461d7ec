"""Refusals of this package, with codes that never change. ``status`` is the HTTP answer that belongs to each."""

from __future__ import annotations

from typing import ClassVar, Literal

from hostler.errors import ConflictError, HostlerError, InputError, UnavailableError

__all__ = [
    "ForbiddenError", "ForgedRequestError", "HostExistsError", "InsecureListenError", "JoinRefusedError",
    "MisdirectedError", "TooManyRequestsError", "UnauthenticatedError", "Why",
]  # fmt: skip

Why = Literal[
    "missing", "mistyped", "unknown", "expired", "revoked", "forged", "changed", "used", "misnamed", "unconfirmed"
]

_OUTSIDE = "the key, credential or session is not accepted"
_OUTSIDE_HINT = "use one that is not revoked, expired or disabled by a restore, or ask an administrator for one"


class UnauthenticatedError(HostlerError):
    """Nobody whom we know. What the caller reads does not tell an expired key from a revoked or an invented one.

    ``why`` and ``subject`` (the id in the secret, which is no secret itself) are for the audit only.
    """

    code = "unauthenticated"
    exit_code = 2
    status: ClassVar[int] = 401

    def __init__(self, why: Why, *, subject: str = "", message: str = _OUTSIDE, hint: str = _OUTSIDE_HINT) -> None:
        super().__init__(message, hint=hint)
        self.why = why
        self.subject = subject


class ForbiddenError(HostlerError):
    """Somebody whom we know, who may not do this."""

    code = "forbidden"
    exit_code = 2
    status: ClassVar[int] = 403


class ForgedRequestError(ForbiddenError):
    """A change that a page of ours did not send: another site may be behind it."""

    code = "forged_request"


class MisdirectedError(InputError):
    """A request for a host name that this service does not go by."""

    code = "host_not_allowed"
    status: ClassVar[int] = 421


class TooManyRequestsError(UnavailableError):
    """More requests than one caller may send; ``retry_after_s`` says when the next may be taken."""

    code = "too_many_requests"
    status: ClassVar[int] = 429

    def __init__(self, message: str, *, retry_after_s: int, hint: str = "") -> None:
        super().__init__(message, hint=hint or f"wait {retry_after_s} s, then go on more slowly")
        self.retry_after_s = retry_after_s


class JoinRefusedError(UnauthenticatedError):
    """A join token that is unknown, used, revoked, too old, or meant for another host."""

    code = "join_refused"


class HostExistsError(ConflictError):
    """A host of that name joined before, and this token does not name it."""

    code = "host_exists"
    retryable = False
    status: ClassVar[int] = 409


class InsecureListenError(InputError):
    """The service would listen where strangers can read along."""

    code = "insecure_listen"
