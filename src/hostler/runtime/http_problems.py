"""Error answers as ``application/problem+json`` (RFC 9457), with a reason that a person can act on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from hostler.errors import HostlerError, InputError, UnavailableError, UnknownNameError

__all__ = ["Handler", "RequestRejectedError", "answer_errors", "as_json", "problem"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RequestRejectedError(HostlerError):
    """A request that is rejected; ``status`` is the HTTP status."""

    code = "refused"

    def __init__(self, status: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


def problem(status: int, detail: str, *, code: str = "", hint: str = "") -> web.Response:
    """Return the answer to a rejected request; programs may rely on ``code``."""
    title, usual = _KINDS.get(status, ("Error", "error"))
    body = {"type": "about:blank", "title": title, "status": status, "code": code or usual, "detail": _clean(detail)}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return web.Response(
        body=msgspec.json.encode(body | ({"hint": hint} if hint else {})),
        status=status,
        content_type="application/problem+json",
        headers=headers,
    )


def as_json(data: object) -> web.Response:
    """Make an answer of plain data."""
    return web.Response(body=msgspec.json.encode(data), content_type="application/json")


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn errors into problems; an unexpected error shows no details."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return problem(error.status, f"{request.method} {request.path}: {error.reason}")
    except RequestRejectedError as error:
        return problem(error.status, error.message, hint=error.hint)
    except HostlerError as error:
        return problem(_status_of(error), error.message, code=error.code, hint=error.hint)
    except TimeoutError:
        return problem(503, "the engine is busy: try again")


_KINDS = {  # status: title, code
    400: ("Bad request", "bad_request"),
    401: ("Not authenticated", "not_authenticated"),
    403: ("Not allowed", "not_allowed"),
    404: ("Not found", "not_found"),
    405: ("Method not allowed", "method_not_allowed"),
    408: ("Too slow", "too_slow"),
    409: ("Conflict", "conflict"),
    413: ("Too large", "too_large"),
    429: ("Too many requests", "too_many_requests"),
    503: ("Unavailable", "unavailable"),
}


def _clean(text: str) -> str:
    """Return text that can be written: bytes that are no UTF-8 come in as halves of characters."""
    return text.encode("utf-8", "replace").decode()


def _status_of(error: HostlerError) -> int:
    if isinstance(error, UnknownNameError):
        return 404
    if isinstance(error, InputError):
        return 400
    return 503 if isinstance(error, UnavailableError) else 500
