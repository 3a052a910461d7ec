"""Pods as guests: which pods the engine knows, with what shape, and when they are gone.

The engine knows pending pods of our profiles and running pods of every scheduler. A uid that was removed never comes
back. So a pending pod that is known and becomes unplaceable (it was changed to something invalid, or its group no
longer fits) is not removed: it gets a shape that no host accepts, with the reason. Used by ``watched_cluster``.

Most updates of a pod only report progress: ``says_the_same`` recognizes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from hostler.errors import InputError
from hostler.kube.api.client import UndecodableObject
from hostler.kube.facts.conversion import Conversion
from hostler.kube.facts.groups import GroupBook
from hostler.kube.facts.index import Index, claims_of, marks_of
from hostler.kube.facts.problems import CONVERSION_ERRORS, ObjectProblems, text_of
from hostler.kube.facts.views import PodView, created_at, has_ended, scheduler_of, view_of
from hostler.kube.facts.volumes import Volumes
from hostler.manifests.objects.core import Pod, PodStatus
from hostler.manifests.places import DEFAULT_NAMESPACE, pod_place
from hostler.model import Event, Guest, GuestArrived, GuestChanged, GuestLeft, GuestSpec

__all__ = ["PodBook"]

Key: TypeAlias = tuple[str, str]
_RESERVED = ("gang:", "reservation:")  # reserved words of the engine, which are no guests
_MAX_LEFT = 65_536
_GATED = "it has scheduling gates"
_NOT_OURS = "its scheduler name has changed"
_WAS_GONE = "its uid is that of a pod that has ended or is gone"
_REGROUPED = "its group has changed; a pod stays in its first group"
_RESIZE = "PodResizePending"


class PodEntry(msgspec.Struct):
    """A pod as last decoded, why a newer version could not be (``broken``), and the guest last sent to the engine."""

    key: Key
    pod: Pod | None = None
    broken: str = ""
    created: int = 0
    group: str = ""
    told: Guest | None = None
    problem: str = ""


class PodBook:
    """All pods of the cluster by uid."""

    def __init__(self, conversion: Conversion, groups: GroupBook, volumes: Volumes, problems: ObjectProblems) -> None:
        self._conversion = conversion
        self._groups = groups
        self._volumes = volumes
        self._problems = problems
        self._entries: dict[str, PodEntry] = {}
        self._uids: dict[Key, str] = {}
        self._left: dict[str, None] = {}
        self._specs: dict[GuestSpec, GuestSpec] = {}
        self._spec_limit = 1024
        self._regrouped: dict[str, None] = {}  # groups that lost a member
        self.index = Index()
        self.views: dict[str, PodView] = {}

    # -- objects ---------------------------------------------------------------------------------------------------

    def take(self, key: Key, new: Pod | UndecodableObject | None, now: int) -> list[Event]:
        """Store or delete a pod."""
        events: list[Event] = []
        known = self._uids.get(key)
        uid = "" if new is None else _uid_of(new, key)
        if known is not None and known != uid:
            self._forget(known, events, now)
        if new is None and known is None:
            self._problems.note(pod_place(*key), "")
        if new is not None and self._enter(uid, key, new):
            self._settle(uid, events, now)
        self._follow(events, now)
        return events

    def remember(self, key: Key, new: Pod | UndecodableObject) -> None:
        """Store a pod without sending any fact yet."""
        self._enter(_uid_of(new, key), key, new)

    def open(self, now: int) -> list[Event]:
        """Send all pods: running ones first, of them those with named devices, then the others by age and name."""
        running: list[tuple[bool, int, Key, str]] = []
        waiting: list[tuple[int, Key, str]] = []
        for uid, entry in self._entries.items():
            if entry.pod is not None and entry.pod.spec.node_name:
                names_no_devices = not any(mark[0] == "devices" for mark in marks_of(entry.pod, "", is_pending=False))
                running.append((names_no_devices, entry.created, entry.key, uid))
            else:
                waiting.append((entry.created, entry.key, uid))
        order = [uid for *_, uid in sorted(running)] + [uid for *_, uid in sorted(waiting)]
        return self.refresh(order, now)

    def refresh(self, uids: Iterable[str], now: int) -> list[Event]:
        """Convert pods again because something that they depend on changed."""
        events: list[Event] = []
        for uid in uids:
            self._settle(uid, events, now)
        self._follow(events, now)
        return events

    def age(self, uid: str) -> tuple[int, Key]:
        """Return the sort key by which older pods come before younger ones."""
        entry = self._entries[uid]
        return entry.created, entry.key

    def refresh_members(self, group: str, now: int) -> list[Event]:
        """Convert the pending members of a group again."""
        return self.refresh((uid for uid in self.index.at("group", group) if not self.views[uid].node), now)

    def note_bound(self, uid: str, host: str) -> None:
        """Record that the engine knows where a pod runs, because we bound it."""
        entry = self._entries.get(uid)
        if entry is not None and entry.told is not None and not entry.told.host:
            entry.told = msgspec.structs.replace(entry.told, host=host)

    def last_guest(self, uid: str) -> Guest | None:
        """Return the guest that was last sent to the engine for a pod."""
        entry = self._entries.get(uid)
        return entry.told if entry is not None else None

    def pod(self, uid: str) -> Pod | None:
        """Return the pod object."""
        entry = self._entries.get(uid)
        return entry.pod if entry is not None else None

    # -- inside ----------------------------------------------------------------------------------------------------

    def _enter(self, uid: str, key: Key, new: Pod | UndecodableObject) -> bool:
        """Store a pod; return whether it must be converted."""
        entry = self._entries.get(uid)
        if entry is not None and entry.key != key:
            self._problems.note(pod_place(*key), f"it has the uid of {pod_place(*entry.key)}, and is left out")
            return False
        if entry is None:
            entry = self._entries[uid] = PodEntry(key)
            self._uids[key] = uid
        if isinstance(new, UndecodableObject):
            entry.broken = text_of(InputError(new.error))
            return True
        old, was_broken = entry.pod, entry.broken
        entry.pod, entry.broken = new, ""
        if old is not None and not was_broken and uid in self.views and says_the_same(old, new):
            self._show(uid, entry)
            return False
        entry.created = entry.created or created_at(new)
        return True

    def _settle(self, uid: str, events: list[Event], now: int) -> None:
        """Send a fact if a pod differs from what was sent last."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        pod, entry.problem = entry.pod, entry.broken
        if pod is not None:
            is_running = bool(pod.spec.node_name)
            entry.group = entry.told.gang if entry.told is not None else self._conversion.group_of(pod)
            if has_ended(pod) or (pod.metadata.deletion_timestamp is not None and not is_running):
                self._leave(uid, entry, events, now)
            elif uid not in self._left:
                guest = self._running_guest(uid, entry, pod) if is_running else self._waiting_guest(uid, entry, pod)
                self._tell(uid, entry, pod, guest, events, now)
                if pod.spec.volumes:
                    self._hold_claims(uid, pod, guest)
            else:
                entry.problem = entry.problem or _WAS_GONE
            is_pending = not is_running and self._is_ours(pod)
            self.index.put(uid, () if has_ended(pod) else marks_of(pod, entry.group, is_pending=is_pending))
        self._show(uid, entry)
        self._problems.note(pod_place(*entry.key), entry.problem)

    def _running_guest(self, uid: str, entry: PodEntry, pod: Pod) -> Guest | None:
        if entry.broken:
            return entry.told  # it keeps what it holds
        siblings = entry.told.spec.siblings if entry.told is not None else None
        guest, entry.problem = self._conversion.running(uid, pod, siblings)
        return self._in_its_group(entry, guest)

    def _waiting_guest(self, uid: str, entry: PodEntry, pod: Pod) -> Guest | None:
        """Return the guest of a pending pod: none, itself, or one that no host accepts if it is already known."""
        if entry.broken:
            return _rejected_guest(entry.told, entry.broken)
        if not self._is_ours(pod):
            return _rejected_guest(entry.told, _NOT_OURS, policy="")  # its policy may be gone with its profile
        if pod.spec.scheduling_gates:
            return _rejected_guest(entry.told, _GATED)
        try:
            return self._in_its_group(entry, self._conversion.pending(uid, pod))
        except CONVERSION_ERRORS as error:
            entry.problem = text_of(error)
            return _rejected_guest(entry.told, entry.problem)

    def _hold_claims(self, uid: str, pod: Pod, guest: Guest | None) -> None:
        """Let a running or placeable pod keep other pods from its single-pod volumes."""
        claims = claims_of(pod)
        if guest is not None and (guest.host or not guest.spec.unsupported):
            self._volumes.hold(uid, claims, runs=bool(guest.host))
        elif claims:
            self._volumes.release(uid, claims)

    def _in_its_group(self, entry: PodEntry, guest: Guest) -> Guest:
        """Keep a pod in the group that it was sent with: the guests of the engine never change theirs."""
        if entry.told is None or entry.told.gang == guest.gang:
            return guest
        entry.problem = entry.problem or _REGROUPED
        return msgspec.structs.replace(guest, gang=entry.told.gang)

    def _tell(self, uid: str, entry: PodEntry, pod: Pod, guest: Guest | None, events: list[Event], now: int) -> None:
        told = entry.told
        if guest is None or (told is not None and told.host and not guest.host):
            return  # no news, or news from before our bind
        if guest is not told and guest != told:
            spec = self._specs.setdefault(guest.spec, guest.spec)
            if spec is not guest.spec:
                guest = msgspec.structs.replace(guest, spec=spec)
            entry.told = guest
            kind = GuestArrived if told is None else GuestChanged
            events.append(kind(guest=guest, at=now))
            if len(self._specs) > self._spec_limit:
                self._prune_specs()
        if guest.gang:
            events += self._groups.enter(guest.gang, uid, self._conversion.member(pod, guest.spec.priority), now)

    def _leave(self, uid: str, entry: PodEntry, events: list[Event], now: int) -> None:
        """Remove a pod from the engine, permanently."""
        if entry.pod is not None and entry.pod.spec.volumes:
            self._volumes.release(uid, claims_of(entry.pod))
        self._conversion.forget(uid)
        told, entry.told = entry.told, None
        if told is None:
            return
        self._left[uid] = None
        if len(self._left) > _MAX_LEFT:
            del self._left[next(iter(self._left))]
        events.append(GuestLeft(uid=uid, at=now))
        if told.gang:
            events += self._groups.leave(told.gang, uid, now)
            self._regrouped[told.gang] = None

    def _forget(self, uid: str, events: list[Event], now: int) -> None:
        entry = self._entries[uid]
        self._leave(uid, entry, events, now)
        self._problems.note(pod_place(*entry.key), "")
        self.index.put(uid, ())
        self.views.pop(uid, None)
        del self._entries[uid], self._uids[entry.key]

    def _follow(self, events: list[Event], now: int) -> None:
        """Convert the pods again that the last changes affect, by a claim, a group or released names."""
        late = self._conversion.late()
        while self._volumes.moved or self._regrouped or late:
            uids: dict[str, None] = {uid: None for uid in late if uid in self._entries}
            for key in self._volumes.moved:
                uids |= dict.fromkeys(self.index.at("claim", *key))
            for group in self._regrouped:
                uids |= {uid: None for uid in self.index.at("group", group) if self._entries[uid].problem}
            self._volumes.moved.clear()
            self._regrouped.clear()
            for uid in sorted(uids, key=self.age):
                self._settle(uid, events, now)
            late = self._conversion.late()

    def _show(self, uid: str, entry: PodEntry) -> None:
        if entry.pod is None:
            namespace, name = entry.key
            self.views[uid] = PodView(
                namespace=namespace or DEFAULT_NAMESPACE, name=name, uid=uid, problem=entry.problem
            )
            return
        told = entry.told if not entry.problem else None
        priority = told.spec.priority if told is not None else entry.pod.spec.priority or 0
        self.views[uid] = view_of(
            entry.pod,
            is_ours=self._is_ours(entry.pod),
            group=entry.group,
            priority=priority,
            created=entry.created,
            problem=entry.problem,
        )

    def _is_ours(self, pod: Pod) -> bool:
        return scheduler_of(pod) in self._conversion.profiles

    def _prune_specs(self) -> None:
        """Forget shapes that no pod has any more."""
        used = (entry.told.spec for entry in self._entries.values() if entry.told is not None)
        self._specs = {spec: spec for spec in used}
        self._spec_limit = 2 * len(self._specs) + 1024


def _uid_of(item: Pod | UndecodableObject, key: Key) -> str:
    """Return the engine's uid of a pod; reserved words get a prefix."""
    uid = (
        item.uid if isinstance(item, UndecodableObject) else item.metadata.uid
    ) or f"{key[0] or DEFAULT_NAMESPACE}/{key[1]}"
    return f"pod:{uid}" if uid.startswith(_RESERVED) else uid


def _rejected_guest(told: Guest | None, why: str, policy: str | None = None) -> Guest | None:
    """Return a guest that no host accepts, if the engine knows it; the reason going away brings it back."""
    if told is None or told.host:
        return told
    named = told.spec.policy if policy is None else policy
    return msgspec.structs.replace(told, spec=msgspec.structs.replace(told.spec, unsupported=(why,), policy=named))


def says_the_same(old: Pod, new: Pod) -> bool:
    """Return whether two versions of a pod give the same guest; conditions and the like may differ."""
    one, other = old.metadata, new.metadata
    return (
        old.spec == new.spec
        and one.labels == other.labels
        and one.annotations == other.annotations
        and one.owner_references == other.owner_references
        and (one.deletion_timestamp is None) == (other.deletion_timestamp is None)
        and has_ended(old) == has_ended(new)
        and (not new.spec.node_name or _holds_the_same(old.status, new.status))
    )


def _holds_the_same(old: PodStatus, new: PodStatus) -> bool:
    """Return whether a running pod holds the same resources since the same time."""
    return (
        old.start_time == new.start_time
        and old.resize == new.resize
        and old.container_statuses == new.container_statuses
        and old.init_container_statuses == new.init_container_statuses
        and old.allocated_resources == new.allocated_resources
        and old.resources == new.resources
        and [c for c in old.conditions if c.type == _RESIZE] == [c for c in new.conditions if c.type == _RESIZE]
    )
