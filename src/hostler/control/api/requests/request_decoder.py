"""Decoding of requests: bodies, query parameters and headers, each with its own errors."""

from __future__ import annotations

import asyncio
import re
from functools import cache
from typing import Any, get_origin, get_type_hints

import msgspec
from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request

from hostler.control.api.requests.errors import (
    BodyTooLargeError,
    InvalidJsonError,
    SlowRequestError,
    UnsupportedMediaTypeError,
)
from hostler.control.services.versions import Versions
from hostler.control.vms.names import find_name_error
from hostler.errors import InputError

__all__ = ["MOST_BYTES", "check_once", "decode_body", "idempotency_key", "query_of", "raw_body", "versions_of"]

MOST_BYTES = 1 << 20
_TAGS = re.compile(r'\s*(?:W/)?"([^"]*)"\s*')
_ONCE = frozenset((b"authorization", b"idempotency-key", b"if-match"))
_DEEP_HINT = "nest less deeply"


async def raw_body(request: Request, *, wait_s: float) -> bytes:
    """Return the bytes of a body; BodyTooLargeError, or SlowRequestError if they do not arrive in time."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > MOST_BYTES:
        raise _too_large()
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(wait_s):
            async for part in request.stream():
                size += len(part)
                if size > MOST_BYTES:
                    raise _too_large()
                parts.append(part)
    except TimeoutError as error:
        hint = "send the body without pauses"
        raise SlowRequestError(f"the body did not arrive within {wait_s:g} s", hint=hint) from error
    return b"".join(parts)


def decode_body(
    request: Request,
    raw: bytes,
    kind: Any,  # noqa: ANN401
    *,
    is_needed: bool,
) -> object:
    """Decode the bytes of a body to a struct."""
    if not raw.strip():
        if is_needed:
            raise InputError("the body is missing", hint="send a JSON object")
        empty: object = kind()
        return empty
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        said = repr(media[:60]) if media else "not said"
        hint = "send JSON with Content-Type: application/json"
        raise UnsupportedMediaTypeError(f"the type of the body is {said}", hint=hint)
    return _decode(raw, kind)


def _decode(raw: bytes, kind: Any) -> object:  # noqa: ANN401
    try:
        found: object = _decoder(kind).decode(raw)
    except msgspec.ValidationError as error:
        if (refused := find_name_error(str(error), _decode_plain(raw))) is not None:
            raise refused from error
        raise InputError(str(error), hint="correct that field; /docs lists the fields") from error
    except msgspec.DecodeError as error:
        raise InvalidJsonError(str(error), hint="the position counts bytes from 0") from error
    except UnicodeDecodeError as error:
        raise InvalidJsonError(f"not UTF-8 at byte {error.start}", hint="send JSON in UTF-8") from error
    except RecursionError as error:
        raise InvalidJsonError("the JSON is nested too deeply", hint=_DEEP_HINT) from error
    return found


def _decode_plain(raw: bytes) -> object:
    """Return the body as plain JSON, whatever its type; None if it cannot be decoded."""
    try:
        found: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401
    return msgspec.json.Decoder(kind)


def query_of(params: QueryParams, kind: type[msgspec.Struct]) -> object:
    """Return query parameters as a struct. Unknown and repeated parameters are rejected by name."""
    lists = _list_fields(kind)
    found: dict[str, object] = {}
    for name, value in params.multi_items():
        if name in lists:
            found.setdefault(name, []).append(value)  # type: ignore[attr-defined]
        elif name in found:
            raise InputError(f"query: {name[:60]!r} is repeated", hint="send it once")
        elif name not in kind.__struct_encode_fields__:
            known = ", ".join(kind.__struct_encode_fields__) or "none"
            raise InputError(f"query: unknown parameter {name[:60]!r}", hint=f"known: {known}")
        else:
            found[name] = value
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"query: {error}", hint="correct that parameter, or leave it out") from error


@cache
def _list_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    hints = get_type_hints(kind)
    return frozenset(name for name, hint in hints.items() if get_origin(hint) is list)


def check_once(headers: Headers) -> None:
    """Reject a repeated header if only one could be used, here or by a proxy; InputError."""
    seen: set[bytes] = set()
    for name, _ in headers.raw:
        if name in seen:
            raise InputError(f"the header {name.decode()} is repeated", hint="send it once")
        if name in _ONCE:
            seen.add(name)


def versions_of(header: str | None) -> Versions:
    """Parse If-Match; None without the header or for a star. InputError."""
    if header is None or header.strip() == "*":
        return None
    found: set[int] = set()
    for part in header.split(","):
        tag = _TAGS.fullmatch(part)
        if tag is None:
            raise InputError(
                f"If-Match: {header[:60]!r} is not an ETag", hint='send the ETag that you read, such as "7"'
            )
        if tag[1].isascii() and tag[1].isdecimal() and len(tag[1]) < 20:
            found.add(int(tag[1]))
    return frozenset(found)


def idempotency_key(header: str | None) -> str | None:
    """Parse Idempotency-Key; InputError."""
    if header is None:
        return None
    if not 0 < len(header) <= 255 or not header.isascii() or not header.isprintable():
        raise InputError("Idempotency-Key: not a key", hint="send 1 to 255 plain characters, such as a UUID")
    return header


def _too_large() -> BodyTooLargeError:
    return BodyTooLargeError(f"the body is larger than {MOST_BYTES} bytes", hint="send a smaller body")
