"""The history of a simulation as columns: every start and end, and the final status of every guest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from hostler.sim.workload import Ints

__all__ = ["DROPPED", "FINISHED", "GAVE_UP", "RUNNING", "STATUS_NAMES", "WAITING", "HistoryWriter", "RunHistory"]

WAITING, RUNNING, FINISHED, DROPPED, GAVE_UP = range(5)
STATUS_NAMES = ("waiting", "running", "finished", "dropped", "gave_up")


@dataclass(frozen=True, slots=True, eq=False)
class RunHistory:
    """Starts and ends in order of time, and the guests."""

    at_ns: Ints
    guest: Ints  # index into the workload; those from len(workload) on ran from the start
    row: Ints  # index of the host
    sign: Ints  # 1 start, -1 end
    devices: Ints  # (events, widest)
    counts: Ints  # how many of the devices count
    status: Ints  # of each guest of the workload
    waited_ns: Ints  # before its starts, all together
    starts: Ints  # how often it was started
    queue_at_ns: Ints  # changes of the number of guests that wait: when
    queue_by: Ints  # and by how much
    begins_ns: int
    ends_ns: int
    counted: Counter[str]  # evictions, restarts, migrations, failures of hosts, lost work


@dataclass(slots=True)
class HistoryWriter:
    """Records the history of a simulation."""

    at_ns: list[int] = field(default_factory=list)
    guest: list[int] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    sign: list[int] = field(default_factory=list)
    devices: list[tuple[int, ...]] = field(default_factory=list)
    queue_at_ns: list[int] = field(default_factory=list)
    queue_by: list[int] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)

    def note(self, now: int, guest: int, row: int, sign: int, devices: tuple[int, ...]) -> None:
        """Record a start or an end."""
        self.at_ns.append(now)
        self.guest.append(guest)
        self.row.append(row)
        self.sign.append(sign)
        self.devices.append(devices)

    def note_queue(self, now: int, by: int) -> None:
        """Record that guests began or stopped waiting."""
        self.queue_at_ns.append(now)
        self.queue_by.append(by)

    def to_history(
        self, status: list[int], waited_ns: list[int], starts: list[int], begins_ns: int, ends_ns: int
    ) -> RunHistory:
        """Return the history."""
        width = max(map(len, self.devices), default=0)
        devices = np.zeros((len(self.devices), max(width, 1)), dtype=np.int64)
        for at, taken in enumerate(self.devices):
            if taken:
                devices[at, : len(taken)] = taken
        return RunHistory(
            at_ns=_column(self.at_ns),
            guest=_column(self.guest),
            row=_column(self.row),
            sign=_column(self.sign),
            devices=devices,
            counts=_column([len(taken) for taken in self.devices]),
            status=_column(status),
            waited_ns=_column(waited_ns),
            starts=_column(starts),
            queue_at_ns=_column(self.queue_at_ns),
            queue_by=_column(self.queue_by),
            begins_ns=begins_ns,
            ends_ns=ends_ns,
            counted=self.counted,
        )


def _column(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)
