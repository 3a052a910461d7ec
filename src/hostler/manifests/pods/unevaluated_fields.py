"""Fields of a pod that this release does not evaluate although they could change the answer.

Each such field becomes a note. A pod that needs volume claims, resource claims or devices is rejected for it, because a
host chosen without them would be a guess. A running pod has its host already, so it gets no notes. Used by ``guests``.
"""

from __future__ import annotations

from collections.abc import Iterator

from hostler.manifests.objects.core import Pod, PodVolume
from hostler.manifests.places import ManifestNote, child
from hostler.manifests.pods.gpus import GPU_COUNT, GPU_INDEX, GPU_MILLI, GPU_MODEL
from hostler.manifests.scheduler_message import RESOURCE_CLAIMS, VOLUME_CLAIMS

__all__ = ["NOT_EVALUATED", "note_unevaluated_fields", "unsupported_needs"]

NOT_EVALUATED = "is not evaluated"

# Volumes that bind a pod to their place, or that a node takes a limited number of: their key and our field.
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


def note_unevaluated_fields(pod: Pod, place: str) -> tuple[ManifestNote, ...]:
    """Return a note for every field of a pod that could change the answer and is not evaluated."""
    if pod.spec.node_name:
        return ()
    return tuple(ManifestNote(place, field, NOT_EVALUATED) for field in (*_needs(pod), *_annotations(pod)))


def unsupported_needs(pod: Pod, *, knows_volumes: bool = False) -> tuple[str, ...]:
    """Return what a pod needs before it can be placed and this front cannot provide; a live cluster knows volumes."""
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
    """Return GPU annotations without effect: a device chosen before placement, a model alone."""
    given = pod.metadata.annotations
    if GPU_INDEX in given:
        yield child("metadata.annotations", GPU_INDEX)
    if GPU_MODEL in given and GPU_MILLI not in given and GPU_COUNT not in given:
        yield child("metadata.annotations", GPU_MODEL)


def _is_claimed(volume: PodVolume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None
