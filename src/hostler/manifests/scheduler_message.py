"""The message that kube-scheduler writes into a pod's condition if no node fits, made from an explanation.

Tools parse it, so its words, order and counts are kube-scheduler's: for each node the first plugin that rejects it
counts, and for the plugin of resources every missing resource. Nodes that a pod's affinity excludes by name, as a
daemon's does, are not counted. Used by ``queries`` for pods from files, and by ``kube``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from hostler.model import GUESTS, Decision, Explanation, Failure, GuestSpec, Reason

__all__ = [
    "RESOURCE_CLAIMS",
    "VOLUME_CLAIMS",
    "gang_message",
    "message_from_counts",
    "named_hosts",
    "scheduler_message",
]  # fmt: skip

# What a pod may need that nothing here evaluates. Every other entry of ``GuestSpec.unsupported`` is a whole sentence.
VOLUME_CLAIMS = "volume claims"
RESOURCE_CLAIMS = "resource claims"

NO_NODES = "no nodes available to schedule pods"
NOT_LOOKED_AT = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
CONFLICT = "pod affinity terms conflict"

# Our filters in the order in which kube-scheduler's default profile asks its plugins; the words are those of
# kubernetes/kubernetes pkg/scheduler/framework/plugins (1.37). Room is handled apart.
_ROOM = "room"
_ORDER = (
    "cordon",
    "host_name",
    "taints",
    "host_affinity",
    "ports",
    _ROOM,
    "unsupported",
    "spread",
    "guest_affinity",
)
_PLUGINS = {"resources": _ROOM, "devices": _ROOM}
_TEXTS = {
    "cordoned": "node(s) were unschedulable",
    "not_the_named_host": "node(s) didn't match the requested node name",
    "untolerated_taint": "node(s) had untolerated taint(s)",
    "selector_mismatch": "node(s) didn't match Pod's node affinity/selector",
    "affinity_mismatch": "node(s) didn't match Pod's node affinity/selector",
    "port_taken": "node(s) didn't have free ports for the requested pod ports",
    "no_topology_label": "node(s) didn't match pod topology spread constraints (missing required label)",
    "skew_too_large": "node(s) didn't match pod topology spread constraints",
    "affinity_unmet": "node(s) didn't match pod affinity rules",
    "anti_affinity": "node(s) didn't match pod anti-affinity rules",
    "existing_anti_affinity": "node(s) didn't satisfy existing pods anti-affinity rules",
}


def scheduler_message(explanation: Explanation, spec: GuestSpec) -> str:
    """Return why a pod fits nowhere, in kube-scheduler's words; empty if it fits somewhere."""
    verdicts = explanation.verdicts
    if not verdicts:
        return NO_NODES
    if any(verdict.fits for verdict in verdicts):
        return ""
    if spec.unsupported and _is_sentence(spec.unsupported[0]):
        # Said before any node is looked at, so it does not count nodes.
        return f"0/{len(verdicts)} nodes are available: {spec.unsupported[0]}."
    named = named_hosts(spec)
    if named is not None and not named:
        return f"0/{len(verdicts)} nodes are available: {CONFLICT}."
    counts = Counter(
        text
        for verdict in verdicts
        for text in (_texts(verdict.failures) if named is None or verdict.host in named else {NOT_LOOKED_AT})
    )
    # kube-scheduler sorts the finished words, so "10 ..." stands before "2 ...".
    reasons = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
    return f"0/{len(verdicts)} nodes are available: {reasons}."


def message_from_counts(hosts: int, refusals: Iterable[tuple[Sequence[Reason], int]], spec: GuestSpec) -> str:
    """Return the same message from hosts counted by all their reasons, restricted to those of :func:`named_hosts`."""
    if not hosts:
        return NO_NODES
    if spec.unsupported and _is_sentence(spec.unsupported[0]):
        return f"0/{hosts} nodes are available: {spec.unsupported[0]}."
    named = named_hosts(spec)
    if named is not None and not named:
        return f"0/{hosts} nodes are available: {CONFLICT}."
    counts: Counter[str] = Counter()
    looked_at = 0
    for reasons, count in refusals:
        looked_at += count
        for text in _texts([Failure(reason=reason) for reason in reasons]):
            counts[text] += count
    if named is not None and hosts > looked_at:
        counts[NOT_LOOKED_AT] += hosts - looked_at
    reasons_said = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
    return f"0/{hosts} nodes are available: {reasons_said}."


def gang_message(decision: Decision) -> str:
    """Return the message of a pod that waits with its gang: the reasons of hosts in the last try, or its obstacle.

    Reasons that kube-scheduler does not have, such as a host outside the gang's domain, are in our own words.
    """
    if not decision.reasons:
        return f"{decision.note}." if decision.note else ""
    counts: Counter[str] = Counter()
    for count in decision.reasons:
        plugin = _plugin(count.reason)
        is_known = plugin == _ROOM or count.reason.code in _TEXTS
        words = next(iter(_texts((Failure(reason=count.reason),)))) if is_known else _own_words(count.reason)
        counts[words] += count.hosts
    reasons = ", ".join(sorted(f"{hosts} {text}" for text, hosts in counts.items()))
    return f"0/{decision.hosts} nodes are available: {reasons}."


def named_hosts(spec: GuestSpec) -> set[str] | None:
    """Return the hosts that the affinity names, if each of its terms names some; None if all hosts count."""
    found: set[str] = set()
    for term in spec.host_affinity:
        named = [set(names.values) for names in term.names if names.operator == "In"]
        if not named:
            return None
        found |= set.intersection(*named)
    return found if spec.host_affinity else None


def _texts(failures: Sequence[Failure]) -> set[str]:
    """Return the texts for a node: the first plugin's first reason, or all missing resources."""
    plugins = {_plugin(failure.reason) for failure in failures}
    first = next((plugin for plugin in _ORDER if plugin in plugins), None)
    if first is None:  # a filter that kube-scheduler does not have
        return {_own_words(failures[0].reason)}
    reasons = [failure.reason for failure in failures if _plugin(failure.reason) == first]
    if first == _ROOM:
        return {_lack(reason) for reason in reasons}
    return {_TEXTS.get(reasons[0].code) or _own_words(reasons[0])}


def _own_words(reason: Reason) -> str:
    return reason.subject if reason.plugin == "unsupported" and _is_sentence(reason.subject) else reason.text()


def _is_sentence(need: str) -> bool:
    """Say whether an unsupported need is a full reason, as on a live cluster, and not a single word."""
    return need not in ("", VOLUME_CLAIMS, RESOURCE_CLAIMS)


def _plugin(reason: Reason) -> str:
    return _PLUGINS.get(reason.plugin, reason.plugin)


def _lack(reason: Reason) -> str:
    return "Too many pods" if reason.subject == GUESTS else f"Insufficient {reason.subject}"
