"""Groups of pods that are placed together: PodGroup objects of both forms, and how pods refer to them.

A field of the pod names the built-in form (scheduling.k8s.io); a label names the older form of scheduler-plugins
(scheduling.x-k8s.io). Used by ``guests``, ``output`` and ``reader``.
"""

from __future__ import annotations

from typing import Literal

from hostler.errors import InputError
from hostler.manifests.objects.core import Pod
from hostler.manifests.objects.metadata import Metadata
from hostler.manifests.objects.policies import CrdPodGroup, PodGroup, PodGroupSpec, SchedulingPolicy
from hostler.manifests.places import DEFAULT_NAMESPACE, ManifestNote, check_count, check_name, child, version_of
from hostler.manifests.pods.priorities import UNKNOWN_CLASS, PriorityClasses, check_priority, may_preempt
from hostler.manifests.pods.unevaluated_fields import NOT_EVALUATED
from hostler.model import Gang

__all__ = [
    "GROUP_MAX", "POD_GROUP_LABEL", "SEED_POD_GROUP_MAX", "SEED_POD_GROUP_MIN", "gang_named_by", "has_seed_group",
    "read_crd_pod_group", "read_pod_group", "seed_group_max", "seed_group_min",
]  # fmt: skip

POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
SEED_POD_GROUP = "pod-group"  # an annotation of the first scheduler, from which this project grew
# Ours beside it, for what that one could not say: how many members must be there, and how many are placed at most.
SEED_POD_GROUP_MIN = "pod-group-min"
SEED_POD_GROUP_MAX = "pod-group-max"
GROUP_MAX = "hostler.dev/max-count"  # an annotation of a PodGroup; neither form has a field for a maximum

# The words of the newest form, which are keys of an object, and of the one before it; in lowercase.
_DISRUPTIONS: dict[str, Literal["single", "all"]] = {
    "single": "single",
    "pod": "single",
    "all": "all",
    "podgroup": "all",
}


def gang_named_by(pod: Pod, namespace: str, *, seed_annotations: bool = False) -> str:
    """Return the key of the gang that a pod names, or an empty key."""
    name = pod.metadata.annotations.get(SEED_POD_GROUP, "") if seed_annotations else ""
    group = pod.spec.scheduling_group
    if not name and group is not None:
        if not group.pod_group_name:
            raise InputError("spec.schedulingGroup.podGroupName: it is missing", hint="name the PodGroup")
        name = group.pod_group_name
    name = name or pod.metadata.labels.get(POD_GROUP_LABEL, "")
    check_name(name, "the name of its group")
    return f"{namespace}/{name}" if name else ""


def has_seed_group(pod: Pod) -> bool:
    """Say whether a pod names its group in the annotation of the first scheduler."""
    return bool(pod.metadata.annotations.get(SEED_POD_GROUP))


def seed_group_min(pod: Pod) -> int | None:
    """Return how many members a pod's group needs, from an annotation of the first scheduler; None if absent."""
    return _annotated_count(pod.metadata, SEED_POD_GROUP_MIN)


def seed_group_max(pod: Pod) -> int | None:
    """Return how many members of a pod's group are placed at most, from an annotation beside it; None if absent."""
    return _annotated_count(pod.metadata, SEED_POD_GROUP_MAX)


def _annotated_count(metadata: Metadata, name: str) -> int | None:
    text = metadata.annotations.get(name)
    if text is None:
        return None
    path = child("metadata.annotations", name)
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        raise InputError(f"{path}: {text[:60]!r} is not a number of pods", hint='such as "4"')
    return check_count(int(text), path)


def _max_count(metadata: Metadata, least: int) -> int:
    """Return how many members of a group are placed at most; 0 means any number."""
    most = _annotated_count(metadata, GROUP_MAX) or 0
    if most and most < least:
        path = child("metadata.annotations", GROUP_MAX)
        raise InputError(f"{path}: {most} is below the minimum {least}", hint="raise it, or remove it for any number")
    return most


def read_pod_group(group: PodGroup, classes: PriorityClasses, place: str) -> tuple[Gang, tuple[ManifestNote, ...]]:
    """Convert a PodGroup of the built-in form to a gang; a basic group is a gang with a minimum of one."""
    spec = group.spec
    priority, notes = _priority(spec, classes, place)
    fields = {
        "spec.preemptionPolicy": not may_preempt(spec.preemption_policy, "spec.preemptionPolicy"),
        "spec.parentCompositePodGroupName": bool(spec.parent_composite_pod_group_name),
        "spec.resourceClaims": bool(spec.resource_claims),
    }
    least = _min_count(spec)
    gang = Gang(
        name=group.metadata.name,
        namespace=group.metadata.namespace or DEFAULT_NAMESPACE,
        version=version_of(group.metadata),
        min_count=least,
        max_count=_max_count(group.metadata, least),
        priority=priority,
        topology=_topology(spec),
        disruption=_disruption(spec),
    )
    return gang, (
        *notes,
        *(ManifestNote(place, field, NOT_EVALUATED) for field, is_given in fields.items() if is_given),
    )


def read_crd_pod_group(group: CrdPodGroup, place: str) -> tuple[Gang, tuple[ManifestNote, ...]]:
    """Convert a PodGroup of the older form to a gang."""
    count = group.spec.min_member
    if count is None:
        raise InputError("spec.minMember: it is missing", hint="such as minMember: 4")
    fields = {
        "spec.scheduleTimeoutSeconds": group.spec.schedule_timeout_seconds is not None,
        "spec.minResources": bool(group.spec.min_resources),
    }
    least = check_count(count, "spec.minMember")
    gang = Gang(
        name=group.metadata.name,
        namespace=group.metadata.namespace or DEFAULT_NAMESPACE,
        version=version_of(group.metadata),
        min_count=least,
        max_count=_max_count(group.metadata, least),
    )
    return gang, tuple(ManifestNote(place, field, NOT_EVALUATED) for field, is_given in fields.items() if is_given)


def _min_count(spec: PodGroupSpec) -> int:
    policy = spec.scheduling_policy
    if spec.policy is not None and policy == SchedulingPolicy():
        raise InputError("spec.policy: there is no such field", hint="did you mean schedulingPolicy?")
    if (policy.basic is None) == (policy.gang is None):
        raise InputError("spec.schedulingPolicy: it has not exactly one of basic and gang", hint="such as basic: {}")
    if policy.gang is None:
        return 1
    return check_count(policy.gang.min_count, "spec.schedulingPolicy.gang.minCount")


def _priority(spec: PodGroupSpec, classes: PriorityClasses, place: str) -> tuple[int | None, tuple[ManifestNote, ...]]:
    if spec.priority is not None:
        return check_priority(spec.priority, "spec.priority"), ()
    value = classes.value(classes.class_of(spec.priority_class_name))
    is_unknown = value is None and spec.priority_class_name
    return value, (ManifestNote(place, "spec.priorityClassName", UNKNOWN_CLASS),) if is_unknown else ()


def _topology(spec: PodGroupSpec) -> str:
    path, constraints = "spec.schedulingConstraints.topology", spec.scheduling_constraints.topology
    if not constraints:
        return ""
    if len(constraints) > 1:
        raise InputError(f"{path}: a group has at most one topology constraint", hint="keep one of them")
    if not constraints[0].key:
        raise InputError(f"{path}[0].key: it is missing", hint="such as topology.kubernetes.io/zone")
    return constraints[0].key


def _disruption(spec: PodGroupSpec) -> Literal["single", "all"]:
    mode = spec.disruption_mode
    words = [mode] if isinstance(mode, str) else [word for word, part in mode.items() if part is not None]
    if words == [""] or not words:
        return "single"
    if len(words) > 1 or words[0].lower() not in _DISRUPTIONS:
        raise InputError(
            f"spec.disruptionMode: {', '.join(words)} is not a mode of disruption", hint="one of single: {} and all: {}"
        )
    return _DISRUPTIONS[words[0].lower()]
