"""Errors of authentication and authorization, with codes that never change. ``status`` is the HTTP status."""

from __future__ import annotations

from typing import ClassVar, Literal

from hostler.errors import ConflictError, HostlerError, InputError, UnavailableError

__all__ = [
    "ForbiddenError", "ForgedRequestError", "HostExistsError", "InsecureListenError", "JoinRejectedError",
    "MisdirectedError", "TooManyRequestsError", "UnauthenticatedError", "Why",
]  # fmt: skip

Why = Literal[
    "missing", "mistyped", "unknown", "expired", "revoked", "forged", "changed", "used", "misnamed", "unconfirmed"
]

_OUTSIDE = "the key, credential or session is not accepted"
_OUTSIDE_HINT = "use one that is not revoked, expired or disabled by a restore, or ask an administrator for one"


class UnauthenticatedError(HostlerError):
    """The caller is not authenticated. The response does not say whether a key is expired, revoked or unknown.

    ``why`` and ``subject`` (the id in the secret, which is public) are for the audit log only.
    """

    code = "unauthenticated"
    exit_code = 2
    status: ClassVar[int] = 401

    def __init__(self, why: Why, *, subject: str = "", message: str = _OUTSIDE, hint: str = _OUTSIDE_HINT) -> None:
        super().__init__(message, hint=hint)
        self.why = why
        self.subject = subject


class ForbiddenError(HostlerError):
    """The caller is authenticated but may not do this."""

    code = "forbidden"
    exit_code = 2
    status: ClassVar[int] = 403


class ForgedRequestError(ForbiddenError):
    """A change that was not sent by a page of the dashboard. Another site may be behind it."""

    code = "forged_request"


class MisdirectedError(InputError):
    """A request for a host name that this service does not have."""

    code = "host_not_allowed"
    status: ClassVar[int] = 421


class TooManyRequestsError(UnavailableError):
    """The caller exceeds its rate limit. ``retry_after_s`` says when the next request is accepted."""

    code = "too_many_requests"
    status: ClassVar[int] = 429

    def __init__(self, message: str, *, retry_after_s: int, hint: str = "") -> None:
        super().__init__(message, hint=hint or f"wait {retry_after_s} s, then send fewer requests")
        self.retry_after_s: int = retry_after_s


class JoinRejectedError(UnauthenticatedError):
    """The join token is unknown, used, revoked, expired, or for another host."""

    code = "join_refused"


class HostExistsError(ConflictError):
    """A host of that name joined before, and the token does not name it."""

    code = "host_exists"
    retryable = False
    status: ClassVar[int] = 409


class InsecureListenError(InputError):
    """The service would listen without encryption where others can read the traffic."""

    code = "insecure_listen"
