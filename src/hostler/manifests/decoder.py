"""Decodes parsed YAML or JSON into the structs of Kubernetes objects, by apiVersion and kind; errors name the place.

The normal case is one call of msgspec. Kubernetes treats a ``null`` field as absent. So if decoding fails, nulls are
dropped and the object is decoded again. An error then has the object's name and the path of the value. Used by
``reader``; a live client decodes bytes and does not need this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias, TypeVar

import msgspec

from hostler.errors import InputError
from hostler.manifests.objects.core import Node, Pod
from hostler.manifests.objects.metadata import ObjectStruct
from hostler.manifests.objects.policies import (
    CrdPodGroup,
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Service,
)
from hostler.manifests.objects.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from hostler.manifests.places import DEFAULT_NAMESPACE, child, node_place, object_place, pod_place

__all__ = ["Object", "list_item_kind", "name_in", "place_of", "read_node", "read_object", "read_pod", "struct_of"]

Readable = TypeVar("Readable", bound=ObjectStruct)

# The keys of these mappings are the user's own, so a null there is a value that is missing, not a field.
_FREE_MAPPINGS = frozenset(
    {
        "allocatable",
        "allocatedResources",
        "annotations",
        "capacity",
        "disruptedPods",
        "labels",
        "limits",
        "matchLabels",
        "minResources",
        "nodeSelector",
        "overhead",
        "requests",
    }
)
# In these kinds the selector is such a mapping; in others it is an object.
_PLAIN_SELECTORS = (Service, ReplicationController)
_MAX_DEPTH = 24  # no field that we read lies deeper
_FAILURE = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>\$.*)`| - at `key` in `(?P<keys>\$.*)`)?", re.DOTALL)
_PATH_STEP = re.compile(r"\.(?P<key>\w+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")
_KIND_OF_VALUE = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "array",
    dict: "object",
    type(None): "null",
}


def read_node(data: Mapping[str, object]) -> Node:
    """Decode a Node from plain data."""
    return read_object(data, Node, node_place(name_in(data, "name")))


def read_pod(data: Mapping[str, object]) -> Pod:
    """Decode a Pod from plain data."""
    return read_object(data, Pod, pod_place(name_in(data, "namespace"), name_in(data, "name")))


def read_object(data: Mapping[str, object], kind: type[Readable], place: str) -> Readable:
    """Decode an object of any kind from plain data; ``place`` is its name in errors."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError:
        mappings = _FREE_MAPPINGS | {"selector"} if issubclass(kind, _PLAIN_SELECTORS) else _FREE_MAPPINGS
        pruned = _without_nulls(data, {}, mappings)
    try:
        return msgspec.convert(pruned, kind)
    except msgspec.ValidationError as error:
        what, path = _explain(str(error), pruned)
        raise InputError(
            f"{place}: {path}: {what}" if path else f"{place}: {what}",
            hint="labels, annotations and names are text: quote what YAML would read as a number",
        ) from error


def name_in(data: Mapping[str, object], field: str) -> str:
    """Return a text field of an object's metadata; empty if it is not text."""
    metadata = data.get("metadata")
    name = metadata.get(field) if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""


def _without_nulls(
    value: object, done: dict[int, object], mappings: frozenset[str], *, free: bool = False, depth: int = 0
) -> object:
    """Drop fields that are null, but no entries of free mappings.

    ``done`` (by identity) prevents exponential growth with YAML aliases.
    """
    if not isinstance(value, Mapping | list | tuple) or depth > _MAX_DEPTH:
        return value
    if id(value) in done:
        return done[id(value)]
    result: object
    if isinstance(value, Mapping):
        result = {
            key: _without_nulls(part, done, mappings, free=key in mappings, depth=depth + 1)
            for key, part in value.items()
            if free or part is not None
        }
    else:
        result = [_without_nulls(part, done, mappings, depth=depth + 1) for part in value]
    done[id(value)] = result
    return result


def _explain(message: str, data: object) -> tuple[str, str]:
    """Split msgspec's message into the problem and the path; fill in the keys that msgspec omits."""
    match = _FAILURE.fullmatch(message)
    if match is None:
        return message, ""
    what = match["what"].replace("`", "").replace("Expected", "expected").replace("Object missing", "missing")
    if match["keys"]:
        return f"{what} as a key", match["keys"].removeprefix("$").removeprefix(".")
    got = what.rpartition("got ")[2]
    path, value = "", data
    for step in _PATH_STEP.finditer(match["path"] or ""):
        if step["index"] is not None:
            path = f"{path}[{step['index']}]"
            value = value[int(step["index"])] if isinstance(value, list) else None
            continue
        key = step["key"] or _first_key_of_kind(value, got)
        path = child(path, key)
        value = value.get(key) if isinstance(value, dict) else None
    return what, path


def _first_key_of_kind(value: object, kind: str) -> str:
    """Return the first key in a mapping whose value has the reported wrong type."""
    entries = value.items() if isinstance(value, dict) else ()
    return next((str(key) for key, part in entries if _KIND_OF_VALUE.get(type(part), kind) == kind), "…")


Object: TypeAlias = (
    Node
    | Pod
    | Namespace
    | Service
    | PriorityClass
    | PodDisruptionBudget
    | PodGroup
    | CrdPodGroup
    | Deployment
    | ReplicaSet
    | ReplicationController
    | StatefulSet
    | DaemonSet
    | Job
    | CronJob
)

_KINDS: dict[tuple[str, str], type[Object]] = {
    ("v1", "Node"): Node,
    ("v1", "Pod"): Pod,
    ("v1", "Namespace"): Namespace,
    ("v1", "Service"): Service,
    ("v1", "ReplicationController"): ReplicationController,
    ("apps/v1", "Deployment"): Deployment,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("apps/v1", "DaemonSet"): DaemonSet,
    ("batch/v1", "Job"): Job,
    ("batch/v1", "CronJob"): CronJob,
    ("policy/v1", "PodDisruptionBudget"): PodDisruptionBudget,
    ("scheduling.k8s.io/v1", "PriorityClass"): PriorityClass,
}
# Groups whose versions are young and still change their number.
_KINDS_OF_ANY_VERSION: dict[tuple[str, str], type[Object]] = {
    ("scheduling.k8s.io", "PodGroup"): PodGroup,
    ("scheduling.x-k8s.io", "PodGroup"): CrdPodGroup,
}
_WITHOUT_NAMESPACE = (Namespace, Node, PriorityClass)


def struct_of(version: str, kind: str) -> type[Object] | None:
    """Return the struct for objects of a kind; None if the kind is not read."""
    group = version.rpartition("/")[0]
    return _KINDS.get((version, kind)) or _KINDS_OF_ANY_VERSION.get((group, kind))


def list_item_kind(version: str, kind: str) -> str | None:
    """Return the kind of a list's items, empty if the items say it; None if it is not a list that is read."""
    if (version, kind) == ("v1", "List"):
        return ""
    item_kind = kind.removesuffix("List")
    return item_kind if item_kind != kind and struct_of(version, item_kind) else None


def place_of(struct: type[Object] | None, kind: str, data: Mapping[str, object]) -> str:
    """Return the name of an object for errors and notes."""
    namespace, name = name_in(data, "namespace"), name_in(data, "name")
    if struct is Node:
        return node_place(name)
    if struct is Pod:
        return pod_place(namespace, name)
    if struct in _WITHOUT_NAMESPACE:
        return object_place(kind, "", name)
    return object_place(kind, namespace or (DEFAULT_NAMESPACE if struct is not None else ""), name)
