"""A scenario as values: guests, their arrivals, and what happens to the hosts. Readers make it, simulations run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hostler.model import Guest, Policy, Tenancy
from hostler.sim.workload import Workload

__all__ = ["CpuLoad", "Outage", "Scenario", "scenario_of_trace"]

USUAL_MEASUREMENTS = 100  # over the span of a scenario


@dataclass(frozen=True, slots=True)
class Outage:
    """A host that is away, or to be emptied, for a while."""

    host: str
    at_ns: int
    lasts_ns: int
    kind: Literal["fail", "migrate", "restart", "stay"]


@dataclass(frozen=True, slots=True)
class CpuLoad:
    """The real use of cpu by the guests of one spec: a mean, a daily swing, and the time of its peak."""

    mean: float
    swing: float
    peak_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """Everything that a simulation needs beside a policy and a seed."""

    name: str
    seed: int
    workload: Workload
    policies: tuple[Policy, ...]  # that the scenario brings; the first that a guest does not name is chosen by the run
    policy: str
    tenancy: Tenancy
    running: tuple[Guest, ...]  # guests that run from the start, for good
    outages: tuple[Outage, ...]  # by time
    loads: tuple[CpuLoad | None, ...]  # by spec
    checkpoint_ns: tuple[int, ...]  # by spec; 0: progress is never saved
    drops: bool
    give_up_ns: int  # 0: never
    fixed_end: bool
    grace_ns: int
    move_ns: int
    move_ns_per_gib: int
    until_ns: int  # 0: until nothing more can happen
    every_ns: int

    @property
    def is_plain(self) -> bool:
        """Say whether guests only come, are placed or dropped, and end: then a kernel can play it."""
        tenancy = self.tenancy
        return (
            self.drops
            and not self.outages
            and not self.running
            and not self.workload.gangs
            and not (tenancy.quotas or tenancy.reservations or tenancy.gangs)
            and not self.until_ns
        )


def scenario_of_trace(workload: Workload, seed: int) -> Scenario:
    """Return the scenario that only plays a trace: guests that do not fit wait, and nothing happens to the hosts."""
    span = max(workload.span_ns + int(workload.runs_ns.max(initial=0)), 1)
    return Scenario(
        name=workload.name,
        seed=seed,
        workload=workload,
        policies=(),
        policy="",
        tenancy=Tenancy(),
        running=(),
        outages=(),
        loads=(None,) * len(workload.specs),
        checkpoint_ns=(0,) * len(workload.specs),
        drops=False,
        give_up_ns=0,
        fixed_end=False,
        grace_ns=0,
        move_ns=0,
        move_ns_per_gib=0,
        until_ns=0,
        every_ns=max(span // USUAL_MEASUREMENTS, 1),
    )
