"""Whether an update of a pod changes anything about its shape: most of them only report progress. Used by ``pods``."""

from __future__ import annotations

from hostler.kube.facts.views import has_ended
from hostler.manifests.objects import Pod, PodStatus

__all__ = ["says_the_same"]

_RESIZE = "PodResizePending"


def says_the_same(old: Pod, new: Pod) -> bool:
    """Say whether two versions of a pod are one guest; conditions and the like may differ."""
    one, other = old.metadata, new.metadata
    return (
        old.spec == new.spec
        and one.labels == other.labels
        and one.annotations == other.annotations
        and one.owner_references == other.owner_references
        and (one.deletion_timestamp is None) == (other.deletion_timestamp is None)
        and has_ended(old) == has_ended(new)
        and (not new.spec.node_name or _holds_the_same(old.status, new.status))
    )


def _holds_the_same(old: PodStatus, new: PodStatus) -> bool:
    """Say whether a running pod holds what it held, and since when."""
    return (
        old.start_time == new.start_time
        and old.resize == new.resize
        and old.container_statuses == new.container_statuses
        and old.init_container_statuses == new.init_container_statuses
        and old.allocated_resources == new.allocated_resources
        and old.resources == new.resources
        and [c for c in old.conditions if c.type == _RESIZE] == [c for c in new.conditions if c.type == _RESIZE]
    )
