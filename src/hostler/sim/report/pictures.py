"""Small pictures of numbers as PNG inside the page: a heat map of shapes would be a hundred times as large."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEVELS", "RAMP", "colour", "picture"]

LEVELS = 100  # one colour for each percent, and one for what is beyond
# From nothing to full: lightness falls evenly, so that the map can be read without colours, too.
RAMP = ((247, 244, 228), (176, 216, 190), (82, 166, 178), (38, 104, 152), (22, 38, 84))
_BEYOND = (213, 94, 0)


def colour(share: float) -> tuple[int, int, int]:
    """Return the colour of a share; above 1 it is a warning."""
    if share > 1.0:
        return _BEYOND
    place = min(max(share, 0.0), 1.0) * (len(RAMP) - 1)
    at = min(int(place), len(RAMP) - 2)
    part = place - at
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(RAMP[at], RAMP[at + 1], strict=True))
    return red, green, blue


def picture(shares: NDArray[np.float64]) -> str:
    """Return rows of shares as the address of a picture, a dot each."""
    palette = [colour(level / LEVELS) for level in range(LEVELS + 1)] + [_BEYOND]
    is_beyond = shares > 1.0 + 1e-9
    dots = np.where(is_beyond, LEVELS + 1, np.rint(np.clip(shares, 0.0, 1.0) * LEVELS)).astype(np.uint8)
    height, width = dots.shape
    lines = b"".join(b"\0" + row.tobytes() for row in dots)  # 0: no filter
    content = b"\x89PNG\r\n\x1a\n"
    content += _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))  # 8 bits, with a palette
    content += _chunk(b"PLTE", b"".join(bytes(each) for each in palette))
    content += _chunk(b"IDAT", zlib.compress(lines, 9)) + _chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
