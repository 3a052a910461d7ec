"""PodDisruptionBudgets to the model: how many pods may be disrupted now, as the cluster worked it out.

Used by ``reader``.
"""

from __future__ import annotations

from hostler.manifests.places import DEFAULT_NAMESPACE, Note, check_count, check_name, version_of
from hostler.manifests.policy_objects import PodDisruptionBudget
from hostler.manifests.selectors import read_selector
from hostler.model import Budget, Selector

__all__ = ["read_budget"]


def read_budget(item: PodDisruptionBudget, place: str) -> tuple[Budget, tuple[Note, ...]]:
    """Turn a budget into the model's; without a status nothing may be disrupted."""
    metadata = item.metadata
    notes: list[Note] = []
    selector = read_selector(item.spec.selector, "spec.selector")
    if selector == Selector():
        # The eviction API takes it for every pod of the namespace, kube-scheduler's preemption for none.
        notes.append(Note(place, "spec.selector", "is empty: preemption takes it for no pod at all"))
        selector = None
    for name in item.status.disrupted_pods:
        check_name(name, "status.disruptedPods")
    allowed = item.status.disruptions_allowed
    if allowed is None:
        notes.append(Note(place, "status.disruptionsAllowed", "is missing: no disruption is allowed"))
    budget = Budget(
        name=metadata.name,
        namespace=metadata.namespace or DEFAULT_NAMESPACE,
        version=version_of(metadata),
        selector=selector,
        allowed=check_count(allowed or 0, "status.disruptionsAllowed", least=0),
        disrupted=tuple(sorted(item.status.disrupted_pods)),
    )
    return budget, tuple(notes)
