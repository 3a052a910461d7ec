"""The objects of a load: built-in ones with a template merged into them, and a label to find them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostler.kube.api.resources import CRD_POD_GROUPS, POD_GROUPS
from hostler.kube.load.settings import LoadSettings
from hostler.kube.local.nodes import node_manifest
from hostler.manifests.pods.gangs import POD_GROUP_LABEL

__all__ = ["LABEL", "churn_pod", "gang_pod", "merge_objects", "node", "pod", "pod_group"]

LABEL = "hostler.dev/load"

Object = dict[str, Any]
_POD: Object = {
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "registry.k8s.io/pause:3.10",
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
            }
        ],
        "terminationGracePeriodSeconds": 0,  # no container runs that could use it
    }
}


def node(load: LoadSettings, number: int) -> Object:
    """Return a node of the load."""
    name = f"{load.name}-node-{number}"
    labels = {"kubernetes.io/hostname": name, LABEL: load.name}
    ours = merge_objects(node_manifest(number), {"metadata": {"name": name, "labels": labels}})
    addresses = [
        {**address, "address": name} if address["type"] == "Hostname" else address
        for address in ours["status"]["addresses"]
    ]
    found = merge_objects(merge_objects(ours, {"status": {"addresses": addresses}}), load.nodes.template)
    amounts = load.nodes.template.get("status", {})
    if "allocatable" in amounts and "capacity" not in amounts:
        return merge_objects(found, {"status": {"capacity": found["status"]["allocatable"]}})
    return found


def pod(load: LoadSettings, number: int) -> Object:
    """Return a pod of the load that stays."""
    return _pod(load, f"{load.name}-{number}", load.pods.template)


def churn_pod(load: LoadSettings, number: int) -> Object:
    """Return a pod of the churn, which is deleted again."""
    return _pod(load, f"{load.name}-churn-{number}", load.churn.template)


def gang_pod(load: LoadSettings, number: int, member: int, *, is_built_in: bool) -> Object:
    """Return a member of a group."""
    group = f"{load.name}-gang-{number}"
    found = _pod(load, f"{group}-{member}", load.gangs.template)
    if is_built_in:
        return merge_objects(found, {"spec": {"schedulingGroup": {"podGroupName": group}}})
    return merge_objects(found, {"metadata": {"labels": {POD_GROUP_LABEL: group}}})


def pod_group(load: LoadSettings, number: int, *, is_built_in: bool) -> Object:
    """Return a group."""
    resource = POD_GROUPS if is_built_in else CRD_POD_GROUPS
    least = load.gangs.min
    spec: Object = {"schedulingPolicy": {"gang": {"minCount": least}}} if is_built_in else {"minMember": least}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": f"{load.name}-gang-{number}",
            "namespace": load.namespace,
            "labels": {LABEL: load.name},
        },
        "spec": spec,
    }


def _pod(load: LoadSettings, name: str, template: Object) -> Object:
    metadata = {"name": name, "namespace": load.namespace, "labels": {LABEL: load.name}}
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"schedulerName": load.scheduler_name}}
    return merge_objects(
        merge_objects(merge_objects(head, _POD), template), {"metadata": {"labels": {LABEL: load.name}}}
    )


def merge_objects(base: Mapping[str, Any], over: Mapping[str, Any]) -> Object:
    """Merge one object into another: mappings are merged, null removes, other values replace (RFC 7386)."""
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            below = result.get(key)
            result[key] = merge_objects(below if isinstance(below, Mapping) else {}, value)
        else:
            result[key] = value
    return result
