"""The fields of objects that make pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job and their like.

The same rules as in ``objects`` hold. Used by ``decoding``, ``owners`` and ``workloads``.
"""

from __future__ import annotations

from hostler.manifests.metadata import Condition, LabelSelector, Metadata, Read, Unread
from hostler.manifests.objects import PodSpec

__all__ = [
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "JobSpec",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "Template",
]


class Template(Read, frozen=True):
    """What the pods of a workload look like."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()


class ReplicaSpec(Read, frozen=True):
    """So many pods of one template."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: Template = Template()


class Deployment(Read, frozen=True):
    """Pods that are replaced when their template changes; its ReplicaSets make them."""

    metadata: Metadata = Metadata()
    spec: ReplicaSpec = ReplicaSpec()


class ReplicaSet(Read, frozen=True):
    """So many pods of one template."""

    metadata: Metadata = Metadata()
    spec: ReplicaSpec = ReplicaSpec()


class ControllerSpec(Read, frozen=True):
    """So many pods of one template, in the oldest form: the selector is a plain mapping."""

    replicas: int | None = None
    selector: dict[str, str] | None = None
    template: Template = Template()


class ReplicationController(Read, frozen=True):
    """The oldest form of a ReplicaSet."""

    metadata: Metadata = Metadata()
    spec: ControllerSpec = ControllerSpec()


class Ordinals(Read, frozen=True):
    """Where the numbers of a StatefulSet's pods begin."""

    start: int = 0


class StatefulSpec(Read, frozen=True):
    """So many pods with numbers, and the claims that each of them gets."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: Template = Template()
    ordinals: Ordinals = Ordinals()
    volume_claim_templates: tuple[Unread, ...] = ()


class StatefulSet(Read, frozen=True):
    """Pods with numbers and lasting names."""

    metadata: Metadata = Metadata()
    spec: StatefulSpec = StatefulSpec()


class DaemonSpec(Read, frozen=True):
    """One pod for each node."""

    selector: LabelSelector | None = None
    template: Template = Template()


class DaemonSet(Read, frozen=True):
    """One pod for each node."""

    metadata: Metadata = Metadata()
    spec: DaemonSpec = DaemonSpec()


class JobSpec(Read, frozen=True):
    """So many pods at once, until so many have succeeded."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False
    template: Template = Template()


class JobStatus(Read, frozen=True):
    """How far a job is."""

    succeeded: int = 0
    conditions: tuple[Condition, ...] = ()


class Job(Read, frozen=True):
    """Pods that run to their end."""

    metadata: Metadata = Metadata()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplate(Read, frozen=True):
    """What the jobs of a CronJob look like."""

    metadata: Metadata = Metadata()
    spec: JobSpec = JobSpec()


class CronSpec(Read, frozen=True):
    """A job now and then."""

    suspend: bool = False
    job_template: JobTemplate = JobTemplate()


class CronJob(Read, frozen=True):
    """A job now and then."""

    metadata: Metadata = Metadata()
    spec: CronSpec = CronSpec()
