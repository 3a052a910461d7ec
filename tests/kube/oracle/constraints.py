"""Random constraints of pods: node and pod affinity, tolerations, spread. All follow from the given random source."""

from __future__ import annotations

import random
from typing import Any

from tests.kube.oracle.names import (
    APPS,
    HOSTNAME,
    NAMESPACES,
    NODE_LABELS,
    RACK,
    SIZE,
    TIERS,
    TRACKS,
    ZONE,
)

Body = dict[str, Any]
TOPOLOGIES = (ZONE, ZONE, HOSTNAME, HOSTNAME, RACK)


# -- nodes -------------------------------------------------------------------------------------------------------------


def node_selector(draw: random.Random) -> Body:
    key = draw.choice(list(NODE_LABELS))
    return {key: draw.choice(NODE_LABELS[key])}


def expression(draw: random.Random) -> Body:
    """One requirement on a node's labels, with any of the operators."""
    operator = draw.choice(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": SIZE, "operator": operator, "values": [str(draw.randint(0, 5))]}
    key = draw.choice([*NODE_LABELS, SIZE])
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    known = NODE_LABELS.get(key, ("1", "2", "3", "x"))
    return {"key": key, "operator": operator, "values": draw.sample(known, draw.randint(1, min(2, len(known))))}


def fields(draw: random.Random, nodes: list[str]) -> Body:
    operator = draw.choice(("In", "In", "NotIn"))
    return {"key": "metadata.name", "operator": operator, "values": [draw.choice(nodes)]}


def node_term(draw: random.Random, nodes: list[str]) -> Body:
    term: Body = {}
    if draw.random() < 0.93:
        term["matchExpressions"] = [expression(draw) for _ in range(draw.choice((1, 1, 2)))]
    if draw.random() < 0.12:
        term["matchFields"] = [fields(draw, nodes)]
    return term


def node_affinity(draw: random.Random, nodes: list[str]) -> Body:
    found: Body = {}
    if draw.random() < 0.6:
        terms = [node_term(draw, nodes) for _ in range(draw.choice((1, 1, 2, 3)))]
        if draw.random() < 0.1:  # as a daemon's pod has it
            terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [draw.choice(nodes)]}]}]
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if not found or draw.random() < 0.5:
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": draw.randint(1, 100), "preference": node_term(draw, nodes)}
            for _ in range(draw.choice((1, 2, 3)))
        ]
    return found


def toleration(draw: random.Random) -> Body:
    kind = draw.random()
    if kind < 0.08:
        return {"operator": "Exists"}
    if kind < 0.2:
        return {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    found: Body = {"key": draw.choice(("dedicated", "spot"))}
    if draw.random() < 0.5:
        found["operator"] = "Exists"
    else:
        found |= {"operator": "Equal", "value": draw.choice(("a", "b", ""))}
    effect = draw.choice(("", "NoSchedule", "NoExecute", "PreferNoSchedule"))
    if effect:
        found["effect"] = effect
    return found


# -- other pods --------------------------------------------------------------------------------------------------------


def label_selector(draw: random.Random) -> Body:
    kind = draw.random()
    if kind < 0.06:
        return {}
    if kind < 0.65:
        return {"matchLabels": {"app": draw.choice(APPS)}}
    key, values = draw.choice((("app", APPS), ("tier", TIERS), ("track", TRACKS)))
    operator = draw.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    requirement: Body = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        requirement["values"] = draw.sample(values, draw.randint(1, 2))
    return {"matchExpressions": [requirement]}


def spread(draw: random.Random) -> list[Body]:
    found: dict[tuple[str, str], Body] = {}
    for _ in range(draw.choice((1, 1, 2, 3))):
        key, when = draw.choice(TOPOLOGIES), draw.choice(("DoNotSchedule", "ScheduleAnyway"))
        one: Body = {"topologyKey": key, "whenUnsatisfiable": when, "maxSkew": draw.choice((1, 1, 2, 3))}
        if draw.random() < 0.95:
            one["labelSelector"] = label_selector(draw)
        if when == "DoNotSchedule" and draw.random() < 0.3:
            one["minDomains"] = draw.randint(1, 4)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if draw.random() < 0.35:
                one[policy] = draw.choice(("Honor", "Ignore"))
        if "labelSelector" in one and draw.random() < 0.15 and "tier" not in str(one["labelSelector"]):
            one["matchLabelKeys"] = ["tier"]
        found[key, when] = one
    return list(found.values())


def pod_term(draw: random.Random) -> Body:
    term: Body = {"topologyKey": draw.choice(TOPOLOGIES)}
    if draw.random() < 0.97:
        term["labelSelector"] = label_selector(draw)
    if draw.random() < 0.25:
        term["namespaces"] = draw.sample(NAMESPACES, draw.randint(1, 2))
    if draw.random() < 0.2:
        term["namespaceSelector"] = draw.choice(({}, {"matchLabels": {"team": "red"}}, {"matchLabels": {"team": "no"}}))
    if "labelSelector" in term and draw.random() < 0.1 and "tier" not in str(term["labelSelector"]):
        term[draw.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["tier"]
    return term


def pod_terms(draw: random.Random, *, hard: float) -> Body:
    found: Body = {}
    if draw.random() < hard:
        found["requiredDuringSchedulingIgnoredDuringExecution"] = [
            pod_term(draw) for _ in range(draw.choice((1, 1, 1, 2)))
        ]
    if not found or draw.random() < 0.4:
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": draw.randint(1, 100), "podAffinityTerm": pod_term(draw)} for _ in range(draw.choice((1, 2)))
        ]
    return found
