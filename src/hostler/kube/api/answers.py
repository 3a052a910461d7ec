"""Parse HTTP/1.1 responses of an API server to writes; pure.

They are small and arrive whole, so the usual case is two searches and a slice. Headers are parsed only on demand. Used
by ``http``.

``LineSplitter`` cuts a stream of bytes into lines, wherever its pieces end. A piece mostly holds whole lines, so the
common case is one split. A line made of many pieces, such as an object with a megabyte of annotations, is joined once
at its end. Used by ``http``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from hostler.runtime.transport import TransportError

__all__ = ["MAX_HEAD_BYTES", "BufferedResponse", "LineSplitter", "parse_answer", "parse_headers"]

MAX_HEAD_BYTES = 64 * 1024
_HEAD_END = b"\r\n\r\n"
_WITHOUT_BODY = (204, 304)
MAX_LINE_BYTES = 32 * 2**20


class BufferedResponse:
    """A response that has arrived as a whole."""

    __slots__ = ("_body", "_head", "status")

    def __init__(self, status: int, head: bytes, body: bytes) -> None:
        self.status = status
        self._head = head
        self._body = body

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers; names are in lower case."""
        return parse_headers(self._head)

    async def read(self) -> bytes:
        """Return the body."""
        return self._body

    async def line_batches(self) -> AsyncIterator[list[bytes]]:
        """Yield all lines at once."""
        splitter = LineSplitter()
        if lines := splitter.feed(self._body):
            yield lines
        splitter.end()

    async def close(self) -> None:
        """Do nothing: the connection is already free."""


def parse_answer(received: bytes, *, is_ended: bool = False) -> tuple[BufferedResponse, bool] | None:
    """Return the response and whether its connection can be used again, or None while it is incomplete.

    ``is_ended``: no more bytes will come. Bytes that are not HTTP raise ValueError.
    """
    start = 0
    while True:
        end = received.find(_HEAD_END, start)
        if end < 0:
            _check_beginning(received, start)
            return None
        status = _status_of(received, start)
        if status >= 200:
            break
        start = end + 4  # an interim response, not the final one
    head, begin = received[start:end], end + 4
    marks = head.lower()
    is_kept = b"\r\nconnection: close" not in marks and marks.startswith(b"http/1.1")
    if status in _WITHOUT_BODY:
        return BufferedResponse(status, head, b""), is_kept and len(received) == begin
    at = marks.find(b"\r\ncontent-length:")
    if b"\r\ntransfer-encoding:" in marks:
        chunks = _join_chunks(received, begin)
        if chunks is None:
            return None
        body, finish = chunks
    elif at >= 0:
        digits = marks[at + 17 :].split(b"\r\n", 1)[0].strip()
        if not digits.isdigit():
            raise ValueError("a length that is no number")
        finish = begin + int(digits)
        if len(received) < finish:
            return None
        body = received[begin:finish]
    else:
        # Without a length, the end of the connection ends the response.
        return (BufferedResponse(status, head, received[begin:]), False) if is_ended else None
    # More bytes than one response: the connection is not reused.
    return BufferedResponse(status, head, body), is_kept and len(received) == finish


def parse_headers(head: bytes) -> dict[str, str]:
    """Return headers by lower-case name. If a name occurs several times, the last one counts."""
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _status_of(received: bytes, start: int) -> int:
    digits = received[start + 9 : start + 12]
    if received[start : start + 7] != b"HTTP/1." or not digits.isdigit():
        raise ValueError("no status line")
    return int(digits)


def _check_beginning(received: bytes, start: int) -> None:
    beginning = received[start : start + 7]
    if not b"HTTP/1.".startswith(beginning):
        raise ValueError("no status line")
    if len(received) - start > MAX_HEAD_BYTES:
        raise ValueError("headers without an end")


def _join_chunks(received: bytes, at: int) -> tuple[bytes, int] | None:
    """Return the body of a chunked response and where it ends, or None while it is incomplete."""
    parts: list[bytes] = []
    while (end := received.find(b"\r\n", at)) >= 0:
        size = int(received[at:end].split(b";", 1)[0], 16)
        if size < 0:
            raise ValueError("a chunk of a negative size")
        if size == 0:
            return _skip_trailers(received, end, b"".join(parts))
        at = end + 2 + size
        if len(received) < at + 2:
            return None
        if received[at : at + 2] != b"\r\n":
            raise ValueError("a chunk without an end")
        parts.append(received[end + 2 : at])
        at += 2
    return None


def _skip_trailers(received: bytes, at: int, body: bytes) -> tuple[bytes, int] | None:
    finish = received.find(_HEAD_END, at)
    return None if finish < 0 else (body, finish + 4)


class LineSplitter:
    """Take pieces of bytes; return the lines that they complete."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._parts: list[bytes] = []  # the start of an incomplete line
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
        """Raise TransportError if the stream ended inside a line."""
        if self._parts:
            raise TransportError("the stream ended in the middle of a line", may_have_acted=False)
