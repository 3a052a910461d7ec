"""Pods of a DaemonSet: one for each node that would take it, and bound to that node by an affinity.

As the DaemonSet controller does it: labels, names and hard taints of a node decide whether it gets a pod
at all, its free amounts do not; daemons tolerate what befalls a node. Used by ``workloads``.
"""

from __future__ import annotations

import msgspec

from hostler.manifests.constraints import NAME_FIELD
from hostler.manifests.objects import Pod
from hostler.model import Expression, GuestSpec, Host, Term, Toleration
from hostler.model.selectors import Effect

__all__ = ["daemon_shape", "node_of_daemon", "takes_daemon", "with_daemon_tolerations"]

_CONDITIONS: tuple[tuple[str, Effect], ...] = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
# A pod on the node's own network does not wait for the one of pods.
_NO_NETWORK: tuple[str, Effect] = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def with_daemon_tolerations(spec: GuestSpec, *, host_network: bool) -> GuestSpec:
    """Add what every daemon tolerates."""
    conditions = (*_CONDITIONS, _NO_NETWORK) if host_network else _CONDITIONS
    added = (Toleration(key, "Exists", "", effect) for key, effect in conditions)
    return msgspec.structs.replace(spec, tolerations=tuple(dict.fromkeys((*spec.tolerations, *added))))


def takes_daemon(host: Host, spec: GuestSpec, node_name: str) -> bool:
    """Say whether a node gets a pod of this shape; ``node_name`` is the only one that will do, if any."""
    if node_name and node_name != host.name:
        return False
    if not set(spec.host_selector) <= set(host.labels):
        return False
    if spec.host_affinity and not any(term.matches(host.name, host.labels) for term in spec.host_affinity):
        return False
    hard = (taint for taint in host.taints if taint.effect != "PreferNoSchedule")
    return all(any(item.tolerates(taint) for item in spec.tolerations) for taint in hard)


def daemon_shape(spec: GuestSpec, node_name: str) -> GuestSpec:
    """Bind a shape to a node; what the template requires of nodes has been checked and is replaced."""
    only = Term((), (Expression(NAME_FIELD, "In", (node_name,)),))
    return msgspec.structs.replace(spec, host_affinity=(only,))


def node_of_daemon(pod: Pod) -> str:
    """Find the node that an existing daemon runs on or waits for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    required = pod.spec.affinity.node_affinity.required
    fields = (item for term in (required.node_selector_terms if required else ()) for item in term.match_fields)
    return next((item.values[0] for item in fields if item.key == NAME_FIELD and len(item.values) == 1), "")
