"""Kubernetes Pod to Guest and back.

A pod that has ended, waits for its scheduling gates or is being deleted before it was placed gives no
guest but a note. On the way back a guest becomes a pod of one container; its policy, what must be
prepared and its draw key are the engine's own matters and left out. Used by ``lists``, by exports, and
later by ``kube``.
"""

from __future__ import annotations

from hostler.errors import InputError
from hostler.manifests.constraints import (
    affinity_of,
    preferred_terms,
    read_toleration,
    required_terms,
    toleration_of,
)
from hostler.manifests.gpus import gpu_annotations, gpu_indices, gpu_request
from hostler.manifests.objects import Pod
from hostler.manifests.places import Note, about, pod_place, version_of
from hostler.manifests.requests import pod_requests, scored_requests
from hostler.manifests.unevaluated import NOT_EVALUATED, unevaluated
from hostler.model import GUESTS, Guest, GuestSpec, Toleration, format_resource, labels

__all__ = ["guest_to_pod", "pod_to_guest"]

DEFAULT_NAMESPACE = "default"
PAUSE_IMAGE = "registry.k8s.io/pause:3.10"  # a container needs an image; this one only waits

# The two classes that every cluster has; others are objects of their own.
_BUILT_IN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PRIORITY_LIMIT = 2**31  # Kubernetes' int32


def pod_to_guest(pod: Pod, specs: dict[GuestSpec, GuestSpec] | None = None) -> tuple[Guest | None, tuple[Note, ...]]:
    """Turn a Pod into a guest, with notes on what does not count; ``specs`` interns equal specs."""
    metadata = pod.metadata
    namespace = metadata.namespace or DEFAULT_NAMESPACE
    place = pod_place(namespace, metadata.name)
    if not metadata.name:
        raise InputError(f"{place}: metadata.name is missing", hint="generateName works only in a live cluster")
    if not pod.spec.containers:
        raise InputError(f"{place}: spec.containers is missing", hint="a pod has at least one container")
    with about(place):
        spec, notes = _spec_of(pod, namespace, place)
        bound_to = pod.spec.node_name
        on_devices = gpu_indices(metadata.annotations, spec.devices) if bound_to else ()
    stays_out = _why_no_guest(pod)
    if stays_out:
        return None, (Note(place, *stays_out),)
    if specs is not None:
        spec = specs.setdefault(spec, spec)
    guest = Guest(
        name=metadata.name,
        uid=metadata.uid or f"{namespace}/{metadata.name}",
        version=version_of(metadata),
        spec=spec,
        host=bound_to,
        on_devices=on_devices,
    )
    return guest, notes


def guest_to_pod(guest: Guest) -> dict[str, object]:
    """Write a guest as a Pod of one container."""
    spec = guest.spec
    metadata: dict[str, object] = {"name": guest.name, "namespace": spec.namespace}
    if guest.uid:
        metadata["uid"] = guest.uid
    if guest.version:
        metadata["resourceVersion"] = str(guest.version)
    if spec.labels:
        metadata["labels"] = dict(spec.labels)
    annotations = gpu_annotations(guest)
    if annotations:
        metadata["annotations"] = annotations
    requests = {name: format_resource(name, amount) for name, amount in spec.requests if name != GUESTS}
    # Kubernetes wants a limit for what cannot be overcommitted.
    limits = {name: text for name, text in requests.items() if "/" in name or name.startswith("hugepages-")}
    resources = {name: lists for name, lists in (("requests", requests), ("limits", limits)) if lists}
    parts: dict[str, object] = {
        "nodeName": guest.host,
        "priority": spec.priority,
        "nodeSelector": dict(spec.host_selector),
        "affinity": affinity_of(spec),
        "tolerations": [toleration_of(item) for item in spec.tolerations],
    }
    container = {"name": "main", "image": PAUSE_IMAGE, "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **{name: part for name, part in parts.items() if part}},
    }


def _why_no_guest(pod: Pod) -> tuple[str, str] | None:
    """Say by which field a pod holds nothing and wants nothing, and why; None when it is a guest."""
    if pod.status.phase in ("Succeeded", "Failed"):
        return "status.phase", f"is {pod.status.phase}: the pod holds nothing any more"
    if pod.spec.node_name:
        return None
    if pod.metadata.deletion_timestamp is not None:
        return "metadata.deletionTimestamp", "is set: the pod is going away and is not placed"
    if pod.spec.scheduling_gates:
        return "spec.schedulingGates", "is not empty: the pod is not placed until its gates are removed"
    return None


def _spec_of(pod: Pod, namespace: str, place: str) -> tuple[GuestSpec, tuple[Note, ...]]:
    affinity = pod.spec.affinity.node_affinity
    priority, priority_notes = _priority(pod, place)
    tolerations, toleration_notes = _tolerations(pod, place)
    requests = pod_requests(pod)
    spec = GuestSpec(
        requests=requests,
        scored_requests=scored_requests(pod, requests),
        devices=gpu_request(pod.metadata.annotations),
        priority=priority,
        host_selector=labels(pod.spec.node_selector),
        host_affinity=required_terms(affinity),
        preferred_hosts=preferred_terms(affinity),
        tolerations=tolerations,
        namespace=namespace,
        labels=labels(pod.metadata.labels),
    )
    return spec, (*unevaluated(pod, place), *priority_notes, *toleration_notes)


def _priority(pod: Pod, place: str) -> tuple[int, tuple[Note, ...]]:
    priority, class_name = pod.spec.priority, pod.spec.priority_class_name
    if priority is None:
        if not class_name or class_name in _BUILT_IN_PRIORITIES:
            return _BUILT_IN_PRIORITIES.get(class_name, 0), ()
        return 0, (Note(place, "spec.priorityClassName", f"{NOT_EVALUATED}: give spec.priority"),)
    if not -_PRIORITY_LIMIT <= priority < _PRIORITY_LIMIT:
        raise InputError(f"spec.priority: {priority} is not between -2^31 and 2^31 - 1")
    return priority, ()


def _tolerations(pod: Pod, place: str) -> tuple[tuple[Toleration, ...], tuple[Note, ...]]:
    found: list[Toleration] = []
    notes: list[Note] = []
    for at, item in enumerate(pod.spec.tolerations):
        path = f"spec.tolerations[{at}]"
        toleration = read_toleration(item, path)
        if toleration is None:
            notes.append(Note(place, f"{path}.operator", f"{item.operator} {NOT_EVALUATED}"))
        else:
            found.append(toleration)
    return tuple(found), tuple(notes)
