"""What the code that acts on a pod needs to know of it, beside its shape."""

from __future__ import annotations

import datetime

import msgspec

from hostler.manifests.objects.core import Node, Pod
from hostler.manifests.places import DEFAULT_NAMESPACE
from hostler.manifests.times import nanoseconds

__all__ = ["DEFAULT_SCHEDULER", "Counts", "PodView", "created_at", "has_ended", "scheduler_of", "view_of"]

DEFAULT_SCHEDULER = "default-scheduler"  # the API server's default scheduler name
_SCHEDULED = "PodScheduled"


class PodView(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as the API server has it now."""

    namespace: str
    name: str
    uid: str
    version: str = ""
    node: str = ""
    scheduler_name: str = ""
    priority: int = 0
    is_ours: bool = False  # its scheduler name is one of ours
    is_gated: bool = False
    is_leaving: bool = False
    has_ended: bool = False
    nominated: str = ""
    condition: tuple[str, str] = ("", "")  # reason and message of PodScheduled
    group: str = ""  # namespace/name
    created: int = 0  # nanoseconds; 0 if unknown
    problem: str = ""  # why it could not be converted


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of pods and problems."""

    hosts: int = 0
    pods: int = 0
    running: int = 0  # with a node, and not ended
    pending: int = 0  # ours, known to the engine, without a node
    gated: int = 0
    others_pending: int = 0  # pending pods of other schedulers
    poison_pods: int = 0
    poison: int = 0  # objects of any kind


def has_ended(pod: Pod) -> bool:
    """Return whether a pod no longer holds resources."""
    return pod.status.phase in ("Succeeded", "Failed")


def scheduler_of(pod: Pod) -> str:
    """Return the scheduler that a pod names."""
    return pod.spec.scheduler_name or DEFAULT_SCHEDULER


def created_at(item: Pod | Node) -> int:
    """Return when a pod or node was created; 0 if it is missing or unreadable."""
    written = item.metadata.creation_timestamp
    try:
        return nanoseconds(datetime.datetime.fromisoformat(written), "") if isinstance(written, str) else 0
    except ValueError:
        return 0


def view_of(pod: Pod, *, is_ours: bool, group: str, priority: int, created: int, problem: str) -> PodView:
    """Make the view of a pod."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    condition = ("", "")
    for one in status.conditions:
        if one.type == _SCHEDULED and one.status != "True":
            condition = (one.reason, one.message)
    return PodView(
        namespace=metadata.namespace or DEFAULT_NAMESPACE,
        name=metadata.name,
        uid=metadata.uid,
        version=str(metadata.resource_version),
        node=spec.node_name,
        scheduler_name=scheduler_of(pod),
        priority=priority,
        is_ours=is_ours,
        is_gated=bool(spec.scheduling_gates) and not spec.node_name,
        is_leaving=metadata.deletion_timestamp is not None,
        has_ended=has_ended(pod),
        nominated=status.nominated_node_name,
        condition=condition,
        group=group,
        created=created,
        problem=problem,
    )
