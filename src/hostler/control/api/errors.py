"""Refusals of requests before anybody looks at what they ask for. ``status`` is the HTTP answer."""

from __future__ import annotations

from typing import ClassVar

from hostler.errors import InputError, UnavailableError

__all__ = [
    "BodyTooLargeError", "HeadTooLargeError", "InvalidJsonError", "MethodNotAllowedError", "NoRequestError",
    "RouteNotFoundError", "SlowRequestError", "StartingError", "UnsupportedMediaTypeError",
]  # fmt: skip


class NoRequestError(InputError):
    """Bytes that are no HTTP."""

    code = "invalid_http"
    status: ClassVar[int] = 400


class HeadTooLargeError(InputError):
    """A head of a request, or what stands between the parts of its body, beyond the limit."""

    code = "head_too_large"
    status: ClassVar[int] = 431


class BodyTooLargeError(InputError):
    """A body beyond the limit."""

    code = "body_too_large"
    status: ClassVar[int] = 413


class UnsupportedMediaTypeError(InputError):
    """A body that is not JSON."""

    code = "unsupported_media_type"
    status: ClassVar[int] = 415


class InvalidJsonError(InputError):
    """A body that says to be JSON and is not."""

    code = "invalid_json"
    status: ClassVar[int] = 400


class SlowRequestError(InputError):
    """A body that does not come."""

    code = "request_timeout"
    status: ClassVar[int] = 408


class RouteNotFoundError(InputError):
    """A path that leads nowhere."""

    code = "not_found"
    status: ClassVar[int] = 404


class MethodNotAllowedError(InputError):
    """A method that this path does not have."""

    code = "method_not_allowed"
    status: ClassVar[int] = 405


class StartingError(UnavailableError):
    """A request that came before the service was ready; nothing was done."""

    code = "starting"
