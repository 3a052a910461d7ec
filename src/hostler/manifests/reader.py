"""All objects of one input, put together: hosts, guests, namespaces, gangs and budgets.

Objects come one by one, or in lists as ``kubectl get -o json`` prints them, in any order. The meaning of a pod depends
on services, owners and priority classes in the same input. So :meth:`ManifestReader.add` first decodes and registers
everything, and :meth:`ManifestReader.finish` then converts pods and expands workloads. Unknown kinds are noted and
skipped, so ``kubectl get all -o json`` works as input. Used by the command line and the simulator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import msgspec

from hostler.errors import DuplicateNameError, InputError
from hostler.manifests.budgets import read_budget
from hostler.manifests.decoder import Object, list_item_kind, place_of, read_object, struct_of
from hostler.manifests.nodes import node_to_host
from hostler.manifests.objects.core import Node, Pod
from hostler.manifests.objects.policies import (
    CrdPodGroup,
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Service,
)
from hostler.manifests.objects.workloads import ReplicaSet, ReplicationController, StatefulSet
from hostler.manifests.places import ManifestNote, about, check_keys, check_name, pod_place
from hostler.manifests.pods.gangs import has_seed_group, read_crd_pod_group, read_pod_group
from hostler.manifests.pods.guests import pod_to_guest
from hostler.manifests.pods.surroundings import Surroundings
from hostler.manifests.workloads.missing_pods import WORKLOADS, WorkloadExpansion
from hostler.manifests.workloads.owners import Owners
from hostler.manifests.workloads.replicas import PodNames, selector_of
from hostler.model import Budget, Gang, Guest, GuestSpec, Host, Labels, labels

__all__ = ["ManifestReader", "Manifests", "is_manifest", "read_manifests"]

_NAMESPACE_NAME = "kubernetes.io/metadata.name"  # the API server gives every namespace this label


class _Record(msgspec.Struct, frozen=True):
    """One object: its place in the input, its name, and its file."""

    at: int
    item: Object
    place: str
    source: str

    def about(self) -> AbstractContextManager[None]:
        """Prefix errors raised inside with the object's name."""
        return about(f"{self.source}: {self.place}" if self.source else self.place)


class ManifestReader:
    """The objects read so far, and the names and uids in use."""

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
        self._notes: list[tuple[int, ManifestNote]] = []
        self._specs: dict[GuestSpec, GuestSpec] = {}
        self._places: set[str] = set()
        self._uids: dict[tuple[str, str], str] = {}

    @property
    def notes(self) -> tuple[ManifestNote, ...]:
        """Return the notes in the order of their objects."""
        return tuple(note for _, note in sorted(self._notes, key=lambda entry: entry[0]))

    def add(self, version: str, kind: str, data: Mapping[str, object], source: str = "") -> None:
        """Add an object; an unknown kind is noted and ignored."""
        self._count += 1
        struct = struct_of(version, kind)
        place = place_of(struct, kind, data)
        if struct is None:
            self._notes.append((self._count, ManifestNote(place, "", "ignored")))
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
        """Convert what depends on other objects, now that all are known."""
        pods = [record.item for record in self._records if isinstance(record.item, Pod)]
        workloads = [record.item for record in self._records if isinstance(record.item, WORKLOADS)]
        expansion = WorkloadExpansion(
            owners=Owners(
                ((type(item).__name__, item.metadata) for item in workloads),
                pods,
                [item for item in workloads if isinstance(item, ReplicaSet)],
            ),
            names=PodNames(pods),
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
        """Register what other objects depend on."""
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

    def _convert(self, record: _Record, expansion: WorkloadExpansion) -> None:
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

    def _add_gang(self, record: _Record, gang: Gang, notes: Iterable[ManifestNote]) -> None:
        self.gangs[gang.key] = gang
        self._note(record, notes)

    def _note(self, record: _Record, notes: Iterable[ManifestNote]) -> None:
        self._notes += ((record.at, note) for note in notes)

    def _claim_place(self, place: str) -> None:
        if place in self._places:
            raise DuplicateNameError(f"{place} is given twice", hint="was the same file given twice?")
        self._places.add(place)

    def _claim_uid(self, kind: str, uid: str, place: str) -> None:
        owner = self._uids.setdefault((kind, uid), place)
        if owner != place:
            raise DuplicateNameError(f"{owner} and {place} have the same uid {uid!r}", hint="drop metadata.uid")


OWN_GROUP = "hostler/"
_Item: TypeAlias = tuple[str, str, Mapping[str, object]]
_MAX_DEPTH = 8  # lists in lists


class Manifests(msgspec.Struct, frozen=True):
    """The content of a set of Kubernetes objects, in the order given, and notes on ignored fields.

    ``namespaces`` has the labels of every namespace that is given or that a guest is in. The sources, in the order of
    hosts and guests, are those passed to ``read_manifests``.
    """

    hosts: tuple[Host, ...] = ()
    guests: tuple[Guest, ...] = ()
    notes: tuple[ManifestNote, ...] = ()
    namespaces: dict[str, Labels] = {}
    gangs: tuple[Gang, ...] = ()
    budgets: tuple[Budget, ...] = ()
    host_sources: tuple[str, ...] = ()
    guest_sources: tuple[str, ...] = ()


def is_manifest(data: object) -> bool:
    """Say whether data is a Kubernetes object, and not our own format or something else."""
    if not isinstance(data, Mapping):
        return False
    version, kind = data.get("apiVersion"), data.get("kind")
    return isinstance(version, str) and isinstance(kind, str) and not version.startswith(OWN_GROUP)


def read_manifests(
    objects: Iterable[Mapping[str, object]],
    *,
    sources: Sequence[str] = (),
    more_hosts: Iterable[Host] = (),
    seed_annotations: bool = False,
) -> Manifests:
    """Read all Kubernetes objects of an input together; pods of equal content share one spec object.

    ``sources`` has the file of each object, in the order of ``objects``. ``more_hosts`` come from elsewhere and get
    daemons too. ``seed_annotations`` enables the annotations ``priority`` and ``pod-group`` of pods: a gang then needs
    all members in the input. It is off by default, because any user could raise the priority of a pod.
    """
    reader = ManifestReader(seed_annotations=seed_annotations, more_hosts=more_hosts)
    for at, data in enumerate(objects):
        source = sources[at] if sources else ""
        for version, kind, item in _items(data, where=source):
            reader.add(version, kind, item, source)
    reader.finish()
    return Manifests(
        hosts=tuple(reader.hosts),
        guests=tuple(reader.guests),
        notes=reader.notes,
        namespaces=reader.namespaces,
        gangs=tuple(reader.gangs.values()),
        budgets=tuple(reader.budgets),
        host_sources=tuple(reader.host_sources) if sources else (),
        guest_sources=tuple(reader.guest_sources) if sources else (),
    )


def _items(
    data: object, *, where: str = "", item_version: str = "", item_kind: str = "", path: str = "", depth: int = 0
) -> Iterator[_Item]:
    """Iterate over an object, or over the items of a list, with the version and kind of each."""
    prefix = "".join(f"{part}: " for part in (where, path) if part)
    if not isinstance(data, Mapping):
        raise InputError(f"{prefix}not a Kubernetes object", hint="an object is a mapping with apiVersion and kind")
    version = data.get("apiVersion") or item_version
    kind = data.get("kind") or item_kind
    if not isinstance(version, str) or not isinstance(kind, str) or not version or not kind:
        raise InputError(
            f"{prefix}an object has no apiVersion or no kind", hint="a Pod has apiVersion: v1 and kind: Pod"
        )
    inner_kind = list_item_kind(version, kind)
    if inner_kind is None:
        yield version, kind, data
        return
    items = data.get("items") or ()
    if depth >= _MAX_DEPTH or isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        raise InputError(
            f"{prefix}{kind}: items is not a list of objects", hint="kubectl get -o json prints such lists"
        )
    for at, item in enumerate(items):
        yield from _items(
            item,
            where=where,
            item_version=version if inner_kind else "",
            item_kind=inner_kind,
            path=f"{path}.items[{at}]" if path else f"items[{at}]",
            depth=depth + 1,
        )
