"""The figures of a scenario: how full the fleet was, how long guests waited, how many failed, what was wasted.

Waste is measured per host at each sample: room that no guest can use, and hosts that are overloaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from hostler.engine import typical_mix
from hostler.engine.meter import Meter
from hostler.model import CPU, MEMORY, Guest, GuestSpec, amount_of
from hostler.sim.arrivals import gpu_millis
from hostler.sim.fill_experiment import KINDS, failure_kind
from hostler.sim.scenarios.history import DROPPED, FINISHED, GAVE_UP, RUNNING, WAITING, RunHistory
from hostler.sim.scenarios.scenario import Scenario
from hostler.sim.workload import Ints

__all__ = ["ScenarioOutcome", "Series", "WaitTimes", "measure"]

Floats = NDArray[np.float64]
_SECOND = 10**9
_CORES = (1, 4, 16)  # upper ends of the sizes by which waiting times are reported
DAY = 24 * 3600 * 10**9
_SIZES = 64  # the most common sizes, by which room is judged
_PICTURED = 200  # hosts in the picture of a fleet


class WaitTimes(msgspec.Struct, frozen=True):
    """Waiting times of some guests, in seconds."""

    guests: int
    mean: float
    p50: float
    p95: float
    longest: float


class Series(msgspec.Struct, frozen=True):
    """Measurements in time; shares are of what all hosts have."""

    at_s: tuple[float, ...]
    running: tuple[int, ...]
    waiting: tuple[int, ...]
    cpu: tuple[float, ...]
    memory: tuple[float, ...]
    gpu: tuple[float, ...]
    fragmented: tuple[float, ...]  # idle gpu that the typical mix cannot use, as a share of all gpus
    stranded_cpu: tuple[float, ...]  # free on hosts where no guest of the workload fits
    stranded_memory: tuple[float, ...]
    load: tuple[float, ...]  # cpu really used
    overloaded_hosts: tuple[int, ...]
    by_host: tuple[tuple[float, ...], ...]  # share of cpu (or gpu) in use, by host and time, for pictures


class ScenarioOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run."""

    scenario: str
    policy: str
    seed: int
    hosts: int
    guests: int
    began: int
    finished: int
    running: int
    waiting: int
    dropped: int
    gave_up: int
    failed_by_kind: dict[str, int]
    evictions: int
    restarts: int
    migrations: int
    host_failures: int
    lost_work_s: float
    span_s: float
    cpu_mean: float
    memory_mean: float
    gpu_mean: float
    cpu_peak: float
    gpu_peak: float
    fragmented_mean: float
    stranded_cpu_mean: float
    stranded_memory_mean: float
    overloaded_share: float  # of hosts and measurements
    waits: WaitTimes
    waits_by_priority: dict[str, WaitTimes]
    waits_by_size: dict[str, WaitTimes]
    series: Series

    def figures(self) -> dict[str, float]:
        """Return the scalar figures by name, for comparisons."""
        plain = {
            name: float(value)
            for name in self.__struct_fields__
            if isinstance(value := getattr(self, name), int | float) and name not in ("seed", "hosts")
        }
        return {**plain, "wait_mean_s": self.waits.mean, "wait_p95_s": self.waits.p95}


def measure(scenario: Scenario, policy: str, seed: int, history: RunHistory) -> ScenarioOutcome:
    """Compute the figures of a run from its history."""
    books = _Books(scenario, history)
    status = history.status
    is_begun = history.starts > 0
    specs = scenario.workload.specs
    failed = (status == DROPPED) | (status == GAVE_UP)
    kinds = np.array([KINDS.index(failure_kind(spec)) for spec in specs], dtype=np.int64)[scenario.workload.spec_of]
    counted = history.counted
    series = books.series()
    return ScenarioOutcome(
        scenario=scenario.name,
        policy=policy,
        seed=seed,
        hosts=len(scenario.workload.hosts),
        guests=len(scenario.workload),
        began=int(is_begun.sum()),
        finished=int((status == FINISHED).sum()),
        running=int((status == RUNNING).sum()),
        waiting=int((status == WAITING).sum()),
        dropped=int((status == DROPPED).sum()),
        gave_up=int((status == GAVE_UP).sum()),
        failed_by_kind=dict(zip(KINDS, np.bincount(kinds[failed], minlength=len(KINDS)).tolist(), strict=True)),
        evictions=counted["evictions"],
        restarts=counted["restarts"],
        migrations=counted["migrations"],
        host_failures=counted["host_failures"],
        lost_work_s=counted["lost_work_ns"] / _SECOND,
        span_s=(history.ends_ns - history.begins_ns) / _SECOND,
        cpu_mean=books.mean("cpu"),
        memory_mean=books.mean("memory"),
        gpu_mean=books.mean("gpu"),
        cpu_peak=books.peak("cpu"),
        gpu_peak=books.peak("gpu"),
        fragmented_mean=_mean(series.fragmented),
        stranded_cpu_mean=_mean(series.stranded_cpu),
        stranded_memory_mean=_mean(series.stranded_memory),
        overloaded_share=_mean(series.overloaded_hosts) / max(len(scenario.workload.hosts), 1),
        waits=_waits(history.waited_ns[is_begun]),
        waits_by_priority=_grouped(history.waited_ns, is_begun, [str(s.priority) for s in specs], scenario),
        waits_by_size=_grouped(history.waited_ns, is_begun, [_size_of(s) for s in specs], scenario),
        series=series,
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def _waits(waited_ns: Ints) -> WaitTimes:
    if not len(waited_ns):
        return WaitTimes(0, 0.0, 0.0, 0.0, 0.0)
    seconds = waited_ns / _SECOND
    middle, high = np.percentile(seconds, [50, 95])
    return WaitTimes(len(seconds), float(seconds.mean()), float(middle), float(high), float(seconds.max()))


def _grouped(waited: Ints, is_begun: NDArray[np.bool_], labels: list[str], scenario: Scenario) -> dict[str, WaitTimes]:
    names = list(dict.fromkeys(labels))
    number = np.array([names.index(label) for label in labels], dtype=np.int64)[scenario.workload.spec_of]
    return {name: _waits(waited[is_begun & (number == at)]) for at, name in enumerate(names)}


def _size_of(spec: GuestSpec) -> str:
    if spec.devices:
        return failure_kind(spec)
    cores = amount_of(spec.requests, CPU) / 1000
    return next((f"up to {_cores(most)}" for most in _CORES if cores <= most), f"over {_cores(_CORES[-1])}")


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"


class _Books:
    """The amounts in use after every event, and what follows from them."""

    def __init__(self, scenario: Scenario, history: RunHistory) -> None:
        self._scenario = scenario
        self._history = history
        workload = scenario.workload
        running: tuple[Guest, ...] = scenario.running
        self._specs = (*workload.specs, *(guest.spec for guest in running))
        spec_of = np.concatenate((workload.spec_of, len(workload.specs) + np.arange(len(running), dtype=np.int64)))
        self._spec = spec_of[history.guest] if len(history.guest) else np.zeros(0, dtype=np.int64)
        self._amounts = {
            "cpu": self._column([amount_of(spec.requests, CPU) for spec in self._specs]),
            "memory": self._column([amount_of(spec.requests, MEMORY) for spec in self._specs]),
            "gpu": self._column([gpu_millis(spec) for spec in self._specs]),
        }
        hosts = workload.hosts
        self._capacity = {
            "cpu": np.array([amount_of(host.capacity, CPU) for host in hosts], dtype=np.int64),
            "memory": np.array([amount_of(host.capacity, MEMORY) for host in hosts], dtype=np.int64),
            "gpu": np.array([1000 * len(host.devices) for host in hosts], dtype=np.int64),
        }
        first, last = history.begins_ns, history.ends_ns
        self._samples = np.arange(first, last + 1, max(scenario.every_ns, (last - first) // 2000, 1), dtype=np.int64)
        # The index of the last event that has happened by each sample.
        self._reached = np.searchsorted(history.at_ns, self._samples, side="right") - 1

    def _column(self, values: list[int]) -> Ints:
        return np.array(values, dtype=np.int64)[self._spec] if len(self._spec) else np.zeros(0, dtype=np.int64)

    def _share(self, name: str) -> Floats:
        """Return the share of a resource in use after each event."""
        total = max(int(self._capacity[name].sum()), 1)
        return np.cumsum(self._amounts[name].astype(np.float64) * self._history.sign) / total

    def mean(self, name: str) -> float:
        """Return the mean share in use over the whole time."""
        history = self._history
        span = history.ends_ns - history.begins_ns
        if not len(history.at_ns) or span <= 0:
            return 0.0
        lasts = np.diff(np.append(np.maximum(history.at_ns, history.begins_ns), history.ends_ns))
        return float((self._share(name) * np.maximum(lasts, 0)).sum() / span)

    def peak(self, name: str) -> float:
        """Return the highest share that was in use."""
        return float(self._share(name).max(initial=0.0))

    def series(self) -> Series:
        """Return the measurements."""
        history, scenario = self._history, self._scenario
        at = [float(t) for t in ((self._samples - history.begins_ns) / _SECOND).tolist()]
        waiting = np.cumsum(history.queue_by)
        queued = np.searchsorted(history.queue_at_ns, self._samples, side="right") - 1
        cpu, memory = _stranded(scenario, self._specs, history, self._spec, self._reached, self._capacity)
        load, overloaded, by_host = _host_loads(
            scenario, history, self._spec, self._reached, self._samples, self._amounts, self._capacity
        )
        return Series(
            at_s=tuple(at),
            running=tuple(int(value) for value in self._at_samples(np.cumsum(history.sign))),
            waiting=tuple(int(waiting[q]) if q >= 0 else 0 for q in queued.tolist()),
            cpu=tuple(self._at_samples(self._share("cpu"))),
            memory=tuple(self._at_samples(self._share("memory"))),
            gpu=tuple(self._at_samples(self._share("gpu"))),
            fragmented=tuple(self._fragmented()),
            stranded_cpu=tuple(cpu),
            stranded_memory=tuple(memory),
            load=tuple(load),
            overloaded_hosts=tuple(overloaded),
            by_host=tuple(tuple(row) for row in by_host),
        )

    def _at_samples(self, values: Floats | Ints) -> list[float]:
        return [float(values[r]) if r >= 0 else 0.0 for r in self._reached.tolist()]

    def _fragmented(self) -> list[float]:
        """Return the share of all gpus that is idle and of no use to the typical mix, at each sample."""
        workload, history = self._scenario.workload, self._history
        total = int(self._capacity["gpu"].sum())
        if not total or not len(history.at_ns):
            return [0.0] * len(self._samples)
        mix = typical_mix([workload.specs[n] for n in workload.spec_of[:100_000].tolist()])
        marks = np.zeros(len(history.at_ns), dtype=np.int8)
        marks[self._reached[self._reached >= 0]] = 1
        milli = self._column([spec.devices[0].milli if spec.devices else 0 for spec in self._specs])
        signs = history.sign.astype(np.int8)
        amounts = Meter(workload.hosts, mix).run(
            history.row,
            signs,
            self._amounts["cpu"],
            milli,
            history.devices,
            history.counts,
            marks,
        )
        fragments = amounts[:, [0, 1, 3, 4, 5, 6]].sum(axis=1) / total
        return self._at_samples(fragments)


def _stranded(
    scenario: Scenario,
    specs: Sequence[GuestSpec],
    history: RunHistory,
    spec: Ints,
    reached: Ints,
    capacity: Mapping[str, Ints],
) -> tuple[list[float], list[float]]:
    """Return the shares of cpu and memory that are free on hosts where none of the common sizes fits."""
    workload = scenario.workload
    counts = np.bincount(workload.spec_of, minlength=len(workload.specs))
    common = [workload.specs[n] for n in np.argsort(-counts, kind="stable")[:_SIZES].tolist()]
    sizes = sorted({(amount_of(s.requests, CPU), amount_of(s.requests, MEMORY)) for s in common})
    cpu = np.array([amount_of(s.requests, CPU) for s in specs], dtype=np.int64)
    memory = np.array([amount_of(s.requests, MEMORY) for s in specs], dtype=np.int64)
    free_cpu, free_memory = capacity["cpu"].copy(), capacity["memory"].copy()
    out: tuple[list[float], list[float]] = ([], [])
    done = 0
    for last in reached.tolist():
        events = slice(done, last + 1)
        np.subtract.at(free_cpu, history.row[events], cpu[spec[events]] * history.sign[events])
        np.subtract.at(free_memory, history.row[events], memory[spec[events]] * history.sign[events])
        done = max(done, last + 1)
        fits = np.zeros(len(free_cpu), dtype=np.bool_)
        for wanted_cpu, wanted_memory in sizes:
            fits |= (free_cpu >= wanted_cpu) & (free_memory >= wanted_memory)
        out[0].append(float(np.maximum(free_cpu[~fits], 0).sum() / max(int(capacity["cpu"].sum()), 1)))
        out[1].append(float(np.maximum(free_memory[~fits], 0).sum() / max(int(capacity["memory"].sum()), 1)))
    return out


def _host_loads(
    scenario: Scenario,
    history: RunHistory,
    spec: Ints,
    reached: Ints,
    samples: Ints,
    amounts: Mapping[str, Ints],
    capacity: Mapping[str, Ints],
) -> tuple[list[float], list[int], list[list[float]]]:
    """Return the cpu really used as a share, the hosts beyond their cpu, and each host's share in use, by sample.

    A guest without a load uses its requests.
    """
    hosts = len(capacity["cpu"])
    kinds = sorted({load for load in scenario.loads if load is not None}, key=repr)
    kind_of_spec = np.array(
        [kinds.index(load) if load is not None else len(kinds) for load in scenario.loads]
        + [len(kinds)] * len(scenario.running),
        dtype=np.int64,
    )
    kind = kind_of_spec[spec] if len(spec) else spec
    asked = np.zeros((len(kinds) + 1, hosts), dtype=np.float64)
    has_gpus = bool(capacity["gpu"].sum())
    shown = "gpu" if has_gpus else "cpu"
    in_use = np.zeros(hosts, dtype=np.float64)
    whole = np.maximum(capacity[shown], 1)
    pictured = np.linspace(0, hosts - 1, min(hosts, _PICTURED)).astype(np.int64)
    shares: list[float] = []
    overloaded: list[int] = []
    pictures: list[list[float]] = []
    done = 0
    total = max(int(capacity["cpu"].sum()), 1)
    for last, now in zip(reached.tolist(), samples.tolist(), strict=True):
        events = slice(done, last + 1)
        signed = amounts["cpu"][events] * history.sign[events]
        np.add.at(asked, (kind[events], history.row[events]), signed)
        np.add.at(in_use, history.row[events], amounts[shown][events] * history.sign[events])
        done = max(done, last + 1)
        turn = [
            load.mean * (1.0 + load.swing * np.cos(2.0 * np.pi * ((now - load.peak_ns) % DAY) / DAY)) for load in kinds
        ]
        used = np.array([*turn, 1.0]) @ asked
        shares.append(float(used.sum() / total))
        overloaded.append(int((used > capacity["cpu"]).sum()))
        pictures.append([round(float(value), 4) for value in (in_use / whole)[pictured]])
    return shares, overloaded, pictures
