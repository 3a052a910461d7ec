"""Parsed YAML or JSON to the structs of Kubernetes objects, with errors that a person can act on.

The good case is one call of msgspec. Only when that fails do we look closer: Kubernetes takes a ``null``
for a field that is not there, so nulls are dropped and the object is tried again; what still fails is
reported with the object's name and the path of the value. Used by ``reader``; a live client decodes bytes
and needs none of this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from hostler.errors import InputError
from hostler.manifests.metadata import Read
from hostler.manifests.objects import Node, Pod
from hostler.manifests.places import child, node_place, pod_place
from hostler.manifests.policy_objects import Service
from hostler.manifests.workload_objects import ReplicationController

__all__ = ["name_in", "read_node", "read_object", "read_pod"]

Readable = TypeVar("Readable", bound=Read)

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
    """Read a Node from plain data."""
    return read_object(data, Node, node_place(name_in(data, "name")))


def read_pod(data: Mapping[str, object]) -> Pod:
    """Read a Pod from plain data."""
    return read_object(data, Pod, pod_place(name_in(data, "namespace"), name_in(data, "name")))


def read_object(data: Mapping[str, object], kind: type[Readable], place: str) -> Readable:
    """Read an object of any kind from plain data; ``place`` is its name in errors."""
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
    """Return a text field of an object's metadata; empty when it is something else."""
    metadata = data.get("metadata")
    name = metadata.get(field) if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""


def _without_nulls(
    value: object, done: dict[int, object], mappings: frozenset[str], *, free: bool = False, depth: int = 0
) -> object:
    """Drop fields that are null, but no entries of free mappings.

    ``done`` (by identity) keeps a value with many YAML aliases from growing.
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
    """Split msgspec's message into what is wrong and the path; name the keys that msgspec leaves open."""
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
    """Find the key in a mapping whose value has the wrong kind that was reported."""
    entries = value.items() if isinstance(value, dict) else ()
    return next((str(key) for key, part in entries if _KIND_OF_VALUE.get(type(part), kind) == kind), "…")
