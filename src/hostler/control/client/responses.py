"""Bodies of responses, read as they arrive: within limits, as a whole, as lines, or as server-sent events.

A response that never ends, or is larger than any of a control plane, is rejected. Content encodings are not requested
and not accepted, because a few bytes could expand to gigabytes. Events have the format of the web standard (fields
``id``, ``event``, ``data``, ``retry``; a blank line ends a message).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator

import httpx
import msgspec

from hostler.control.client.errors import AnswerError

__all__ = ["LONGEST_LINE", "UNENCODED", "StreamMessage", "check_size", "read_body", "read_lines", "read_messages"]

UNENCODED = "identity"
LONGEST_ANSWER = 64 * 2**20
LONGEST_LINE = 4 * 2**20  # of an answer without an end, and of one message in it
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a last \r may be half of an end
_HINT = "is this the address of a control plane?"


def check_size(size: int, most: int) -> None:
    """Reject a response that is larger than any of a control plane."""
    if size > most:
        raise AnswerError(f"the server's answer is longer than {most // 2**20} MiB", hint=_HINT)


def read_body(response: httpx.Response, within_s: float) -> bytes:
    """Read a whole response. One that is not complete in time is a time-out, even if bytes keep arriving."""
    _check_encoding(response)
    until = time.monotonic() + within_s
    body = bytearray()
    for piece in response.iter_raw():
        body += piece
        check_size(len(body), LONGEST_ANSWER)
        if time.monotonic() > until:
            raise httpx.ReadTimeout("the answer does not end", request=response.request)
    return bytes(body)


def read_lines(response: httpx.Response) -> Iterator[str]:
    """Return the lines of a streamed response, without line ends. An incomplete last line is dropped."""
    _check_encoding(response)
    rest = bytearray()
    for piece in response.iter_raw():
        searched = max(0, len(rest) - 1)
        rest += piece
        begin = 0
        for end in _LINE_END.finditer(rest, searched):
            yield rest[begin : end.start()].decode("utf-8", "replace")
            begin = end.end()
        del rest[:begin]
        check_size(len(rest), LONGEST_LINE)


def _check_encoding(response: httpx.Response) -> None:
    encoding = response.headers.get("Content-Encoding", UNENCODED)
    if encoding.strip().lower() != UNENCODED:
        raise AnswerError(f"the server's answer is encoded ({encoding}), which was not requested", hint=_HINT)


class StreamMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message; ``id`` is the last id of the stream, even if this message has none."""

    data: str
    id: str = ""
    event: str = "message"


def read_messages(lines: Iterable[str]) -> Iterator[StreamMessage]:
    """Parse messages from lines without line ends. An incomplete last message is dropped."""
    data: list[str] = []
    event, last, size = "", "", 0
    for line in lines:
        size = size + len(line) if line else 0
        check_size(size, LONGEST_LINE)
        if not line:
            if data:
                yield StreamMessage(data="\n".join(data), id=last, event=event or "message")
            data, event = [], ""
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            event = value
        elif name == "id" and "\0" not in value:
            last = value
