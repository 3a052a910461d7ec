"""What a log is told of a trouble that lasts: the first time, and then ever more seldom, with a count. Pure.

Used by ``worker``: a VM that cannot be started is tried again for days, and each try ends in the same words.
"""

from __future__ import annotations

__all__ = ["Repeats"]


class Repeats:
    """The last line about each VM, and how often it came in a row."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, int]] = {}

    def worth_saying(self, vm: str, line: str) -> str:
        """Return the line, with a count from the second time on; "" where it came too often to be said each time.

        The first, second, fourth, eighth, … time is said.
        """
        before, count = self._last.get(vm, ("", 0))
        count = count + 1 if line == before else 1
        self._last[vm] = (line, count)
        if count.bit_count() > 1:
            return ""
        return f"{line} ({count} times by now)" if count > 1 else line

    def forget(self, vm: str) -> None:
        """Let the next line about a VM be the first one: something went well."""
        self._last.pop(vm, None)
