"""The limits of the engine: amounts whose sums fit into 64 bits, and a limited number of resource and device names.

A pending pod beyond these limits is rejected; a running one is counted as far as possible. The engine takes names from
nodes only. Each node has a share of names of its own, and each namespace has a share of names for its pods, so no node
or namespace can use up the names that others need. If many nodes together use up all names, the nodes that came first
keep theirs. Names are released with the nodes and pods that have them. What was rejected for lack of a share is checked
again then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from hostler.errors import InputError
from hostler.model import CPU, GUESTS, MEMORY, STORAGE, Amounts, GuestSpec, Host

__all__ = ["MAX_CAPACITY", "MAX_REQUEST", "MAX_TERMS_OF_POD", "NameShares", "check_host", "check_spec", "clip_spec"]

MAX_REQUEST = 2**50  # 4,096 such pods on one node still fit the engine's 2^62
MAX_CAPACITY = 2**56  # leaves room for a policy's overcommit
MAX_TERMS_OF_POD = 128
_MAX_SCORED = 2**44  # the engine's limit for amounts that are only scored
_OF_NODES = 960  # of the engine's 1,024 resources; policies name some too
_OF_NODE = 32  # that no other node has: its devices, huge pages and a dozen extended resources
_SHOWN = 8  # number of names that a message lists
_OF_POD = 64  # resources and device models of one pod
_OF_NAMESPACE = 256  # of all pods of a namespace
_COMMON = frozenset({GUESTS, CPU, MEMORY, STORAGE, ""})


class NameShares:
    """The names of resources and device models of nodes and pods, each with its number of users."""

    def __init__(self) -> None:
        self._of_node: dict[str, frozenset[str]] = {}
        self._nodes: Counter[str] = Counter()
        self._of_pod: dict[str, tuple[str, frozenset[str]]] = {}
        self._namespaces: dict[str, Counter[str]] = {}
        self._late_nodes: dict[str, None] = {}  # rejected, to be checked again when names are released
        self._late_pods: dict[str, dict[str, None]] = {}
        self._is_freed = False
        self._freed: dict[str, None] = {}  # namespaces

    def why_not_node(self, owner: str, names: Iterable[str]) -> str:
        """Count a node's names in place of its earlier ones; return why not if there are too many."""
        wanted = frozenset(names) - _COMMON
        self._late_nodes.pop(owner, None)
        before = self._of_node.pop(owner, frozenset())
        self._nodes.subtract(before)
        self._drop_unused(before)
        fresh = [name for name in wanted if name not in self._nodes]
        if len(fresh) > _OF_NODE:
            problem = f"it has {len(fresh)} resources and device models that no other node has; {_OF_NODE} are allowed"
        elif len(self._nodes) + len(fresh) > _OF_NODES:
            problem = f"nodes have {len(self._nodes)} different resources and device models; {_OF_NODES} are allowed"
        else:
            problem = ""
            self._nodes.update(wanted)
            if wanted:
                self._of_node[owner] = wanted
        if problem:
            self._late_nodes[owner] = None
        self._is_freed |= any(name not in self._nodes for name in before)
        return problem

    def beyond(self, owner: str, names: Iterable[str]) -> frozenset[str]:
        """Return new names of a node that it may not have because other nodes use all of the room."""
        wanted, before = frozenset(names) - _COMMON, self._of_node.get(owner, frozenset())
        own = {name for name in before if self._nodes[name] == 1}
        fresh = {name for name in wanted if name not in self._nodes or name in own}
        has_room = len(self._nodes) - len(own) + len(fresh) <= _OF_NODES
        return frozenset() if has_room or len(fresh) > _OF_NODE else frozenset(fresh) - before

    def look_again(self, owner: str) -> None:
        """Check a node again when names are released: some of its names are left out."""
        self._late_nodes[owner] = None

    def why_not_pod(self, uid: str, spec: GuestSpec, *, is_running: bool) -> str:
        """Count a pod's names in place of its earlier ones; return why not if there are too many.

        A running pod is counted in any case: its resources are in use.
        """
        wanted = frozenset(_count_names(spec)) - _COMMON
        namespace, before = self._take_off(uid)
        problem = self._count_pod(uid, spec.namespace, wanted, is_running=is_running)
        self._note_freed(namespace, before)  # not earlier: names that the pod has again were never free for others
        return problem

    def _count_pod(self, uid: str, namespace: str, wanted: frozenset[str], *, is_running: bool) -> str:
        names = self._namespaces.get(namespace, Counter())
        fresh = sum(name not in names for name in wanted)
        if len(wanted) > _OF_POD and not is_running:
            return f"it names {len(wanted)} resources and device models; a pod may name {_OF_POD}"
        if len(names) + fresh > _OF_NAMESPACE and fresh and not is_running:
            self._late_pods.setdefault(namespace, {})[uid] = None
            return (
                f"pods of namespace {namespace} name {len(names)} resources and device models already; "
                f"{_OF_NAMESPACE} are allowed"
            )
        if wanted:
            self._of_pod[uid] = (namespace, wanted)
            self._namespaces.setdefault(namespace, Counter()).update(wanted)
        return ""

    def forget_node(self, owner: str) -> None:
        """Release the names of a node that is gone."""
        self.why_not_node(owner, ())

    def forget_pod(self, uid: str) -> None:
        """Release the names of a pod that is gone."""
        self._note_freed(*self._take_off(uid))

    def _take_off(self, uid: str) -> tuple[str, frozenset[str]]:
        """Stop counting a pod's names; return its namespace and those names."""
        namespace, names = self._of_pod.pop(uid, ("", frozenset()))
        for late in self._late_pods.values():
            late.pop(uid, None)
        if names:
            used = self._namespaces[namespace]
            used.subtract(names)
            for name in [name for name in names if not used[name]]:
                del used[name]
            if not used:
                del self._namespaces[namespace]
        return namespace, names

    def _note_freed(self, namespace: str, names: Iterable[str]) -> None:
        """Allow rejected pods of a namespace to be checked again if no pod has one of these names any more."""
        used = self._namespaces.get(namespace, Counter())
        if any(name not in used for name in names):
            self._freed[namespace] = None

    def late_nodes(self) -> list[str]:
        """Return the nodes that were rejected and may be accepted now, each once after names were released.

        Nodes with only some names left out come first: they were there before the others.
        """
        freed, self._is_freed = self._is_freed, False
        return sorted(self._late_nodes, key=lambda owner: owner not in self._of_node) if freed else []

    def late_pods(self) -> list[str]:
        """Return the pods that were rejected and may be accepted now, each once after names were released."""
        freed, self._freed = self._freed, {}
        return [uid for namespace in freed for uid in self._late_pods.pop(namespace, ())]

    def knows(self, resource: str) -> bool:
        """Return whether a node has a resource."""
        return resource in _COMMON or resource in self._nodes

    def _drop_unused(self, names: Iterable[str]) -> None:
        for name in names:
            if not self._nodes[name]:
                del self._nodes[name]


def check_terms(spec: GuestSpec) -> None:
    """Reject a pending pod with too many terms about other pods; each costs a counter per domain."""
    if spec.term_count > MAX_TERMS_OF_POD:
        raise InputError(
            f"it has {spec.term_count} affinity terms and spread constraints; a pod may have {MAX_TERMS_OF_POD}",
            hint="name a label that all of the other pods share",
        )


def clip_terms(spec: GuestSpec) -> tuple[GuestSpec, str]:
    """Drop excess terms of a running pod and report it. Anti-affinity terms are kept longest."""
    left = MAX_TERMS_OF_POD
    if spec.term_count <= left:
        return spec, ""
    kept: dict[str, tuple[object, ...]] = {}
    for name in ("anti_affinity", "affinity", "spread", "preferred_anti_affinity", "preferred_affinity"):
        kept[name] = getattr(spec, name)[:left]
        left -= len(kept[name])
    cut = f"of its affinity terms and spread constraints only {MAX_TERMS_OF_POD} are counted"
    return msgspec.structs.replace(spec, **kept), cut


def _count_names(spec: GuestSpec) -> Iterable[str]:
    yield from (name for name, _ in spec.requests)
    for device in spec.devices:
        yield from device.models


def check_spec(spec: GuestSpec, names: NameShares, uid: str = "") -> GuestSpec:
    """Reject a pending pod whose shape exceeds the limits of the engine."""
    check_terms(spec)
    for name, amount in spec.requests:
        if amount > MAX_REQUEST:
            raise InputError(f"it asks for {amount} of {name}, more than any node may have", hint="check the suffix")
    problem = names.why_not_pod(uid, spec, is_running=False)
    if problem:
        raise InputError(problem, hint="delete pods that request resources that no node has, or name fewer models")
    return _scored_terms(spec)


def clip_spec(spec: GuestSpec, names: NameShares, uid: str = "") -> tuple[GuestSpec, str]:
    """Cut the shape of a running pod down to the limits of the engine; report what was cut."""
    spec, problem = clip_terms(spec)
    if len(set(_count_names(spec))) > _OF_POD:
        kept = tuple((name, amount) for name, amount in spec.requests if names.knows(name))
        spec = msgspec.structs.replace(spec, requests=kept, devices=())
        problem = "some of its resources are not counted: there are too many different ones"
    names.why_not_pod(uid, spec, is_running=True)
    if any(amount > MAX_REQUEST for _, amount in spec.requests):
        spec = msgspec.structs.replace(spec, requests=_clip_amounts(spec.requests, MAX_REQUEST))
        problem = problem or "it holds an implausible amount, which is counted as 2^50"
    return _scored_terms(spec), problem


def check_host(host: Host, names: NameShares, known: Host | None = None) -> tuple[Host, str]:
    """Reject a host that exceeds the limits of the engine.

    A host that is already known stays if other nodes use up all names, but without its new names. The text reports
    that.
    """
    for name, amount in host.capacity:
        if amount > MAX_CAPACITY:
            raise InputError(f"it has {amount} of {name}, which is implausible", hint="check status.allocatable")
    cut = names.beyond(host.name, _named_by(host)) if known is not None else frozenset()
    if known is not None and cut:
        has_devices = all(device.model not in cut for device in host.devices)
        capacity = tuple((name, amount) for name, amount in host.capacity if name not in cut)
        devices = host.devices if has_devices else known.devices
        host = msgspec.structs.replace(host, capacity=capacity, devices=devices)
    problem = names.why_not_node(host.name, _named_by(host))
    if problem:
        raise InputError(problem, hint="check the device plugins of the node")
    if not cut:
        return host, ""
    names.look_again(host.name)
    return host, f"nodes have {_OF_NODES} different resources and device models, so {_list_names(cut)} is not counted"


def _named_by(host: Host) -> tuple[str, ...]:
    return (*(name for name, _ in host.capacity), *(device.model for device in host.devices))


def _list_names(names: frozenset[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")


def _scored_terms(spec: GuestSpec) -> GuestSpec:
    if any(amount > _MAX_SCORED for _, amount in spec.scored_requests):
        return msgspec.structs.replace(spec, scored_requests=_clip_amounts(spec.scored_requests, _MAX_SCORED))
    return spec


def _clip_amounts(amounts: Amounts, most: int) -> Amounts:
    return tuple((name, min(amount, most)) for name, amount in amounts)
