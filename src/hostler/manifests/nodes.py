"""Kubernetes Node to Host and back.

A host's capacity is what the node lets pods use (``status.allocatable``), so it needs no overcommit or reserve. In the
other direction these are included in ``allocatable``. The resource ``pods`` is ``guests`` in the model. Used by
``reader``, by exports and by ``kube``.
"""

from __future__ import annotations

from hostler.errors import InputError
from hostler.manifests.objects.core import Node
from hostler.manifests.places import ManifestNote, about, check_key, child, node_place, parse_quantities, version_of
from hostler.manifests.pods.constraints import effect_named
from hostler.manifests.pods.gpus import GPU_COUNT, GPU_MILLI, gpus_of_host, gpus_of_node
from hostler.model import GUESTS, MAX_AMOUNT, Host, Taint, amounts, format_resource, labels, may_give

__all__ = ["host_to_node", "node_to_host"]

PODS = "pods"
_NOT_PLAIN = frozenset({PODS, GPU_COUNT, GPU_MILLI})


def node_to_host(node: Node) -> tuple[Host, tuple[ManifestNote, ...]]:
    """Convert a Node to a host, with notes on ignored fields."""
    metadata = node.metadata
    place = node_place(metadata.name)
    if not metadata.name:
        raise InputError(f"{place}: metadata.name is missing", hint="every Node needs a name")
    with about(place):
        for at, taint in enumerate(node.spec.taints):
            check_key(taint.key, f"spec.taints[{at}].key")
        field = "status.allocatable" if node.status.allocatable else "status.capacity"
        resources = parse_quantities(node.status.allocatable or node.status.capacity, field)
        if GUESTS in resources:
            raise InputError(f"{child(field, GUESTS)}: not a resource of Kubernetes", hint=f"it is called {PODS} there")
        plain = {name: amount for name, amount in resources.items() if name not in _NOT_PLAIN}
        capacity = amounts(plain)
        if PODS in resources:
            # Unlike others, a limit of zero is kept: no limit at all would let any number in.
            capacity = tuple(sorted((*capacity, (GUESTS, resources[PODS]))))
        host = Host(
            name=metadata.name,
            uid=metadata.uid or metadata.name,
            version=version_of(metadata),
            capacity=capacity,
            devices=gpus_of_node(resources, metadata.labels, field),
            labels=labels(metadata.labels),
            taints=tuple(
                Taint(taint.key, taint.value, effect_named(taint.effect, f"spec.taints[{at}].effect"))
                for at, taint in enumerate(node.spec.taints)
            ),
            cordoned=node.spec.unschedulable,
            images=_images(node),
        )
    if PODS in resources:
        return host, ()
    return host, (ManifestNote(place, child(field, PODS), "is missing: the number of pods is not limited"),)


def host_to_node(host: Host) -> dict[str, object]:
    """Convert a host to a Node; what it may give becomes ``allocatable``, and its rank is omitted."""
    gpu_resources, gpu_labels = gpus_of_host(host)
    metadata: dict[str, object] = {"name": host.name}
    if host.uid:
        metadata["uid"] = host.uid
    if host.version:
        metadata["resourceVersion"] = str(host.version)
    if host.labels or gpu_labels:
        metadata["labels"] = {**dict(host.labels), **gpu_labels}
    spec: dict[str, object] = {}
    if host.taints:
        spec["taints"] = [
            {"key": taint.key, "effect": taint.effect, **({"value": taint.value} if taint.value else {})}
            for taint in host.taints
        ]
    if host.cordoned:
        spec["unschedulable"] = True
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    for name, amount in host.capacity:
        if name in _NOT_PLAIN:
            raise InputError(f"host {host.name!r}: a resource called {name} cannot be written as a Node")
        known_as = PODS if name == GUESTS else name
        capacity[known_as] = format_resource(name, amount)
        allocatable[known_as] = format_resource(name, may_give(host, name))
    status: dict[str, object] = {"capacity": capacity | gpu_resources, "allocatable": allocatable | gpu_resources}
    if host.images:
        status["images"] = [{"names": [name], "sizeBytes": size} for name, size in host.images]
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def _images(node: Node) -> tuple[tuple[str, int], ...]:
    """Return the images of a node under each of their names; the first entry of a name counts."""
    found: dict[str, int] = {}
    for at, image in enumerate(node.status.images):
        if not 0 <= image.size_bytes <= MAX_AMOUNT:
            raise InputError(f"status.images[{at}].sizeBytes: {image.size_bytes} is not between 0 and 2^62")
        for name in filter(None, image.names or ()):
            found.setdefault(name, image.size_bytes)
    return tuple(sorted(found.items()))
