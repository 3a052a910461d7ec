"""Notes about input that is valid but probably a mistake: unknown names, GPU policies without GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hostler.model import GUESTS, Gang, GuestSpec, GuestTerm, Host, Policy, Spread
from hostler.model.hosts import HOSTNAME
from hostler.model.nearest_names import nearest_name
from hostler.model.resources import COMMON_RESOURCES
from hostler.queries.inputs import PlacementInput

__all__ = ["input_advice"]

GPU = "gpu"
GPU_SCORERS = frozenset({"fgd", "gpu_best_fit", "dot_product", "gpu_clustering", "gpu_packing"})


def input_advice(inputs: PlacementInput, specs: Iterable[GuestSpec]) -> list[str]:
    """Return notes for the user about an input, each once; ``specs`` has those of its guests and more."""
    distinct = tuple(dict.fromkeys(specs))
    return [
        *_name_advice(inputs.hosts, distinct, inputs.policies),
        *_gang_advice(inputs),
        *_topology_advice(inputs.hosts, distinct, inputs.tenancy.gangs),
    ]


def _name_advice(hosts: Sequence[Host], specs: Iterable[GuestSpec], policies: Iterable[Policy]) -> list[str]:
    """Return notes on resources that no host has, and on policies for GPUs; without hosts there are none."""
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


def _gang_advice(inputs: PlacementInput) -> list[str]:
    """Return notes on undeclared gangs: their members wait for them."""
    declared = {gang.key for gang in inputs.tenancy.gangs}
    named = dict.fromkeys(guest.gang for guest in inputs.guests if guest.gang and not guest.host)
    reserved = {one.gang: one.name for one in inputs.tenancy.reservations if one.gang}
    found = []
    for key in (*named, *(key for key in reserved if key not in named)):
        if key not in declared:
            who = "its members wait for it" if key in named else f"reservation {reserved[key]!r} is for it"
            found.append(f"gang {key!r} is not declared: {who}{_near_gang(key, declared)}")
    return found


def _topology_advice(hosts: Sequence[Host], specs: Iterable[GuestSpec], gangs: Iterable[Gang]) -> list[str]:
    """Return notes on constraints without effect: they select no guest, or use a label that no host has."""
    labels = {key for host in hosts for key, _ in host.labels} | {HOSTNAME}
    asked: dict[tuple[str, str], None] = {}
    found: dict[str, None] = {}
    for spec in specs:
        for word, one in _constraints(spec):
            asked[word, one.topology] = None
            if one.selector is None and word in ("anti_affinity", "spread"):
                found[
                    f"{word} by {one.topology!r} has no selector, so it counts no guest: write selector: {{}} for all"
                ] = None
    asked |= {("a gang's topology", gang.topology): None for gang in gangs if gang.topology}
    for word, key in asked if hosts else ():
        if key not in labels:
            found[f"no host has the label {key!r}, by which {word} goes{_near(key, labels)}"] = None
    return list(found)


def _constraints(spec: GuestSpec) -> Iterator[tuple[str, GuestTerm | Spread]]:
    """Return a guest's constraints about other guests, with the key of each in the file."""
    yield from (("affinity", term) for term in spec.affinity)
    yield from (("anti_affinity", term) for term in spec.anti_affinity)
    yield from (("preferred_affinity", one.term) for one in spec.preferred_affinity)
    yield from (("preferred_anti_affinity", one.term) for one in spec.preferred_anti_affinity)
    yield from (("spread", one) for one in spec.spread)


def _near_gang(key: str, declared: Iterable[str]) -> str:
    """Return the gang with a similar name; a common namespace does not count as similarity."""
    namespace, _, name = key.partition("/")
    by_name = {one.partition("/")[2]: one for one in sorted(declared, reverse=True)}
    by_name |= {one.partition("/")[2]: one for one in declared if one.startswith(f"{namespace}/")}
    near = nearest_name(name, by_name)
    return f" (did you mean {by_name[near]!r}?)" if near else ""


def _near(name: str, known: Iterable[str]) -> str:
    near = nearest_name(name, known)
    return f" (did you mean {near!r}?)" if near else ""


def _about(name: str, resources: set[str], kinds: set[str]) -> str:
    if name in kinds:
        return f"{name!r} is a device here: write devices: [{{kind: {name}}}]"
    # The names that policies know are right; then it is a host that misspells one, which readers of files warn about.
    return f"no host has {name!r}" + ("" if name in COMMON_RESOURCES else _near(name, resources))
