"""A snapshot of a live cluster: listed, converted to facts, and applied to an engine of our own. Nothing is written.

A running scheduler knows more: its assumed pods, nominations and backoffs. To include those, ask its service. Used by
the commands ``explain``, ``candidates``, ``plan`` and ``capacity``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from hostler.engine import Engine, Registry
from hostler.errors import HostlerError
from hostler.kube.api.client import KubeClient, UndecodableObject
from hostler.kube.api.decoding import key_of
from hostler.kube.api.store import ObjectUpdate
from hostler.kube.facts.kinds import KINDS
from hostler.kube.facts.watched_cluster import WatchedCluster
from hostler.kube.live.listings import Listings, list_all
from hostler.kube.settings import SchedulerSettings
from hostler.manifests import Pod
from hostler.model import Event, Policy
from hostler.queries import MixRenewal, with_mixes

__all__ = ["Change", "ClusterSnapshot", "apply_all", "as_ours", "open_cluster", "open_snapshot", "take_snapshot"]

Change = Callable[[Pod], Pod]


class ClusterSnapshot(NamedTuple):
    """A cluster at one moment; ``facts`` were sent to the engine, ``refused`` are those that it rejected."""

    cluster: WatchedCluster
    engine: Engine
    facts: Sequence[Event]
    policies: tuple[Policy, ...]
    refused: Sequence[str] = ()


async def take_snapshot(
    client: KubeClient,
    settings: SchedulerSettings,
    now: int,
    *,
    change: Change | None = None,
    registry: Registry | None = None,
) -> ClusterSnapshot:
    """List the cluster and make a snapshot of it. ``change`` may modify pods, for what-if questions.

    Raises UnavailableError if the cluster is not reachable or a right is missing.
    """
    return open_snapshot(await list_all(client), settings, now, change=change, registry=registry)


def open_snapshot(
    listings: Listings,
    settings: SchedulerSettings,
    now: int,
    *,
    change: Change | None = None,
    registry: Registry | None = None,
) -> ClusterSnapshot:
    """Make a snapshot of a listing."""
    cluster, facts = open_cluster(listings, settings, now, change=change)
    engine = Engine(with_mixes(settings.policies), now, settings.seed, rules=settings.queue, registry=registry)
    refused = apply_all(engine, facts)
    if change_of_mix := MixRenewal(settings.policies).renew(engine, now):
        engine.apply(change_of_mix)
    return ClusterSnapshot(cluster, engine, facts, engine.policies, refused)


def open_cluster(
    listings: Listings | Mapping[tuple[str, str], Sequence[Any]],
    settings: SchedulerSettings,
    now: int,
    *,
    change: Change | None = None,
) -> tuple[WatchedCluster, list[Event]]:
    """Make a watched cluster of a listing, and return it with the resulting facts."""
    profiles = {profile.scheduler_name: profile.policy for profile in settings.profiles}
    cluster = WatchedCluster(profiles, seed_annotations=settings.seed_annotations)
    for kind in KINDS:
        resource = kind.resource
        items = listings.get((resource.group, resource.plural), ())
        if change is not None and resource.kind == "Pod":
            items = [item if isinstance(item, UndecodableObject) else change(item) for item in items]
        cluster.take(resource, [ObjectUpdate(key_of(item), None, item) for item in items], now)
    return cluster, [*cluster.open(now), *cluster.complete_groups(now)]


def apply_all(engine: Engine, facts: Iterable[Event]) -> list[str]:
    """Apply all facts to an engine; return why it rejected some."""
    refused: list[str] = []
    for fact in facts:
        try:
            engine.apply(fact)
        except HostlerError as error:
            refused.append(error.message)
    return refused


def as_ours(settings: SchedulerSettings, uid: str) -> Change:
    """Return a change that gives one pod a scheduler name of ours and removes its gates."""
    names = {profile.scheduler_name for profile in settings.profiles}

    def change(pod: Pod) -> Pod:
        if pod.metadata.uid != uid or pod.spec.node_name:
            return pod
        name = pod.spec.scheduler_name if pod.spec.scheduler_name in names else settings.profiles[0].scheduler_name
        spec = msgspec.structs.replace(pod.spec, scheduler_name=name, scheduling_gates=())
        return msgspec.structs.replace(pod, spec=spec)

    return change
