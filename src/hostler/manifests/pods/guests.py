"""Kubernetes Pod to Guest.

A pod gives no guest but a note if it has ended, waits for its scheduling gates, or is being deleted before it was
placed. Ports come from containers and sidecars (init containers that always restart), images from all containers. A pod
on the network of its node uses each of its ports on the node, as the API server fills in. Used by ``reader``,
``workloads`` and ``kube``; ``output`` converts back.
"""

from __future__ import annotations

from collections.abc import Iterator

from hostler.errors import InputError
from hostler.manifests.objects.core import Container, ContainerPort, Pod
from hostler.manifests.places import DEFAULT_NAMESPACE, ManifestNote, about, check_keys, pod_place, version_of
from hostler.manifests.pods.constraints import preferred_terms, read_toleration, required_terms
from hostler.manifests.pods.gangs import gang_named_by
from hostler.manifests.pods.gpus import gpu_indices, gpu_request
from hostler.manifests.pods.guest_terms import preferred_guest_terms, read_spread, required_guest_terms
from hostler.manifests.pods.priorities import UNKNOWN_CLASS, PriorityClasses, check_priority, may_preempt, seed_priority
from hostler.manifests.pods.requests import pod_requests, scored_requests
from hostler.manifests.pods.surroundings import Surroundings
from hostler.manifests.pods.unevaluated_fields import NOT_EVALUATED, note_unevaluated_fields, unsupported_needs
from hostler.manifests.times import nanoseconds
from hostler.model import Guest, GuestSpec, HostPort, Selector, Toleration, labels

__all__ = ["host_ports", "image_names", "pod_to_guest", "read_spec", "why_no_guest"]

_EVERYWHERE = "0.0.0.0"
_LAST_PORT = 65535


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the ports of the host that a pod uses."""
    found: dict[HostPort, None] = {}
    for path, container in _running(pod):
        for at, port in enumerate(container.ports):
            taken = _host_port(port, f"{path}.ports[{at}]", on_host=pod.spec.host_network)
            if taken is not None:
                found[taken] = None
    return tuple(found)


def image_names(pod: Pod) -> tuple[str, ...]:
    """Return the image of each container, then of each init container, under the names that nodes use."""
    everyone = (*pod.spec.containers, *pod.spec.init_containers)
    return tuple(_with_tag(container.image) for container in everyone if container.image)


def _running(pod: Pod) -> Iterator[tuple[str, Container]]:
    for at, container in enumerate(pod.spec.containers):
        yield f"spec.containers[{at}]", container
    for at, container in enumerate(pod.spec.init_containers):
        if container.restart_policy == "Always":
            yield f"spec.initContainers[{at}]", container


def _host_port(port: ContainerPort, path: str, *, on_host: bool) -> HostPort | None:
    number, field = port.host_port, "hostPort"
    if not number and on_host:
        number, field = port.container_port, "containerPort"
    if not number:
        return None
    if not 1 <= number <= _LAST_PORT:
        raise InputError(f"{path}.{field}: {number} is not between 1 and {_LAST_PORT}")
    address = "" if port.host_ip == _EVERYWHERE else port.host_ip
    match port.protocol:
        case "":
            return HostPort(number, "TCP", address)
        case "TCP" | "UDP" | "SCTP":
            return HostPort(number, port.protocol, address)
    raise InputError(f"{path}.protocol: {port.protocol!r} is not a protocol", hint="protocols: TCP, UDP, SCTP")


def _with_tag(image: str) -> str:
    """Add the default tag to an image without tag and digest; a colon before a slash belongs to a port."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


_AFFINITY = "spec.affinity.podAffinity"
_ANTI_AFFINITY = "spec.affinity.podAntiAffinity"


def pod_to_guest(
    pod: Pod,
    specs: dict[GuestSpec, GuestSpec] | None = None,
    *,
    around: Surroundings | None = None,
    seed_annotations: bool = False,
) -> tuple[Guest | None, tuple[ManifestNote, ...]]:
    """Convert a Pod to a guest, with notes on ignored fields.

    ``specs`` interns equal specs. ``around`` knows services, owners and priority classes; without it none exist.
    ``seed_annotations`` enables the annotations ``priority`` and ``pod-group``. It is off by default and must be off if
    users write their own pods, because any user could raise the priority of a pod.
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
        return None, (ManifestNote(place, *stays_out),)
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
    """Return the field by which a pod is no guest, and why; None if it is one."""
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
) -> tuple[GuestSpec, tuple[ManifestNote, ...]]:
    """Convert a pod, or the pod of a template, to a spec; ``controller`` is its controller's selector.

    ``is_live``: the caller handles volumes itself, and does not need the siblings of a running pod.
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
    notes = () if is_live else note_unevaluated_fields(pod, place)
    return spec, (*notes, *priority_notes, *toleration_notes)


def _priority(
    pod: Pod, classes: PriorityClasses, place: str, seed_annotations: bool
) -> tuple[int, bool, tuple[ManifestNote, ...]]:
    """Return a pod's priority and whether it may preempt; the pod's own values override its class."""
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
    notes = (ManifestNote(place, "spec.priorityClassName", UNKNOWN_CLASS),) if is_unknown else ()
    return value or 0, can_preempt, notes


def _tolerations(pod: Pod, place: str) -> tuple[tuple[Toleration, ...], tuple[ManifestNote, ...]]:
    found: list[Toleration] = []
    notes: list[ManifestNote] = []
    for at, item in enumerate(pod.spec.tolerations):
        path = f"spec.tolerations[{at}]"
        toleration = read_toleration(item, path)
        if toleration is None:
            notes.append(ManifestNote(place, f"{path}.operator", f"{item.operator} {NOT_EVALUATED}"))
        else:
            found.append(toleration)
    return tuple(found), tuple(notes)
