"""Defaults and admission of new objects, as far as a scheduler can see them."""

from __future__ import annotations

from typing import Any

from hostler.kube.memory.calls import ResourceRoutes
from hostler.kube.memory.error_answers import forbidden, invalid
from hostler.kube.memory.kinds import ServedKind
from hostler.kube.memory.store import ObjectStore

__all__ = ["admit", "fill_in"]

Json = dict[str, Any]

_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_ZEROS = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


def fill_in(store: ObjectStore, kind: ServedKind, item: Json) -> Json:
    """Return a new object with the defaults of its kind; the argument stays unchanged."""
    match kind.plural:
        case "pods":
            return _fill_in_pod(store, item)
        case "nodes":
            return {**item, "spec": item.get("spec") or {}, "status": item.get("status") or {}}
        case "namespaces":
            labels = {**(item["metadata"].get("labels") or {})}
            labels["kubernetes.io/metadata.name"] = item["metadata"]["name"]
            metadata = {**item["metadata"], "labels": labels}
            return {**item, "metadata": metadata, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        case "poddisruptionbudgets":
            return {**item, "status": _ZEROS | (item.get("status") or {})}
        case "podgroups" if not kind.is_custom:
            spec = {"disruptionMode": {"single": {}}, **(item.get("spec") or {})}
            return {**item, "spec": spec, "status": item.get("status") or {}}
        case _:
            return item


def _fill_in_pod(store: ObjectStore, item: Json) -> Json:
    spec: Json = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
        **(item.get("spec") or {}),
    }
    for group in ("containers", "initContainers"):
        if group in spec:
            spec[group] = [_with_requests(container) for container in spec[group] or ()]
    spec["tolerations"] = _with_tolerations(spec.get("tolerations") or [])
    status: Json = {"phase": "Pending", **(item.get("status") or {})}
    if spec.get("schedulingGates") and "conditions" not in status:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": store.timestamp(),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        status["conditions"] = [condition]
    return {**item, "spec": spec, "status": status}


def _with_requests(container: Json) -> Json:
    """Set missing requests to the limits."""
    resources = container.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **(resources.get("requests") or {})}}}


def _with_tolerations(tolerations: list[Json]) -> list[Json]:
    """Let every pod stay for five minutes on a failed node, unless it says otherwise."""

    def is_known(key: str) -> bool:
        return any(
            known.get("key", key) == key and known.get("effect", "NoExecute") == "NoExecute" for known in tolerations
        )

    rest = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    return tolerations + [{"key": key, **rest} for key in _TOLERATIONS if not is_known(key)]


def admit(store: ObjectStore, routes: ResourceRoutes, kind: ServedKind, item: Json, *, strict: bool) -> Json:
    """Set the priority of a pod or a group from its class. ``strict`` rejects what the real server rejects."""
    if kind.plural != "pods" and (kind.plural != "podgroups" or kind.is_custom):
        return item
    spec = item["spec"]
    name = item["metadata"]["name"]
    if strict and kind.plural == "pods" and not spec.get("containers"):
        raise invalid(kind, name, "spec.containers", "FieldValueRequired", "Required value")
    classes = store.entries(routes.find("priorityclasses"))
    wanted = spec.get("priorityClassName")
    if wanted:
        found = classes.get(("", wanted))
        if found is None and strict:
            raise forbidden(kind, name, f"no PriorityClass with name {wanted} was found")
        chosen = found.item if found else {}
    else:
        chosen = next((entry.item for entry in classes.values() if entry.item.get("globalDefault")), {})
    value = chosen.get("value", 0)
    given = spec.get("priority")
    if strict and given is not None and given != value:
        raise forbidden(
            kind,
            name,
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission controller "
            f"computed {value} from the given PriorityClass name",
        )
    more: Json = {"priority": value if given is None else given}
    if kind.plural == "pods":
        more["preemptionPolicy"] = spec.get("preemptionPolicy") or chosen.get(
            "preemptionPolicy", "PreemptLowerPriority"
        )
    return {**item, "spec": {**spec, **more}}
