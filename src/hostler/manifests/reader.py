"""All objects of one input, put together: hosts, guests, namespaces, gangs and budgets.

Objects may stand in any order, and a pod means something else when a service, an owner or a priority
class stands beside it. So everything is decoded and looked through first (:meth:`Reader.add`), then pods
are converted and workloads expanded (:meth:`Reader.finish`). Used by ``lists``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

import msgspec

from hostler.errors import DuplicateNameError, InputError
from hostler.manifests.budgets import read_budget
from hostler.manifests.decoding import read_object
from hostler.manifests.gangs import has_seed_group, read_crd_pod_group, read_pod_group
from hostler.manifests.kinds import Object, place_of, struct_of
from hostler.manifests.nodes import node_to_host
from hostler.manifests.objects import Node, Pod
from hostler.manifests.owners import Owners
from hostler.manifests.places import Note, about, check_keys, check_name, pod_place
from hostler.manifests.pods import pod_to_guest
from hostler.manifests.policy_objects import (
    CrdPodGroup,
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Service,
)
from hostler.manifests.replicas import Names, selector_of
from hostler.manifests.surroundings import Surroundings
from hostler.manifests.workload_objects import ReplicaSet, ReplicationController, StatefulSet
from hostler.manifests.workloads import WORKLOADS, Expansion
from hostler.model import Budget, Gang, Guest, GuestSpec, Host, Labels, labels

__all__ = ["Reader"]

_NAMESPACE_NAME = "kubernetes.io/metadata.name"  # the API server gives every namespace this label


class _Record(msgspec.Struct, frozen=True):
    """One object: its place in the input, what it is called, and the file it stands in."""

    at: int
    item: Object
    place: str
    source: str

    def about(self) -> AbstractContextManager[None]:
        """Name the object in errors that are raised inside."""
        return about(f"{self.source}: {self.place}" if self.source else self.place)


class Reader:
    """What has been read so far, and which names and uids are taken by whom."""

    def __init__(self, *, seed_annotations: bool = False, more_hosts: Iterable[Host] = ()) -> None:
        self.hosts: list[Host] = []
        self.host_sources: list[str] = []
        self.guests: list[Guest] = []
        self.guest_sources: list[str] = []
        self.namespaces: dict[str, Labels] = {}
        self.gangs: dict[str, Gang] = {}
        self.budgets: list[Budget] = []
        self._seed_annotations = seed_annotations
        self._more_hosts = tuple(more_hosts)
        self._seed_gangs: set[str] = set()
        self._around = Surroundings()
        self._records: list[_Record] = []
        self._count = 0
        self._notes: list[tuple[int, Note]] = []
        self._specs: dict[GuestSpec, GuestSpec] = {}
        self._places: set[str] = set()
        self._uids: dict[tuple[str, str], str] = {}

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return the notes in the order of the objects that they are about."""
        return tuple(note for _, note in sorted(self._notes, key=lambda entry: entry[0]))

    def add(self, version: str, kind: str, data: Mapping[str, object], source: str = "") -> None:
        """Take an object in; a kind that is not read is noted and ignored."""
        self._count += 1
        struct = struct_of(version, kind)
        place = place_of(struct, kind, data)
        if struct is None:
            self._notes.append((self._count, Note(place, "", "ignored")))
            return
        with about(source) if source else nullcontext():
            item = read_object(data, struct, place)
            with about(place):
                check_name(item.metadata.name, "metadata.name")
                check_name(item.metadata.namespace, "metadata.namespace")
                check_keys(item.metadata.labels, "metadata.labels")
            record = _Record(self._count, item, place, source)
            if item.metadata.name:
                self._claim_place(place)
            elif not isinstance(item, Node | Pod):  # these have a word of their own for it
                raise InputError(f"{place}: metadata.name is missing", hint=f"every {kind} needs a name")
        self._look_at(record)
        self._records.append(record)

    def finish(self) -> None:
        """Convert what depends on other objects, now that all are there."""
        pods = [record.item for record in self._records if isinstance(record.item, Pod)]
        workloads = [record.item for record in self._records if isinstance(record.item, WORKLOADS)]
        expansion = Expansion(
            owners=Owners(
                ((type(item).__name__, item.metadata) for item in workloads),
                pods,
                [item for item in workloads if isinstance(item, ReplicaSet)],
            ),
            names=Names(pods),
            around=self._around,
            hosts=(*self.hosts, *self._more_hosts),
            specs=self._specs,
            seed_annotations=self._seed_annotations,
        )
        for record in self._records:
            self._convert(record, expansion)
        self._seed_gangs |= expansion.seed_gangs
        members = Counter(guest.gang for guest in self.guests)
        for key in sorted(self._seed_gangs & members.keys() - self.gangs.keys()):
            namespace, _, name = key.partition("/")
            self.gangs[key] = Gang(name=name, namespace=namespace, min_count=members[key])
        for guest in self.guests:
            namespace = guest.spec.namespace
            self.namespaces.setdefault(namespace, ((_NAMESPACE_NAME, namespace),))

    def _look_at(self, record: _Record) -> None:
        """Take in what others depend on."""
        item = record.item
        match item:
            case Node():
                with about(record.source) if record.source else nullcontext():
                    host, notes = node_to_host(item)
                    self._claim_uid("node", host.uid, record.place)
                self.hosts.append(host)
                self.host_sources.append(record.source)
                self._note(record, notes)
            case Namespace():
                self.namespaces[item.metadata.name] = labels(
                    {**item.metadata.labels, _NAMESPACE_NAME: item.metadata.name}
                )
            case Service():
                self._around.add_service(item)
            case PriorityClass():
                with record.about():
                    self._around.add_priority_class(item)
            case ReplicaSet() | ReplicationController() | StatefulSet():
                with record.about():
                    self._around.add_controller(type(item).__name__, item.metadata, selector_of(item))

    def _convert(self, record: _Record, expansion: Expansion) -> None:
        item = record.item
        if isinstance(item, Pod):
            self._convert_pod(record, item)
            return
        with record.about():
            match item:
                case PodDisruptionBudget():
                    budget, notes = read_budget(item, record.place)
                    self.budgets.append(budget)
                    self._note(record, notes)
                case PodGroup():
                    self._add_gang(record, *read_pod_group(item, self._around.priorities, record.place))
                case CrdPodGroup():
                    self._add_gang(record, *read_crd_pod_group(item, record.place))
                case _ if isinstance(item, WORKLOADS):
                    guests, more_notes = expansion.expand(item, record.place)
                    for guest in guests:
                        self._add_guest(record, guest, pod_place(guest.spec.namespace, guest.name))
                    self._note(record, more_notes)

    def _convert_pod(self, record: _Record, pod: Pod) -> None:
        with about(record.source) if record.source else nullcontext():
            guest, notes = pod_to_guest(pod, self._specs, around=self._around, seed_annotations=self._seed_annotations)
            self._note(record, notes)
            if guest is None:
                return
            self._add_guest(record, guest, record.place)
        if self._seed_annotations and has_seed_group(pod):
            self._seed_gangs.add(guest.gang)

    def _add_guest(self, record: _Record, guest: Guest, place: str) -> None:
        check_name(guest.name, "the name of its pod")  # a workload makes it longer
        self._claim_uid("pod", guest.uid, place)
        self.guests.append(guest)
        self.guest_sources.append(record.source)

    def _add_gang(self, record: _Record, gang: Gang, notes: Iterable[Note]) -> None:
        self.gangs[gang.key] = gang
        self._note(record, notes)

    def _note(self, record: _Record, notes: Iterable[Note]) -> None:
        self._notes += ((record.at, note) for note in notes)

    def _claim_place(self, place: str) -> None:
        if place in self._places:
            raise DuplicateNameError(f"{place} is given twice", hint="was the same file given twice?")
        self._places.add(place)

    def _claim_uid(self, kind: str, uid: str, place: str) -> None:
        owner = self._uids.setdefault((kind, uid), place)
        if owner != place:
            raise DuplicateNameError(f"{owner} and {place} have the same uid {uid!r}", hint="drop metadata.uid")
