"""The cluster configuration of ``simon apply``: where nodes and pods are, and what is done with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from hostler.config import Document, did_you_mean, invalid
from hostler.errors import InputError
from hostler.sim.simon.keys import SimonStruct, WarningSink, only_document, read_struct

__all__ = ["AppConfig", "ClusterConfig", "CustomConfig", "TypicalPodsConfig", "read_cluster_config"]

VERSION = "simon/v1alpha1"
POLICIES = ("cosSim", "fragOnePod", "fragMultiPod")

Ratio = Annotated[float, Meta(ge=-1e9, le=1000)]  # zero and below mean: not at all
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class ExportConfig(SimonStruct, frozen=True):
    """Where snapshots are written; empty: nowhere."""

    pod_snapshot_yaml_file_prefix: str = ""
    node_snapshot_csv_file_prefix: str = msgspec.field(default="", name="nodeSnapshotCSVFilePrefix")


class InflationConfig(SimonStruct, frozen=True):
    """By how much the workload is inflated after the run, to see what still fits."""

    ratio: Ratio = 0.0
    seed: Seed | None = None  # never had an effect


class TuningConfig(SimonStruct, frozen=True):
    """The demand for gpus as a share of what the nodes have, and where chance comes from."""

    ratio: Ratio = 0.0
    seed: Seed = 0


class DescheduleConfig(SimonStruct, frozen=True):
    """How many pods are moved at most, as a share of those that run, and how they are chosen."""

    ratio: Annotated[float, Meta(ge=0, le=1)] = 0.0
    policy: str = ""


class TypicalPodsConfig(SimonStruct, frozen=True):
    """Which pods fragmentation is measured by."""

    is_involved_cpu_pods: bool = False
    pod_popularity_threshold: int = 60
    pod_increase_step: int = 10
    gpu_res_weight: Annotated[float, Meta(ge=-1e9, le=1e6)] = 0.0


class CustomConfig(SimonStruct, frozen=True):
    """What is done with the workload."""

    shuffle_pod: bool = False
    export_config: ExportConfig = ExportConfig()
    workload_inflation_config: InflationConfig = InflationConfig()
    workload_tuning_config: TuningConfig = TuningConfig()
    new_workload_config: str = ""
    deschedule_config: DescheduleConfig = DescheduleConfig()
    typical_pods_config: TypicalPodsConfig = TypicalPodsConfig()


class ClusterSource(SimonStruct, frozen=True):
    """Where nodes and pods come from."""

    custom_config: str = ""
    kube_config: str = ""


class AppConfig(SimonStruct, frozen=True):
    """Pods that come after everything else."""

    name: str = ""
    path: str = ""
    chart: bool = False


class ClusterConfigSpec(SimonStruct, frozen=True):
    """All of it."""

    cluster: ClusterSource = ClusterSource()
    app_list: tuple[AppConfig, ...] = ()
    new_node: str = ""
    custom_config: CustomConfig = CustomConfig()


class _File(SimonStruct, frozen=True):
    api_version: str
    kind: str
    metadata: dict[str, object] = msgspec.field(default_factory=dict)
    spec: ClusterConfigSpec = ClusterConfigSpec()


class ClusterConfig(msgspec.Struct, frozen=True):
    """A cluster configuration that was read and checked; folders are found."""

    name: str
    folder: Path
    apps: tuple[tuple[str, Path], ...]
    new_workload: Path | None
    custom: CustomConfig


def read_cluster_config(file: str, warn: WarningSink) -> ClusterConfig:
    """Read a cluster configuration; ``warn`` gets a line for each key that does not count."""
    document, data = only_document(file, VERSION, "Config")
    found = read_struct(document, data, _File, warn)
    spec, custom = found.spec, found.spec.custom_config
    if spec.cluster.kube_config:
        raise invalid(
            document,
            ("spec", "cluster", "kubeConfig"),
            "is not supported: no live cluster is read here",
            hint="save its objects in a folder with 'kubectl get nodes,pods -A -o yaml', and name it in customConfig",
        )
    if not spec.cluster.custom_config:
        raise invalid(document, ("spec", "cluster"), "names no folder", hint="give spec.cluster.customConfig")
    _check_policy(document, custom)
    if spec.new_node:
        warn(f"{document.where(('spec', 'newNode'))}: newNode does not count: no nodes are added")
    if custom.workload_inflation_config.seed is not None:
        path = ("spec", "customConfig", "workloadInflationConfig", "seed")
        warn(f"{document.where(path)}: the seed of workloadInflationConfig does not count; workloadTuningConfig's does")
    name = str(found.metadata.get("name") or "")
    new = custom.new_workload_config
    return ClusterConfig(
        name=name or Path(file).stem,
        folder=_folder(document, spec.cluster.custom_config, ("spec", "cluster", "customConfig")),
        apps=tuple(_app(document, app, at) for at, app in enumerate(spec.app_list)),
        new_workload=_folder(document, new, ("spec", "customConfig", "newWorkloadConfig")) if new else None,
        custom=custom,
    )


def _check_policy(document: Document, custom: CustomConfig) -> None:
    policy = custom.deschedule_config.policy
    if policy and policy not in POLICIES:
        path = ("spec", "customConfig", "descheduleConfig", "policy")
        raise invalid(document, path, f"is {policy[:60]!r}, which does not exist", hint=did_you_mean(policy, POLICIES))


def _app(document: Document, app: AppConfig, at: int) -> tuple[str, Path]:
    path = ("spec", "appList", at)
    if app.chart:
        raise invalid(
            document,
            (*path, "chart"),
            "is true: charts are not rendered here",
            hint="write the objects with 'helm template', and name their folder",
        )
    if not app.path:
        raise invalid(document, path, "has no path", hint="name the folder of its objects")
    return app.name or f"app-{at}", _folder(document, app.path, (*path, "path"))


def _folder(document: Document, name: str, path: tuple[str | int, ...]) -> Path:
    """Find a folder: seen from here, as simon does, else from the folder of the configuration."""
    for folder in (Path(name), Path(document.source).parent / name):
        try:
            if folder.exists():
                return folder
        except (OSError, ValueError) as error:
            raise InputError(f"{document.where(path)}: {name[:60]!r} cannot be looked at: {error}") from None
    raise invalid(
        document,
        path,
        f"names {name[:200]!r}, which does not exist",
        hint="it is relative to the current folder, or to that of the file",
    )
