"""Refusals as ``application/problem+json`` (RFC 9457), with a reason that a person can act on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from hostler.errors import HostlerError, InputError, UnavailableError, UnknownNameError

__all__ = ["Handler", "RefusedError", "answer_errors", "as_json", "problem"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RefusedError(HostlerError):
    """A request that is not answered; ``status`` is HTTP's."""

    code = "refused"

    def __init__(self, status: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


def problem(status: int, title: str, detail: str, hint: str = "") -> web.Response:
    """Make the answer to a request that is refused."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
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
    """Turn errors into problems; what nobody expected says no more than that it happened."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return problem(error.status, error.reason, f"{request.method} {request.path}: {error.reason}")
    except HostlerError as error:
        status = _status_of(error)
        return problem(status, _TITLES.get(status, "Error"), error.message, error.hint)
    except TimeoutError:
        return problem(503, _TITLES[503], "the engine is busy: try again")


_TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    409: "Conflict",
    429: "Too many requests",
    503: "Unavailable",
}


def _status_of(error: HostlerError) -> int:
    if isinstance(error, RefusedError):
        return error.status
    if isinstance(error, UnknownNameError):
        return 404
    if isinstance(error, InputError):
        return 400
    return 503 if isinstance(error, UnavailableError) else 500
