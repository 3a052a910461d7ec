"""Round robin's memory: for each policy, the host of its last decision that did not fail.

The next turn starts after that host in the order of names. A decision counts at once. If its bind fails, the turn
returns to the latest earlier decision that did not fail.
"""

from __future__ import annotations

import msgspec

__all__ = ["TurnPosition", "Turns"]


class TurnPosition(msgspec.Struct):
    """The position of one policy: the last confirmed decision, and those in flight by sequence number."""

    confirmed: tuple[int, str] = (0, "")
    in_flight: dict[int, str] = {}
    last: str = ""


class Turns:
    """The positions of all policies with round robin, by policy name."""

    def __init__(self) -> None:
        self.by_policy: dict[str, TurnPosition] = {}

    def last(self, policy: str) -> str:
        """Return the name of the host that had the last turn."""
        turn = self.by_policy.get(policy)
        return turn.last if turn else ""

    def assume(self, policy: str, seq: int, host: str) -> None:
        """Record a decision."""
        turn = self.by_policy.setdefault(policy, TurnPosition())
        turn.in_flight[seq] = host
        turn.last = host

    def confirm(self, policy: str, seq: int) -> None:
        """Record that a decision was carried out."""
        turn = self.by_policy.get(policy)
        if turn is not None and seq in turn.in_flight:
            host = turn.in_flight.pop(seq)
            turn.confirmed = max(turn.confirmed, (seq, host))

    def forget(self, policy: str, seq: int) -> None:
        """Record that a decision was not carried out: its turn is undone."""
        turn = self.by_policy.get(policy)
        if turn is not None and turn.in_flight.pop(seq, None) is not None:
            turn.last = max([turn.confirmed, *turn.in_flight.items()])[1]

    def copy(self) -> Turns:
        """Return an independent copy."""
        twin = Turns()
        for policy, turn in self.by_policy.items():
            twin.by_policy[policy] = TurnPosition(turn.confirmed, turn.in_flight.copy(), turn.last)
        return twin
