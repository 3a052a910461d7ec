"""Writes the description of the REST service: ``python -m tools.openapi`` after a route or a shape changed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hostler.control.api.app import ALL_ROUTES
from hostler.control.api.description import describe

__all__ = ["PLACE", "openapi_text"]

PLACE = Path(__file__).parent.parent / "docs" / "reference" / "openapi.json"


def openapi_text() -> bytes:
    """Return the file as it is to be."""
    return msgspec.json.format(msgspec.json.encode(describe(ALL_ROUTES)), indent=2) + b"\n"


if __name__ == "__main__":
    PLACE.write_bytes(openapi_text())
    print(f"{PLACE} is written")
