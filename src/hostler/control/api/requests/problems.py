"""Errors as responses: application/problem+json, one status for each code, without internal details."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from hostler.control.access.errors import TooManyRequestsError
from hostler.control.access.secrets import redact
from hostler.control.schemas import Problem, ProblemCause
from hostler.control.services.errors import InsufficientResourcesError
from hostler.control.store.errors import DatabaseUnavailableError
from hostler.errors import (
    ConflictError,
    FactError,
    HostlerError,
    InputError,
    InternalError,
    UnavailableError,
)

__all__ = ["PROBLEM_TYPE", "TITLES", "internal", "problem", "retry_headers", "status_of"]

PROBLEM_TYPE = "application/problem+json"
RETRY_S = 1
_LATER = "try again in a moment; the service's log has the details"
_BY_CODE = {
    "not_found": 404,
    "stale_version": 409,
    "idempotency_mismatch": 422,
    "log_forgotten": 410,
    "outcome_unknown": 503,
}
TITLES = {
    400: "Bad request",
    401: "Authentication required",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "Request timeout",
    409: "Conflict",
    410: "Gone",
    412: "Precondition failed",
    413: "Content too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    422: "Unprocessable content",
    426: "Upgrade required",
    429: "Too many requests",
    431: "Request header too large",
    500: "Internal server error",
    503: "Service unavailable",
}


def status_of(error: HostlerError, *, has_match: bool = False) -> int:
    """Return the HTTP status of an error; a stale version is 412 if the request named one."""
    if error.code == "stale_version" and has_match:
        return 412
    own = getattr(error, "status", None)
    if isinstance(own, int):
        return own
    if error.code in _BY_CODE:
        return _BY_CODE[error.code]
    if isinstance(error, InputError | FactError):
        return 400
    if isinstance(error, ConflictError):
        return 409
    return 503 if isinstance(error, UnavailableError) else 500


def problem(error: HostlerError, *, path: str, request_id: str, has_match: bool = False) -> Response:
    """Return the response for an error."""
    status = status_of(error, has_match=has_match)
    if status == 500 or isinstance(error, InternalError):
        return internal(path=path, request_id=request_id)
    if isinstance(error, DatabaseUnavailableError):  # clients get here before they are authenticated
        error = DatabaseUnavailableError("the database is unavailable", hint=_LATER)
    decision = error.decision if isinstance(error, InsufficientResourcesError) else None
    body = Problem(
        title=TITLES.get(status, "Problem"),
        status=status,
        code=error.code,
        detail=redact(error.message),
        hint=redact(error.hint),
        type=f"urn:hostler:problem:{error.code}",
        instance=path,
        request_id=request_id,
        decision=decision,
        cause=_cause(error),
    )
    return _response(body, _headers(error, status))


def internal(*, path: str, request_id: str) -> Response:
    """Return the response to an unexpected error; the service's log has the details."""
    body = Problem(
        title=TITLES[500],
        status=500,
        code="internal",
        detail="internal error of the service",
        hint=f"report it with the request id {request_id}",
        type="urn:hostler:problem:internal",
        instance=path,
        request_id=request_id,
    )
    return _response(body, {})


def retry_headers(error: HostlerError) -> dict[str, str]:
    """Return the Retry-After header, if a retry can help."""
    if isinstance(error, TooManyRequestsError):
        return {"Retry-After": str(max(error.retry_after_s, 1))}
    return {"Retry-After": str(RETRY_S)} if status_of(error) == 503 else {}


def _cause(error: HostlerError) -> ProblemCause | None:
    if error.cause is None:
        return None
    return ProblemCause(code=error.cause.code, kind=error.cause.kind, name=redact(error.cause.name))


def _headers(error: HostlerError, status: int) -> dict[str, str]:
    return {"WWW-Authenticate": 'Bearer realm="hostler"'} if status == 401 else retry_headers(error)


def _response(body: Problem, headers: dict[str, str]) -> Response:
    return Response(msgspec.json.encode(body), status_code=body.status, media_type=PROBLEM_TYPE, headers=headers)
