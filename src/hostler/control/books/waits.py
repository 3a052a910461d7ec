"""How long VMs waited for a place, read off the log by whoever reads it anyway. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from hostler.control.store.log import Entry

__all__ = ["Waits"]

# The tag comes first in the JSON of a fact: nothing need be decoded to see what it is.
_ARRIVED = b'{"event":"guest_arrived"'
_BOUND = b'{"event":"guest_bound"'
_LEFT = b'{"event":"guest_left"'
_NS = 1_000_000_000


class Waits:
    """VMs that asked for a place and have none yet, by when they asked."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self._upto = 0  # the last entry read: whoever begins anew reads many again, which place nobody now

    def read(self, entries: Iterable[Entry], now_ns: int) -> list[float]:
        """Take in entries of the log; return how long each VM waited in seconds that they place, up to now."""
        placed: list[float] = []
        for entry in entries:
            if entry.kind != "fact" or entry.seq <= self._upto:
                continue
            self._upto = entry.seq
            if entry.body.startswith(_ARRIVED):
                self._since[entry.subject] = entry.at_ns
            elif entry.body.startswith(_BOUND):
                since = self._since.pop(entry.subject, None)
                if since is not None:
                    placed.append(max(now_ns - since, 0) / _NS)
            elif entry.body.startswith(_LEFT):
                self._since.pop(entry.subject, None)
        return placed
