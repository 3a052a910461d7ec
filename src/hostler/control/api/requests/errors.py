"""Errors of requests that are rejected before a handler runs. ``status`` is the HTTP status."""

from __future__ import annotations

from typing import ClassVar

from hostler.errors import InputError, UnavailableError

__all__ = [
    "BodyTooLargeError",
    "HeadTooLargeError",
    "InvalidJsonError",
    "MalformedRequestError",
    "MethodNotAllowedError",
    "RouteNotFoundError",
    "SlowRequestError",
    "StartingError",
    "UnsupportedMediaTypeError",
]  # fmt: skip


class MalformedRequestError(InputError):
    """Bytes that are not HTTP."""

    code = "invalid_http"
    status: ClassVar[int] = 400


class HeadTooLargeError(InputError):
    """The head of a request, or data between the parts of its body, exceeds the limit."""

    code = "head_too_large"
    status: ClassVar[int] = 431


class BodyTooLargeError(InputError):
    """The body exceeds the limit."""

    code = "body_too_large"
    status: ClassVar[int] = 413


class UnsupportedMediaTypeError(InputError):
    """The body is not declared as JSON."""

    code = "unsupported_media_type"
    status: ClassVar[int] = 415


class InvalidJsonError(InputError):
    """The body is declared as JSON and is not."""

    code = "invalid_json"
    status: ClassVar[int] = 400


class SlowRequestError(InputError):
    """The body does not arrive in time."""

    code = "request_timeout"
    status: ClassVar[int] = 408


class RouteNotFoundError(InputError):
    """There is no such path."""

    code = "not_found"
    status: ClassVar[int] = 404


class MethodNotAllowedError(InputError):
    """The path does not have this method."""

    code = "method_not_allowed"
    status: ClassVar[int] = 405


class StartingError(UnavailableError):
    """The request arrived before the service was ready; nothing was done."""

    code = "starting"
