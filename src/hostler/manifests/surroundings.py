"""What the meaning of a pod depends on beside the pod: services, the owner's selector, priority classes.

The siblings of a pod are what kube-scheduler spreads by default: the pods that all the services selecting
it select, and its controlling ReplicaSet, StatefulSet or ReplicationController too. Filled before pods are
converted; what was never added does not count. Used by ``pods``, ``workloads`` and ``reader``, and later by
``kube``.
"""

from __future__ import annotations

from hostler.manifests.metadata import Metadata, controller_of
from hostler.manifests.places import DEFAULT_NAMESPACE
from hostler.manifests.policy_objects import PriorityClass, Service
from hostler.manifests.priorities import PriorityClasses
from hostler.manifests.selectors import select_labels
from hostler.model import Labels, Selector

__all__ = ["Surroundings"]

# Of these controllers kube-scheduler looks the selector up.
_SELECTING_KINDS = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})


class Surroundings:
    """Lookups that the conversion of pods needs."""

    def __init__(self) -> None:
        self.priorities = PriorityClasses()
        self._services: dict[str, list[dict[str, str]]] = {}
        self._selectors: dict[tuple[str, str, str], Selector | None] = {}
        self._known: dict[tuple[str, Labels, Selector | None], Selector | None] = {}

    def add_priority_class(self, item: PriorityClass) -> None:
        """Take a priority class in."""
        self.priorities.add(item)

    def add_service(self, service: Service) -> None:
        """Take a service in; one without a selector has no pods of its own."""
        if service.spec.selector is not None:
            namespace = service.metadata.namespace or DEFAULT_NAMESPACE
            self._services.setdefault(namespace, []).append(service.spec.selector)
            self._known.clear()

    def add_controller(self, kind: str, metadata: Metadata, selector: Selector | None) -> None:
        """Take a controller of pods in, by its kind and name."""
        if kind in _SELECTING_KINDS:
            self._selectors[metadata.namespace or DEFAULT_NAMESPACE, kind, metadata.name] = selector

    def controller_selector(self, metadata: Metadata) -> Selector | None:
        """Find the selector of a pod's controller; None when it has none that counts."""
        owner = controller_of(metadata)
        if owner is None:
            return None
        return self._selectors.get((metadata.namespace or DEFAULT_NAMESPACE, owner.kind, owner.name))

    def siblings(self, namespace: str, labels: Labels, controller: Selector | None) -> Selector | None:
        """Select the siblings of a pod with these labels; None when nothing says who they are."""
        key = (namespace, labels, controller)
        if key not in self._known:
            self._known[key] = self._find_siblings(namespace, dict(labels), controller)
        return self._known[key]

    def _find_siblings(self, namespace: str, labels: dict[str, str], controller: Selector | None) -> Selector | None:
        shared: dict[str, str] = {}
        for selector in self._services.get(namespace, ()):
            if selector.items() <= labels.items():
                shared |= selector
        expressions = dict.fromkeys(select_labels(shared).expressions)
        if controller is not None:
            expressions |= dict.fromkeys(controller.expressions)
        return Selector(tuple(expressions)) if expressions else None
