"""A stream of bytes to lines, wherever its pieces are cut.

A piece mostly holds whole lines, so the common case is one split. A line that many pieces make up, such as an object
with a megabyte of annotations, is joined once at its end. Used by ``http``.
"""

from __future__ import annotations

from hostler.kube.api.transport import TransportError

__all__ = ["MAX_LINE_BYTES", "LineSplitter"]

MAX_LINE_BYTES = 32 * 2**20


class LineSplitter:
    """Takes pieces, gives the lines that they complete."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._parts: list[bytes] = []  # of the line that is not complete yet
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines that end in this piece, without line ends and without empty ones."""
        lines = piece.split(b"\n")
        rest = lines.pop()
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts, self._size = [], 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > self._max_line_bytes:
                limit = self._max_line_bytes // 2**20
                raise TransportError(f"the server sent a line of more than {limit} MB", may_have_acted=False)
        return [line for line in lines if line and line != b"\r"]

    def end(self) -> None:
        """Raise TransportError where the stream ended inside a line."""
        if self._parts:
            raise TransportError("the stream ended in the middle of a line", may_have_acted=False)
