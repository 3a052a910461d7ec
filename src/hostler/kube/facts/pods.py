"""Pods as guests: who is told to the engine, as what, and when he is gone.

Told are pods of our profiles that wait, and pods of anybody that run. A uid that left never comes back to the engine,
so a waiting pod that was told and cannot be placed now (it was changed into nonsense, or its group no longer
fits) does not leave: it is refused everywhere, with the reason. Used by ``world``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from hostler.errors import InputError
from hostler.kube.api.client import Broken
from hostler.kube.facts.conversion import Conversion
from hostler.kube.facts.groups import GroupBook
from hostler.kube.facts.index import Index, claims_of, marks_of
from hostler.kube.facts.problems import CONVERSION_ERRORS, Problems, text_of
from hostler.kube.facts.sameness import says_the_same
from hostler.kube.facts.views import PodView, created_at, has_ended, scheduler_of, view_of
from hostler.kube.facts.volumes import Volumes
from hostler.manifests.objects import Pod
from hostler.manifests.places import DEFAULT_NAMESPACE, pod_place
from hostler.model import Event, Guest, GuestArrived, GuestChanged, GuestLeft, GuestSpec

__all__ = ["PodBook"]

Key: TypeAlias = tuple[str, str]
_RESERVED = ("gang:", "reservation:")  # how the engine calls what is no guest
_MAX_LEFT = 65_536
_GATED = "it waits for its scheduling gates"
_NOT_OURS = "it names another scheduler now"
_WAS_GONE = "its uid is that of a pod that has ended or is gone"
_REGROUPED = "it names another group now; a pod stays in the one that it came with"


class Entry(msgspec.Struct):
    """A pod as it could last be read, why no newer one could (``broken``), and what the engine was told of it last."""

    key: Key
    pod: Pod | None = None
    broken: str = ""
    created: int = 0
    group: str = ""
    told: Guest | None = None
    problem: str = ""


class PodBook:
    """All pods of the cluster by uid."""

    def __init__(self, conversion: Conversion, groups: GroupBook, volumes: Volumes, problems: Problems) -> None:
        self._conversion = conversion
        self._groups = groups
        self._volumes = volumes
        self._problems = problems
        self._entries: dict[str, Entry] = {}
        self._uids: dict[Key, str] = {}
        self._left: dict[str, None] = {}
        self._specs: dict[GuestSpec, GuestSpec] = {}
        self._spec_limit = 1024
        self._regrouped: dict[str, None] = {}  # groups that lost a member
        self.index = Index()
        self.views: dict[str, PodView] = {}

    # -- objects ---------------------------------------------------------------------------------------------------

    def take(self, key: Key, new: Pod | Broken | None, now: int) -> list[Event]:
        """Take a pod in, or forget it."""
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

    def remember(self, key: Key, new: Pod | Broken) -> None:
        """Take a pod in without telling anybody yet."""
        self._enter(_uid_of(new, key), key, new)

    def open(self, now: int) -> list[Event]:
        """Tell all pods: those that run first, of them those that name devices, then the others by age and name."""
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
        """Look at pods again, because something changed that they depend on."""
        events: list[Event] = []
        for uid in uids:
            self._settle(uid, events, now)
        self._follow(events, now)
        return events

    def age(self, uid: str) -> tuple[int, Key]:
        """Return what older pods come before younger ones by."""
        entry = self._entries[uid]
        return entry.created, entry.key

    def refresh_members(self, group: str, now: int) -> list[Event]:
        """Look at the waiting members of a group again."""
        return self.refresh((uid for uid in self.index.at("group", group) if not self.views[uid].node), now)

    def bound(self, uid: str, host: str) -> None:
        """Take note that the engine knows already where a pod runs, because we bound it."""
        entry = self._entries.get(uid)
        if entry is not None and entry.told is not None and not entry.told.host:
            entry.told = msgspec.structs.replace(entry.told, host=host)

    def told(self, uid: str) -> Guest | None:
        """Return what the engine was told of a pod last."""
        entry = self._entries.get(uid)
        return entry.told if entry is not None else None

    def pod(self, uid: str) -> Pod | None:
        """Return a pod itself."""
        entry = self._entries.get(uid)
        return entry.pod if entry is not None else None

    # -- inside ----------------------------------------------------------------------------------------------------

    def _enter(self, uid: str, key: Key, new: Pod | Broken) -> bool:
        """Put a pod into the books; say whether it must be looked at."""
        entry = self._entries.get(uid)
        if entry is not None and entry.key != key:
            self._problems.note(pod_place(*key), f"it has the uid of {pod_place(*entry.key)}, and is left out")
            return False
        if entry is None:
            entry = self._entries[uid] = Entry(key)
            self._uids[key] = uid
        if isinstance(new, Broken):
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
        """Tell the engine what a pod is now, if it is not what was told last."""
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
                guest = self._running(uid, entry, pod) if is_running else self._waiting(uid, entry, pod)
                self._tell(uid, entry, pod, guest, events, now)
                if pod.spec.volumes:
                    self._hold_claims(uid, pod, guest)
            else:
                entry.problem = entry.problem or _WAS_GONE
            is_pending = not is_running and self._is_ours(pod)
            self.index.put(uid, () if has_ended(pod) else marks_of(pod, entry.group, is_pending=is_pending))
        self._show(uid, entry)
        self._problems.note(pod_place(*entry.key), entry.problem)

    def _running(self, uid: str, entry: Entry, pod: Pod) -> Guest | None:
        if entry.broken:
            return entry.told  # what it held, it holds
        siblings = entry.told.spec.siblings if entry.told is not None else None
        guest, entry.problem = self._conversion.running(uid, pod, siblings)
        return self._in_its_group(entry, guest)

    def _waiting(self, uid: str, entry: Entry, pod: Pod) -> Guest | None:
        """Return what a waiting pod is to the engine: nothing, itself, or refused everywhere if it was told before."""
        if entry.broken:
            return _refused(entry.told, entry.broken)
        if not self._is_ours(pod):
            return _refused(entry.told, _NOT_OURS, policy="")  # the policy may be gone with its profile
        if pod.spec.scheduling_gates:
            return _refused(entry.told, _GATED)
        try:
            return self._in_its_group(entry, self._conversion.pending(uid, pod))
        except CONVERSION_ERRORS as error:
            entry.problem = text_of(error)
            return _refused(entry.told, entry.problem)

    def _hold_claims(self, uid: str, pod: Pod, guest: Guest | None) -> None:
        """Let a pod that runs, or that can be placed, keep others from volumes that are for one pod."""
        claims = claims_of(pod)
        if guest is not None and (guest.host or not guest.spec.unsupported):
            self._volumes.hold(uid, claims, runs=bool(guest.host))
        elif claims:
            self._volumes.release(uid, claims)

    def _in_its_group(self, entry: Entry, guest: Guest) -> Guest:
        """Keep a pod in the group that it was told with: the engine's guests never change theirs."""
        if entry.told is None or entry.told.gang == guest.gang:
            return guest
        entry.problem = entry.problem or _REGROUPED
        return msgspec.structs.replace(guest, gang=entry.told.gang)

    def _tell(self, uid: str, entry: Entry, pod: Pod, guest: Guest | None, events: list[Event], now: int) -> None:
        told = entry.told
        if guest is None or (told is not None and told.host and not guest.host):
            return  # nothing, or news from before we bound it
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
            events += self._groups.enter(guest.gang, uid, self._conversion.member(pod), now)

    def _leave(self, uid: str, entry: Entry, events: list[Event], now: int) -> None:
        """Tell the engine that a pod is gone, once and for all."""
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
        """Look again at the pods that the last changes concern: by a claim, a group or names that are free now."""
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

    def _show(self, uid: str, entry: Entry) -> None:
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


def _uid_of(item: Pod | Broken, key: Key) -> str:
    """Return what the engine calls a pod; words that it keeps for itself get another one in front."""
    uid = (item.uid if isinstance(item, Broken) else item.metadata.uid) or f"{key[0] or DEFAULT_NAMESPACE}/{key[1]}"
    return f"pod:{uid}" if uid.startswith(_RESERVED) else uid


def _refused(told: Guest | None, why: str, policy: str | None = None) -> Guest | None:
    """Return a guest that is refused everywhere, if the engine knows it; it comes back when the reason is gone."""
    if told is None or told.host:
        return told
    named = told.spec.policy if policy is None else policy
    return msgspec.structs.replace(told, spec=msgspec.structs.replace(told.spec, unsupported=(why,), policy=named))
