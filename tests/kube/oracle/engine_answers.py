"""The decision of our engine: the objects as a watched cluster, the policy ``kubernetes``, one pod to place."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.engine import BUILT_IN, Engine
from hostler.engine.preemption.dry_runs import dry_run, is_resolvable
from hostler.engine.preemption.victims import VictimSet
from hostler.kube.api.resources import PODS
from hostler.kube.api.store import ObjectUpdate
from hostler.kube.facts import WatchedCluster
from hostler.kube.scheduler.messages import hold_messages
from hostler.manifests.scheduler_message import scheduler_message
from hostler.model import Bind, Evict, Nominate
from tests.kube.oracle.answers import ScheduledCase
from tests.kube.oracle.names import SCHEDULER

__all__ = ["Choice", "EngineAnswer", "answer_of_ours"]

_NOW = 1_900_000_000_000_000_000
_POLICY = BUILT_IN["kubernetes"]


class Choice(msgspec.Struct):
    """The victims on a node and their cost, without the name of the node: equals are drawn at random."""

    victims: list[str]
    cost: tuple[int, ...]


class EngineAnswer(msgspec.Struct):
    """The decision of our engine."""

    feasible: list[str] = []
    scores: dict[str, dict[str, int | float]] = {}
    totals: dict[str, int | float] = {}
    node: str = ""
    message: str = ""  # the whole explanation in kube-scheduler's words
    condition: str = ""  # what our scheduler writes into the pod's condition
    nominated: str = ""
    victims: list[str] = []
    choices: dict[str, Choice] = {}  # what could be evicted, by node
    problems: dict[str, str] = {}
    others: list[str] = []  # who would be evicted for a pod that waits for its victims already


def answer_of_ours(asked: ScheduledCase) -> EngineAnswer:
    """Give the objects and the pod to a fresh engine, and let it decide."""
    engine, cluster = Engine([_POLICY]), WatchedCluster({SCHEDULER: _POLICY.name})
    for kind in WatchedCluster.KINDS:
        items = asked.objects.get(kind.resource.kind, [])
        cluster.take(kind.resource, [ObjectUpdate(_key(item), None, item) for item in items], _NOW)
    for event in (*cluster.open(_NOW), *cluster.take(PODS, [ObjectUpdate(_key(asked.pod), None, asked.pod)], _NOW)):
        engine.apply(event)
    uid = asked.pod.metadata.uid
    explanation = engine.explain(uid)
    guest = cluster.guest(uid)
    assert guest is not None
    ours = EngineAnswer(
        feasible=sorted(explanation.feasible),
        scores={v.host: {s.plugin: s.weighted for s in v.scores} for v in explanation.verdicts if v.fits},
        totals={v.host: v.total for v in explanation.verdicts if v.fits and v.total is not None},
        message=scheduler_message(explanation, guest.spec),
        problems=cluster.problems(),
    )
    if ours.message:
        ours.choices = _choices(engine, uid)
    pods = asked.objects["Pod"]
    names = {pod.metadata.uid: "/".join(_key(pod)) for pod in pods}
    leaving = {names[pod.metadata.uid] for pod in pods if pod.metadata.deletion_timestamp}
    actions = engine.step(_NOW)
    ours.condition = hold_messages(engine, actions).get(uid, "")
    for action in actions:
        match action:
            case Bind(uid=bound) if bound == uid:
                ours.node = action.host
            case Nominate(uid=nominated) if nominated == uid:
                ours.nominated = action.host
            case Evict():
                (ours.victims if action.preemptor == uid else ours.others).append(names[action.uid])
    # Those who are going already are not told again.
    ours.victims = sorted(set(ours.victims) - leaving)
    for choice in ours.choices.values():
        choice.victims = sorted({names[victim] for victim in choice.victims} - leaving)
    return ours


def _choices(engine: Engine, uid: str) -> dict[str, Choice]:
    """Return the possible victims on every node; the engine itself returns only the cheapest."""
    state = engine.state
    shape = state.shape(state.guests[uid])
    policy = state.wait_key(shape)[1]
    slot = state.cache.slot(shape, policy)
    codes, _ = state.cache.codes(slot)
    rules = state.profiles.profiles[policy].policy.preemption
    found: list[VictimSet] = []
    for row, code in enumerate(codes.tolist()):
        if code > 0 and is_resolvable(state.cache.reason(slot, code)):
            victims = dry_run(state, shape, slot, row, rules)
            if victims is not None:
                found.append(victims)
    return {one.host: Choice(list(one.victims), one.cost[:5]) for one in found}


def _key(item: Any) -> tuple[str, str]:
    return (item.metadata.namespace, item.metadata.name)
