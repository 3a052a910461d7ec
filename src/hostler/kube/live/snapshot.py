"""A live cluster as it is at one moment: listed, opened as a world, told to an engine of our own. Nothing is written.

What a running scheduler has beside this are its plans (assumed pods, nominations, pauses); whoever wants those asks its
service. Used by the commands ``explain``, ``candidates``, ``plan`` and ``capacity``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from hostler.engine import Engine, Registry
from hostler.errors import HostlerError
from hostler.kube.api.client import Broken, Client
from hostler.kube.api.decoding import key_of
from hostler.kube.api.store import Update
from hostler.kube.configuration import with_mixes
from hostler.kube.facts.kinds import KINDS
from hostler.kube.facts.world import World
from hostler.kube.live.listing import Listings, list_all
from hostler.kube.settings import SchedulerSettings
from hostler.manifests import Pod
from hostler.model import Event, GuestArrived, GuestsArrived, GuestSpec, Policy

__all__ = ["Change", "View", "apply_all", "as_ours", "look", "open_view", "open_world", "specs_of"]

Change = Callable[[Pod], Pod]


class View(NamedTuple):
    """A cluster at one moment; ``facts`` is what the engine was told, ``refused`` what of it it did not take."""

    world: World
    engine: Engine
    facts: Sequence[Event]
    policies: tuple[Policy, ...]
    refused: Sequence[str] = ()


async def look(
    client: Client,
    settings: SchedulerSettings,
    now: int,
    *,
    change: Change | None = None,
    registry: Registry | None = None,
) -> View:
    """List the cluster and make a view of it; ``change`` may make other pods of some, for questions that begin with if.

    Raises UnavailableError where the cluster is not reachable or a right is missing.
    """
    return open_view(await list_all(client), settings, now, change=change, registry=registry)


def open_view(
    listings: Listings,
    settings: SchedulerSettings,
    now: int,
    *,
    change: Change | None = None,
    registry: Registry | None = None,
) -> View:
    """Make a view of what was listed."""
    world, facts = open_world(listings, settings, now, change=change)
    policies = with_mixes(settings.policies, list(specs_of(facts)))
    engine = Engine(policies, now, settings.seed, rules=settings.queue, registry=registry)
    return View(world, engine, facts, policies, apply_all(engine, facts))


def open_world(
    listings: Listings | Mapping[tuple[str, str], Sequence[Any]],
    settings: SchedulerSettings,
    now: int,
    *,
    change: Change | None = None,
) -> tuple[World, list[Event]]:
    """Open a world of what was listed, and return it with the facts that follow."""
    profiles = {profile.scheduler_name: profile.policy for profile in settings.profiles}
    world = World(profiles, seed_annotations=settings.seed_annotations)
    for kind in KINDS:
        resource = kind.resource
        items = listings.get((resource.group, resource.plural), ())
        if change is not None and resource.kind == "Pod":
            items = [item if isinstance(item, Broken) else change(item) for item in items]
        world.take(resource, [Update(key_of(item), None, item) for item in items], now)
    return world, world.open(now)


def apply_all(engine: Engine, facts: Iterable[Event]) -> list[str]:
    """Tell an engine all facts; return why it did not take some."""
    refused: list[str] = []
    for fact in facts:
        try:
            engine.apply(fact)
        except HostlerError as error:
            refused.append(error.message)
    return refused


def as_ours(settings: SchedulerSettings, uid: str) -> Change:
    """Return a change by which one pod names a scheduler of ours and waits for no gates."""
    names = {profile.scheduler_name for profile in settings.profiles}

    def change(pod: Pod) -> Pod:
        if pod.metadata.uid != uid or pod.spec.node_name:
            return pod
        name = pod.spec.scheduler_name if pod.spec.scheduler_name in names else settings.profiles[0].scheduler_name
        spec = msgspec.structs.replace(pod.spec, scheduler_name=name, scheduling_gates=())
        return msgspec.structs.replace(pod, spec=spec)

    return change


def specs_of(facts: Iterable[Event]) -> Iterable[GuestSpec]:
    """Return the shapes of all guests that facts bring."""
    for fact in facts:
        if isinstance(fact, GuestArrived):
            yield fact.guest.spec
        elif isinstance(fact, GuestsArrived):
            yield from (fact.specs[number] for number in fact.spec_of)
