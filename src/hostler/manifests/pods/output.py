"""Guest to Kubernetes Pod.

What a pod can express is written so that reading it again gives an equal guest. Two things are omitted: the engine's
own fields (policy, preparations, the draw key), and what follows from other objects (its tenant, its siblings).

There is one container for each image, and at least one. The first has the requests and the ports. The others explicitly
request zero cpu and memory, because kube-scheduler scores a container without requests by a default (100 milli, 200
MiB). If a guest is scored by more than it requests, the matching number of containers omit them. Used by exports and
``kube``.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from hostler.errors import InputError
from hostler.manifests.places import about
from hostler.manifests.pods.constraints import node_affinity_of, toleration_of
from hostler.manifests.pods.gangs import POD_GROUP_LABEL
from hostler.manifests.pods.gpus import gpu_annotations
from hostler.manifests.pods.guest_terms import guest_affinity_of, spread_data
from hostler.manifests.times import format_time
from hostler.model import CPU, GUESTS, MEMORY, Guest, GuestSpec, HostPort, amount_of, format_resource
from hostler.model.guests import UNASKED

__all__ = ["PAUSE_IMAGE", "guest_to_pod", "write_containers"]

PAUSE_IMAGE = "registry.k8s.io/pause:3.10"  # a container needs an image; this one only waits

_MAX_WITHOUT = 1000  # more containers than any pod has

_Requests: TypeAlias = dict[str, str]
_ZEROS = {CPU: "0", MEMORY: "0"}


class _Split(msgspec.Struct, frozen=True):
    """How one resource is split over containers, to add up to the request, and with defaults to the scored amount.

    ``main`` is None if the first container omits the resource too. A scored amount that exceeds the request by
    something else than a multiple of the default comes from an init container that omits it, after a sidecar that
    requests ``sidecar``.
    """

    main: int | None
    others_without: int = 0
    sidecar: int = 0
    init_without: bool = False
    overhead: int = 0


def write_containers(spec: GuestSpec) -> dict[str, object]:
    """Return the containers and init containers of a guest's pod, and its overhead if it needs one."""
    plain, sidecars, starting, overhead = _plan(spec, is_tight=False)
    if len(plain) + len(sidecars) + len(starting) > max(len(spec.images), 1):
        # Only a pod that had an overhead itself is scored like this by so few containers.
        plain, sidecars, starting, overhead = _plan(spec, is_tight=True)
    plain += [_ZEROS] * (len(spec.images) - len(plain) - len(sidecars) - len(starting))
    requests = [*plain, *sidecars, *starting]
    images = (*spec.images, *(PAUSE_IMAGE,) * (len(requests) - len(spec.images)))
    written = [_container(f"c{at}", images[at], amounts) for at, amounts in enumerate(requests)]
    if spec.ports:
        written[0]["ports"] = [_port(port) for port in spec.ports]
    for container in written[len(plain) : len(plain) + len(sidecars)]:
        container["restartPolicy"] = "Always"
    parts = {"containers": written[: len(plain)], "initContainers": written[len(plain) :], "overhead": overhead}
    return {name: part for name, part in parts.items() if part}


def _plan(spec: GuestSpec, *, is_tight: bool) -> tuple[list[_Requests], list[_Requests], list[_Requests], _Requests]:
    """Compute the requests of containers, sidecars and init containers, and the overhead."""
    splits = {name: _split(spec, name, is_tight) for name in (CPU, MEMORY)}
    overhead = {name: format_resource(name, split.overhead) for name, split in splits.items() if split.overhead}
    others = [
        {name: "0" for name, split in splits.items() if at >= split.others_without}
        for at in range(max(split.others_without for split in splits.values()))
    ]
    main = _main(spec, splits)
    if not any(split.init_without for split in splits.values()):
        return [main, *others], [], [], overhead
    # Sidecars keep running: they count beside the containers, and for init containers after them.
    if any(split.sidecar for split in splits.values()):
        others.append({name: format_resource(name, split.sidecar) for name, split in splits.items()})
    return [main], others, [{name: "0" for name, split in splits.items() if not split.init_without}], overhead


def _split(spec: GuestSpec, name: str, is_tight: bool) -> _Split:
    """Split one resource; in a tight plan the overhead has what would need a container of its own."""
    unasked, asked = UNASKED[name], amount_of(spec.requests, name)
    scored = amount_of(spec.scored_requests, name) if spec.scored_requests else asked or unasked
    if max(scored - asked, 0) > _MAX_WITHOUT * unasked:
        raise InputError(
            f"it is scored by more {name} than containers without a request explain; it cannot be written as a Pod"
        )
    if not asked:
        without = scored // unasked
        return _Split(None, without - 1) if without else _Split(0)
    without, rest = divmod(max(scored - asked, 0), unasked)
    if rest:
        held = max(asked + rest - unasked, 0)
        kept = _Split(asked - held, without, init_without=True)
        return msgspec.structs.replace(kept, **({"overhead": held} if is_tight else {"sidecar": held}))
    if without and is_tight:
        return _Split(None, without - 1, overhead=asked)
    return _Split(asked, without)


def _main(spec: GuestSpec, splits: dict[str, _Split]) -> _Requests:
    requests: _Requests = {}
    for name, split in splits.items():
        if split.main is not None:
            requests[name] = format_resource(name, split.main)
    for name, amount in spec.requests:
        if name != GUESTS and name not in splits:
            requests[name] = format_resource(name, amount)
    return requests


def _container(name: str, image: str, requests: _Requests) -> dict[str, object]:
    # Kubernetes wants a limit for what cannot be overcommitted.
    limits = {name: text for name, text in requests.items() if "/" in name or name.startswith("hugepages-")}
    resources = {name: lists for name, lists in (("requests", requests), ("limits", limits)) if lists}
    return {"name": name, "image": image, "resources": resources}


def _port(port: HostPort) -> dict[str, object]:
    data: dict[str, object] = {"containerPort": port.port, "hostPort": port.port, "protocol": port.protocol}
    return {**data, "hostIP": port.address} if port.address else data


# When a guest was told to end is not known any more, only that it was: any time says that.
_SOME_TIME = format_time(0)


def guest_to_pod(guest: Guest) -> dict[str, object]:
    """Convert a guest to a Pod; reject what a Pod cannot express."""
    spec = guest.spec
    if spec.unsupported:
        raise InputError(
            f"guest {guest.name!r}: its {' and '.join(spec.unsupported)} cannot be written as a Pod",
            hint="only that there are any is known here: use the Pod that it was read from",
        )
    with about(f"guest {guest.name!r}"):
        containers = write_containers(spec)
    parts: dict[str, object] = {
        "nodeName": guest.host,
        "priority": spec.priority,
        "preemptionPolicy": "" if spec.may_preempt else "Never",
        "nodeSelector": dict(spec.host_selector),
        "affinity": {**node_affinity_of(spec), **guest_affinity_of(spec)},
        "tolerations": [toleration_of(item) for item in spec.tolerations],
        "topologySpreadConstraints": [spread_data(item) for item in spec.spread],
        "schedulingGroup": _scheduling_group(guest),
    }
    pod: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(guest),
        "spec": {**containers, **{name: part for name, part in parts.items() if part}},
    }
    if guest.started:
        pod["status"] = {"startTime": format_time(guest.started)}
    return pod


def _metadata(guest: Guest) -> dict[str, object]:
    spec = guest.spec
    parts: dict[str, object] = {
        "uid": guest.uid,
        "resourceVersion": str(guest.version) if guest.version else "",
        "labels": dict(spec.labels),
        "annotations": gpu_annotations(guest),
        "deletionTimestamp": _SOME_TIME if spec.is_leaving else "",
    }
    metadata: dict[str, object] = {"name": guest.name, "namespace": spec.namespace}
    return metadata | {name: part for name, part in parts.items() if part}


def _scheduling_group(guest: Guest) -> dict[str, object]:
    """Return the field that names the gang; a gang of the older form is named by a label instead."""
    if not guest.gang:
        return {}
    namespace, _, name = guest.gang.partition("/")
    if namespace != guest.spec.namespace or not name:
        raise InputError(
            f"guest {guest.name!r}: its gang {guest.gang!r} cannot be written as a Pod",
            hint=f"a Pod names a group of its own namespace, {guest.spec.namespace!r}",
        )
    return {} if dict(guest.spec.labels).get(POD_GROUP_LABEL) == name else {"podGroupName": name}
