"""Server-sent events: lines of a streamed response as messages, and resuming after a break.

The format is the web standard (fields ``id``, ``event``, ``data``, ``retry``; a blank line ends a message).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from hostler.control.client.answer_bounds import LONGEST_LINE, check_size

__all__ = ["StreamMessage", "read_messages"]


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
