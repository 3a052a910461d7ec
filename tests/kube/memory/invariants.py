"""Invariants that always hold, checked on the history and the log of the API server in memory.

Each function returns the violations as sentences. I1, I2, I3 and I7 are numbered as in the catalogue of faults. The
other invariants concern the scheduler's own view and are checked elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hostler.kube.memory.calls import LogEntry
from hostler.kube.memory.controllers import allocatable_of, has_ended, requests_of
from hostler.kube.memory.server import ApiServer

__all__ = [
    "broken_gangs",
    "double_bindings",
    "hasty_bindings",
    "overcommitted_nodes",
    "overcommitting_bindings",
    "unguarded_writes",
    "violations",
]

Json = dict[str, Any]
_SECOND = 1_000_000_000
_SEEN = (200, 404)  # that a pod is gone is as good an answer as where it is
_GONE = 404
_CONFLICT = 409


def violations(server: ApiServer, user: str = "hostler", *, is_quiet: bool = False) -> list[str]:
    """Return all violations; some invariants are checked only if nothing is in progress (``is_quiet``)."""
    found = double_bindings(server) + unguarded_writes(server, user) + hasty_bindings(server, user)
    found += overcommitting_bindings(server)
    if is_quiet:
        found += overcommitted_nodes(server) + broken_gangs(server)
    return found


def double_bindings(server: ApiServer) -> list[str]:
    """I1: no pod ever changes its node."""
    nodes: dict[str, str] = {}
    found = []
    for change in server.history:
        if change.kind.plural == "pods":
            uid, node = change.entry.item["metadata"]["uid"], change.entry.item["spec"].get("nodeName", "")
            before = nodes.setdefault(uid, node) or node
            if node != before:
                found.append(f"pod {change.key[1]} ({uid}) moved from {before} to {node or 'nowhere'}")
            nodes[uid] = node
    return found


def overcommitted_nodes(server: ApiServer, *, ignored: Iterable[str] = ()) -> list[str]:
    """I2: the requests of the pods on a node do not exceed its capacity, as the API shows them.

    ``ignored`` names pods that others placed. A node that does not exist has nothing to overcommit.
    """
    others = set(ignored)
    used: dict[str, dict[str, int]] = {}
    for pod in server.objects("pods"):
        node = pod["spec"].get("nodeName")
        if node and not has_ended(pod) and pod["metadata"]["name"] not in others:
            place = used.setdefault(node, {})
            for resource, value in requests_of(pod).items():
                place[resource] = place.get(resource, 0) + value
    found = []
    for node in server.objects("nodes"):
        room = allocatable_of(node)
        for resource, value in used.get(node["metadata"]["name"], {}).items():
            if value > room.get(resource, 0):
                name = node["metadata"]["name"]
                found.append(
                    f"node {name} has {room.get(resource, 0) / _SECOND:g} {resource}, given {value / _SECOND:g}"
                )
    return found


def overcommitting_bindings(server: ApiServer, *, ignored: Iterable[str] = ()) -> list[str]:
    """I2 at the moment of each binding, so that an overcommitment is found even if it is over at the end.

    A node that shrinks or goes is not the scheduler's fault; the next binding to it is.
    """
    others, found = set(ignored), []
    nodes: dict[str, dict[str, int]] = {}
    placed: dict[str, tuple[str, dict[str, int]]] = {}  # by uid
    for change in server.history:
        item, name = change.entry.item, change.key[1]
        if change.kind.plural == "nodes":
            nodes[name] = {} if change.type == "DELETED" else allocatable_of(item)
        elif change.kind.plural == "pods" and name not in others:
            uid, node = item["metadata"]["uid"], item["spec"].get("nodeName")
            if change.type == "DELETED" or has_ended(item):
                placed.pop(uid, None)
            elif node and uid not in placed:
                placed[uid] = (node, requests_of(item))
                lacking = _lacking(node, nodes.get(node), placed)
                if lacking:
                    found.append(f"pod {name} was bound to node {node}, which has too little {lacking} for it")
    return found


def _lacking(node: str, room: dict[str, int] | None, placed: dict[str, tuple[str, dict[str, int]]]) -> str:
    """Return the resources that a node lacks; a missing node lacks nothing: its pods go with it."""
    left = dict(room or {})
    for place, asked in placed.values():
        if place == node:
            for resource, value in asked.items():
                left[resource] = left.get(resource, 0) - value
    return next((resource for resource, value in left.items() if value < 0), "") if room else ""


def broken_gangs(server: ApiServer, *, ignored: Iterable[str] = ()) -> list[str]:
    """I3: a group runs with its minimum or not at all. ``ignored`` names groups that others broke.

    A group whose pods are all on missing nodes does not run: the controller of nodes deletes them.
    """
    nodes = {node["metadata"]["name"] for node in server.objects("nodes")}
    bound: dict[tuple[str, str], int] = {}
    alive: set[tuple[str, str]] = set()
    for pod in server.objects("pods"):
        group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
        group = group or (pod["metadata"].get("labels") or {}).get("scheduling.x-k8s.io/pod-group")
        is_bound = pod["spec"].get("nodeName") and not has_ended(pod) and not pod["metadata"].get("deletionTimestamp")
        if group and is_bound:
            key = (pod["metadata"]["namespace"], group)
            bound[key] = bound.get(key, 0) + 1
            if pod["spec"]["nodeName"] in nodes:
                alive.add(key)
    found = []
    for kind in server.routes.kinds.values():
        if kind.plural == "podgroups":
            for (namespace, name), entry in server.store.entries(kind).items():
                count, least = bound.get((namespace, name), 0), _minimum(entry.item)
                if 0 < count < least and (namespace, name) in alive and name not in set(ignored):
                    found.append(f"group {namespace}/{name} has {count} of at least {least} pods bound")
    return found


def _minimum(group: Json) -> int:
    spec = group.get("spec") or {}
    gang = (spec.get("schedulingPolicy") or {}).get("gang") or {}
    return int(gang.get("minCount") or spec.get("minMember") or 0)


def unguarded_writes(server: ApiServer, user: str) -> list[str]:
    """I7: every binding, eviction and deletion of a pod names a uid."""
    found = []
    for entry in server.log:
        if entry.user != user or "/pods/" not in entry.path:
            continue
        body = entry.decoded() if entry.method in ("POST", "DELETE") else {}
        path = entry.path.partition("?")[0]
        if entry.is_bind:
            uid = (body.get("metadata") or {}).get("uid")
        elif path.endswith("/eviction"):
            uid = ((body.get("deleteOptions") or {}).get("preconditions") or {}).get("uid")
        elif entry.method == "DELETE":
            uid = (body.get("preconditions") or {}).get("uid")
        else:
            continue
        if not uid:
            found.append(f"{entry.method} {path} carries no uid")
    return found


def hasty_bindings(server: ApiServer, user: str) -> list[str]:
    """No binding of a uid goes to a second node before the first provably had no effect.

    Proof is an error response to it, or a read of the pods, newer than the moment at which the server gives the first
    binding up. The response of the read must arrive before the second binding is sent. A response that the pod is gone,
    or that another one has its name, proves it for all its bindings, also for a copy that the network made: a uid never
    comes back.
    """
    found = []
    gone_at = _gone_at(server)
    earlier: dict[str, list[tuple[LogEntry, str]]] = {}
    looks = [entry for entry in server.log if entry.user == user and entry.told in _SEEN and _looks_at_pods(entry)]
    for entry in server.log:
        if entry.user == user and entry.is_bind:
            body = entry.decoded()
            uid, node = (body.get("metadata") or {}).get("uid", ""), body["target"]["name"]
            bindings = earlier.setdefault(uid, [])
            is_gone = any(
                _tells_gone(first, gone_at.get(uid)) and (first.told_at or 0) <= entry.sent for first, _ in bindings
            )
            for first, first_node in bindings:
                if not is_gone and first_node != node and not _is_disproved(first, entry, looks):
                    found.append(
                        f"pod {uid} was sent to {node} at {entry.sent / _SECOND:.3f} while its binding to {first_node} "
                        f"of {first.sent / _SECOND:.3f} might still take effect"
                    )
            bindings.append((entry, node))
    return found


def _tells_gone(binding: LogEntry, gone_at: int | None) -> bool:
    is_conflict = binding.told == _CONFLICT and gone_at is not None and (binding.arrived or 0) >= gone_at
    return binding.told == _GONE or is_conflict


def _gone_at(server: ApiServer) -> dict[str, int]:
    """Return when pods were deleted, by uid, as far as later writes show it."""
    ends: dict[str, int] = {}
    for change in server.history:
        metadata = change.entry.item["metadata"]
        if change.kind.plural == "pods" and change.type == "DELETED":
            ends[metadata["uid"]] = int(metadata["resourceVersion"])
    writes = [(entry.version, entry.committed) for entry in server.log if entry.version and entry.committed]
    found: dict[str, int] = {}
    for uid, version in ends.items():
        later = [at for written, at in writes if written > version]
        if later:
            found[uid] = min(later)
    return found


def _is_disproved(first: LogEntry, second: LogEntry, looks: list[LogEntry]) -> bool:
    is_refusal = first.told is not None and (first.told == 0 or (400 <= first.told < 500 and first.told != 408))
    if is_refusal and (first.told_at or 0) <= second.sent:
        return True
    end = first.deadline or 0
    return any((look.arrived or 0) >= end and (look.told_at or 0) <= second.sent for look in looks)


def _looks_at_pods(entry: LogEntry) -> bool:
    call = entry.call
    return entry.method == "GET" and call is not None and call.kind.plural == "pods" and not call.is_watch
