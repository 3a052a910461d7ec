"""How many random examples a property is tried with: a third of them in ``make test``, all in ``make test-long``.

The examples of ``make test`` are the same in every run. So a part of them shows that a change breaks nothing known, and
the long tests, which draw new ones, look for what is not known.
"""

from __future__ import annotations

import os

__all__ = ["LOOKS_FOR_NEW", "count_examples"]

LOOKS_FOR_NEW = os.environ.get("HOSTLER_RANDOM_TESTS") == "1"
_PART = 3


def count_examples(of: int) -> int:
    """Return how many of these examples this run tries."""
    return of if LOOKS_FOR_NEW else max(1, of // _PART)
