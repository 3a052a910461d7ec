"""Which pods concern an extender: those that ask for a resource that it manages, or all."""

from __future__ import annotations

from typing import Any

from hostler.kube.settings import ExtenderSettings

__all__ = ["is_interested"]


def is_interested(extender: ExtenderSettings, pod: dict[str, Any]) -> bool:
    """Say whether an extender is asked about a pod, given as it came from the API."""
    if not extender.managed_resources:
        return True
    managed = set(extender.managed_resources)
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return False
    return any(not managed.isdisjoint(names) for names in _resource_names(spec))


def _resource_names(spec: dict[str, Any]) -> list[set[str]]:
    """Return the names in requests and limits of all containers, and of the pod as a whole."""
    holders = [spec]
    for key in ("containers", "initContainers"):
        containers = spec.get(key)
        holders += [one for one in containers if isinstance(one, dict)] if isinstance(containers, list) else []
    found = []
    for holder in holders:
        resources = holder.get("resources")
        if isinstance(resources, dict):
            amounts = (resources.get("requests"), resources.get("limits"))
            found += [set(one) for one in amounts if isinstance(one, dict)]
    return found
