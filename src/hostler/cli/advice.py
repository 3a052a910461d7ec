"""Notes about input that is valid and yet hardly what was meant: names that nobody has, gpu policies without gpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from hostler.config import Fleet
from hostler.model import GUESTS, Gang, GuestSpec, GuestTerm, Host, Policy, Spread

__all__ = ["advice", "gang_advice", "topology_advice"]

HOST_NAME_LABEL = "kubernetes.io/hostname"  # every host has it where somebody asks for it

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
            found.append(f"gang {key!r} is not declared: {who}{_near_gang(key, declared)}")
    return found


def topology_advice(hosts: Sequence[Host], specs: Iterable[GuestSpec], gangs: Iterable[Gang]) -> list[str]:
    """Say which constraints cannot do anything: those that select nobody, or go by a label that no host has."""
    labels = {key for host in hosts for key, _ in host.labels} | {HOST_NAME_LABEL}
    asked: dict[tuple[str, str], None] = {}
    found: dict[str, None] = {}
    for spec in specs:
        for word, one in _constraints(spec):
            asked[word, one.topology] = None
            if one.selector is None and word in ("anti_affinity", "spread"):
                found[
                    f"{word} by {one.topology!r} has no selector, so it counts nobody: write selector: {{}} for all"
                ] = None
    asked |= {("a gang's topology", gang.topology): None for gang in gangs if gang.topology}
    for word, key in asked if hosts else ():
        if key not in labels:
            found[f"no host has the label {key!r}, by which {word} goes{_near(key, labels)}"] = None
    return list(found)


def _constraints(spec: GuestSpec) -> Iterator[tuple[str, GuestTerm | Spread]]:
    """Return all that a guest says about other guests, with the key under which it is said."""
    yield from (("affinity", term) for term in spec.affinity)
    yield from (("anti_affinity", term) for term in spec.anti_affinity)
    yield from (("preferred_affinity", one.term) for one in spec.preferred_affinity)
    yield from (("preferred_anti_affinity", one.term) for one in spec.preferred_anti_affinity)
    yield from (("spread", one) for one in spec.spread)


def _near_gang(key: str, declared: Iterable[str]) -> str:
    """Name the gang whose name is near; that two are in one namespace makes them no more alike."""
    namespace, _, name = key.partition("/")
    by_name = {one.partition("/")[2]: one for one in sorted(declared, reverse=True)}
    by_name |= {one.partition("/")[2]: one for one in declared if one.startswith(f"{namespace}/")}
    near = get_close_matches(name, sorted(by_name), n=1)
    return f" (did you mean {by_name[near[0]]!r}?)" if near else ""


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _about(name: str, resources: set[str], kinds: set[str]) -> str:
    if name in kinds:
        return f"{name!r} is a device here: write devices: [{{kind: {name}}}]"
    return f"no host has {name!r}{_near(name, resources)}"
