"""The cluster as the API server shows it, and the facts that follow from each change.

Objects of all kinds are stored as they come. Facts are returned only for differences to what was sent last. Until
``open`` is called, objects are only stored: a pod can be converted only when its node, its group and its volumes are
known. No object, however odd, makes a method raise; one that cannot be converted is left out and listed under problems.

The two smallest stores, of namespaces and of disruption budgets, are here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from hostler.errors import InputError
from hostler.kube.api.client import UndecodableObject
from hostler.kube.api.resources import Resource
from hostler.kube.api.store import ObjectUpdate
from hostler.kube.facts.bounds import NameShares
from hostler.kube.facts.conversion import Conversion
from hostler.kube.facts.dependencies import Dependencies, Key, Watched
from hostler.kube.facts.groups import GroupBook
from hostler.kube.facts.hosts import HostBook
from hostler.kube.facts.kinds import KINDS
from hostler.kube.facts.pods import PodBook
from hostler.kube.facts.problems import CONVERSION_ERRORS, ObjectProblems, text_of
from hostler.kube.facts.views import Counts, PodView, created_at
from hostler.kube.facts.volumes import Volumes
from hostler.kube.settings import GangRules
from hostler.manifests.budgets import read_budget
from hostler.manifests.objects.core import Node, Pod
from hostler.manifests.objects.policies import Namespace, PodDisruptionBudget
from hostler.manifests.places import check_keys, check_name, object_place
from hostler.manifests.pods.surroundings import Surroundings
from hostler.model import (
    Budget,
    BudgetChanged,
    BudgetLeft,
    Event,
    Gang,
    Guest,
    GuestNominated,
    Host,
    HostJoined,
    HostsJoined,
    Labels,
    NamespaceChanged,
    labels,
)

__all__ = ["WatchedCluster"]

Taker: TypeAlias = Callable[[Resource[Any], Key, Watched, int], list[Event]]
_NAMESPACE_NAME = "kubernetes.io/metadata.name"  # the API server gives every namespace this label


class WatchedCluster:
    """All watched objects. ``profiles`` maps scheduler names to policies.

    ``seed_annotations`` enables the annotations ``priority`` and ``pod-group`` of the first scheduler, and
    ``pod-group-min`` beside them.
    """

    KINDS = KINDS

    def __init__(
        self, profiles: Mapping[str, str], *, seed_annotations: bool = False, gangs: GangRules | None = None
    ) -> None:
        self._problems = ObjectProblems()
        self._around = Surroundings()
        self._early: dict[tuple[str, str], dict[Key, Any]] | None = {}
        names = NameShares()
        self._hosts = HostBook(self._problems, names)
        self._volumes = Volumes(self._hosts.drivers)
        self._groups = GroupBook(self._problems, self._around.priorities, gangs or GangRules())
        self._namespaces = NamespaceBook(self._problems)
        self._budgets = BudgetBook(self._problems)
        conversion = Conversion(
            dict(profiles),
            self._around,
            self._volumes,
            self._hosts,
            self._groups,
            names,
            seed_annotations=seed_annotations,
        )
        self._conversion = conversion
        self._pods = PodBook(conversion, self._groups, self._volumes, self._problems)
        after = Dependencies(self._around, self._groups, self._volumes, self._pods, self._problems)
        self._takers: dict[str, Taker] = {
            "Namespace": lambda _, key, new, now: self._namespaces.take(key[1], new, now),
            "PriorityClass": after.take_priority_class,
            "Service": after.take_service,
            "ReplicationController": after.take_controller,
            "ReplicaSet": after.take_controller,
            "StatefulSet": after.take_controller,
            "StorageClass": after.take_volume_object,
            "PersistentVolume": after.take_volume_object,
            "PersistentVolumeClaim": after.take_volume_object,
            "PodGroup": after.take_group,
            "PodDisruptionBudget": lambda _, key, new, now: self._budgets.take(key, new, now),
            "CSINode": self._take_csi_node,
            "Node": self._take_node,
            "Pod": lambda _, key, new, now: self._pods.take(key, new, now),
        }

    # -- the face --------------------------------------------------------------------------------------------------

    @property
    def pods(self) -> dict[str, PodView]:
        """All pods by the engine's uid."""
        return self._pods.views

    @property
    def hosts(self) -> dict[str, Host]:
        """The hosts that the engine knows, by name."""
        return self._hosts.told

    @property
    def gangs(self) -> dict[str, Gang]:
        """The gangs that the engine knows, by namespace and name."""
        return self._groups.told

    def is_short(self, group: str, least: int) -> bool:
        """Return whether a gang has fewer members than needed and none is placed, so it must not be started."""
        members = list(self._groups.members(group))
        return len(members) < least and not any(guest.host for uid in members if (guest := self._pods.last_guest(uid)))

    def placed_in(self, group: str, besides: str) -> int:
        """Count the members of a gang that have nodes, with one that was bound just now."""
        members = set(self._groups.members(group))
        return sum(uid == besides or bool((guest := self._pods.last_guest(uid)) and guest.host) for uid in members)

    def is_built_in(self, group: str) -> bool:
        """Return whether a gang is a PodGroup of the built-in API."""
        return self._groups.is_built_in(group)

    def is_counting(self, group: str) -> bool:
        """Return whether a gang of annotations has no minimum yet, because pods may still join it."""
        return self._groups.is_counting(group)

    def guest(self, uid: str) -> Guest | None:
        """Return the guest that was last sent to the engine for a pod."""
        return self._pods.last_guest(uid)

    def pod(self, uid: str) -> Pod | None:
        """Return a pod as it was read."""
        return self._pods.pod(uid)

    @property
    def volumes(self) -> Volumes:
        """Claims, volumes and classes, for the preparation of volumes."""
        return self._volumes

    def problems(self) -> dict[str, str]:
        """Return the objects that could not be converted, and why."""
        return dict(self._problems.by_place)

    def counts(self) -> Counts:
        """Count pods and problems; scans every pod."""
        live = [view for view in self.pods.values() if not view.has_ended]
        waiting = [view for view in live if not view.node]
        ours = [view for view in waiting if view.is_ours and not view.is_leaving]
        return Counts(
            hosts=len(self._hosts.told),
            pods=len(self.pods),
            running=len(live) - len(waiting),
            pending=sum(not view.is_gated and not view.problem for view in ours),
            gated=sum(view.is_gated for view in ours),
            others_pending=sum(not view.is_ours for view in waiting),
            poison_pods=sum(bool(view.problem) for view in live),
            poison=len(self._problems.by_place),
        )

    def take(self, resource: Resource[Any], updates: Sequence[ObjectUpdate[Any]], now: int) -> list[Event]:
        """Store changes of one resource in their order; return the resulting facts, none before ``open``."""
        if self._early is not None:
            known = self._early.setdefault((resource.group, resource.plural), {})
            for update in updates:
                if update.new is None:
                    known.pop(update.key, None)
                else:
                    known[update.key] = update.new
            return []
        taker = self._takers[resource.kind]
        return [event for update in updates for event in taker(resource, update.key, update.new, now)]

    def open(self, now: int) -> list[Event]:
        """Return all facts known so far: namespaces, gangs, budgets, hosts, running pods, then pending ones by age."""
        early, self._early = self._early or {}, None
        events: list[Event] = []
        for kind in KINDS:
            resource = kind.resource
            items = early.get((resource.group, resource.plural), {}).items()
            # The names of nodes are limited: nodes that came first come first, whatever their names.
            for key, item in sorted(items, key=_by_age) if resource.kind == "Node" else items:
                if resource.kind == "Pod":
                    self._pods.remember(key, item)
                else:
                    events += self._takers[resource.kind](resource, key, item, now)
        # All hosts in one fact: the engine lays out its columns once.
        events = [event for event in events if not isinstance(event, HostJoined)]
        if self._hosts.told:
            events.append(HostsJoined(hosts=tuple(self._hosts.told.values()), at=now))
        events += self._pods.open(now)
        return [*events, *self._nominations(now)]

    def _nominations(self, now: int) -> list[Event]:
        """Return nominations made before our start, so that no second set of victims is evicted."""
        return [
            GuestNominated(uid=uid, host=view.nominated, at=now)
            for uid, view in self.pods.items()
            if view.nominated and view.is_ours and not view.node and not view.problem
        ]

    def adopt(self, profiles: Mapping[str, str], now: int) -> list[Event]:
        """Switch to other scheduler names; pods of a dropped name become unschedulable."""
        self._conversion.profiles = dict(profiles)
        return self._pods.refresh([uid for uid, view in self.pods.items() if not view.node], now)

    def note_bound(self, uid: str, host: str) -> None:
        """Record that GuestBound told the engine a pod's node; the watch then brings no new fact."""
        self._pods.note_bound(uid, host)

    def due(self) -> int | None:
        """Return when ``tick`` is due; None: not before something changes."""
        return self._groups.due()

    def tick(self, now: int) -> list[Event]:
        """Return the facts that follow from time alone."""
        return self._groups.tick(now)

    def complete_groups(self, now: int) -> list[Event]:
        """Return the facts that follow if no member of a group is missing, as in a listing that nothing follows."""
        return self._groups.complete(now)

    # -- nodes ---------------------------------------------------------------------------------------

    def _take_node(self, _: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        name = key[1]
        before = self._hosts.told.get(name)
        events = self._hosts.take_node(name, new, now)
        after = self._hosts.told.get(name)
        # An unknown node may have any devices; a known one has exactly those.
        if (before.devices if before else None) != (after.devices if after else None):
            events += self._pods.refresh(self._pods.index.at("devices", name), now)
        for late, node in self._hosts.late():
            if late != name:
                events += self._take_node(_, ("", late), node, now)
        return events

    def _take_csi_node(self, _: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        events, has_moved = self._hosts.take_csi_node(key[1], new, now)
        return events + (self._pods.refresh(self._pods.index.at("claims"), now) if has_moved else [])


def _by_age(entry: tuple[Key, Any]) -> tuple[int, Key]:
    """Return the sort key by which older nodes come before younger ones."""
    key, item = entry
    return created_at(item) if isinstance(item, Node) else 0, key


class NamespaceBook:
    """The labels of namespaces."""

    def __init__(self, problems: ObjectProblems) -> None:
        self._problems = problems
        self.told: dict[str, Labels] = {}

    def take(self, name: str, new: Namespace | UndecodableObject | None, now: int) -> list[Event]:
        """Store or delete a namespace; one that does not decode keeps its labels."""
        problem = new.error if isinstance(new, UndecodableObject) else ""
        self._problems.note(object_place("Namespace", "", name), text_of(InputError(problem)) if problem else "")
        if isinstance(new, UndecodableObject):
            return []
        found = () if new is None else labels({**new.metadata.labels, _NAMESPACE_NAME: name})
        if found == self.told.get(name, ()):
            return []
        if new is None:
            del self.told[name]
        else:
            self.told[name] = found
        return [NamespaceChanged(name=name, labels=found, at=now)]


class BudgetBook:
    """Disruption budgets."""

    def __init__(self, problems: ObjectProblems) -> None:
        self._problems = problems
        self.told: dict[str, Budget] = {}

    def take(self, key: tuple[str, str], new: PodDisruptionBudget | UndecodableObject | None, now: int) -> list[Event]:
        """Store or delete a budget; an invalid one stays unchanged, so that it still protects its pods."""
        place = object_place("PodDisruptionBudget", *key)
        try:
            budget = _read(new, place)
        except CONVERSION_ERRORS as error:
            self._problems.note(place, text_of(error))
            return []
        self._problems.note(place, "")
        named = "/".join(key)
        if budget is None:
            return [BudgetLeft(key=named, at=now)] if self.told.pop(named, None) is not None else []
        if budget == self.told.get(named):
            return []
        self.told[named] = budget
        return [BudgetChanged(budget=budget, at=now)]


def _read(new: PodDisruptionBudget | UndecodableObject | None, place: str) -> Budget | None:
    if new is None:
        return None
    if isinstance(new, UndecodableObject):
        raise InputError(new.error)
    check_name(new.metadata.name, "metadata.name")
    check_keys(new.metadata.labels, "metadata.labels")
    budget, _ = read_budget(new, place)
    return msgspec.structs.replace(budget, version=0)
