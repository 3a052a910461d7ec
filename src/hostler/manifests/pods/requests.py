"""What a pod asks for, per resource, as kube-scheduler counts it.

::

    containers = max( Σ containers + Σ sidecars, max over init i of [ init_i + Σ sidecars before i ] )
    request    = (pod-level request of cpu, memory, hugepages where there is one, else containers) + overhead

A sidecar is an init container that always restarts. A limit without a request stands in for it, as the
API server would have filled it in. A pod that runs holds, during a resize in place, the most of what its
spec says, what its node allocated and what is set up; an infeasible resize leaves the spec out, unless its node reports
nothing at all. Each amount is rounded up to its unit before it is added. Used by ``guests``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from hostler.manifests.objects.core import Container, ContainerStatus, Pod, ResourceLists
from hostler.manifests.places import parse_quantities
from hostler.model import CPU, MEMORY, Amounts, amount_of, amounts
from hostler.model.guests import UNASKED

__all__ = ["pod_requests", "scored_requests"]

Sums: TypeAlias = dict[str, int]
Value = TypeVar("Value")
_HUGE_PAGES = "hugepages-"


def pod_requests(pod: Pod, unasked: Mapping[str, int] | None = None) -> Amounts:
    """Add up a pod's requests, or what it uses when it is assigned to a node.

    ``unasked`` replaces what a container omits: kube-scheduler scores every container by some cpu and memory.
    """
    unasked = unasked or {}
    declared = _total(pod, lambda container, path: _declared(container.resources, f"{path}.resources"), unasked)
    total = dict(declared)
    if pod.spec.node_name:
        total = _held(pod, declared, unasked)
    total.update(_pod_level(pod, declared))
    for name, amount in parse_quantities(pod.spec.overhead, "spec.overhead").items():
        total[name] = total.get(name, 0) + amount
    return amounts(total)


def scored_requests(pod: Pod, requests: Amounts) -> Amounts:
    """Return the cpu and memory that kube-scheduler scores a pod by; empty if they equal the requests.

    A pod with pod-level requests is scored by more than it requests only if it omits a resource there.
    """
    lists = pod.spec.resources
    asks_as_a_whole = bool(_at_pod_level({**(lists.limits or {}), **(lists.requests or {})}))
    asked = {name for name, _ in requests} if asks_as_a_whole else set()
    scored = pod_requests(pod, {name: amount for name, amount in UNASKED.items() if name not in asked})
    amounts_to_score = {name: amount_of(scored, name) for name in UNASKED}
    if all(amount == (amount_of(requests, name) or UNASKED[name]) for name, amount in amounts_to_score.items()):
        return ()
    return amounts(amounts_to_score)


def _total(pod: Pod, amounts_of: Callable[[Container, str], Sums], unasked: Mapping[str, int]) -> Sums:
    """Combine the containers of a pod into one request by the rule above."""
    running: Sums = {}
    for at, container in enumerate(pod.spec.containers):
        _add(running, {**unasked, **amounts_of(container, f"spec.containers[{at}]")})
    sidecars: Sums = {}
    starting: Sums = {}
    for at, container in enumerate(pod.spec.init_containers):
        own = {**unasked, **amounts_of(container, f"spec.initContainers[{at}]")}
        if container.restart_policy == "Always":
            _add(running, own)
            _add(sidecars, own)
            _raise_to(starting, sidecars)
        else:
            step = dict(sidecars)
            _add(step, own)
            _raise_to(starting, step)
    _raise_to(running, starting)
    return running


def _declared(lists: ResourceLists, path: str) -> Sums:
    """Read the requests of a resource list; limits replace missing requests."""
    limits = parse_quantities(lists.limits or {}, f"{path}.limits")
    return limits | parse_quantities(lists.requests or {}, f"{path}.requests")


def _held(pod: Pod, declared: Sums, unasked: Mapping[str, int]) -> Sums:
    """Add up what an assigned pod uses: the maximum of declared, allocated and actual amounts."""
    status, is_infeasible = pod.status, _is_resize_infeasible(pod)
    if status.allocated_resources is not None and status.resources.requests is not None:
        allocated = parse_quantities(status.allocated_resources, "status.allocatedResources")
        actual = parse_quantities(status.resources.requests, "status.resources.requests")
    else:
        reports = _reports(pod)
        if not reports:
            return dict(declared)

        def reported(container: Container, path: str, *, actual: bool) -> Sums:
            found = _reported(container, reports, actual=actual)
            if found is None:  # as kube-scheduler has it: what was refused is no stand-in for what is not known
                return {} if is_infeasible else _declared(container.resources, f"{path}.resources")
            return found

        allocated = _total(pod, lambda container, path: reported(container, path, actual=False), unasked)
        actual = _total(pod, lambda container, path: reported(container, path, actual=True), unasked)
    return _most(allocated, actual) if is_infeasible else _most(declared, allocated, actual)


def _reports(pod: Pod) -> dict[str, tuple[str, ContainerStatus]]:
    """Return the container statuses that have resources, by container name."""
    status = pod.status
    found: dict[str, tuple[str, ContainerStatus]] = {}
    groups = (
        ("status.initContainerStatuses", status.init_container_statuses),
        ("status.containerStatuses", status.container_statuses),
    )
    for path, group in groups:
        for at, item in enumerate(group):
            if item.allocated_resources is not None or item.resources.requests is not None:
                found[item.name] = (f"{path}[{at}]", item)
    return found


def _reported(container: Container, reports: dict[str, tuple[str, ContainerStatus]], *, actual: bool) -> Sums | None:
    """Read what the node allocated to a container, or has in effect; None if it does not say."""
    if container.name in reports:
        at, status = reports[container.name]
        if actual and status.resources.requests is not None:
            return parse_quantities(status.resources.requests, f"{at}.resources.requests")
        if status.allocated_resources is not None:
            return parse_quantities(status.allocated_resources, f"{at}.allocatedResources")
    return None


def _pod_level(pod: Pod, declared: Sums) -> Sums:
    """Read the pod-level requests that replace the sum over containers."""
    lists = pod.spec.resources
    own = parse_quantities(lists.requests or {}, "spec.resources.requests")
    for name, limit in parse_quantities(lists.limits or {}, "spec.resources.limits").items():
        # The API server takes the containers' sum first, but not for hugepages (never overcommitted).
        if name not in own and (name not in declared or name.startswith(_HUGE_PAGES)):
            own[name] = limit
    own = _at_pod_level(own)
    if not own or not pod.spec.node_name or pod.status.resources.requests is None:
        return own
    actual = _at_pod_level(parse_quantities(pod.status.resources.requests, "status.resources.requests"))
    allocated = _at_pod_level(parse_quantities(pod.status.allocated_resources or {}, "status.allocatedResources"))
    return _most(allocated, actual) if _is_resize_infeasible(pod) else _most(own, allocated, actual)


def _at_pod_level(values: Mapping[str, Value]) -> dict[str, Value]:
    """Keep the resources that a pod may request at pod level."""
    return {name: amount for name, amount in values.items() if name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES)}


def _is_resize_infeasible(pod: Pod) -> bool:
    """Say whether the node rejected a resize: as a condition (1.33 and newer) or in status.resize (older)."""
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return pod.status.resize == "Infeasible"


def _most(*parts: Sums) -> Sums:
    result: Sums = {}
    for part in parts:
        _raise_to(result, part)
    return result


def _add(total: Sums, part: Sums) -> None:
    for name, amount in part.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Sums, part: Sums) -> None:
    for name, amount in part.items():
        total[name] = max(total.get(name, 0), amount)
