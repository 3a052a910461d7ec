"""A guest's amounts, ports and images as containers of a pod that asks for the same and is scored the same.

There is one container for each image, and at least one; the first holds the requests and the ports. The
others ask for an explicit zero of cpu and memory: kube-scheduler scores a container that does not name
them by a default (100 milli, 200 MiB), so where a guest is scored by more than it asks for, just as many
containers leave them out. Used by ``pod_writing``.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from hostler.errors import InputError
from hostler.model import CPU, GUESTS, MEMORY, GuestSpec, HostPort, amount_of, format_resource
from hostler.model.guests import UNASKED

__all__ = ["PAUSE_IMAGE", "write_containers"]

PAUSE_IMAGE = "registry.k8s.io/pause:3.10"  # a container needs an image; this one only waits

_MAX_WITHOUT = 1000  # more containers than any pod has

_Requests: TypeAlias = dict[str, str]
_ZEROS = {CPU: "0", MEMORY: "0"}


class _Split(msgspec.Struct, frozen=True):
    """How one resource is split so that it adds up to the request, and with defaults to what is scored.

    ``main`` is None where the first container leaves the resource out too. What is scored and is no whole number of
    defaults above the request comes of an init container that leaves it out, after a sidecar that holds ``sidecar``.
    """

    main: int | None
    others_without: int = 0
    sidecar: int = 0
    init_without: bool = False
    overhead: int = 0


def write_containers(spec: GuestSpec) -> dict[str, object]:
    """Write the containers and init containers of a guest's pod, and its overhead if there must be one."""
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
    """Find the requests of containers, of sidecars and of init containers, and the overhead."""
    splits = {name: _split(spec, name, is_tight) for name in (CPU, MEMORY)}
    overhead = {name: format_resource(name, split.overhead) for name, split in splits.items() if split.overhead}
    others = [
        {name: "0" for name, split in splits.items() if at >= split.others_without}
        for at in range(max(split.others_without for split in splits.values()))
    ]
    main = _main(spec, splits)
    if not any(split.init_without for split in splits.values()):
        return [main, *others], [], [], overhead
    # Sidecars go on running: they count beside the containers, and for init containers after them.
    if any(split.sidecar for split in splits.values()):
        others.append({name: format_resource(name, split.sidecar) for name, split in splits.items()})
    return [main], others, [{name: "0" for name, split in splits.items() if not split.init_without}], overhead


def _split(spec: GuestSpec, name: str, is_tight: bool) -> _Split:
    """Split one resource; in a tight plan the overhead holds what would need a container of its own."""
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
