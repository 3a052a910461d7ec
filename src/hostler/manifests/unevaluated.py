"""What a pod says that this release does not evaluate, though it could change the answer.

Silence would look like an answer, so each such field becomes a note. A pod that already runs matters to
others only by its affinity terms (they hold in both directions), so of such a pod nothing else is noted.
Used by ``pods``.
"""

from __future__ import annotations

from collections.abc import Iterator

from hostler.manifests.gpus import GPU_COUNT, GPU_INDEX, GPU_MILLI, GPU_MODEL
from hostler.manifests.objects import Container, Pod
from hostler.manifests.places import Note, child

__all__ = ["NOT_EVALUATED", "unevaluated"]

NOT_EVALUATED = "is not evaluated"
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"

# Volumes that bind a pod to where they are, or of which a node takes only so many.
_PLACED_VOLUMES = (
    "persistentVolumeClaim",
    "ephemeral",
    "csi",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "azureDisk",
    "iscsi",
    "rbd",
)


def unevaluated(pod: Pod, place: str) -> tuple[Note, ...]:
    """Note every field of a pod that could change the answer and is not evaluated."""
    fields = [*_affinity(pod)]
    if not pod.spec.node_name:
        fields += [*_groups(pod), *_ports(pod), *_volumes(pod), *_annotations(pod)]
    return tuple(Note(place, field, NOT_EVALUATED) for field in fields)


def _affinity(pod: Pod) -> Iterator[str]:
    if pod.spec.affinity.pod_affinity:
        yield "spec.affinity.podAffinity"
    if pod.spec.affinity.pod_anti_affinity:
        yield "spec.affinity.podAntiAffinity"


def _groups(pod: Pod) -> Iterator[str]:
    if pod.spec.topology_spread_constraints:
        yield "spec.topologySpreadConstraints"
    if pod.spec.scheduling_group:
        yield "spec.schedulingGroup"
    if POD_GROUP_LABEL in pod.metadata.labels:
        yield child("metadata.labels", POD_GROUP_LABEL)
    if pod.spec.resource_claims:
        yield "spec.resourceClaims"


def _ports(pod: Pod) -> Iterator[str]:
    """Find the first port of the host that the pod takes; on the host's network each port is one."""
    sidecars = [
        (f"spec.initContainers[{at}]", item)
        for at, item in enumerate(pod.spec.init_containers)
        if item.restart_policy == "Always"
    ]
    containers: list[tuple[str, Container]] = [
        (f"spec.containers[{at}]", item) for at, item in enumerate(pod.spec.containers)
    ]
    for path, container in containers + sidecars:
        for at, port in enumerate(container.ports):
            if port.host_port:
                yield f"{path}.ports[{at}].hostPort"
                return
            if pod.spec.host_network:
                yield "spec.hostNetwork"
                return


def _volumes(pod: Pod) -> Iterator[str]:
    for at, volume in enumerate(pod.spec.volumes):
        yield from (f"spec.volumes[{at}].{kind}" for kind in _PLACED_VOLUMES if volume.get(kind) is not None)


def _annotations(pod: Pod) -> Iterator[str]:
    """Find GPU annotations without effect: a device chosen before placement, a model alone."""
    given = pod.metadata.annotations
    if GPU_INDEX in given:
        yield child("metadata.annotations", GPU_INDEX)
    if GPU_MODEL in given and GPU_MILLI not in given and GPU_COUNT not in given:
        yield child("metadata.annotations", GPU_MODEL)
