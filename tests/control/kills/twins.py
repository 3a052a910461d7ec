"""A twin that never stopped: it lives through a log from its beginning and decides everything by itself.

From the log it has what came from outside: facts with their times, and the moments in which the leader stepped. Pauses
after failed tries count from the time of a fact, so a twin that knew only the times of steps would wake guests late.
Placements it takes from nobody: each that the log shows must be the one that the twin decided, and each that it decided
must be in the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from hostler.control.books.follower import Step, digest_of_actions
from hostler.control.settings import policies_of_empty_log
from hostler.control.store.history.log import StoredEntry
from hostler.engine import Engine
from hostler.errors import HostlerError
from hostler.model import Bind, BindFailed, Defer, Event, GuestBound, Move

__all__ = ["LogTwin", "TwinDecision", "decisions"]

_EVENT = msgspec.json.Decoder(Event)
_STEP = msgspec.json.Decoder(Step)


class TwinDecision(msgspec.Struct, frozen=True):
    """What was decided about a guest, in which entry of the log; no host: it waits."""

    seq: int
    uid: str
    host: str


class LogTwin:
    """An engine of its own, and what it decided so far."""

    def __init__(self) -> None:
        self.engine = Engine(policies_of_empty_log())
        self.decided: list[TwinDecision] = []
        self.moves: list[TwinDecision] = []  # to their destinations, of guests that make room
        self._seq = 0
        self._waiting: deque[tuple[int, Event]] = deque()
        self._promised: dict[str, str] = {}  # what it decided last and has not seen in the log yet

    def read(self, entries: Sequence[StoredEntry]) -> None:
        """Live on through what is new in a log; AssertionError where that shows what the twin did not decide."""
        for entry in entries:
            if entry.seq > self._seq:
                self._take(entry)
                self._seq = entry.seq
        self._check_told()

    def _take(self, entry: StoredEntry) -> None:
        if entry.kind == "step":
            self._think(entry.seq, _STEP.decode(entry.body))
        elif entry.kind == "fact":
            event = msgspec.structs.replace(_EVENT.decode(entry.body), at=entry.at_ns)
            if isinstance(event, GuestBound | BindFailed):
                mine = self._promised.pop(event.uid, "")
                what = f"entry {entry.seq}: the log has {event.uid} on {event.host}, the twin on {mine or 'no host'}"
                assert event.host == mine, what
            self._waiting.append((entry.seq, event))

    def _think(self, seq: int, step: Step) -> None:
        self._check_told()
        while self._waiting and self._waiting[0][0] <= step.upto:
            event = self._waiting.popleft()[1]
            with suppress(HostlerError):  # a fact that is no news, or comes too late, is refused everywhere
                self.engine.apply(msgspec.structs.replace(event, at=min(event.at, step.now)))
        actions = self.engine.step(step.now, step.limit)
        assert digest_of_actions(actions) == step.digest, f"entry {seq}: the twin decided otherwise"
        self._promised = {action.uid: action.host for action in actions if isinstance(action, Bind)}
        for action in actions:
            if isinstance(action, Bind | Defer):
                host = action.host if isinstance(action, Bind) else ""
                self.decided.append(TwinDecision(seq, action.uid, host))
            elif isinstance(action, Move):
                self.moves.append(TwinDecision(seq, action.uid, action.target))

    def _check_told(self) -> None:
        assert not self._promised, f"the twin placed what the log does not show: {self._promised}"


def decisions(entries: Sequence[StoredEntry]) -> list[TwinDecision]:
    """Return all that a twin decides; AssertionError where the log shows something else."""
    twin = LogTwin()
    twin.read(entries)
    return twin.decided
