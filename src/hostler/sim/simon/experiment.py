"""One ``apply``: everything that a cluster configuration asks for, step by step, as simon does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hostler.engine import Registry
from hostler.errors import DuplicateNameError
from hostler.model import MixEntry, Policy
from hostler.sim.simon.cluster import Cluster
from hostler.sim.simon.cluster_config import ClusterConfig
from hostler.sim.simon.descheduling import choose_victims
from hostler.sim.simon.folder import Folder, Pod, read_folder
from hostler.sim.simon.inflation import inflated
from hostler.sim.simon.keys import Tell
from hostler.sim.simon.ordering import arrivals
from hostler.sim.simon.scheduler_config import with_typical
from hostler.sim.simon.snapshots import node_csv, pod_csv, pod_yaml
from hostler.sim.simon.summary import Stage, summarised
from hostler.sim.simon.typical import typical_pods

__all__ = ["Result", "Write", "apply"]

Write = Callable[[Path, bytes], None]


class Result(msgspec.Struct, frozen=True, kw_only=True):
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
    stages: tuple[Stage, ...]
    files: tuple[str, ...]


def apply(
    config: ClusterConfig,
    policy: Policy,
    tell: Tell,
    write: Write,
    *,
    data_dir: Path | None = None,
    registry: Registry | None = None,
) -> Result:
    """Run an experiment; ``tell`` hears of what does not count, ``write`` writes snapshots."""
    return _Experiment(config, policy, tell, write, data_dir, registry).run()


class _Experiment:
    def __init__(
        self, config: ClusterConfig, policy: Policy, tell: Tell, write: Write, data_dir: Path | None,
        registry: Registry | None,
    ) -> None:  # fmt: skip
        self._config = config
        self._custom = config.custom
        self._tell = tell
        self._write = write
        self._seed = config.custom.workload_tuning_config.seed
        self._input = read_folder(config.folder, tell)
        self._workload: Sequence[Pod] = self._input.pods
        self._mix = self._typical(self._workload)
        self._policy = with_typical(policy, self._mix)
        waiting = [pod for pod in self._workload if not pod.guest.host]
        self._arrivals = arrivals(waiting, self._input.hosts, self._custom, data_dir)
        namespaces = dict(self._input.namespaces)
        self._cluster = Cluster(self._arrivals.hosts, self._policy, self._seed, namespaces, registry)
        self._asked = [*(pod for pod in self._workload if pod.guest.host), *self._arrivals.pods]
        self._apps = self._read_apps()
        self._stages: list[Stage] = []
        self._files: list[str] = []
        self._failed: list[Pod] = []

    def run(self) -> Result:
        self._cluster.adopt(pod for pod in self._workload if pod.guest.host)
        self._schedule("InitSchedule", self._arrivals.pods)
        self._inflate("ScheduleInflation")
        if self._config.new_workload is not None:
            self._workload = read_folder(self._config.new_workload, self._tell, self._arrivals.hosts).pods
            self._mix = self._typical(self._workload)
            self._cluster.measure_by(self._mix)
        if self._custom.deschedule_config.policy:
            self._deschedule()
        if self._custom.deschedule_config.policy or self._config.new_workload is not None:
            self._inflate("DescheduleInflation")
        for name, pods in self._apps:
            self._schedule(f"App {name}", pods, is_exported=False)
        arrived = len(self._arrivals.pods) + sum(len(pods) for _, pods in self._apps)
        return Result(
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
        )

    def _schedule(self, tag: str, pods: Sequence[Pod], *, is_exported: bool = True) -> None:
        failed = self._cluster.schedule(pods)
        self._failed += failed
        self._stages.append(summarised(tag, self._cluster, self._mix, len(pods), failed))
        if is_exported:
            self._export(tag, failed)

    def _inflate(self, tag: str) -> None:
        ratio = self._custom.workload_inflation_config.ratio
        if ratio <= 1:
            return
        clones = inflated(self._workload, self._asked, self._cluster.nodes, ratio, self._seed)
        if not clones:
            self._tell(f"{tag}: one more pod would already pass what the nodes have, so nothing is inflated")
            return
        failed = self._cluster.schedule(clones)
        self._stages.append(summarised(tag, self._cluster, self._mix, len(clones), failed))
        self._export(tag, failed)
        gone = {pod.key for pod in failed}
        self._cluster.remove(pod.key for pod in clones if pod.key not in gone)

    def _deschedule(self) -> None:
        rule = self._custom.deschedule_config
        victims = choose_victims(self._cluster.nodes, self._mix, rule.policy, rule.ratio)
        moved = [self._cluster.running[key].pod for key in victims]
        self._cluster.remove(victims)
        self._stages.append(summarised("PostEviction", self._cluster, self._mix, 0, ()))
        self._export("PostEviction", ())
        self._schedule("PostDeschedule", moved)

    def _export(self, tag: str, failed: Sequence[Pod]) -> None:
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

    def _typical(self, pods: Sequence[Pod]) -> tuple[MixEntry, ...]:
        return typical_pods([pod.spec for pod in pods], self._custom.typical_pods_config)

    def _read_apps(self) -> list[tuple[str, Sequence[Pod]]]:
        """Read the pods of the apps; a name that is taken would end the pod that has it."""
        taken = {pod.key for pod in self._asked}
        apps: list[tuple[str, Sequence[Pod]]] = []
        for name, path in self._config.apps:
            found: Folder = read_folder(path, self._tell, self._arrivals.hosts)
            if found.hosts:
                self._tell(f"{path}: {len(found.hosts)} nodes of app {name!r} do not count")
            for pod in found.pods:
                if pod.key in taken:
                    raise DuplicateNameError(
                        f"{path}: pod {pod.key} of app {name!r} is there already", hint="rename one of them"
                    )
                taken.add(pod.key)
            apps.append((name, found.pods))
        return apps
