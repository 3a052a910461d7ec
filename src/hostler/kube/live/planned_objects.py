"""Manifests of pods that do not exist yet, as a live cluster would show them once they did.

Pods are used as they are. Deployments, ReplicaSets, StatefulSets, ReplicationControllers and Jobs become their pods. A
pod that names another scheduler is planned as if it named ours, because that is the question. Objects that pods depend
on (groups, classes, services, budgets, claims) are added to those of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from hostler.errors import InputError
from hostler.kube.api.resources import PODS, REPLICA_SETS, Resource
from hostler.kube.facts.kinds import KINDS
from hostler.kube.facts.views import DEFAULT_SCHEDULER
from hostler.kube.settings import SchedulerSettings
from hostler.manifests.decoder import name_in, read_object
from hostler.manifests.places import DEFAULT_NAMESPACE, object_place

__all__ = ["PlannedObjects", "expand_lists", "read_planned"]

Json: TypeAlias = Mapping[str, Any]

PREFIX = "plan:"
MOST_PODS = 10_000
_COUNT_AT = {"Deployment": "replicas", "ReplicaSet": "replicas", "StatefulSet": "replicas"}
_COUNT_AT |= {"ReplicationController": "replicas", "Job": "parallelism"}
_RESOURCES = {(kind.resource.group, kind.resource.kind): kind.resource for kind in KINDS}


class PlannedObjects(NamedTuple):
    """Objects by resource and key, dependencies first; the uids of the pods; and notes for the user."""

    objects: tuple[tuple[Resource[Any], tuple[str, str], Any], ...]
    uids: tuple[str, ...]
    notes: tuple[str, ...]


def read_planned(documents: Iterable[Json], settings: SchedulerSettings, namespace: str = "") -> PlannedObjects:
    """Read manifests; objects without a namespace get the given one."""
    space = namespace or DEFAULT_NAMESPACE
    others: list[tuple[Resource[Any], tuple[str, str], Any]] = []
    pods: list[Json] = []
    ignored: dict[str, None] = {}
    for item in expand_lists(documents):
        group, kind = str(item.get("apiVersion", "")).rpartition("/")[0], str(item.get("kind", ""))
        resource = _RESOURCES.get((group, kind))
        if resource is PODS:
            pods.append(item)
        elif kind in _COUNT_AT:
            pods += _pods_of(item, kind, space, others)
        elif resource is not None and kind != "Node":
            others.append(_taken(resource, item, space))
        else:
            ignored[f"{kind or 'an object without a kind'} {name_in(item, 'name')}"] = None
    if not pods:
        raise InputError("there is no pod to plan", hint="give manifests of pods or workloads")
    if len(pods) > MOST_PODS:
        raise InputError(f"{len(pods):,} pods are too many to plan at once", hint=f"at most {MOST_PODS:,}")
    notes = [f"ignored: {what}" for what in ignored]
    taken = [_pod(item, settings, space, notes) for item in pods]
    uids = tuple(pod.metadata.uid for _, _, pod in taken)
    if len(set(uids)) < len(uids):
        twice = next(uid for uid in uids if uids.count(uid) > 1)
        raise InputError(f"pod {twice.removeprefix(PREFIX)} is defined twice", hint="names must differ")
    return PlannedObjects((*others, *taken), uids, tuple(dict.fromkeys(notes)))


def expand_lists(documents: Iterable[Json]) -> Iterator[Json]:
    """Iterate over objects, with lists replaced by their items."""
    for item in documents:
        if not isinstance(item, Mapping):
            raise InputError("this is not a Kubernetes object", hint="every object needs apiVersion and kind")
        inner = item.get("items")
        if str(item.get("kind", "")).endswith("List") and isinstance(inner, list):
            kind = str(item["kind"]).removesuffix("List")
            given = {"apiVersion": item.get("apiVersion"), "kind": kind} if kind else {}
            yield from expand_lists([{**given, **one} if isinstance(one, Mapping) else one for one in inner])
        else:
            yield item


def _taken(resource: Resource[Any], item: Json, space: str) -> tuple[Resource[Any], tuple[str, str], Any]:
    item = _with_namespace(item, space) if resource.is_namespaced else item
    name, where = name_in(item, "name"), name_in(item, "namespace") if resource.is_namespaced else ""
    if not name:
        raise InputError(f"a {resource.kind} has no name", hint="every object needs metadata.name")
    return resource, (where, name), read_object(item, resource.struct, object_place(resource.kind, where, name))


def _with_namespace(item: Json, space: str) -> dict[str, Any]:
    metadata = item.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    metadata["namespace"] = metadata.get("namespace") or space
    return {**item, "metadata": metadata}


def _pod(
    item: Json, settings: SchedulerSettings, space: str, notes: list[str]
) -> tuple[Resource[Any], tuple[str, str], Any]:
    item = _with_namespace(item, space)
    metadata, spec = item["metadata"], item.get("spec")
    spec = dict(spec) if isinstance(spec, Mapping) else {}
    name = metadata.get("name") or str(metadata.get("generateName") or "").rstrip("-")
    ours = [profile.scheduler_name for profile in settings.profiles]
    theirs = spec.get("schedulerName") or DEFAULT_SCHEDULER
    if theirs not in ours:
        who = "name no scheduler" if theirs == DEFAULT_SCHEDULER else f"name scheduler {theirs}"
        notes.append(f"pods that {who} are planned as if they named {ours[0]}")
    spec["schedulerName"] = theirs if theirs in ours else ours[0]
    if spec.pop("schedulingGates", None):
        notes.append(f"pod {metadata['namespace']}/{name} is planned without its scheduling gates")
    spec.pop("nodeName", None)
    metadata |= {"name": name, "uid": f"{PREFIX}{metadata['namespace']}/{name}"}
    return _taken(PODS, {**item, "metadata": metadata, "spec": spec, "status": {}}, space)


def _pods_of(item: Json, kind: str, space: str, others: list[tuple[Resource[Any], tuple[str, str], Any]]) -> list[Json]:
    """Return the pods of a workload; the workload is stored too, since it decides who siblings are."""
    item = _with_namespace(item, space)
    name, where = name_in(item, "name"), name_in(item, "namespace")
    spec = item.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    template = spec.get("template")
    template = template if isinstance(template, Mapping) else {}
    count = spec.get(_COUNT_AT[kind], 1)
    if not isinstance(count, int) or not 0 <= count <= MOST_PODS:
        raise InputError(f"{object_place(kind, where, name)}: {_COUNT_AT[kind]} is {count!r}", hint="give a number")
    owner = None
    if kind != "Job":
        resource = (
            REPLICA_SETS if kind == "Deployment" else _RESOURCES["" if "/" not in _version(item) else "apps", kind]
        )
        others.append(_taken(resource, item, space))
        owner = {"kind": resource.kind, "name": name, "controller": True}
    own = template.get("metadata")
    own = own if isinstance(own, Mapping) else {}
    start = (spec.get("ordinals") or {}).get("start", 0) if kind == "StatefulSet" else 0
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **own,
                "name": f"{name}-{start + number}",
                "namespace": where,
                "ownerReferences": [owner] if owner else [],
            },
            "spec": template.get("spec") or {},
        }
        for number in range(count)
    ]


def _version(item: Json) -> str:
    return str(item.get("apiVersion", ""))
