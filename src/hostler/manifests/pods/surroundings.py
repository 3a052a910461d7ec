"""Objects that the meaning of a pod depends on: services, the owner's selector, priority classes.

The siblings of a pod are what kube-scheduler spreads by default: the pods that all services which select it select, and
that its controlling ReplicaSet, StatefulSet or ReplicationController selects too. Filled before pods are converted, or
kept up to date on a live cluster; unknown objects do not count. Used by ``pods``, ``workloads``, ``reader`` and
``kube``.
"""

from __future__ import annotations

from hostler.manifests.objects.metadata import Metadata, controller_of
from hostler.manifests.objects.policies import PriorityClass, Service
from hostler.manifests.places import DEFAULT_NAMESPACE
from hostler.manifests.pods.priorities import PriorityClasses
from hostler.manifests.selectors import select_labels
from hostler.model import Labels, Selector

__all__ = ["Surroundings"]

# Of these controllers kube-scheduler looks the selector up.
_SELECTING_KINDS = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
_MAX_KNOWN = 4096  # answers kept for each namespace; every pod of a StatefulSet has labels of its own


class Surroundings:
    """Lookups for the conversion of pods."""

    def __init__(self) -> None:
        self.priorities = PriorityClasses()
        self._services: dict[str, dict[str, dict[str, str]]] = {}  # by namespace and name
        self._selectors: dict[tuple[str, str, str], Selector | None] = {}
        self._known: dict[str, dict[tuple[Labels, Selector | None], Selector | None]] = {}  # by namespace

    def add_priority_class(self, item: PriorityClass) -> None:
        """Add a priority class, or replace the one of that name."""
        self.priorities.add(item)

    def add_service(self, service: Service) -> None:
        """Add a service, or replace the one of that name; a service without a selector has no pods of its own."""
        namespace = service.metadata.namespace or DEFAULT_NAMESPACE
        self.remove_service(namespace, service.metadata.name)
        if service.spec.selector is not None:
            self._services.setdefault(namespace, {})[service.metadata.name] = service.spec.selector
            self._known.pop(namespace, None)

    def remove_service(self, namespace: str, name: str) -> None:
        """Remove a service."""
        if self._services.get(namespace, {}).pop(name, None) is not None:
            self._known.pop(namespace, None)

    def service_selector(self, namespace: str, name: str) -> dict[str, str] | None:
        """Return a service's selector; None if there is no such service or it selects nothing."""
        return self._services.get(namespace, {}).get(name)

    def add_controller(self, kind: str, metadata: Metadata, selector: Selector | None) -> None:
        """Add a controller of pods by its kind and name, or replace it."""
        if kind in _SELECTING_KINDS:
            self._selectors[metadata.namespace or DEFAULT_NAMESPACE, kind, metadata.name] = selector

    def remove_controller(self, namespace: str, kind: str, name: str) -> None:
        """Remove a controller of pods."""
        self._selectors.pop((namespace, kind, name), None)

    def selector_named(self, namespace: str, kind: str, name: str) -> Selector | None:
        """Return the selector of a controller; None if it is unknown or empty."""
        return self._selectors.get((namespace, kind, name))

    def controller_selector(self, metadata: Metadata) -> Selector | None:
        """Return the selector of a pod's controller; None if it has none."""
        owner = controller_of(metadata)
        if owner is None:
            return None
        return self.selector_named(metadata.namespace or DEFAULT_NAMESPACE, owner.kind, owner.name)

    def siblings(self, namespace: str, labels: Labels, controller: Selector | None) -> Selector | None:
        """Return the selector of a pod's siblings; None if it has no service and no controller with a selector."""
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
