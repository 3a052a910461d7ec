"""Objects that pods depend on. A change is stored, and only the affected pods are converted again.

A service affects the waiting pods of its namespace that it selects, a claim affects the pods that use it. Used by
``watched_cluster``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from hostler.errors import InputError
from hostler.kube.api.client import UndecodableObject
from hostler.kube.api.resources import Resource
from hostler.kube.facts.groups import GroupBook
from hostler.kube.facts.index import ClaimKey
from hostler.kube.facts.pods import PodBook
from hostler.kube.facts.problems import CONVERSION_ERRORS, ObjectProblems, text_of
from hostler.kube.facts.volumes import Volumes
from hostler.manifests.places import DEFAULT_NAMESPACE, object_place
from hostler.manifests.pods.surroundings import Surroundings
from hostler.manifests.workloads.replicas import selector_of
from hostler.model import Event

__all__ = ["Dependencies", "Key", "Watched"]

Key: TypeAlias = tuple[str, str]
Watched: TypeAlias = Any  # an object of the resource, an undecodable one, or None if it is gone


class Dependencies:
    """Services, controllers, priority classes, groups, claims and volumes."""

    def __init__(
        self, around: Surroundings, groups: GroupBook, volumes: Volumes, pods: PodBook, problems: ObjectProblems
    ) -> None:
        self._around = around
        self._groups = groups
        self._volumes = volumes
        self._pods = pods
        self._problems = problems

    def take_priority_class(self, _: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        """Store or delete a priority class; groups and pods without a priority value may get another."""
        name = key[1]
        place = object_place("PriorityClass", "", name)
        item = self._without_broken(place, new)
        self._around.priorities.remove(name)
        if item is not None:
            self._try(place, lambda: self._around.add_priority_class(item))
        events: list[Event] = []
        for group, changes in self._groups.reclass(now).items():
            events += [*changes, *self._pods.refresh_members(group, now)]
        return events + self._pods.refresh(self._pods.index.at("unpriced"), now)

    def take_service(self, _: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        """Store or delete a service; waiting pods that match, or matched, get other siblings."""
        namespace, name = key[0] or DEFAULT_NAMESPACE, key[1]
        service = self._without_broken(object_place("Service", namespace, name), new)
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

    def take_controller(self, resource: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        """Store or delete a controller of pods; its waiting pods get other siblings."""
        namespace, name = key[0] or DEFAULT_NAMESPACE, key[1]
        place = object_place(resource.kind, namespace, name)
        item = self._without_broken(place, new)
        before = self._around.selector_named(namespace, resource.kind, name)
        self._around.remove_controller(namespace, resource.kind, name)
        if item is not None:
            self._try(place, lambda: self._around.add_controller(resource.kind, item.metadata, selector_of(item)))
        if before == self._around.selector_named(namespace, resource.kind, name):
            return []
        return self._pods.refresh(self._pods.index.at("owner", namespace, resource.kind, name), now)

    def take_volume_object(self, resource: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        """Store or delete a claim, a volume or a storage class."""
        item = self._without_broken(object_place(resource.kind, *key), new)
        store = self._volumes.store
        match resource.kind:
            case "StorageClass":
                concerned = store.put_class(key[1], item)
            case "PersistentVolume":
                concerned = store.put_volume(key[1], item)
            case _:
                concerned = store.put_claim(key, item)
        return self._refresh_claims(concerned, now)

    def take_group(self, resource: Resource[Any], key: Key, new: Watched, now: int) -> list[Event]:
        """Store or delete a PodGroup; its waiting members may fit now, or no longer."""
        events = self._groups.take(resource.group, key, new, now)
        return events + self._pods.refresh_members("/".join(key), now)

    def _refresh_claims(self, claims: Iterable[ClaimKey], now: int) -> list[Event]:
        uids: dict[str, None] = {}
        for claim in claims:
            uids |= dict.fromkeys(self._pods.index.at("claim", *claim))
        return self._pods.refresh(sorted(uids, key=self._pods.age), now)

    def _without_broken(self, place: str, new: Watched) -> Watched:
        """Return an object, or None if it is gone or does not decode; the latter is noted as a problem."""
        is_broken = isinstance(new, UndecodableObject)
        self._problems.note(place, text_of(InputError(new.error)) if is_broken else "")
        return None if is_broken else new

    def _try(self, place: str, act: Callable[[], None]) -> None:
        try:
            act()
        except CONVERSION_ERRORS as error:
            self._problems.note(place, text_of(error))
