"""HTTP/1.1 answers from bytes, as far as an API server's answers to writes go; pure.

They are small and come whole, so the usual case is two searches and a slice; headers are looked at only where somebody
asks. Used by ``connections``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from hostler.kube.api.lines import LineSplitter

__all__ = ["MAX_HEAD_BYTES", "BufferedResponse", "parse_answer", "parse_headers"]

MAX_HEAD_BYTES = 64 * 1024
_HEAD_END = b"\r\n\r\n"
_WITHOUT_BODY = (204, 304)


class BufferedResponse:
    """An answer that is there as a whole."""

    __slots__ = ("_body", "_head", "status")

    def __init__(self, status: int, head: bytes, body: bytes) -> None:
        self.status = status
        self._head = head
        self._body = body

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers, names in small letters."""
        return parse_headers(self._head)

    async def read(self) -> bytes:
        """Return the body."""
        return self._body

    async def line_batches(self) -> AsyncIterator[list[bytes]]:
        """Give all lines at once."""
        splitter = LineSplitter()
        if lines := splitter.feed(self._body):
            yield lines
        splitter.end()

    async def close(self) -> None:
        """Do nothing: the connection is free already."""


def parse_answer(received: bytes, *, is_ended: bool = False) -> tuple[BufferedResponse, bool] | None:
    """Return the answer and whether its connection can be used again; None while it is not whole.

    ``is_ended``: nothing more will come. What is no HTTP raises ValueError.
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
        start = end + 4  # news on the way, not the answer
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
        # Without a length the end of the connection is the end of the answer.
        return (BufferedResponse(status, head, received[begin:]), False) if is_ended else None
    # More than was asked for: who knows what that is, so the connection is not used again.
    return BufferedResponse(status, head, body), is_kept and len(received) == finish


def parse_headers(head: bytes) -> dict[str, str]:
    """Return headers by name in small letters; of several with one name the last counts."""
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
    """Return the body of a chunked answer and where it ends; None while it is not whole."""
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
