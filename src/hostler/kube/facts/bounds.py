"""What the engine can hold: amounts whose sums stay within 64 bits, and so many names of resources and devices.

A pending pod beyond these bounds is refused; one that runs is counted with as much as can be counted. Names that pods
bring have a share of their own, so that pods with invented resources cannot keep out what nodes really have.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostler.errors import InputError
from hostler.model import Amounts, GuestSpec, Host

__all__ = ["MAX_CAPACITY", "MAX_REQUEST", "Names", "check_host", "check_spec", "clip_spec"]

MAX_REQUEST = 2**50  # 4,096 such pods on one node still fit the engine's 2^62
MAX_CAPACITY = 2**56  # leaves room for a policy's overcommit
_MAX_SCORED = 2**44  # the engine's bound for what is only scored by
_OF_NODES, _OF_PODS = 512, 400  # of the engine's 1,024 resources; policies name some too
_MODELS_OF_NODES, _MODELS_OF_PODS = 2048, 1024  # of the engine's 4,096


class Names:
    """The names that the engine has been told; it never forgets one."""

    def __init__(self) -> None:
        self._resources: set[str] = set()
        self._models: set[str] = set()
        self._from_nodes, self._from_pods = [0, 0], [0, 0]

    def admit(self, resources: Iterable[str], models: Iterable[str], *, from_node: bool) -> bool:
        """Count new names in; refuse all of them when there would be too many."""
        fresh = {name for name in resources if name not in self._resources}
        fresh_models = {name for name in models if name not in self._models}
        if not fresh and not fresh_models:
            return True
        counts = self._from_nodes if from_node else self._from_pods
        most = (_OF_NODES, _MODELS_OF_NODES) if from_node else (_OF_PODS, _MODELS_OF_PODS)
        if counts[0] + len(fresh) > most[0] or counts[1] + len(fresh_models) > most[1]:
            return False
        self._resources |= fresh
        self._models |= fresh_models
        counts[0] += len(fresh)
        counts[1] += len(fresh_models)
        return True

    def knows(self, resource: str) -> bool:
        """Say whether the engine has heard of a resource."""
        return resource in self._resources


def check_spec(spec: GuestSpec, names: Names) -> GuestSpec:
    """Refuse the shape of a pending pod that the engine could not hold."""
    for name, amount in spec.requests:
        if amount > MAX_REQUEST:
            raise InputError(f"it asks for {amount} of {name}, more than any node has", hint="check the suffix")
    models = [model for device in spec.devices for model in device.models]
    if not names.admit((name for name, _ in spec.requests), models, from_node=False):
        raise InputError(
            "it asks for a resource or device model of which there are too many already",
            hint=f"pods may name {_OF_PODS} resources and {_MODELS_OF_PODS} models that no node has",
        )
    return _scored(spec)


def clip_spec(spec: GuestSpec, names: Names) -> tuple[GuestSpec, str]:
    """Cut the shape of a running pod down to what the engine can hold; say what was cut."""
    problem = ""
    models = [model for device in spec.devices for model in device.models]
    if not names.admit((name for name, _ in spec.requests), models, from_node=False):
        kept = tuple((name, amount) for name, amount in spec.requests if names.knows(name))
        spec = msgspec.structs.replace(spec, requests=kept, devices=())
        problem = "some of its resources are not counted: there are too many different ones"
    if any(amount > MAX_REQUEST for _, amount in spec.requests):
        spec = msgspec.structs.replace(spec, requests=_clipped(spec.requests, MAX_REQUEST))
        problem = problem or "it holds an absurd amount, and is counted with 2^50 of it"
    return _scored(spec), problem


def check_host(host: Host, names: Names) -> Host:
    """Refuse a host that the engine could not hold."""
    for name, amount in host.capacity:
        if amount > MAX_CAPACITY:
            raise InputError(f"it has {amount} of {name}, which is absurd", hint="check status.allocatable")
    models = [device.model for device in host.devices]
    if not names.admit((name for name, _ in host.capacity), models, from_node=True):
        raise InputError(
            "it has a resource or device model of which there are too many already",
            hint=f"nodes may have {_OF_NODES} different resources and {_MODELS_OF_NODES} models",
        )
    return host


def _scored(spec: GuestSpec) -> GuestSpec:
    if any(amount > _MAX_SCORED for _, amount in spec.scored_requests):
        return msgspec.structs.replace(spec, scored_requests=_clipped(spec.scored_requests, _MAX_SCORED))
    return spec


def _clipped(amounts: Amounts, most: int) -> Amounts:
    return tuple((name, min(amount, most)) for name, amount in amounts)
