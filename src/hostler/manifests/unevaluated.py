"""What a pod says that this release does not evaluate, though it could change the answer.

Silence would look like an answer, so each such field becomes a note; and a pod that needs claims of
volumes or devices is refused for it, because a place chosen without them would be a guess. A pod that
already runs has got its place, so nothing of it is noted. Used by ``pods``.
"""

from __future__ import annotations

from collections.abc import Iterator

from hostler.manifests.gpus import GPU_COUNT, GPU_INDEX, GPU_MILLI, GPU_MODEL
from hostler.manifests.objects import Pod
from hostler.manifests.places import Note, child

__all__ = ["NOT_EVALUATED", "RESOURCE_CLAIMS", "VOLUME_CLAIMS", "unevaluated", "unsupported_needs"]

NOT_EVALUATED = "is not evaluated"
VOLUME_CLAIMS = "volume claims"
RESOURCE_CLAIMS = "resource claims"

_CLAIMED_VOLUMES = ("persistentVolumeClaim", "ephemeral")
# Volumes that bind a pod to where they are, or of which a node takes only so many.
_PLACED_VOLUMES = (
    *_CLAIMED_VOLUMES,
    "csi",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "azureDisk",
    "iscsi",
    "rbd",
)


def unevaluated(pod: Pod, place: str) -> tuple[Note, ...]:
    """Note every field of a pod that could change the answer and is not evaluated."""
    if pod.spec.node_name:
        return ()
    return tuple(Note(place, field, NOT_EVALUATED) for field in (*_needs(pod), *_annotations(pod)))


def unsupported_needs(pod: Pod) -> tuple[str, ...]:
    """Name what a pod needs before it can be placed and nobody here can give."""
    if pod.spec.node_name:
        return ()
    needs = []
    if any(volume.get(kind) is not None for volume in pod.spec.volumes for kind in _CLAIMED_VOLUMES):
        needs.append(VOLUME_CLAIMS)
    if pod.spec.resource_claims:
        needs.append(RESOURCE_CLAIMS)
    return tuple(needs)


def _needs(pod: Pod) -> Iterator[str]:
    if pod.spec.resource_claims:
        yield "spec.resourceClaims"
    if pod.spec.workload_ref:
        yield "spec.workloadRef"
    for at, volume in enumerate(pod.spec.volumes):
        yield from (f"spec.volumes[{at}].{kind}" for kind in _PLACED_VOLUMES if volume.get(kind) is not None)


def _annotations(pod: Pod) -> Iterator[str]:
    """Find GPU annotations without effect: a device chosen before placement, a model alone."""
    given = pod.metadata.annotations
    if GPU_INDEX in given:
        yield child("metadata.annotations", GPU_INDEX)
    if GPU_MODEL in given and GPU_MILLI not in given and GPU_COUNT not in given:
        yield child("metadata.annotations", GPU_MODEL)
