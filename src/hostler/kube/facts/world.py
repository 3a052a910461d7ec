"""The cluster as the API server shows it, and the facts that follow from every change of it.

Objects of all kinds are taken in as they come; facts are returned only for what differs from what was told last. Until
the world is opened everything is only remembered: a pod means something only when its node, its group and its volumes
are known. No object, however odd, makes this raise; what cannot be taken is left out and listed under problems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from hostler.kube.api.resources import Resource
from hostler.kube.api.store import Update
from hostler.kube.facts.bounds import Names
from hostler.kube.facts.conversion import Conversion
from hostler.kube.facts.dependencies import Dependencies, Key, Watched
from hostler.kube.facts.groups import GroupBook
from hostler.kube.facts.hosts import HostBook
from hostler.kube.facts.kinds import KINDS
from hostler.kube.facts.pods import PodBook
from hostler.kube.facts.problems import Problems
from hostler.kube.facts.tenancy import BudgetBook, NamespaceBook
from hostler.kube.facts.views import Counts, PodView, created_at
from hostler.kube.facts.volumes import Volumes
from hostler.kube.settings import GangRules
from hostler.manifests.objects import Node, Pod
from hostler.manifests.surroundings import Surroundings
from hostler.model import Event, Gang, Guest, GuestNominated, Host, HostJoined, HostsJoined

__all__ = ["World"]

Taker: TypeAlias = Callable[[Resource[Any], Key, Watched, int], list[Event]]


class World:
    """Everything that is watched. ``profiles`` maps scheduler names to policies.

    ``seed_annotations`` lets the first scheduler's annotations ``priority`` and ``pod-group`` count, and
    ``pod-group-min`` beside them.
    """

    KINDS = KINDS

    def __init__(
        self, profiles: Mapping[str, str], *, seed_annotations: bool = False, gangs: GangRules | None = None
    ) -> None:
        self._problems = Problems()
        self._around = Surroundings()
        self._early: dict[tuple[str, str], dict[Key, Any]] | None = {}
        names = Names()
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
        """All pods by the uid that the engine knows them by."""
        return self._pods.views

    @property
    def hosts(self) -> dict[str, Host]:
        """The hosts that the engine was told of, by name."""
        return self._hosts.told

    @property
    def gangs(self) -> dict[str, Gang]:
        """The gangs that the engine was told of, by namespace and name."""
        return self._groups.told

    def is_short(self, group: str, least: int) -> bool:
        """Say whether so few members of a gang are there, none of them placed, that it must not be started."""
        members = list(self._groups.members(group))
        return len(members) < least and not any(guest.host for uid in members if (guest := self._pods.told(uid)))

    def placed_in(self, group: str, besides: str) -> int:
        """Count the members of a gang that have nodes, and one more that was bound just now."""
        members = set(self._groups.members(group))
        return sum(uid == besides or bool((guest := self._pods.told(uid)) and guest.host) for uid in members)

    def is_built_in(self, group: str) -> bool:
        """Say whether a gang is a PodGroup of the form that is built into Kubernetes."""
        return self._groups.is_built_in(group)

    def guest(self, uid: str) -> Guest | None:
        """Return what the engine was told of a pod last."""
        return self._pods.told(uid)

    def pod(self, uid: str) -> Pod | None:
        """Return a pod as it was read."""
        return self._pods.pod(uid)

    @property
    def volumes(self) -> Volumes:
        """Claims, volumes and classes, for whoever prepares volumes."""
        return self._volumes

    def problems(self) -> dict[str, str]:
        """Return the objects that could not be taken as they are, and why."""
        return dict(self._problems.by_place)

    def counts(self) -> Counts:
        """Count pods and problems; looks at every pod."""
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

    def take(self, resource: Resource[Any], updates: Sequence[Update[Any]], now: int) -> list[Event]:
        """Take changes of one resource in, in their order; return the facts that follow, none before ``open``."""
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
        """Return all facts known so far: namespaces, gangs, budgets, hosts, running pods, then waiting ones by age."""
        early, self._early = self._early or {}, None
        events: list[Event] = []
        for kind in KINDS:
            resource = kind.resource
            items = early.get((resource.group, resource.plural), {}).items()
            # The names of nodes are bounded: those that were there first come first, however the others are called.
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
        """Say for whom room was kept before our time, so that its victims are not followed by others."""
        return [
            GuestNominated(uid=uid, host=view.nominated, at=now)
            for uid, view in self.pods.items()
            if view.nominated and view.is_ours and not view.node and not view.problem
        ]

    def adopt(self, profiles: Mapping[str, str], now: int) -> list[Event]:
        """Place the pods of other scheduler names from now on; those of a name that is dropped are refused."""
        self._conversion.profiles = dict(profiles)
        return self._pods.refresh([uid for uid, view in self.pods.items() if not view.node], now)

    def bound(self, uid: str, host: str) -> None:
        """Take note that the engine was told by GuestBound where a pod is: the watch then brings it no news."""
        self._pods.bound(uid, host)

    def due(self) -> int | None:
        """Return when ``tick`` is to be called; None: not before something changes."""
        return self._groups.due()

    def tick(self, now: int) -> list[Event]:
        """Return the facts that follow from time alone."""
        return self._groups.tick(now)

    # -- nodes ---------------------------------------------------------------------------------------

    def _take_node(self, _: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        name = key[1]
        before = self._hosts.told.get(name)
        events = self._hosts.take_node(name, new, now)
        after = self._hosts.told.get(name)
        # A node that is not there may have any devices; one that is there has just those.
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
    """Return what older nodes come before younger ones by."""
    key, item = entry
    return created_at(item) if isinstance(item, Node) else 0, key
