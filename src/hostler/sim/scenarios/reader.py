"""Files of kind ``Scenario`` to values: the fleet by ``config``, arrivals by rules or from a trace, then outages.

Arrival times and durations by rules come from counted draws, so they are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hostler.config import (
    DeclaredFleet,
    Document,
    check_kind,
    convert,
    fleet_of,
    invalid,
    parse_duration,
    read_documents,
    read_guests,
    with_location,
)
from hostler.errors import HostlerError, InputError, QuantityError
from hostler.model import Gang, Guest, GuestSpec, Host, Policy
from hostler.sim.scenarios.file import ArrivalEntry, DurationEntry, PatternEntry, ScenarioFile, TraceEntry
from hostler.sim.scenarios.scenario import USUAL_MEASUREMENTS, CpuLoad, Outage, Scenario
from hostler.sim.shuffles import uniforms
from hostler.sim.traces.formats import read_trace
from hostler.sim.traces.options import TraceOptions
from hostler.sim.workload import FOREVER, Ints, Workload, numbered_names

__all__ = ["load_scenario", "read_scenario"]

_FAILURES = 21
_MOST_FAILURES = 100_000
HOUR = 3600 * 10**9
DAY = 24 * HOUR
_MOST_NS = 2**61
_GAPS, _SHAPE, _DURATIONS = 11, 12, 13

Floats = NDArray[np.float64]


def load_scenario(path: str, known: Mapping[str, Policy], *, seed: int | None = None) -> Scenario:
    """Read the scenario in a file, and the trace that it names."""
    documents = read_documents([path])
    if len(documents) != 1:
        raise InputError(f"{path}: it has {len(documents)} documents", hint="a scenario has one")
    return read_scenario(documents[0], known, seed=seed)


def read_scenario(document: Document, known: Mapping[str, Policy], *, seed: int | None = None) -> Scenario:
    """Return the scenario that a document describes; another seed gives other arrivals and failures."""
    check_kind(document, "Scenario")
    file = convert(document, document.data, ScenarioFile)
    fleet = fleet_of(document, file, known)
    return _Reader(document, file, fleet, file.seed if seed is None else seed).read()


class _Reader:
    def __init__(self, document: Document, file: ScenarioFile, fleet: DeclaredFleet, seed: int) -> None:
        self._document = document
        self._file = file
        self._fleet = fleet
        self._seed = seed
        self._specs: dict[GuestSpec, GuestSpec] = {}

    def read(self) -> Scenario:
        file = self._file
        parts = [self._arrivals(at, entry) for at, entry in enumerate(file.arrivals)]
        hosts = list(self._fleet.hosts)
        if file.trace is not None:
            found = self._trace(file.trace)
            parts.append((found, None, 0))
            hosts += found.hosts if file.trace.hosts else ()
        if not hosts:
            raise invalid(self._document, (), "has no hosts", hint="add hosts, or a trace that has some")
        if not parts:
            raise invalid(self._document, (), "has neither arrivals nor a trace", hint="add 'arrivals' or 'trace'")
        names = [host.name for host in hosts]
        if len(set(names)) < len(names):
            raise invalid(self._document, ("hosts",), "has a name that the trace has too", hint="rename it")
        try:
            joined = _joined(file.name or Path(self._document.source).stem, tuple(hosts), parts)
        except InputError as error:
            raise with_location(self._document, ("arrivals",), error) from None
        workload, loads, checkpoints = joined
        until = self._time(file.until, ("until",), is_some=True) if file.until else 0
        span = until or max(workload.span_ns + int(workload.runs_ns.max(initial=0)), 1)
        return Scenario(
            name=workload.name,
            seed=self._seed,
            workload=workload,
            policies=self._fleet.policies,
            policy=self._fleet.policy,
            tenancy=self._fleet.tenancy,
            running=self._running(),
            outages=tuple(sorted(self._outages(hosts, span), key=lambda each: (each.at_ns, each.host))),
            loads=loads,
            checkpoint_ns=checkpoints,
            drops=file.queue.refused == "drop",
            give_up_ns=self._time(file.queue.give_up_after, ("queue", "give_up_after"))
            if file.queue.give_up_after
            else 0,
            fixed_end=file.ends == "fixed_end",
            grace_ns=self._time(file.grace, ("grace",)),
            move_ns=self._time(file.migration.downtime, ("migration", "downtime")),
            move_ns_per_gib=self._time(file.migration.per_gib, ("migration", "per_gib")),
            until_ns=until,
            every_ns=self._time(file.every, ("every",), is_some=True)
            if file.every
            else max(span // USUAL_MEASUREMENTS, 1),
        )

    def _trace(self, entry: TraceEntry) -> Workload:
        beside = Path(self._document.source).parent / entry.path
        try:
            found = read_trace(
                beside if beside.exists() else entry.path, entry.format or None, TraceOptions(workload=entry.workload)
            )
        except HostlerError as error:
            raise with_location(self._document, ("trace",), error) from None
        if entry.limit:
            found = found.select_guests(np.arange(min(entry.limit, len(found)), dtype=np.int64))
        try:
            return found.with_compressed_arrivals(entry.compress)
        except InputError as error:
            raise with_location(self._document, ("trace", "compress"), error) from None

    def _running(self) -> tuple[Guest, ...]:
        for at, guest in enumerate(self._fleet.guests):
            if not guest.host:
                raise invalid(
                    self._document, ("guests", at), "has no host", hint="those that are to be placed are arrivals"
                )
        return self._fleet.guests

    def _arrivals(self, at: int, entry: ArrivalEntry) -> tuple[Workload, CpuLoad | None, int]:
        path = ("arrivals", at)
        guest = read_guests(self._document, (*path, "guest"), entry.guest, self._specs)[0]
        if guest.host or entry.guest.count is not None:
            raise invalid(self._document, (*path, "guest"), "has a host or a count", hint="'count' stands beside it")
        try:
            times = _arrival_times(entry.pattern, entry.count, parse_duration(entry.start), self._seed, at)
            runs = _durations(entry.duration, entry.count, self._seed, at)
            load = None
            if entry.load is not None:
                load = CpuLoad(entry.load.mean, entry.load.swing, parse_duration(entry.load.peak))
            checkpoint = parse_duration(entry.checkpoint) if entry.checkpoint else 0
        except HostlerError as error:
            raise with_location(self._document, path, error) from None
        gangs: tuple[Gang, ...] = ()
        gang_of = np.zeros(0, dtype=np.int64)
        if entry.gangs is not None:
            number = np.arange(entry.count) // entry.gangs.size
            least = entry.gangs.min_count or entry.gangs.size
            if least > entry.gangs.size:
                raise invalid(self._document, (*path, "gangs", "min_count"), "is larger than the size")
            if entry.gangs.size > entry.count:
                raise invalid(self._document, (*path, "gangs", "size"), f"is larger than the count of {entry.count}")
            gangs = tuple(
                Gang(
                    name=f"{guest.name}-gang-{n}",
                    namespace=guest.spec.namespace,
                    min_count=min(least, entry.count - n * entry.gangs.size),
                    topology=entry.gangs.topology,
                    disruption=entry.gangs.disruption,
                    priority=guest.spec.priority,
                )
                for n in range(int(number[-1]) + 1)
            )
            gang_of, times = number, times[number * entry.gangs.size]  # members arrive together
        workload = Workload(
            guest.name, (), (guest.spec,), np.zeros(entry.count, dtype=np.int64),
            numbered_names(guest.name, entry.count), times, runs, gangs, gang_of,
        )  # fmt: skip
        return workload, load, checkpoint

    def _outages(self, hosts: list[Host], span: int) -> Iterator[Outage]:
        for at, failure in enumerate(self._file.failures):
            path = ("failures", at)
            chosen = self._chosen(hosts, failure.hosts, failure.host, path)
            repair = self._time(failure.repair, (*path, "repair"))
            if failure.at:
                when = self._time(failure.at, (*path, "at"))
                yield from (Outage(host, when, repair, "fail") for host in chosen)
                continue
            mean = self._time(failure.mean_between, (*path, "mean_between"))
            if mean <= 0 or span / mean * len(chosen) > _MOST_FAILURES:
                raise invalid(self._document, path, f"makes more than {_MOST_FAILURES:,} failures")
            for number, host in enumerate(chosen):
                yield from self._by_chance(host, mean, repair, span, _FAILURES + 1000 * at + 10**6 * number)
        for at, entry in enumerate(self._file.maintenance):
            path = ("maintenance", at)
            start, stagger = self._time(entry.at, (*path, "at")), self._time(entry.stagger, (*path, "stagger"))
            lasts = self._time(entry.lasts, (*path, "lasts"))
            for number, host in enumerate(self._chosen(hosts, entry.hosts, entry.host, path)):
                yield Outage(host, start + number * stagger, lasts, entry.guests)

    def _by_chance(self, host: str, mean: int, repair: int, span: int, stream: int) -> Iterator[Outage]:
        now, start = 0.0, 0
        while now < span:
            for value in (-np.log1p(-uniforms(self._seed, stream, 16, start))).tolist():
                now += value * mean
                if now >= span:
                    return
                yield Outage(host, int(now), repair, "fail")
                now += repair
            start += 16

    def _chosen(self, hosts: list[Host], labels: dict[str, str], name: str, path: tuple[str | int, ...]) -> list[str]:
        wanted = set(labels.items())
        found = [h.name for h in hosts if (not name or h.name == name) and wanted <= set(h.labels)]
        if not found:
            raise invalid(self._document, path, "names no host that there is", hint="check the name and the labels")
        return found

    def _time(self, text: str, path: tuple[str | int, ...], *, is_some: bool = False) -> int:
        try:
            found = parse_duration(text)
        except QuantityError as error:
            raise with_location(self._document, path, error) from None
        if is_some and not found:
            raise invalid(self._document, path, "is zero", hint="give it some time")
        return found


def _joined(
    name: str, hosts: tuple[Host, ...], parts: list[tuple[Workload, CpuLoad | None, int]]
) -> tuple[Workload, tuple[CpuLoad | None, ...], tuple[int, ...]]:
    """Put several streams of guests together, by arrival; specs stay apart by stream, as their loads may differ."""
    specs: list[GuestSpec] = []
    loads: list[CpuLoad | None] = []
    checkpoints: list[int] = []
    gangs: list[Gang] = []
    columns: list[tuple[np.ndarray, ...]] = []
    names: list[str] = []
    for part, load, checkpoint in parts:
        gang_of = part.gang_of if len(part.gang_of) else np.full(len(part), -1, dtype=np.int64)
        gang_of = np.where(gang_of >= 0, gang_of + len(gangs), -1)
        columns.append((part.spec_of + len(specs), part.arrives_ns, part.runs_ns, gang_of))
        specs += part.specs
        loads += [load] * len(part.specs)
        checkpoints += [checkpoint] * len(part.specs)
        gangs += part.gangs
        names += part.names
    if len(set(names)) < len(names):
        raise InputError(f"scenario {name!r}: two guests have one name", hint="give each stream of arrivals its own")
    spec_of, arrives, runs, gang_of = (np.concatenate(each) for each in zip(*columns, strict=True))
    workload = Workload(
        name, hosts, tuple(specs), spec_of, names, arrives, runs, tuple(gangs), gang_of if gangs else gang_of[:0]
    )
    return workload.by_arrival(), tuple(loads), tuple(checkpoints)


def _arrival_times(pattern: PatternEntry, count: int, start_ns: int, seed: int, stream: int) -> Ints:
    """Return the times of so many arrivals, in order."""
    gap = HOUR / pattern.per_hour
    times: Floats
    if pattern.kind == "at_once":
        times = np.zeros(count)
    elif pattern.kind == "even":
        times = np.arange(count, dtype=np.float64) * gap
    elif pattern.kind == "bursts":
        bursts = -(-count // pattern.burst)
        times = np.repeat(np.cumsum(_exponential(seed, _GAPS + 100 * stream, bursts) * gap), pattern.burst)[:count]
    else:
        times = np.cumsum(_exponential(seed, _GAPS + 100 * stream, count) * gap)
        if pattern.kind == "daily":
            times = _bent(times, pattern)
    return _whole(times + start_ns, "arrives")


def _durations(rule: DurationEntry, count: int, seed: int, stream: int) -> Ints:
    """Return how long so many guests run."""
    if rule.kind == "forever":
        return np.full(count, FOREVER, dtype=np.int64)
    if rule.kind == "lognormal":
        first = uniforms(seed, _DURATIONS + 100 * stream, count)
        second = uniforms(seed, _SHAPE + 100 * stream, count)
        normal = np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2.0 * np.pi * second)
        times = parse_duration(rule.median) * np.exp(rule.sigma * normal)
    elif rule.kind == "exponential":
        times = _exponential(seed, _DURATIONS + 100 * stream, count) * parse_duration(rule.mean)
    else:
        times = np.full(count, float(parse_duration(rule.mean)))
    return np.maximum(_whole(np.minimum(times, _MOST_NS / 2), "runs"), 1)


def _exponential(seed: int, stream: int, count: int) -> Floats:
    return -np.log1p(-uniforms(seed, stream, count))


def _bent(times: Floats, pattern: PatternEntry) -> Floats:
    """Bend even time to a daily rhythm: where t is the time by the mean rate, find when the rhythm has given as many.

    The rate is 1 + swing * cos(2 pi (t - peak) / day); its integral grows, so it is turned around on a grid.
    """
    peak = parse_duration(pattern.peak)
    days = int(times[-1] // DAY) + 2 if len(times) else 1
    grid = np.linspace(0.0, days * DAY, 288 * days + 1)
    turn = 2.0 * np.pi / DAY
    given = grid + pattern.swing * (np.sin(turn * (grid - peak)) - np.sin(-turn * peak)) / turn
    return np.interp(times, given, grid)


def _whole(times: Floats, what: str) -> Ints:
    if len(times) and float(times.max()) > _MOST_NS:
        raise InputError(f"a guest {what} after more than 73 years", hint="raise the rate, or lower the count")
    return np.rint(times).astype(np.int64)
