"""The checks at the end of a campaign, on the API server's objects and on the leader's state.

The invariants of the server's history are in ``tests.kube.memory.invariants``. This module has those of the scheduler:
its view equals the API's, every waiting pod is in exactly one state of the queue, and no pod waits that could run. Used
by ``play``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hostler.engine import Engine
from hostler.kube.memory import ApiServer
from hostler.kube.memory.controllers import Kubelet, has_ended
from hostler.kube.scheduler.process import Scheduler
from tests.campaign.outsiders import Outsiders
from tests.campaign.plan import SCHEDULER, CampaignPlan
from tests.kube.memory import invariants

__all__ = ["CampaignResult", "judge"]

Json = dict[str, Any]

_WAITING = frozenset({"active", "backoff", "waiting", "gated"})


class CampaignResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a campaign: violations (hopefully none), and statistics."""

    seed: int
    wrongs: tuple[str, ...]
    bound: int = 0
    waiting: int = 0
    evicted: int = 0
    requests: int = 0


def judge(
    plan: CampaignPlan, server: ApiServer, leader: Scheduler | None, outsiders: Outsiders, kubelet: Kubelet
) -> CampaignResult:
    """Run all checks."""
    pods = [pod for pod in server.objects("pods") if not has_ended(pod)]
    wrongs = [
        *invariants.double_bindings(server),
        *invariants.unguarded_writes(server, "hostler"),
        *invariants.hasty_bindings(server, "hostler"),
        *_overcommitted(server, outsiders.touched),
        *_wrong_conditions(pods),
        *(invariants.broken_gangs(server) if plan.releases_gangs else ()),
        *(f"the kubelet refused {name}" for name in kubelet.refused if not outsiders.touched),
    ]
    if leader is None:
        wrongs.append("no scheduler leads")
    else:
        wrongs += _other_view(server, leader, pods)
        wrongs += _lost_in_queue(leader, pods)
        wrongs += _could_run(leader, pods)
        wrongs += _faults(leader)
    evicted = sum(
        entry.method == "DELETE" and entry.user == "hostler" and entry.committed is not None for entry in server.log
    )
    return CampaignResult(
        seed=plan.seed,
        wrongs=tuple(wrongs),
        bound=sum(bool(pod["spec"].get("nodeName")) for pod in pods),
        waiting=sum(not pod["spec"].get("nodeName") for pod in pods),
        evicted=evicted,
        requests=len(server.log),
    )


def _overcommitted(server: ApiServer, touched: set[str]) -> Iterator[str]:
    """I2, at every bind and at the end, except nodes that others filled or shrank."""
    for wrong in (*invariants.overcommitted_nodes(server), *invariants.overcommitting_bindings(server)):
        if wrong.partition("node ")[2].split()[0].rstrip(",") not in touched:
            yield wrong


def _wrong_conditions(pods: list[Json]) -> Iterator[str]:
    """Conditions of a waiting pod are gone once it has a node."""
    for pod in pods:
        for one in pod["status"].get("conditions") or ():
            if one["type"] == "PodScheduled" and one["status"] == "False" and pod["spec"].get("nodeName"):
                yield f"{pod['metadata']['name']} has a node and says that it has none: {one.get('message')}"


def _other_view(server: ApiServer, leader: Scheduler, pods: list[Json]) -> Iterator[str]:
    """I4: the leader's watched cluster and its engine show what the API shows."""
    shown = {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in pods}
    believed = {uid: view.node for uid, view in leader.cluster.pods.items() if not view.has_ended}
    if shown != believed:
        yield f"the world differs from the API: {_difference(shown, believed)}"
    engine = leader.core.engine
    booked = {uid: engine.decision(uid).host for uid in engine.guests()}
    running = {uid: node for uid, node in shown.items() if node}
    held = {uid: host for uid, host in booked.items() if host}
    if running != held:
        yield f"the engine's books differ from the API: {_difference(running, held)}"
    nodes = {node["metadata"]["name"] for node in server.objects("nodes")}
    known = {host.name for host in engine.hosts()}
    if nodes != known:
        yield f"the engine knows other nodes than the API: {sorted(nodes ^ known)}"


def _difference(shown: dict[str, str], believed: dict[str, str]) -> str:
    uids = [uid for uid in {**shown, **believed} if shown.get(uid) != believed.get(uid)]
    return ", ".join(f"{uid}: API {shown.get(uid)!r}, here {believed.get(uid)!r}" for uid in uids[:3])


def _lost_in_queue(leader: Scheduler, pods: list[Json]) -> Iterator[str]:
    """I5: every pending pod of ours is in exactly one state of the queue."""
    engine = leader.core.engine
    known = set(engine.guests())
    for pod in _pending(pods):
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if uid not in known:
            yield f"{name} waits and the engine does not know it"
        elif engine.decision(uid).state not in _WAITING:
            yield f"{name} waits and is {engine.decision(uid).state} in the engine"
    if leader.binder.backlog:
        yield f"{leader.binder.backlog} binds never ended"


def _could_run(leader: Scheduler, pods: list[Json]) -> Iterator[str]:
    """No pod waits that could run: a fresh engine places none of them."""
    engine = leader.core.engine
    fresh = Engine(engine.policies, engine.now, seed=1)
    for event in _facts(leader):
        fresh.apply(event)
    names = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in _pending(pods)}
    for action in fresh.step(engine.now):
        if type(action).__name__ == "Bind":
            nominated = bool(engine.view.nominations)
            if not nominated:  # reserved room looks free to an engine without a past
                yield f"{names.get(action.uid, action.uid)} waits and could run on {action.host}"


def _facts(leader: Scheduler) -> Iterator[Any]:
    from hostler.kube.facts.watched_cluster import WatchedCluster

    cluster = WatchedCluster({SCHEDULER: leader.settings.policies[0].name})
    from hostler.kube.api.store import ObjectUpdate

    for reflector in leader.reflectors.values():
        updates = [ObjectUpdate(key, None, item) for key, item in reflector.store.items()]
        cluster.take(reflector.resource, updates, leader.core.engine.now)
    yield from cluster.open(leader.core.engine.now)


def _pending(pods: list[Json]) -> Iterator[Json]:
    for pod in pods:
        spec, metadata = pod["spec"], pod["metadata"]
        if spec.get("nodeName") or spec.get("schedulingGates") or metadata.get("deletionTimestamp"):
            continue
        if spec["schedulerName"] == SCHEDULER:
            yield pod


def _faults(leader: Scheduler) -> Iterator[str]:
    """No fact was rejected and no decision failed: those would be bugs of ours."""
    meters = leader.meters
    for counter, what in ((meters.refused_facts, "facts were refused"), (meters.failed_decisions, "decisions failed")):
        count = sum(
            sample.value for metric in counter.collect() for sample in metric.samples if sample.name.endswith("_total")
        )
        if count:
            yield f"{count:.0f} {what}"
