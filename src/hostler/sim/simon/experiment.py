"""One ``apply``: everything that a cluster configuration asks for, step by step, as simon does it.

The last step may be an inflation: clones of random pods, to see how many more would fit.
Fragmentation is measured by typical pods, chosen as ``typicalPodsConfig`` says; with cpu-only pods, 95 percent, steps
of one and no weight these are the engine's ``typical_mix``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hostler.engine import Registry
from hostler.engine.cluster.tables import GPU
from hostler.errors import DuplicateNameError
from hostler.model import CPU, WHOLE_DEVICE, GuestSpec, MixEntry, Policy, amount_of
from hostler.sim.arrivals import gpu_millis
from hostler.sim.scorer.client import ScorerCallCounts
from hostler.sim.scorer.placer import ServiceUse
from hostler.sim.shuffles import draws
from hostler.sim.simon.arrival_order import order_arrivals
from hostler.sim.simon.cluster import SimonCluster, SimonNode
from hostler.sim.simon.cluster_config import ClusterConfig, TypicalPodsConfig
from hostler.sim.simon.descheduler import choose_victims
from hostler.sim.simon.folder import SimonFolder, SimonPod, read_folder
from hostler.sim.simon.keys import WarningSink
from hostler.sim.simon.scheduler_config import with_typical
from hostler.sim.simon.snapshots import node_csv, pod_csv, pod_yaml
from hostler.sim.simon.summary import StageSummary, summarize_stage

__all__ = ["SimonResult", "Write", "apply_simon_config", "inflate_workload", "typical_pods"]

_INFLATION = 21  # the stream of its draws
_MOST = 1_000_000  # clones
_DEFAULT_CPU = 100  # milli-cores of a pod that asks for none
_DEFAULT_PERCENT = 60
_DEFAULT_STEP = 10

Need = tuple[int, int, int, str]  # cpu, milli of each gpu, gpus, models


def inflate_workload(
    workload: Sequence[SimonPod], asked: Sequence[SimonPod], nodes: Sequence[SimonNode], ratio: float, seed: int
) -> list[SimonPod]:
    """Return clones of the workload, at most ceil(n x ratio) - n, until the demand would exceed the capacity."""
    wanted = min(math.ceil(len(workload) * ratio) - len(workload), _MOST)
    if not workload or wanted <= 0:
        return []
    cpu_left = sum(amount_of(node.host.capacity, CPU) for node in nodes) - sum(_cpu(pod.spec) for pod in asked)
    gpu_left = 1000 * sum(len(node.gpus) for node in nodes) - sum(gpu_millis(pod.spec) for pod in asked)
    taken = {pod.key for pod in asked}
    clones: list[SimonPod] = []
    for at, number in enumerate(draws(seed, _INFLATION, wanted).tolist()):
        pod = workload[number % len(workload)]
        cpu_left -= _cpu(pod.spec)
        gpu_left -= gpu_millis(pod.spec)
        if cpu_left < 0 or gpu_left < 0:
            break
        clone = pod.clone(f"-clone-{at}")
        clones.append(clone if clone.key not in taken else pod.clone(f"-clone-{wanted + at}"))
    return clones


def _cpu(spec: GuestSpec) -> int:
    return amount_of(spec.requests, CPU)


Write = Callable[[Path, bytes], None]


class SimonResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    name: str
    policy: str
    seed: int
    is_published_order: bool
    nodes: int
    workload_pods: int
    typical_pods: int
    events: int  # pods that arrived, clones included; not those of inflation
    failed: int
    unscheduled: tuple[str, ...]  # of the first schedule, the re-schedule and the apps, by namespace and name
    stages: tuple[StageSummary, ...]
    files: tuple[str, ...]
    questions: ScorerCallCounts | None = None  # to the service, if the policy asks one


def apply_simon_config(
    config: ClusterConfig,
    policy: Policy,
    warn: WarningSink,
    write: Write,
    *,
    data_dir: Path | None = None,
    registry: Registry | None = None,
    service: ServiceUse | None = None,
) -> SimonResult:
    """Run an experiment; ``warn`` gets a line for all that does not count, ``write`` writes snapshots.

    A policy that asks needs the ``service`` that is asked.
    """
    return _Experiment(config, policy, warn, write, data_dir, registry, service).run()


class _Experiment:
    def __init__(
        self, config: ClusterConfig, policy: Policy, warn: WarningSink, write: Write, data_dir: Path | None,
        registry: Registry | None, service: ServiceUse | None,
    ) -> None:  # fmt: skip
        self._config = config
        self._custom = config.custom
        self._warn = warn
        self._write = write
        self._seed = config.custom.workload_tuning_config.seed
        self._input = read_folder(config.folder, warn)
        self._workload: Sequence[SimonPod] = self._input.pods
        self._mix = self._typical(self._workload)
        self._service = service
        self._policy = with_typical(_as_service_goes(policy, service), self._mix)
        waiting = [pod for pod in self._workload if not pod.guest.host]
        self._arrivals = order_arrivals(waiting, self._input.hosts, self._custom, data_dir)
        namespaces = dict(self._input.namespaces)
        self._cluster = SimonCluster(self._arrivals.hosts, self._policy, self._seed, namespaces, registry, service)
        self._asked = [*(pod for pod in self._workload if pod.guest.host), *self._arrivals.pods]
        self._apps = self._read_apps()
        self._stages: list[StageSummary] = []
        self._files: list[str] = []
        self._failed: list[SimonPod] = []

    def run(self) -> SimonResult:
        self._cluster.adopt(pod for pod in self._workload if pod.guest.host)
        self._schedule("InitSchedule", self._arrivals.pods)
        self._inflate("ScheduleInflation")
        if self._config.new_workload is not None:
            self._workload = read_folder(self._config.new_workload, self._warn, self._arrivals.hosts).pods
            self._mix = self._typical(self._workload)
            self._cluster.measure_by(self._mix)
        if self._custom.deschedule_config.policy:
            self._deschedule()
        if self._custom.deschedule_config.policy or self._config.new_workload is not None:
            self._inflate("DescheduleInflation")
        for name, pods in self._apps:
            self._schedule(f"App {name}", pods, is_exported=False)
        arrived = len(self._arrivals.pods) + sum(len(pods) for _, pods in self._apps)
        return SimonResult(
            name=self._config.name,
            policy=self._policy.name,
            seed=self._seed,
            is_published_order=self._arrivals.is_published,
            nodes=len(self._input.hosts),
            workload_pods=len(self._input.pods),
            typical_pods=len(self._mix),
            events=arrived,
            failed=len(self._failed),
            unscheduled=tuple(pod.key for pod in self._failed),
            stages=tuple(self._stages),
            files=tuple(self._files),
            questions=self._service.client.tally if self._service is not None else None,
        )

    def _schedule(self, tag: str, pods: Sequence[SimonPod], *, is_exported: bool = True) -> None:
        failed = self._cluster.schedule(pods)
        self._failed += failed
        self._stages.append(summarize_stage(tag, self._cluster, self._mix, len(pods), failed))
        if is_exported:
            self._export(tag, failed)

    def _inflate(self, tag: str) -> None:
        ratio = self._custom.workload_inflation_config.ratio
        if ratio <= 1:
            return
        clones = inflate_workload(self._workload, self._asked, self._cluster.nodes, ratio, self._seed)
        if not clones:
            self._warn(f"{tag}: one more pod would already pass what the nodes have, so nothing is inflated")
            return
        failed = self._cluster.schedule(clones)
        self._stages.append(summarize_stage(tag, self._cluster, self._mix, len(clones), failed))
        self._export(tag, failed)
        gone = {pod.key for pod in failed}
        self._cluster.remove(pod.key for pod in clones if pod.key not in gone)

    def _deschedule(self) -> None:
        rule = self._custom.deschedule_config
        victims = choose_victims(self._cluster.nodes, self._mix, rule.policy, rule.ratio)
        moved = [self._cluster.running[key].pod for key in victims]
        self._cluster.remove(victims)
        self._stages.append(summarize_stage("PostEviction", self._cluster, self._mix, 0, ()))
        self._export("PostEviction", ())
        self._schedule("PostDeschedule", moved)

    def _export(self, tag: str, failed: Sequence[SimonPod]) -> None:
        export = self._custom.export_config
        files: dict[Path, str] = {}
        if export.node_snapshot_csv_file_prefix:
            folder = Path(export.node_snapshot_csv_file_prefix) / tag
            files[folder / "node-snapshot.csv"] = node_csv(self._cluster)
            files[folder / "pod-snapshot.csv"] = pod_csv(self._cluster)
        if export.pod_snapshot_yaml_file_prefix:
            folder = Path(export.pod_snapshot_yaml_file_prefix) / tag
            files[folder / "pod-snapshot.yaml"] = pod_yaml(self._cluster, failed)
        for path, text in files.items():
            self._write(path, text.encode())
            self._files.append(str(path))

    def _typical(self, pods: Sequence[SimonPod]) -> tuple[MixEntry, ...]:
        return typical_pods([pod.spec for pod in pods], self._custom.typical_pods_config)

    def _read_apps(self) -> list[tuple[str, Sequence[SimonPod]]]:
        """Read the pods of the apps; a name that is taken would end the pod that has it."""
        taken = {pod.key for pod in self._asked}
        apps: list[tuple[str, Sequence[SimonPod]]] = []
        for name, path in self._config.apps:
            found: SimonFolder = read_folder(path, self._warn, self._arrivals.hosts)
            if found.hosts:
                self._warn(f"{path}: {len(found.hosts)} nodes of app {name!r} do not count")
            for pod in found.pods:
                if pod.key in taken:
                    raise DuplicateNameError(
                        f"{path}: pod {pod.key} of app {name!r} is there already", hint="rename one of them"
                    )
                taken.add(pod.key)
            apps.append((name, found.pods))
        return apps


def _as_service_goes(policy: Policy, service: ServiceUse | None) -> Policy:
    """Return the policy with a question that may stay without an answer, if the user chose that."""
    if policy.ask is None or service is None:
        return policy
    ask = msgspec.structs.replace(policy.ask, ignorable=service.on_failure == "skip")
    return msgspec.structs.replace(policy, ask=ask)


def typical_pods(specs: Sequence[GuestSpec], config: TypicalPodsConfig) -> tuple[MixEntry, ...]:
    """Return the most common needs until they cover the given share of the demand, with their shares.

    Shares are computed as the artifact does, (n / N) / (covered / N): other ways of writing it flip single ties.
    """
    counts: dict[Need, float] = {}
    for spec in specs:
        need = _typical_need(spec)
        if need[1] == 0 and not config.is_involved_cpu_pods:
            continue
        is_whole = need[1] == WHOLE_DEVICE and config.gpu_res_weight > 0
        counts[need] = counts.get(need, 0.0) + (1.0 + need[2] * config.gpu_res_weight if is_whole else 1.0)
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True)
    percent = config.pod_popularity_threshold
    if not 0 < percent <= 100:
        percent = _DEFAULT_PERCENT
    step = config.pod_increase_step if config.pod_increase_step > 0 else _DEFAULT_STEP
    chosen, covered = 0, 0.0
    while chosen < len(ordered) and covered * 100 < percent * total:
        covered += sum(count for _, count in ordered[chosen : chosen + step])
        chosen = min(chosen + step, len(ordered))
    return tuple(
        MixEntry(
            cpu_millis=cpu,
            device_millis=milli,
            device_count=gpus,
            models=tuple(models.split("|")) if models else (),
            share=(count / total) / (covered / total) if chosen < len(ordered) else count / total,
        )
        for (cpu, milli, gpus, models), count in ordered[:chosen]
    )


def _typical_need(spec: GuestSpec) -> Need:
    gpu = next((device for device in spec.devices if device.kind == GPU), None)
    cpu = amount_of(spec.requests, CPU) or _DEFAULT_CPU
    return (cpu, gpu.milli, gpu.count, "|".join(gpu.models)) if gpu else (cpu, 0, 0, "")
