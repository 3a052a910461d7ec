"""The structs that describe a file of kind ``Scenario``: a fleet, and what happens to it in time.

It may contain everything that a ``Fleet`` does, and unknown keys are rejected. The JSON schema is made from these, so
descriptions are for users.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hostler.config import FleetFile, GuestEntry, means

__all__ = [
    "ArrivalEntry",
    "ArrivalGangsEntry",
    "DurationEntry",
    "FailureEntry",
    "LoadEntry",
    "MaintenanceEntry",
    "MigrationEntry",
    "PatternEntry",
    "ScenarioFile",
    "ScenarioQueueEntry",
    "TraceEntry",
]  # fmt: skip

Many = Annotated[int, Meta(ge=1, le=50_000_000)]
Rate = Annotated[float, Meta(gt=0, le=1e9)]
Share = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0, le=1e9)]


class PatternEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When guests arrive."""

    kind: Annotated[
        Literal["poisson", "even", "bursts", "daily", "at_once"],
        means("By chance at one rate; evenly; in bursts by chance; by chance with a daily rhythm; all at the start."),
    ] = "poisson"
    per_hour: Annotated[Rate, means("The mean rate of arrivals; of bursts, the rate of bursts.")] = 60.0
    burst: Annotated[Many, means("How many guests a burst has.")] = 10
    peak: Annotated[str, means("daily: the time of day of the highest rate.")] = "14h"
    swing: Annotated[Share, means("daily: how far the rate goes up and down, as a share of its mean.")] = 0.8


class DurationEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long guests run."""

    kind: Annotated[
        Literal["fixed", "exponential", "lognormal", "forever"],
        means("All the same; by chance around a mean; by chance around a median, with a long tail; for good."),
    ] = "exponential"
    mean: Annotated[str, means("fixed and exponential: the mean.")] = "1h"
    median: Annotated[str, means("lognormal: half of the guests run no longer.")] = "1h"
    sigma: Annotated[Positive, means("lognormal: how long the tail is; 1 is usual, 2 is long.")] = 1.0


class LoadEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of its requested cpu a guest really uses, over time."""

    mean: Annotated[Share, means("The mean, as a share of the request.")] = 0.5
    swing: Annotated[Share, means("How far it goes up and down in a day, as a share of the mean.")] = 0.0
    peak: Annotated[str, means("The time of day of the highest load.")] = "14h"


class ArrivalGangsEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Guests arrive as gangs."""

    size: Annotated[Many, means("Members of a gang.")] = 2
    min_count: Annotated[int, means("How many of them must run; 0: all.")] = 0
    topology: Annotated[str, means("The host label of whose domains the gang needs one, such as rack.")] = ""
    disruption: Annotated[Literal["single", "all"], means("Whether members are evicted one by one or together.")] = (
        "single"
    )


class ArrivalEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Guests of one kind that arrive."""

    guest: Annotated[GuestEntry, means("What each of them is; its name is the first part of their names.")]
    count: Annotated[Many, means("How many arrive (gangs: guests, not gangs).")]
    pattern: Annotated[PatternEntry, means("When.")] = PatternEntry()
    duration: Annotated[DurationEntry, means("For how long.")] = DurationEntry()
    start: Annotated[str, means("When the first may arrive.")] = "0"
    gangs: Annotated[ArrivalGangsEntry | None, means("They arrive as gangs.")] = None
    checkpoint: Annotated[str, means("How often they save their progress; empty: never, they begin again.")] = ""
    load: Annotated[LoadEntry | None, means("How much they really use.")] = None


class TraceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Guests from a recorded trace."""

    path: Annotated[str, means("A file, seen from the scenario's folder, or the name of a trace such as openb.")]
    format: Annotated[str, means("Its format; empty: found out.")] = ""
    workload: Annotated[str, means("openb: which pod list.")] = "default"
    compress: Annotated[Positive, means("By how much times between arrivals are divided.")] = 1.0
    limit: Annotated[int, means("At most so many guests; 0: all.")] = 0
    hosts: Annotated[bool, means("Whether the trace's hosts are used, beside those of this file.")] = True


class ScenarioQueueEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens to guests that fit nowhere."""

    refused: Annotated[Literal["wait", "drop"], means("They wait and are tried again, or they are dropped.")] = "wait"
    give_up_after: Annotated[str, means("How long they wait at most; empty: without end.")] = ""


class FailureEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts that fail at random, or one that fails at a given time; its guests restart elsewhere."""

    hosts: Annotated[dict[str, str], means("Labels of the hosts concerned; empty: all.")] = {}
    host: Annotated[str, means("One host by name.")] = ""
    at: Annotated[str, means("When it fails; empty: by chance.")] = ""
    mean_between: Annotated[str, means("By chance: the mean time between two failures of one host.")] = "720h"
    repair: Annotated[str, means("How long a host is away.")] = "1h"


class MaintenanceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts that are emptied for a while."""

    hosts: Annotated[dict[str, str], means("Labels of the hosts concerned; empty: all.")] = {}
    host: Annotated[str, means("One host by name.")] = ""
    at: Annotated[str, means("When it begins.")] = "0"
    lasts: Annotated[str, means("How long.")] = "1h"
    stagger: Annotated[str, means("Time between the beginnings of two hosts; 0: all at once.")] = "0"
    guests: Annotated[
        Literal["migrate", "restart", "stay"],
        means("Running guests migrate with their progress, restart, or stay; no new guests come."),
    ] = "migrate"


class MigrationEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What moving a running guest costs it."""

    downtime: Annotated[str, means("Time that each move costs.")] = "1s"
    per_gib: Annotated[str, means("More time for each GiB of its memory.")] = "0"


class ScenarioFile(FleetFile, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A fleet in time: arrivals, departures, queues, failures, maintenance. Guests of the fleet run from the start."""

    kind: Annotated[Literal["Scenario"], means("What the file holds.")]  # type: ignore[assignment]
    name: Annotated[str, means("Its name in tables and reports; empty: the file's.")] = ""
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1), means("The seed of all random numbers; a flag overrides it.")] = 1
    trace: Annotated[TraceEntry | None, means("Guests from a trace.")] = None
    arrivals: Annotated[list[ArrivalEntry], means("Guests by rules.")] = msgspec.field(default_factory=list)
    queue: Annotated[ScenarioQueueEntry, means("What happens to guests that fit nowhere.")] = ScenarioQueueEntry()
    ends: Annotated[
        Literal["from_start", "fixed_end"],
        means("A guest runs its whole duration from its start, or ends when it would have ended without waiting."),
    ] = "from_start"
    grace: Annotated[str, means("How long an evicted guest takes to leave.")] = "0"
    failures: Annotated[list[FailureEntry], means("Hosts that fail.")] = msgspec.field(default_factory=list)
    maintenance: Annotated[list[MaintenanceEntry], means("Hosts that are emptied.")] = msgspec.field(
        default_factory=list
    )
    migration: Annotated[MigrationEntry, means("What moving a guest costs.")] = MigrationEntry()
    until: Annotated[str, means("When the scenario ends; empty: when nothing more can happen.")] = ""
    every: Annotated[str, means("The time between two measurements; empty: a hundredth of the span.")] = ""
