"""What the meaning of a pod depends on beside the pod: services, the owner's selector, priority classes.

The siblings of a pod are what kube-scheduler spreads by default: the pods that all the services selecting
it select, and its controlling ReplicaSet, StatefulSet or ReplicationController too. Filled before pods are
converted, or kept up to date on a live cluster; what was never added does not count. Used by ``pods``,
``workloads``, ``reader`` and ``kube``.
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
_MAX_KNOWN = 4096  # answers kept for each namespace; every pod of a StatefulSet has labels of its own


class Surroundings:
    """Lookups that the conversion of pods needs."""

    def __init__(self) -> None:
        self.priorities = PriorityClasses()
        self._services: dict[str, dict[str, dict[str, str]]] = {}  # by namespace and name
        self._selectors: dict[tuple[str, str, str], Selector | None] = {}
        self._known: dict[str, dict[tuple[Labels, Selector | None], Selector | None]] = {}  # by namespace

    def add_priority_class(self, item: PriorityClass) -> None:
        """Take a priority class in, in place of one of that name."""
        self.priorities.add(item)

    def add_service(self, service: Service) -> None:
        """Take a service in, in place of one of that name; one without a selector has no pods of its own."""
        namespace = service.metadata.namespace or DEFAULT_NAMESPACE
        self.remove_service(namespace, service.metadata.name)
        if service.spec.selector is not None:
            self._services.setdefault(namespace, {})[service.metadata.name] = service.spec.selector
            self._known.pop(namespace, None)

    def remove_service(self, namespace: str, name: str) -> None:
        """Forget a service."""
        if self._services.get(namespace, {}).pop(name, None) is not None:
            self._known.pop(namespace, None)

    def service_selector(self, namespace: str, name: str) -> dict[str, str] | None:
        """Return what a service selects; None when there is no such service or it selects nothing."""
        return self._services.get(namespace, {}).get(name)

    def add_controller(self, kind: str, metadata: Metadata, selector: Selector | None) -> None:
        """Take a controller of pods in, by its kind and name, in place of one that has them."""
        if kind in _SELECTING_KINDS:
            self._selectors[metadata.namespace or DEFAULT_NAMESPACE, kind, metadata.name] = selector

    def remove_controller(self, namespace: str, kind: str, name: str) -> None:
        """Forget a controller of pods."""
        self._selectors.pop((namespace, kind, name), None)

    def selector_named(self, namespace: str, kind: str, name: str) -> Selector | None:
        """Return the selector of a controller; None when there is none that counts."""
        return self._selectors.get((namespace, kind, name))

    def controller_selector(self, metadata: Metadata) -> Selector | None:
        """Find the selector of a pod's controller; None when it has none that counts."""
        owner = controller_of(metadata)
        if owner is None:
            return None
        return self.selector_named(metadata.namespace or DEFAULT_NAMESPACE, owner.kind, owner.name)

    def siblings(self, namespace: str, labels: Labels, controller: Selector | None) -> Selector | None:
        """Select the siblings of a pod with these labels; None when nothing says who they are."""
        known = self._known.setdefault(namespace, {})
        key = (labels, controller)
        if key not in known:
            if len(known) >= _MAX_KNOWN:
                known.clear()
            known[key] = self._find_siblings(namespace, dict(labels), controller)
        return known[key]

    def _find_siblings(self, namespace: str, labels: dict[str, str], controller: Selector | None) -> Selector | None:
        shared: dict[str, str] = {}
        for selector in self._services.get(namespace, {}).values():
            if selector.items() <= labels.items():
                shared |= selector
        expressions = dict.fromkeys(select_labels(shared).expressions)
        if controller is not None:
            expressions |= dict.fromkeys(controller.expressions)
        return Selector(tuple(expressions)) if expressions else None
