"""What secrets of the control plane look like, for those who must not print one that stands in the wrong place."""

from __future__ import annotations

import re

__all__ = ["looks_secret"]

# Also cut off, mistyped or in capitals: it may still be most of a secret.
_OURS = re.compile(r"(?<![a-z0-9])h[kja]_[\w-]{20,}", re.IGNORECASE)


def looks_secret(text: str) -> bool:
    """Say whether a text has an API key, a join token or an agent's credential in it."""
    return _OURS.search(text) is not None
