"""Kubernetes Pod to Guest.

A pod that has ended, waits for its scheduling gates or is being deleted before it was placed gives no
guest but a note. Used by ``reader`` and ``workloads``, and later by ``kube``; ``pod_writing`` is the way
back.
"""

from __future__ import annotations

from hostler.errors import InputError
from hostler.manifests.constraints import preferred_terms, read_toleration, required_terms
from hostler.manifests.containers import host_ports, image_names
from hostler.manifests.gangs import gang_named_by
from hostler.manifests.gpus import gpu_indices, gpu_request
from hostler.manifests.guest_terms import preferred_guest_terms, required_guest_terms
from hostler.manifests.objects import Pod
from hostler.manifests.places import DEFAULT_NAMESPACE, Note, about, check_keys, pod_place, version_of
from hostler.manifests.priorities import UNKNOWN_CLASS, PriorityClasses, check_priority, may_preempt, seed_priority
from hostler.manifests.requests import pod_requests, scored_requests
from hostler.manifests.spreads import read_spread
from hostler.manifests.surroundings import Surroundings
from hostler.manifests.times import nanoseconds
from hostler.manifests.unevaluated import NOT_EVALUATED, unevaluated, unsupported_needs
from hostler.model import Guest, GuestSpec, Selector, Toleration, labels

__all__ = ["pod_to_guest", "read_spec", "why_no_guest"]

_AFFINITY = "spec.affinity.podAffinity"
_ANTI_AFFINITY = "spec.affinity.podAntiAffinity"


def pod_to_guest(
    pod: Pod,
    specs: dict[GuestSpec, GuestSpec] | None = None,
    *,
    around: Surroundings | None = None,
    seed_annotations: bool = False,
) -> tuple[Guest | None, tuple[Note, ...]]:
    """Turn a Pod into a guest, with notes on what does not count.

    ``specs`` interns equal specs. ``around`` knows services, owners and priority classes; without it none exist.
    ``seed_annotations`` lets the annotations ``priority`` and ``pod-group`` count. It is off by default, and belongs
    off wherever users write their own pods: anyone could promote himself.
    """
    metadata = pod.metadata
    namespace = metadata.namespace or DEFAULT_NAMESPACE
    place = pod_place(namespace, metadata.name)
    around = around or Surroundings()
    if not metadata.name:
        raise InputError(f"{place}: metadata.name is missing", hint="generateName works only in a live cluster")
    with about(place):
        spec, notes = read_spec(
            pod, namespace, place, around, around.controller_selector(metadata), seed_annotations=seed_annotations
        )
        bound_to = pod.spec.node_name
        on_devices = gpu_indices(metadata.annotations, spec.devices) if bound_to else ()
        started = nanoseconds(pod.status.start_time, "status.startTime")
        gang = gang_named_by(pod, namespace, seed_annotations=seed_annotations)
    stays_out = why_no_guest(pod)
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
        started=started,
        gang=gang,
    )
    return guest, notes


def why_no_guest(pod: Pod) -> tuple[str, str] | None:
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


def read_spec(
    pod: Pod,
    namespace: str,
    place: str,
    around: Surroundings,
    controller: Selector | None,
    *,
    seed_annotations: bool = False,
    is_live: bool = False,
) -> tuple[GuestSpec, tuple[Note, ...]]:
    """Turn a pod, or the pod that a template makes, into a shape; ``controller`` is its controller's selector.

    ``is_live``: whoever asks looks after volumes himself, and has no use for the siblings of a pod that runs.
    """
    if not pod.spec.containers:
        raise InputError("spec.containers is missing", hint="a pod has at least one container")
    affinity = pod.spec.affinity
    given = pod.metadata.labels
    check_keys(given, "metadata.labels")
    check_keys(pod.spec.node_selector, "spec.nodeSelector")
    priority, can_preempt, priority_notes = _priority(pod, around.priorities, place, seed_annotations)
    tolerations, toleration_notes = _tolerations(pod, place)
    requests = pod_requests(pod)
    own = labels(given)
    spec = GuestSpec(
        requests=requests,
        scored_requests=scored_requests(pod, requests),
        devices=gpu_request(pod.metadata.annotations),
        priority=priority,
        host_selector=labels(pod.spec.node_selector),
        host_affinity=required_terms(affinity.node_affinity),
        preferred_hosts=preferred_terms(affinity.node_affinity),
        tolerations=tolerations,
        namespace=namespace,
        labels=own,
        affinity=required_guest_terms(affinity.pod_affinity, given, _AFFINITY),
        anti_affinity=required_guest_terms(affinity.pod_anti_affinity, given, _ANTI_AFFINITY),
        preferred_affinity=preferred_guest_terms(affinity.pod_affinity, given, _AFFINITY),
        preferred_anti_affinity=preferred_guest_terms(affinity.pod_anti_affinity, given, _ANTI_AFFINITY),
        spread=read_spread(pod.spec.topology_spread_constraints, given),
        siblings=None if is_live and pod.spec.node_name else around.siblings(namespace, own, controller),
        ports=host_ports(pod),
        images=image_names(pod),
        may_preempt=can_preempt,
        is_leaving=pod.metadata.deletion_timestamp is not None,
        unsupported=unsupported_needs(pod, knows_volumes=is_live),
    )
    notes = () if is_live else unevaluated(pod, place)
    return spec, (*notes, *priority_notes, *toleration_notes)


def _priority(
    pod: Pod, classes: PriorityClasses, place: str, seed_annotations: bool
) -> tuple[int, bool, tuple[Note, ...]]:
    """Find a pod's priority and whether it may preempt; what the pod says itself beats its class."""
    priority = pod.spec.priority
    named = pod.spec.priority_class_name
    counting = classes.class_of(named) if priority is None else named
    can_preempt = may_preempt(pod.spec.preemption_policy, "spec.preemptionPolicy")
    if not pod.spec.preemption_policy:
        can_preempt = not classes.is_never_preempting(counting)
    if seed_annotations:
        from_seed = seed_priority(pod)
        priority = priority if from_seed is None else from_seed
    if priority is not None:
        return check_priority(priority, "spec.priority"), can_preempt, ()
    value = classes.value(counting)
    is_unknown = value is None and named
    notes = (Note(place, "spec.priorityClassName", UNKNOWN_CLASS),) if is_unknown else ()
    return value or 0, can_preempt, notes


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
