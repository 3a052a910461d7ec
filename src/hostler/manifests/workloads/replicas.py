"""How many pods a workload still has to create, and from which template.

Existing pods count, so only the missing ones are created, under unused names. Used by ``missing_pods``, which also has
daemons: they go by nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from hostler.errors import InputError
from hostler.manifests.objects.core import Pod
from hostler.manifests.objects.metadata import Metadata
from hostler.manifests.objects.workloads import (
    CronJob,
    Deployment,
    Job,
    JobSpec,
    JobStatus,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    Template,
)
from hostler.manifests.places import DEFAULT_NAMESPACE, ManifestNote, check_count
from hostler.manifests.selectors import read_selector, select_labels
from hostler.manifests.workloads.owners import Owners, has_ended, is_active
from hostler.model import Selector

__all__ = ["MAX_MADE", "PodBatch", "PodNames", "Replicated", "batch_of", "pod_of_template", "selector_of"]

MAX_MADE = 1_000_000  # pods that the workloads of one input may make

Replicated: TypeAlias = Deployment | ReplicaSet | ReplicationController | StatefulSet | Job | CronJob


class PodBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Pods to be created from one template. ``path`` is the template's path."""

    pod: Pod | None = None
    names: tuple[str, ...] = ()
    path: str = "spec.template"
    selector: Selector | None = None
    has_claims: bool = False  # each pod gets volume claims of its own
    notes: tuple[ManifestNote, ...] = ()


class PodNames:
    """The names of existing pods by namespace; finds free names, and bounds how many."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._taken: set[tuple[str, str]] = set()
        self._ended: set[tuple[str, str]] = set()
        for pod in pods:
            key = (pod.metadata.namespace or DEFAULT_NAMESPACE, pod.metadata.name)
            self._taken.add(key)
            if has_ended(pod):
                self._ended.add(key)
        self._left = MAX_MADE

    def count_up(self, namespace: str, base: str, count: int, path: str) -> tuple[str, ...]:
        """Take the first free names of ``base-0``, ``base-1`` and so on."""
        self._use(count, path)
        found: list[str] = []
        number = 0
        while len(found) < count:
            if self._claim(namespace, f"{base}-{number}"):
                found.append(f"{base}-{number}")
            number += 1
        return tuple(found)

    def take(self, namespace: str, names: Iterable[str], count: int, path: str) -> tuple[str, ...]:
        """Take the free ones among ``count`` fixed names; the name of an ended pod is free."""
        self._use(count, path)
        found = []
        for name in names:
            self._taken -= {(namespace, name)} & self._ended
            if self._claim(namespace, name):
                found.append(name)
        return tuple(found)

    def take_like(self, namespace: str, name: str) -> str:
        """Take a name, with a number appended if it is in use."""
        self._use(1, "spec.template")
        wanted, number = name, 0
        while not self._claim(namespace, wanted):
            wanted, number = f"{name}-{number}", number + 1
        return wanted

    def _claim(self, namespace: str, name: str) -> bool:
        is_free = (namespace, name) not in self._taken
        self._taken.add((namespace, name))
        return is_free

    def _use(self, count: int, path: str) -> None:
        if count > self._left:
            raise InputError(
                f"{path}: {count:,} pods are too many", hint=f"the workloads of one input make at most {MAX_MADE:,}"
            )
        self._left -= count


def batch_of(workload: Replicated, place: str, owners: Owners, names: PodNames) -> PodBatch:
    """Return the pods that a workload still has to create."""
    match workload:
        case Job():
            return _job(workload.metadata, workload.spec, workload.status, place, owners, names)
        case CronJob():
            return _cron_job(workload, place, owners, names)
        case StatefulSet():
            return _stateful_set(workload, names)
    metadata, count = workload.metadata, _count(workload.spec.replicas, "spec.replicas")
    if isinstance(workload, ReplicaSet) and owners.is_made_by_given(metadata):
        return PodBatch()  # its Deployment counts
    present = sum(is_active(pod) for pod in owners.pods_of(type(workload).__name__, metadata))
    # The pods of a Deployment are its ReplicaSet's, with that one's labels: only so do they count with their siblings.
    maker = (owners.set_of(workload) if isinstance(workload, Deployment) else None) or workload
    return PodBatch(
        pod=pod_of_template(metadata, maker.spec.template),
        names=names.count_up(_namespace(metadata), metadata.name, max(count - present, 0), "spec.replicas"),
        selector=selector_of(maker),
    )


def selector_of(workload: Deployment | ReplicaSet | ReplicationController | StatefulSet) -> Selector | None:
    """Return the selector of a workload; the oldest form uses its template's labels if it has none."""
    if isinstance(workload, ReplicationController):
        given = workload.spec.selector
        return select_labels(workload.spec.template.metadata.labels if given is None else given)
    return read_selector(workload.spec.selector, "spec.selector")


def pod_of_template(metadata: Metadata, template: Template, more_labels: dict[str, str] | None = None) -> Pod:
    """Build the pod that a template creates, without a name."""
    own = Metadata(
        namespace=_namespace(metadata),
        labels=template.metadata.labels | (more_labels or {}),
        annotations=template.metadata.annotations,
    )
    return Pod(metadata=own, spec=template.spec)


def _stateful_set(workload: StatefulSet, names: PodNames) -> PodBatch:
    metadata, spec = workload.metadata, workload.spec
    count = _count(spec.replicas, "spec.replicas")
    first = _count(spec.ordinals.start, "spec.ordinals.start")
    wanted = (f"{metadata.name}-{number}" for number in range(first, first + count))
    return PodBatch(
        pod=pod_of_template(metadata, spec.template),
        names=names.take(_namespace(metadata), wanted, count, "spec.replicas"),
        selector=selector_of(workload),
        has_claims=bool(spec.volume_claim_templates),
    )


def _job(metadata: Metadata, spec: JobSpec, status: JobStatus, place: str, owners: Owners, names: PodNames) -> PodBatch:
    at_once = _count(spec.parallelism, "spec.parallelism")
    to_do = None if spec.completions is None else _count(spec.completions, "spec.completions")
    if spec.suspend:
        return PodBatch(notes=(ManifestNote(place, "spec.suspend", "is set: no pods are made"),))
    if any(item.type in ("Complete", "Failed") and item.status == "True" for item in status.conditions):
        return PodBatch()
    pods = owners.pods_of("Job", metadata)
    done = max(status.succeeded, sum(pod.status.phase == "Succeeded" for pod in pods))
    if to_do is not None:
        wanted = min(at_once, to_do - done)
    else:
        wanted = 0 if done else at_once  # the first success ends a job without a number
    missing = max(wanted - sum(is_active(pod) for pod in pods), 0)
    return PodBatch(
        pod=pod_of_template(metadata, spec.template, _job_labels(metadata.name)),
        names=names.count_up(_namespace(metadata), metadata.name, missing, "spec.parallelism"),
    )


def _cron_job(workload: CronJob, place: str, owners: Owners, names: PodNames) -> PodBatch:
    metadata, job = workload.metadata, workload.spec.job_template.spec
    if workload.spec.suspend:
        return PodBatch(notes=(ManifestNote(place, "spec.suspend", "is set: no run counts"),))
    if owners.has_made_any("CronJob", metadata):
        return PodBatch()
    count = _count(job.parallelism, "spec.jobTemplate.spec.parallelism")
    if job.completions is not None:
        count = min(count, _count(job.completions, "spec.jobTemplate.spec.completions"))
    return PodBatch(
        pod=pod_of_template(metadata, job.template, _job_labels(metadata.name)),
        names=names.count_up(_namespace(metadata), metadata.name, count, "spec.jobTemplate.spec.parallelism"),
        path="spec.jobTemplate.spec.template",
        notes=(ManifestNote(place, "spec.schedule", "counts as one run"),),
    )


def _job_labels(name: str) -> dict[str, str]:
    """Return the labels that identify pods of one job, in the present and the older form."""
    return {"batch.kubernetes.io/job-name": name, "job-name": name}


def _namespace(metadata: Metadata) -> str:
    return metadata.namespace or DEFAULT_NAMESPACE


def _count(number: int | None, path: str) -> int:
    """Read a number of pods; 1 if absent."""
    return 1 if number is None else check_count(number, path, least=0)
