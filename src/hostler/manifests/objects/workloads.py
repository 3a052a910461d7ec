"""The fields of objects that create pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job and so on.

The rules of ``core`` apply. Used by ``decoder``, ``owners`` and ``missing_pods``.
"""

from __future__ import annotations

from hostler.manifests.objects.core import PodSpec
from hostler.manifests.objects.metadata import Condition, LabelSelector, Metadata, ObjectStruct, Unread

__all__ = [
    "CronJob", "DaemonSet", "Deployment", "Job", "JobSpec", "ReplicaSet", "ReplicationController", "StatefulSet",
    "Template",
]  # fmt: skip


class Template(ObjectStruct, frozen=True):
    """The template of a workload's pods."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()


class ReplicaSpec(ObjectStruct, frozen=True):
    """A number of pods of one template."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: Template = Template()


class Deployment(ObjectStruct, frozen=True):
    """Pods that are replaced when their template changes; its ReplicaSets create them."""

    metadata: Metadata = Metadata()
    spec: ReplicaSpec = ReplicaSpec()


class ReplicaSet(ObjectStruct, frozen=True):
    """A number of pods of one template."""

    metadata: Metadata = Metadata()
    spec: ReplicaSpec = ReplicaSpec()


class ControllerSpec(ObjectStruct, frozen=True):
    """A number of pods of one template in the oldest form: the selector is a plain mapping."""

    replicas: int | None = None
    selector: dict[str, str] | None = None
    template: Template = Template()


class ReplicationController(ObjectStruct, frozen=True):
    """The oldest form of a ReplicaSet."""

    metadata: Metadata = Metadata()
    spec: ControllerSpec = ControllerSpec()


class Ordinals(ObjectStruct, frozen=True):
    """The first number of a StatefulSet's pods."""

    start: int = 0


class StatefulSpec(ObjectStruct, frozen=True):
    """A number of numbered pods, each with its own claims."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: Template = Template()
    ordinals: Ordinals = Ordinals()
    volume_claim_templates: tuple[Unread, ...] = ()


class StatefulSet(ObjectStruct, frozen=True):
    """Pods with numbers and stable names."""

    metadata: Metadata = Metadata()
    spec: StatefulSpec = StatefulSpec()


class DaemonSpec(ObjectStruct, frozen=True):
    """One pod for each node."""

    selector: LabelSelector | None = None
    template: Template = Template()


class DaemonSet(ObjectStruct, frozen=True):
    """One pod for each node."""

    metadata: Metadata = Metadata()
    spec: DaemonSpec = DaemonSpec()


class JobSpec(ObjectStruct, frozen=True):
    """How many pods run at once, and how many must succeed."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False
    template: Template = Template()


class JobStatus(ObjectStruct, frozen=True):
    """The progress of a job."""

    succeeded: int = 0
    conditions: tuple[Condition, ...] = ()


class Job(ObjectStruct, frozen=True):
    """Pods that run to completion."""

    metadata: Metadata = Metadata()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplate(ObjectStruct, frozen=True):
    """The template of a CronJob's jobs."""

    metadata: Metadata = Metadata()
    spec: JobSpec = JobSpec()


class CronSpec(ObjectStruct, frozen=True):
    """A job on a schedule."""

    suspend: bool = False
    job_template: JobTemplate = JobTemplate()


class CronJob(ObjectStruct, frozen=True):
    """A job on a schedule."""

    metadata: Metadata = Metadata()
    spec: CronSpec = CronSpec()
