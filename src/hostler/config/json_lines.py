"""Finds lines in JSON text: msgspec decodes without positions, so they are looked up when needed.

Works on text that is known to be valid JSON, and without recursion. Used by :mod:`hostler.config.documents`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from hostler.config.wording import Path

__all__ = ["find_duplicate", "find_item_lines", "find_line"]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:,]|[^][{}:,\s"]+')


def find_line(text: str, path: Path) -> int | None:
    """Return the line where the value at ``path`` is named, or the nearest line around it."""
    best: int | None = None
    for found, line in _entries(text):
        if found == path[: len(found)]:  # parents come before what they hold
            best = line
            if len(found) == len(path):
                break
    return best


def find_item_lines(text: str, path: Path) -> list[int]:
    """Return the lines of all items of the list at ``path``, in one go."""
    depth = len(path)
    return [
        line
        for found, line in _entries(text)
        if len(found) == depth + 1 and isinstance(found[-1], int) and found[:depth] == path
    ]


def find_duplicate(text: str) -> tuple[str, int, int] | None:
    """Return the first key that stands twice in one object, with both lines."""
    seen: dict[Path, int] = {}
    for path, line in _entries(text):
        if path and isinstance(path[-1], str):
            if path in seen:
                return path[-1], seen[path], line
            seen[path] = line
    return None


def _entries(text: str) -> Iterator[tuple[Path, int]]:
    """Yield the path of every value with the line of its key, or of itself in a list."""
    stack: list[str | int] = []
    line, position = 1, 0
    expects_key = False
    yield_item = True
    for match in _TOKEN.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        token = match[0]
        if expects_key and token[0] == '"':
            stack[-1] = json.loads(token)
            yield tuple(stack), line
            expects_key = yield_item = False
            continue
        if yield_item and token not in ("]", "}", ",", ":"):
            yield tuple(stack), line
            yield_item = False
        if token == "{":
            stack.append("")
            expects_key = True
        elif token == "[":
            stack.append(0)
            yield_item = True
        elif token in ("}", "]"):
            stack.pop()
            expects_key = yield_item = False
        elif token == "," and isinstance(stack[-1], int):
            stack[-1] += 1
            yield_item = True
        elif token == ",":
            expects_key = True
