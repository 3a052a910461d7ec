"""The two subresources of pods that schedulers use: binding and eviction.

Their rules are those of kubernetes/kubernetes pkg/registry/core/pod/storage.
"""

from __future__ import annotations

from typing import Any

from hostler.kube.memory.calls import ParsedCall, ResourceRoutes
from hostler.kube.memory.error_answers import (
    ErrorAnswer,
    bad_request,
    conflict,
    forbidden,
    modified,
    not_found,
    wrong_uid,
)
from hostler.kube.memory.kinds import ServedKind
from hostler.kube.memory.selectors import matches_selector
from hostler.kube.memory.store import ObjectStore, StoredObject
from hostler.kube.memory.verbs.writes import delete_object

__all__ = ["bind_pod", "evict_pod"]

Json = dict[str, Any]
_MANY_DISRUPTED = 2000


def bind_pod(store: ObjectStore, call: ParsedCall) -> None:
    """Assign a pod to a node, once."""
    body = call.decoded()
    wanted = body.get("metadata") or {}
    if wanted.get("name", call.name) != call.name:
        raise bad_request("name in URL does not match name in Binding object")
    node = (body.get("target") or {}).get("name")
    if not node:
        raise ErrorAnswer(500, "", "target.name: Required value")
    item = _pod(store, call).item
    metadata = item["metadata"]
    if wanted.get("uid") and wanted["uid"] != metadata["uid"]:
        raise wrong_uid(call.kind, call.namespace, call.name, wanted["uid"], metadata["uid"])
    if wanted.get("resourceVersion") and wanted["resourceVersion"] != metadata["resourceVersion"]:
        raise modified(call.kind, call.name)
    why = _why_not_bound(item, call.name)
    if why:
        raise conflict(call.kind, call.name, why, "binding")
    metadata = dict(metadata)
    for field in ("annotations", "labels"):
        if wanted.get(field):
            metadata[field] = {**(metadata.get(field) or {}), **wanted[field]}
    status = {key: value for key, value in item["status"].items() if key != "nominatedNodeName"}
    status["conditions"] = _with_condition(store, status, {"type": "PodScheduled"})
    item = {**item, "metadata": metadata, "spec": {**item["spec"], "nodeName": node}, "status": status}
    store.put(call.kind, (call.namespace, call.name), item)


def _why_not_bound(item: Json, name: str) -> str:
    if item["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if item["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{item["spec"]["nodeName"]}"'
    if item["spec"].get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _with_condition(store: ObjectStore, status: Json, more: Json) -> list[Json]:
    """Return the conditions with one set, True by default; its time is that of its last transition."""
    conditions = list(status.get("conditions") or ())
    place = next((at for at, known in enumerate(conditions) if known.get("type") == more["type"]), None)
    known = {} if place is None else conditions[place]
    since = known.get("lastTransitionTime") if known.get("status") == more.get("status", "True") else store.timestamp()
    new = {"status": "True", "lastProbeTime": None, "lastTransitionTime": since} | more
    if place is None:
        return [*conditions, new]
    conditions[place] = new
    return conditions


def _pod(store: ObjectStore, call: ParsedCall) -> StoredObject:
    entry = store.entries(call.kind).get((call.namespace, call.name))
    if entry is None:
        raise not_found(call.kind, call.name)
    return entry


def evict_pod(store: ObjectStore, routes: ResourceRoutes, call: ParsedCall) -> None:
    """Delete a pod if its disruption budget allows it."""
    body = call.decoded()
    if (body.get("metadata") or {}).get("name", call.name) != call.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = body.get("deleteOptions") or {}
    item = _pod(store, call).item
    status, key = item["status"], (call.namespace, call.name)
    is_free = status.get("phase") in ("Succeeded", "Failed", "Pending") or item["metadata"].get("deletionTimestamp")
    if not is_free:
        _spend_budget(store, routes.find("poddisruptionbudgets"), call, item)
    uid = (options.get("preconditions") or {}).get("uid")
    if uid is None or uid == item["metadata"]["uid"]:
        condition = {"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
        conditions = _with_condition(store, status, condition)
        if conditions != status.get("conditions"):
            store.put(call.kind, key, {**item, "status": {**status, "conditions": conditions}})
    delete_object(store, call.kind, key, options)


def _spend_budget(store: ObjectStore, kind: ServedKind, call: ParsedCall, item: Json) -> None:
    labels = item["metadata"].get("labels") or {}
    budgets = [
        entry.item
        for (namespace, _), entry in store.entries(kind).items()
        if namespace == call.namespace and matches_selector(entry.item["spec"].get("selector"), labels)
    ]
    if len(budgets) > 1:
        raise ErrorAnswer(
            500,
            "InternalError",
            "Internal error occurred: This pod has more than one PodDisruptionBudget, which the eviction subresource "
            "does not support.",
        )
    if budgets and not _is_unhealthy_and_free(item, budgets[0]):
        _spend(store, kind, call, budgets[0])


def _is_unhealthy_and_free(item: Json, budget: Json) -> bool:
    """Return whether an unready pod is evicted without cost: the others suffice, or the budget always allows it."""
    conditions = item["status"].get("conditions") or ()
    if any(known.get("type") == "Ready" and known.get("status") == "True" for known in conditions):
        return False
    status = budget["status"]
    suffices: bool = status["currentHealthy"] >= status["desiredHealthy"] > 0
    return suffices or budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"


def _spend(store: ObjectStore, kind: ServedKind, call: ParsedCall, budget: Json) -> None:
    status, name = budget["status"], budget["metadata"]["name"]
    allowed = status["disruptionsAllowed"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 1):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", 10)
    if allowed < 0:
        raise forbidden(kind, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > _MANY_DISRUPTED:
        raise forbidden(kind, name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if allowed == 0:
        healthy, desired = status["currentHealthy"], status["desiredHealthy"]
        if healthy <= desired:
            raise _too_many(f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        raise _too_many(f"The disruption budget {name} does not allow evicting pods currently")
    disrupted = {**(status.get("disruptedPods") or {}), call.name: store.timestamp()}
    status = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
    if allowed == 1:
        generation = budget["metadata"].get("generation", 1)
        more = {"type": "DisruptionAllowed", "status": "False", "observedGeneration": generation}
        more |= {"reason": "InsufficientPods", "message": ""}
        status["conditions"] = _with_condition(store, status, more)
    store.put(kind, (call.namespace, name), {**budget, "status": status})


def _too_many(message: str, retry_after_s: int = 0) -> ErrorAnswer:
    return ErrorAnswer(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        {"causes": [{"reason": "DisruptionBudget", "message": message}]},
        retry_after_s=retry_after_s,
    )
