"""Notes about input that is valid and yet hardly what was meant: names that nobody has, gpu policies without gpus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from hostler.config import Fleet, did_you_mean
from hostler.model import GUESTS, GuestSpec, Host, Policy

__all__ = ["advice", "gang_advice"]

GPU = "gpu"
GPU_SCORERS = frozenset({"fgd", "gpu_best_fit", "dot_product", "gpu_clustering", "gpu_packing"})


def advice(hosts: Sequence[Host], specs: Iterable[GuestSpec], policies: Iterable[Policy]) -> list[str]:
    """Return what a person should know, each thing once; without hosts there is nothing to compare with."""
    if not hosts:
        return []
    resources = {name for host in hosts for name, _ in host.capacity}
    kinds = {device.kind for host in hosts for device in host.devices}
    asked = dict.fromkeys(name for spec in specs for name, _ in spec.requests)
    found = [_about(name, resources, kinds) for name in asked if name != GUESTS and name not in resources]
    if GPU not in kinds:
        found += [
            f"policy {policy.name!r} scores by gpus, and no host has a device of kind gpu"
            for policy in policies
            if any(scorer.name in GPU_SCORERS for scorer in policy.scorers)
        ]
    return found


def gang_advice(fleet: Fleet) -> list[str]:
    """Say which gangs are named and nowhere declared: whoever is in one waits for it."""
    declared = {gang.key for gang in fleet.tenancy.gangs}
    named = dict.fromkeys(guest.gang for guest in fleet.guests if guest.gang and not guest.host)
    reserved = {one.gang: one.name for one in fleet.tenancy.reservations if one.gang}
    found = []
    for key in (*named, *(key for key in reserved if key not in named)):
        if key not in declared:
            who = "its members wait for it" if key in named else f"reservation {reserved[key]!r} is for it"
            near = did_you_mean(key, declared)
            found.append(f"gang {key!r} is not declared: {who}" + (f" ({near})" if near else ""))
    return found


def _about(name: str, resources: set[str], kinds: set[str]) -> str:
    if name in kinds:
        return f"{name!r} is a device here: write devices: [{{kind: {name}}}]"
    near = get_close_matches(name, sorted(resources), n=1)
    return f"no host has {name!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
