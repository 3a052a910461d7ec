"""Server-sent events: the lines of an answer that goes on, as messages; and reading on after a break.

The format is the web's (fields ``id``, ``event``, ``data``, ``retry``; a blank line ends a message), so that any server
that speaks it is understood.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from hostler.control.client.bounded import LONGEST_LINE, check_size

__all__ = ["Message", "read_messages"]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One event; ``id`` is the last that was seen, also where this one has none of its own."""

    data: str
    id: str = ""
    event: str = "message"


def read_messages(lines: Iterable[str]) -> Iterator[Message]:
    """Read messages from lines without their ends. One that was not finished when the lines ended is dropped."""
    data: list[str] = []
    event, last, size = "", "", 0
    for line in lines:
        size = size + len(line) if line else 0
        check_size(size, LONGEST_LINE)
        if not line:
            if data:
                yield Message(data="\n".join(data), id=last, event=event or "message")
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
