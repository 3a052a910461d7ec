"""A workload: hosts, and guests that arrive on them, as columns. Every reader makes one, and every run takes one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hostler.errors import InputError
from hostler.model import Gang, GuestSpec, Host

__all__ = ["FOREVER", "Ints", "Workload", "numbered_names"]

Ints = NDArray[np.int64]

_MOST_NS = 2.0**61
FOREVER = -1  # the duration of a guest that never leaves by itself


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Guests in order of arrival; guest i has the spec ``specs[spec_of[i]]``."""

    name: str
    hosts: tuple[Host, ...]
    specs: tuple[GuestSpec, ...]  # distinct
    spec_of: Ints
    names: Sequence[str]
    arrives_ns: Ints  # never decreasing; the first arrival need not be at 0
    runs_ns: Ints  # from its start to its end, or FOREVER
    gangs: tuple[Gang, ...] = ()
    gang_of: Ints = field(
        default_factory=lambda: np.zeros(0, dtype=np.int64)
    )  # index into gangs, -1 for none; or empty

    def __post_init__(self) -> None:
        sizes = {len(self.spec_of), len(self.names), len(self.arrives_ns), len(self.runs_ns)}
        if len(sizes) > 1 or len(self.gang_of) not in (0, len(self.spec_of)):
            raise InputError(f"the columns of workload {self.name!r} differ in length")

    def __len__(self) -> int:
        return len(self.spec_of)

    @property
    def span_ns(self) -> int:
        """Return the time from the first to the last arrival."""
        return int(self.arrives_ns[-1] - self.arrives_ns[0]) if len(self) else 0

    def spec(self, guest: int) -> GuestSpec:
        """Return what a guest asks for."""
        return self.specs[int(self.spec_of[guest])]

    def select_guests(self, guests: Ints) -> Workload:
        """Return the workload with some of the guests, by index, in the order given."""
        names = self.names
        return replace(
            self,
            spec_of=self.spec_of[guests],
            names=[names[guest] for guest in guests.tolist()],
            arrives_ns=self.arrives_ns[guests],
            runs_ns=self.runs_ns[guests],
            gang_of=self.gang_of[guests] if len(self.gang_of) else self.gang_of,
        )

    def by_arrival(self) -> Workload:
        """Return the workload in order of arrival; guests of one moment keep their order."""
        order = np.argsort(self.arrives_ns, kind="stable")
        return self if np.array_equal(order, np.arange(len(self))) else self.select_guests(order)

    def with_compressed_arrivals(self, factor: float) -> Workload:
        """Return the workload with times between arrivals divided by a factor; durations stay."""
        if factor <= 0:
            raise InputError(f"time cannot be compressed by {factor}")
        first = int(self.arrives_ns[0]) if len(self) else 0
        with np.errstate(over="ignore"):
            times = np.rint((self.arrives_ns - first) / factor)
        if len(times) and not float(times.max()) + float(self.runs_ns.max()) < _MOST_NS:
            raise InputError(f"with times divided by {factor:g} a guest comes or goes after more than 73 years")
        return replace(self, arrives_ns=times.astype(np.int64))

    def with_hosts(self, hosts: Sequence[Host]) -> Workload:
        """Return the workload on other hosts."""
        return replace(self, hosts=tuple(hosts))


def numbered_names(prefix: str, count: int) -> list[str]:
    """Return names for guests that have none: the prefix and a number, of equal length so that they sort."""
    width = len(str(max(count - 1, 0)))
    return [f"{prefix}-{number:0{width}d}" for number in range(count)]
