"""Gangs: PodGroups of both APIs and groups that only annotations name; who belongs to them, and which pods are unfit.

A group of annotations (those of the first scheduler) has no object that gives its minimum. A member may give it by an
annotation of ours. Otherwise the group is complete when no member has come for a second. Used by ``pods`` and
``watched_cluster``.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostler.errors import InputError
from hostler.kube.api.client import UndecodableObject
from hostler.kube.facts.problems import CONVERSION_ERRORS, ObjectProblems, text_of
from hostler.kube.settings import GangRules
from hostler.manifests.objects.policies import CrdPodGroup, PodGroup
from hostler.manifests.places import check_name, object_place
from hostler.manifests.pods.gangs import read_crd_pod_group, read_pod_group
from hostler.manifests.pods.priorities import PriorityClasses
from hostler.model import Event, Gang, GangChanged, GangLeft, GuestSpec

__all__ = ["QUIET_NS", "GroupBook"]

QUIET_NS = 1_000_000_000  # a group without a minimum is complete when no member has come for this long
_SECOND = 1_000_000_000
_BUILT_IN, _CRD = "scheduling.k8s.io", "scheduling.x-k8s.io"


class Member(msgspec.Struct, frozen=True):
    """A member known to the engine: its scheduler, its priority, and the counts that it gives for its group."""

    scheduler: str
    priority: int = 0
    is_seed: bool = False
    minimum: int = 0  # 0: none given
    maximum: int = 0  # 0: none given


class GroupBook:
    """Gangs by namespace and name."""

    def __init__(self, problems: ObjectProblems, classes: PriorityClasses, rules: GangRules) -> None:
        self._rules = rules
        self._problems = problems
        self._classes = classes
        self._objects: dict[tuple[str, str], PodGroup | CrdPodGroup] = {}  # by API group and key
        self._read: dict[tuple[str, str], Gang] = {}
        self._members: dict[str, dict[str, Member]] = {}
        self._quiet: dict[str, int] = {}  # groups of annotations that wait for members, and their deadlines
        self._counted: dict[str, int] = {}  # completed groups of annotations, with their sizes
        self.told: dict[str, Gang] = {}

    def take(
        self, group: str, key: tuple[str, str], new: PodGroup | CrdPodGroup | UndecodableObject | None, now: int
    ) -> list[Event]:
        """Store or delete a PodGroup of either API. An invalid one counts as deleted."""
        at = (group, "/".join(key))
        self._objects.pop(at, None)
        self._read.pop(at, None)
        place = object_place(f"PodGroup.{group}", *key)
        self._problems.note(place, "")
        if isinstance(new, UndecodableObject):
            self._problems.note(place, text_of(InputError(new.error)))
        elif new is not None:
            self._objects[at] = new
            self._convert(at, place)
        return self._tell(at[1], now)

    def reclass(self, now: int) -> dict[str, list[Event]]:
        """Check all groups again because a priority class changed; return the facts by group."""
        changed: dict[str, list[Event]] = {}
        for at in list(self._objects):
            self._convert(at, object_place(f"PodGroup.{at[0]}", *at[1].split("/", 1)))
            events = self._tell(at[1], now)
            if events:
                changed[at[1]] = events
        return changed

    def why_unfit(self, key: str, uid: str, spec: GuestSpec, scheduler: str) -> str:
        """Return why a pod cannot be a member of its group, or an empty string."""
        members = self._members.get(key, {})
        first = next((member for other, member in members.items() if other != uid), None)
        if uid in members:
            first = next(iter(members.values()))
        if first is not None and first.scheduler != scheduler:
            return f"members of group {key} name different schedulers: {first.scheduler} and {scheduler}"
        gang = self._find_gang(key)
        if gang is not None and gang.priority is not None and gang.priority != spec.priority:
            return f"its priority {spec.priority} is not that of its group {key}, {gang.priority}"
        found = self._objects.get((_BUILT_IN, key))
        policy = found.spec.preemption_policy if isinstance(found, PodGroup) else ""
        if policy and (policy != "Never") != spec.may_preempt:
            return f"its preemptionPolicy is not that of its group {key}, {policy}"
        return ""

    def enter(self, key: str, uid: str, member: Member, now: int) -> list[Event]:
        """Add or update a member that the engine knows."""
        members = self._members.setdefault(key, {})
        is_new = uid not in members
        if not is_new and members[uid] == member:
            return []
        members[uid] = member
        if is_new and member.is_seed and key not in self._counted:
            self._quiet[key] = now + QUIET_NS
        return self._tell(key, now)

    def leave(self, key: str, uid: str, now: int) -> list[Event]:
        """Remove a member."""
        members = self._members.get(key, {})
        if members.pop(uid, None) is None:
            return []
        if not members:
            del self._members[key]
            self._quiet.pop(key, None)
            self._counted.pop(key, None)
        return self._tell(key, now)

    def members(self, key: str) -> Iterable[str]:
        """Return the uids of the members that the engine knows."""
        return self._members.get(key, {}).keys()

    def is_built_in(self, key: str) -> bool:
        """Return whether a PodGroup of the built-in API exists."""
        return (_BUILT_IN, key) in self._objects

    def is_counting(self, key: str) -> bool:
        """Return whether a group of annotations waits until no member joins it any more."""
        return key in self._quiet and key not in self.told

    def due(self) -> int | None:
        """Return when the next group of annotations will have been quiet for long enough."""
        return min(self._quiet.values(), default=None)

    def tick(self, now: int) -> list[Event]:
        """Complete the groups that no member has joined for a while."""
        return self._complete([key for key, until in self._quiet.items() if until <= now], now)

    def complete(self, now: int) -> list[Event]:
        """Complete all groups at once: every member is known."""
        return self._complete(list(self._quiet), now)

    def _complete(self, keys: Iterable[str], now: int) -> list[Event]:
        events: list[Event] = []
        for key in keys:
            del self._quiet[key]
            self._counted[key] = sum(member.is_seed for member in self._members[key].values())
            events += self._tell(key, now)
        return events

    def _convert(self, at: tuple[str, str], place: str) -> None:
        item = self._objects[at]
        try:
            check_name(item.metadata.name, "metadata.name")
            if isinstance(item, PodGroup):
                gang, _ = read_pod_group(item, self._classes, place)
            else:
                gang, _ = read_crd_pod_group(item, place)
            self._read[at] = msgspec.structs.replace(gang, version=0)
            self._problems.note(place, "")
        except CONVERSION_ERRORS as error:
            self._read.pop(at, None)
            self._problems.note(place, text_of(error))

    def _find_gang(self, key: str) -> Gang | None:
        """Return the gang of a name: that of an object, otherwise that of annotations."""
        found = self._read.get((_BUILT_IN, key)) or self._read.get((_CRD, key))
        if found is not None:
            return found
        members = [member for member in self._members.get(key, {}).values() if member.is_seed]
        minimum = max((member.minimum for member in members), default=0) or self._counted.get(key, 0)
        if not members or not minimum:
            return None
        namespace, _, name = key.partition("/")
        maximum = max(member.maximum for member in members)
        return Gang(name=name, namespace=namespace, min_count=minimum, max_count=maximum and max(maximum, minimum))

    def _with_rules(self, gang: Gang | None) -> Gang | None:
        """Add the rules that the configuration sets for all gangs."""
        rules = self._rules
        if gang is None:
            return None
        priority = gang.priority
        if priority is None and rules.priority == "highest":
            priority = max((member.priority for member in self._members.get(gang.key, {}).values()), default=None)
        return msgspec.structs.replace(
            gang,
            priority=priority,
            when_broken=rules.when_broken,
            release_after_ns=int(rules.release_after_s * _SECOND),
            head_of_line=rules.head_of_line,
        )

    def _tell(self, key: str, now: int) -> list[Event]:
        gang, told = self._with_rules(self._find_gang(key)), self.told.get(key)
        if gang == told:
            return []
        if gang is None:
            del self.told[key]
            return [GangLeft(key=key, at=now)]
        self.told[key] = gang
        return [GangChanged(gang=gang, at=now)]
