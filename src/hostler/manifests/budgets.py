"""PodDisruptionBudgets to the model: how many pods may be disrupted now, as the cluster's controller computed it.

Used by ``reader``.
"""

from __future__ import annotations

from hostler.manifests.objects.policies import PodDisruptionBudget
from hostler.manifests.places import DEFAULT_NAMESPACE, ManifestNote, check_count, check_name, version_of
from hostler.manifests.selectors import read_selector
from hostler.model import Budget, Selector

__all__ = ["read_budget"]


def read_budget(item: PodDisruptionBudget, place: str) -> tuple[Budget, tuple[ManifestNote, ...]]:
    """Convert a budget; without a status no pod may be disrupted."""
    metadata = item.metadata
    notes: list[ManifestNote] = []
    selector = read_selector(item.spec.selector, "spec.selector")
    if selector == Selector():
        # The eviction API takes it for every pod of the namespace, kube-scheduler's preemption for none.
        notes.append(ManifestNote(place, "spec.selector", "is empty: preemption takes it for no pod at all"))
        selector = None
    for name in item.status.disrupted_pods:
        check_name(name, "status.disruptedPods")
    allowed = item.status.disruptions_allowed
    if allowed is None:
        notes.append(ManifestNote(place, "status.disruptionsAllowed", "is missing: no disruption is allowed"))
    budget = Budget(
        name=metadata.name,
        namespace=metadata.namespace or DEFAULT_NAMESPACE,
        version=version_of(metadata),
        selector=selector,
        allowed=check_count(allowed or 0, "status.disruptionsAllowed", least=0),
        disrupted=tuple(sorted(item.status.disrupted_pods)),
    )
    return budget, tuple(notes)
