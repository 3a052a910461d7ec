"""A live cluster for the commands: its settings, its listing, and the inputs that files would give.

Used by ``candidates``, ``plan``, ``capacity``, ``queue`` and by ``hostler explain`` without files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostler.cli.kube.options import needs_kube
from hostler.cli.output.terminal import note
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.kube.live.listings import ClusterListing
    from hostler.kube.live.snapshot import ClusterSnapshot
    from hostler.kube.settings import SchedulerSettings
    from hostler.model import Event
    from hostler.queries import PlacementInput

__all__ = [
    "inputs_of", "live_settings", "see", "view_pod",
]  # fmt: skip


def live_settings(config: str, policy: str) -> SchedulerSettings:
    """Return the profiles and policies to use."""
    from hostler.kube.configuration import default_settings, read_settings

    if config and policy:
        raise InputError("--policy and --config contradict each other", hint="name the policy in the file's profiles")
    return read_settings(config, lenient=True) if config else default_settings(policy=policy or "kubernetes")


def see(kubeconfig: Path | None, context: str) -> ClusterListing:
    """List everything that a scheduler watches."""
    with needs_kube():
        from hostler.kube.api.access import read_access
        from hostler.kube.live.listings import list_cluster

    return asyncio.run(list_cluster(read_access(kubeconfig, context)))


def view_pod(
    seen: ClusterListing, settings: SchedulerSettings, wanted: str, namespace: str
) -> tuple[ClusterSnapshot, str]:
    """Make a snapshot in which a pod is one of ours, and note if it is not; return it and the pod's uid."""
    from hostler.kube.live.answers import not_offered, notes_on
    from hostler.kube.live.listings import find_pod
    from hostler.kube.live.past_pods import not_placed_any_more
    from hostler.kube.live.snapshot import as_ours, open_snapshot
    from hostler.runtime.plugins import registry_for

    pod = find_pod(seen, wanted, namespace)
    uid, registry = pod.metadata.uid, registry_for(settings.policies)
    view = open_snapshot(seen.listings, settings, seen.at, change=as_ours(settings, uid), registry=registry)
    if uid not in view.engine.view.records:
        seen_as = view.cluster.pods.get(uid)
        if seen_as is None or not seen_as.problem:
            raise not_placed_any_more(pod.metadata.namespace, pod.metadata.name)
        hint = "look at it with kubectl describe"
        raise InputError(f"pod {wanted} cannot be scheduled: {seen_as.problem}", hint=hint)
    for line in (*notes_on(pod, settings), *not_offered(view.engine, view.engine.view.guest(uid).spec)):
        note(line)
    return view, uid


def inputs_of(view: ClusterSnapshot, settings: SchedulerSettings, *, more: Iterable[Event] = ()) -> PlacementInput:
    """Return a snapshot in the form of file inputs, without the facts that the engine rejected."""
    from hostler.model import BudgetChanged, GangChanged, Guest, NamespaceChanged, Tenancy
    from hostler.queries import PlacementInput
    from hostler.runtime.plugins import registry_for

    guests: dict[str, Guest] = {}
    told: dict[type, dict[str, Any]] = {NamespaceChanged: {}, GangChanged: {}, BudgetChanged: {}}
    known = view.engine.view.records
    for fact in (*view.facts, *more):
        if isinstance(fact, NamespaceChanged):
            told[NamespaceChanged][fact.name] = fact.labels
        elif isinstance(fact, GangChanged):
            told[GangChanged][fact.gang.key] = fact.gang
        elif isinstance(fact, BudgetChanged):
            told[BudgetChanged][fact.budget.key] = fact.budget
        elif (guest := getattr(fact, "guest", None)) is not None and guest.uid in known:
            guests[guest.uid] = guest
    return PlacementInput(
        hosts=tuple(view.engine.hosts()),
        guests=tuple(guests.values()),
        tenancy=Tenancy(
            namespaces=told[NamespaceChanged],
            gangs=tuple(told[GangChanged].values()),
            budgets=tuple(told[BudgetChanged].values()),
        ),
        policies=view.policies,
        queue=settings.queue,
        registry=registry_for(view.policies),
        seed=settings.seed,
        pods=frozenset(guests),
    )
