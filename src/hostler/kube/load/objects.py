"""The objects of a load: ours, with a template merged into them, and a label by which they are found again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostler.kube.api.resources import CRD_POD_GROUPS, POD_GROUPS
from hostler.kube.load.reading import Load
from hostler.kube.local.nodes import node_manifest
from hostler.manifests.gangs import POD_GROUP_LABEL

__all__ = ["LABEL", "churn_pod", "gang_pod", "merged", "node", "pod", "pod_group"]

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
        "terminationGracePeriodSeconds": 0,  # nobody is there who would use it
    }
}


def node(load: Load, number: int) -> Object:
    """Return a node of the load."""
    name = f"{load.name}-node-{number}"
    labels = {"kubernetes.io/hostname": name, LABEL: load.name}
    ours = merged(node_manifest(number), {"metadata": {"name": name, "labels": labels}})
    addresses = [
        {**address, "address": name} if address["type"] == "Hostname" else address
        for address in ours["status"]["addresses"]
    ]
    found = merged(merged(ours, {"status": {"addresses": addresses}}), load.nodes.template)
    amounts = load.nodes.template.get("status", {})
    if "allocatable" in amounts and "capacity" not in amounts:
        return merged(found, {"status": {"capacity": found["status"]["allocatable"]}})
    return found


def pod(load: Load, number: int) -> Object:
    """Return a pod of the load that stays."""
    return _pod(load, f"{load.name}-{number}", load.pods.template)


def churn_pod(load: Load, number: int) -> Object:
    """Return a pod of the load that goes again."""
    return _pod(load, f"{load.name}-churn-{number}", load.churn.template)


def gang_pod(load: Load, number: int, member: int, *, is_built_in: bool) -> Object:
    """Return a member of a group."""
    group = f"{load.name}-gang-{number}"
    found = _pod(load, f"{group}-{member}", load.gangs.template)
    if is_built_in:
        return merged(found, {"spec": {"schedulingGroup": {"podGroupName": group}}})
    return merged(found, {"metadata": {"labels": {POD_GROUP_LABEL: group}}})


def pod_group(load: Load, number: int, *, is_built_in: bool) -> Object:
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


def _pod(load: Load, name: str, template: Object) -> Object:
    metadata = {"name": name, "namespace": load.namespace, "labels": {LABEL: load.name}}
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"schedulerName": load.scheduler_name}}
    return merged(merged(merged(head, _POD), template), {"metadata": {"labels": {LABEL: load.name}}})


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Object:
    """Return one object over another: mappings are merged, null removes, all else replaces (RFC 7386)."""
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            below = result.get(key)
            result[key] = merged(below if isinstance(below, Mapping) else {}, value)
        else:
            result[key] = value
    return result
