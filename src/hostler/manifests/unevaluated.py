"""What a pod says that this release does not evaluate, though it could change the answer.

Silence would look like an answer, so each such field becomes a note; and a pod that needs claims of
volumes or devices is refused for it, because a place chosen without them would be a guess. A pod that
already runs has got its place, so nothing of it is noted. Used by ``pods``.
"""

from __future__ import annotations

from collections.abc import Iterator

from hostler.manifests.gpus import GPU_COUNT, GPU_INDEX, GPU_MILLI, GPU_MODEL
from hostler.manifests.objects import Pod, PodVolume
from hostler.manifests.places import Note, child

__all__ = ["NOT_EVALUATED", "RESOURCE_CLAIMS", "VOLUME_CLAIMS", "unevaluated", "unsupported_needs"]

NOT_EVALUATED = "is not evaluated"
VOLUME_CLAIMS = "volume claims"
RESOURCE_CLAIMS = "resource claims"

# Volumes that bind a pod to where they are, or of which a node takes only so many: how they are written and read.
_PLACED_VOLUMES = {
    "persistentVolumeClaim": "persistent_volume_claim",
    "ephemeral": "ephemeral",
    "csi": "csi",
    "gcePersistentDisk": "gce_persistent_disk",
    "awsElasticBlockStore": "aws_elastic_block_store",
    "azureDisk": "azure_disk",
    "iscsi": "iscsi",
    "rbd": "rbd",
}


def unevaluated(pod: Pod, place: str) -> tuple[Note, ...]:
    """Note every field of a pod that could change the answer and is not evaluated."""
    if pod.spec.node_name:
        return ()
    return tuple(Note(place, field, NOT_EVALUATED) for field in (*_needs(pod), *_annotations(pod)))


def unsupported_needs(pod: Pod, *, knows_volumes: bool = False) -> tuple[str, ...]:
    """Name what a pod needs before it can be placed and nobody here can give; on a live cluster volumes are known."""
    if pod.spec.node_name:
        return ()
    needs = []
    if not knows_volumes and any(_is_claimed(volume) for volume in pod.spec.volumes):
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
        given = (name for name, field in _PLACED_VOLUMES.items() if getattr(volume, field) is not None)
        yield from (f"spec.volumes[{at}].{name}" for name in given)


def _annotations(pod: Pod) -> Iterator[str]:
    """Find GPU annotations without effect: a device chosen before placement, a model alone."""
    given = pod.metadata.annotations
    if GPU_INDEX in given:
        yield child("metadata.annotations", GPU_INDEX)
    if GPU_MODEL in given and GPU_MILLI not in given and GPU_COUNT not in given:
        yield child("metadata.annotations", GPU_MODEL)


def _is_claimed(volume: PodVolume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None
