"""Round robin's memory: the host of the last decision that still stands, per policy.

The next turn begins after that host in the order of names. A decision counts at once; when its bind fails, the turn
goes back to the latest decision before it that did not fail.
"""

from __future__ import annotations

import msgspec

__all__ = ["Turn", "Turns"]


class Turn(msgspec.Struct):
    """One policy's position: the last confirmed decision and those still in flight, by sequence number."""

    confirmed: tuple[int, str] = (0, "")
    in_flight: dict[int, str] = {}
    last: str = ""


class Turns:
    """The positions of all policies that take turns, by policy name."""

    def __init__(self) -> None:
        self.by_policy: dict[str, Turn] = {}

    def last(self, policy: str) -> str:
        """Return the name of the host that had the last turn."""
        turn = self.by_policy.get(policy)
        return turn.last if turn else ""

    def assume(self, policy: str, seq: int, host: str) -> None:
        """Count a decision."""
        turn = self.by_policy.setdefault(policy, Turn())
        turn.in_flight[seq] = host
        turn.last = host

    def confirm(self, policy: str, seq: int) -> None:
        """A decision was carried out."""
        turn = self.by_policy.get(policy)
        if turn is not None and seq in turn.in_flight:
            host = turn.in_flight.pop(seq)
            turn.confirmed = max(turn.confirmed, (seq, host))

    def forget(self, policy: str, seq: int) -> None:
        """A decision was not carried out: its turn goes back."""
        turn = self.by_policy.get(policy)
        if turn is not None and turn.in_flight.pop(seq, None) is not None:
            turn.last = max([turn.confirmed, *turn.in_flight.items()])[1]

    def copy(self) -> Turns:
        """Return an independent twin."""
        twin = Turns()
        for policy, turn in self.by_policy.items():
            twin.by_policy[policy] = Turn(turn.confirmed, turn.in_flight.copy(), turn.last)
        return twin
