"""The cluster as the API server shows it, and the facts that follow from every change of it.

Objects of all kinds are taken in as they come; facts are returned only for what differs from what was told last. Until
the world is opened everything is only remembered: a pod means something only when its node, its group and its volumes
are known. No object, however odd, makes this raise; what cannot be taken is left out and listed under problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from hostler.errors import InputError
from hostler.kube.api.client import Broken
from hostler.kube.api.resources import Resource
from hostler.kube.api.store import Update
from hostler.kube.facts.bounds import Names
from hostler.kube.facts.conversion import Conversion
from hostler.kube.facts.groups import GroupBook
from hostler.kube.facts.hosts import HostBook
from hostler.kube.facts.index import ClaimKey
from hostler.kube.facts.kinds import KINDS
from hostler.kube.facts.pods import PodBook
from hostler.kube.facts.problems import CONVERSION_ERRORS, Problems, text_of
from hostler.kube.facts.tenancy import BudgetBook, NamespaceBook
from hostler.kube.facts.views import Counts, PodView
from hostler.kube.facts.volumes import Volumes
from hostler.manifests.objects import Pod
from hostler.manifests.places import DEFAULT_NAMESPACE, object_place
from hostler.manifests.replicas import selector_of
from hostler.manifests.surroundings import Surroundings
from hostler.model import Event, Guest, Host, HostJoined, HostsJoined

__all__ = ["World"]

Key: TypeAlias = tuple[str, str]
Watched: TypeAlias = Any  # an object of the kind in question, Broken, or None where it is gone
Taker: TypeAlias = Callable[[Resource[Any], Key, Watched, int], list[Event]]


class World:
    """Everything that is watched. ``profiles`` maps scheduler names to policies.

    ``seed_annotations`` lets the first scheduler's annotations ``priority`` and ``pod-group`` count, and
    ``pod-group-min`` beside them.
    """

    KINDS = KINDS

    def __init__(self, profiles: Mapping[str, str], *, seed_annotations: bool = False) -> None:
        self._problems = Problems()
        self._around = Surroundings()
        self._early: dict[tuple[str, str], dict[Key, Any]] | None = {}
        names = Names()
        self._hosts = HostBook(self._problems, names)
        self._volumes = Volumes(self._hosts.drivers)
        self._groups = GroupBook(self._problems, self._around.priorities)
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
        self._takers: dict[str, Taker] = {
            "Namespace": lambda _, key, new, now: self._namespaces.take(key[1], new, now),
            "PriorityClass": self._take_priority_class,
            "Service": self._take_service,
            "ReplicationController": self._take_controller,
            "ReplicaSet": self._take_controller,
            "StatefulSet": self._take_controller,
            "StorageClass": self._take_volume_object,
            "PersistentVolume": self._take_volume_object,
            "PersistentVolumeClaim": self._take_volume_object,
            "PodGroup": self._take_group,
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
            for key, item in early.get((resource.group, resource.plural), {}).items():
                if resource.kind == "Pod":
                    self._pods.remember(key, item)
                else:
                    events += self._takers[resource.kind](resource, key, item, now)
        # All hosts in one fact: the engine lays out its columns once.
        events = [event for event in events if not isinstance(event, HostJoined)]
        if self._hosts.told:
            events.append(HostsJoined(hosts=tuple(self._hosts.told.values()), at=now))
        return [*events, *self._pods.open(now)]

    def adopt(self, profiles: Mapping[str, str], now: int) -> list[Event]:
        """Place the pods of other scheduler names from now on; those of a name that is dropped leave for good."""
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

    # -- what pods depend on ---------------------------------------------------------------------------------------

    def _take_node(self, _: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        name = key[1]
        before = self._hosts.told.get(name)
        events = self._hosts.take_node(name, new, now)
        after = self._hosts.told.get(name)
        # A node that is not there may have any devices; one that is there has just those.
        if (before.devices if before else None) != (after.devices if after else None):
            events += self._pods.refresh(self._pods.index.at("devices", name), now)
        return events

    def _take_csi_node(self, _: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        events, has_moved = self._hosts.take_csi_node(key[1], new, now)
        return events + (self._pods.refresh(self._pods.index.at("claims"), now) if has_moved else [])

    def _take_priority_class(self, _: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        name = key[1]
        with_problem = self._noting(object_place("PriorityClass", "", name), new)
        if with_problem is None:
            self._around.priorities.remove(name)
        else:
            self._try(object_place("PriorityClass", "", name), lambda: self._around.add_priority_class(with_problem))
        events: list[Event] = []
        for group, changes in self._groups.reclass(now).items():
            events += [*changes, *self._pods.refresh_members(group, now)]
        return events + self._pods.refresh(self._pods.index.at("unpriced"), now)

    def _take_service(self, _: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        namespace, name = key[0] or DEFAULT_NAMESPACE, key[1]
        service = self._noting(object_place("Service", namespace, name), new)
        before = self._around.service_selector(namespace, name)
        if service is None:
            self._around.remove_service(namespace, name)
        else:
            self._around.add_service(service)
        after = self._around.service_selector(namespace, name)
        if before == after:
            return []
        selectors = [selector.items() for selector in (before, after) if selector is not None]
        found = []
        for uid in self._pods.index.at("namespace", namespace):
            pod = self._pods.pod(uid)
            if pod is not None and any(selector <= pod.metadata.labels.items() for selector in selectors):
                found.append(uid)
        return self._pods.refresh(found, now)

    def _take_controller(self, resource: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        namespace, name = key[0] or DEFAULT_NAMESPACE, key[1]
        place = object_place(resource.kind, namespace, name)
        item = self._noting(place, new)
        before = self._around.selector_named(namespace, resource.kind, name)
        self._around.remove_controller(namespace, resource.kind, name)
        if item is not None:
            self._try(place, lambda: self._around.add_controller(resource.kind, item.metadata, selector_of(item)))
        if before == self._around.selector_named(namespace, resource.kind, name):
            return []
        return self._pods.refresh(self._pods.index.at("owner", namespace, resource.kind, name), now)

    def _take_volume_object(self, resource: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        item = self._noting(object_place(resource.kind, *key), new)
        store = self._volumes.store
        match resource.kind:
            case "StorageClass":
                concerned = store.put_class(key[1], item)
            case "PersistentVolume":
                concerned = store.put_volume(key[1], item)
            case _:
                concerned = store.put_claim(key, item)
        return self._refresh_claims(concerned, now)

    def _take_group(self, resource: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        events = self._groups.take(resource.group, key, new, now)
        return events + self._pods.refresh_members("/".join(key), now)

    def _refresh_claims(self, claims: Iterable[ClaimKey], now: int) -> list[Event]:
        uids: dict[str, None] = {}
        for claim in claims:
            uids |= dict.fromkeys(self._pods.index.at("claim", *claim))
        return self._pods.refresh(sorted(uids, key=self._pods.age), now)

    def _noting(self, place: str, new: Watched) -> Watched:
        """Return an object, or None where it is gone or does not decode; note the latter."""
        is_broken = isinstance(new, Broken)
        self._problems.note(place, text_of(InputError(new.error)) if is_broken else "")
        return None if is_broken else new

    def _try(self, place: str, act: Callable[[], None]) -> None:
        try:
            act()
        except CONVERSION_ERRORS as error:
            self._problems.note(place, text_of(error))
