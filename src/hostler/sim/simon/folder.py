"""A folder of Kubernetes objects, read as ``simon`` does: every YAML file in it, at any depth, all together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from hostler.config import Document, quote, read_documents
from hostler.errors import DuplicateNameError, InputError
from hostler.manifests import is_manifest, read_manifests
from hostler.manifests.places import about
from hostler.manifests.pods.gpus import GPU_INDEX, gpu_indices
from hostler.model import Guest, GuestSpec, Host, Labels
from hostler.model.hosts import HOSTNAME, with_hostname
from hostler.sim.simon.keys import WarningSink
from hostler.sim.topology import HIER
from hostler.sim.traces.kubernetes import CREATION_TIME, DELETION_TIME, note_lines

__all__ = ["SimonFolder", "SimonPod", "pod_key", "read_folder"]

_SUFFIXES = (".yaml", ".yml")
_MAX_DEPTH = 8  # lists in lists


@dataclass(frozen=True, slots=True)
class SimonPod:
    """A pod of the input: the guest, and when it was created, as its annotation says."""

    guest: Guest
    created: str = ""

    @property
    def spec(self) -> GuestSpec:
        """Return what it asks for."""
        return self.guest.spec

    @property
    def key(self) -> str:
        """Return namespace and name."""
        return pod_key(self.guest)

    def clone(self, suffix: str) -> SimonPod:
        """Return a clone under a longer name, which runs nowhere."""
        clone = msgspec.structs.replace(self.guest, name=self.guest.name + suffix, uid="", host="", on_devices=())
        return replace(self, guest=clone)


@dataclass(frozen=True, slots=True)
class SimonFolder:
    """What a folder holds: nodes and pods by name."""

    hosts: tuple[Host, ...]
    pods: tuple[SimonPod, ...]
    namespaces: Mapping[str, Labels]


def pod_key(guest: Guest) -> str:
    """Return namespace and name of a pod."""
    return f"{guest.spec.namespace}/{guest.name}"


def read_folder(folder: Path, warn: WarningSink, more_hosts: Sequence[Host] = ()) -> SimonFolder:
    """Read all objects of a folder; ``more_hosts`` are there already, so that daemons run on them too."""
    files = _files(folder, warn)
    objects: list[Mapping[str, object]] = []
    sources: list[str] = []
    annotations: dict[str, Mapping[str, str]] = {}
    for document in read_documents([str(file) for file in files]):
        if not is_manifest(document.data) or not isinstance(document.data, Mapping):
            raise InputError(
                f"{document.where()}: this is no Kubernetes object",
                hint="every YAML file of the folder counts: keep other files elsewhere",
            )
        objects.append(document.data)
        sources.append(document.source)
        annotations.update(_annotations(document))
    try:
        found = read_manifests(objects, sources=sources, more_hosts=more_hosts)
    except DuplicateNameError as error:
        hint = f"every YAML file of {folder} counts: is there a copy of the same objects?"
        raise DuplicateNameError(error.message, hint=hint) from error
    for line in note_lines(note for note in found.notes if GPU_INDEX not in note.field):  # that one counts here
        warn(line)
    hosts = tuple(with_hostname(host) for host in sorted(found.hosts, key=lambda host: host.name))
    pods = _pods(found.guests, annotations, {host.name for host in (*hosts, *more_hosts)}, warn)
    return SimonFolder(hosts, pods, found.namespaces)


def _files(folder: Path, warn: WarningSink) -> list[Path]:
    """Find the files; both copies of a cluster in one folder would double it."""
    if folder.is_file():
        return [folder]
    files = sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES and path.is_file())
    stems = {path.with_suffix(""): path for path in files}
    for stem, path in stems.items():
        twin = stems.get(stem.with_name(stem.name + HIER))
        if twin is not None:
            raise DuplicateNameError(
                f"{folder} has both {path.name} and {twin.name}, and every YAML file of it counts",
                hint="keep one of them there: together they would double the cluster",
            )
    if not files:
        raise InputError(f"{folder}: there are no YAML files in it", hint="it needs nodes and pods as .yaml files")
    stores = [path.name for path in folder.rglob("*.json")]
    if stores:
        warn(f"{folder}: {stores[0]}{' and others' if len(stores) > 1 else ''}: local storage does not count")
    return files


def _annotations(document: Document) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the annotations of every pod, by namespace and name."""
    waiting: list[tuple[object, int]] = [(document.data, 0)]
    while waiting:
        data, depth = waiting.pop()
        if not isinstance(data, Mapping):
            continue
        items = data.get("items")
        if isinstance(items, list) and depth < _MAX_DEPTH:
            waiting += ((item, depth + 1) for item in items)
        metadata = data.get("metadata")
        if not isinstance(metadata, Mapping) or data.get("kind") not in ("Pod", None):
            continue
        marks = metadata.get("annotations")
        if isinstance(marks, Mapping):
            texts = {key: value for key, value in marks.items() if isinstance(value, str)}
            yield f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}", texts


def _pods(
    guests: Sequence[Guest], annotations: Mapping[str, Mapping[str, str]], hosts: set[str], warn: WarningSink
) -> tuple[SimonPod, ...]:
    known: dict[GuestSpec, GuestSpec] = {}
    pods: list[SimonPod] = []
    dropped = {"priorities": 0, "gangs": 0, "deletion times": 0, "gpu indices without a node": 0}
    for guest in sorted(guests, key=lambda guest: (guest.name, guest.spec.namespace)):
        marks = annotations.get(pod_key(guest), {})
        spec = guest.spec
        dropped["priorities"] += spec.priority != 0
        dropped["gangs"] += bool(guest.gang)
        dropped["deletion times"] += DELETION_TIME in marks
        if spec.priority:
            spec = msgspec.structs.replace(spec, priority=0)
        spec = known.setdefault(spec, spec)
        guest = msgspec.structs.replace(guest, spec=spec, gang="", uid="", version=0)
        if GPU_INDEX in marks and not guest.host:
            selector = dict(spec.host_selector)
            if HOSTNAME in selector:
                with about(f"pod {pod_key(guest)}"):
                    devices = gpu_indices(marks, spec.devices)
                guest = msgspec.structs.replace(guest, host=selector[HOSTNAME], on_devices=devices)
            else:
                dropped["gpu indices without a node"] += 1
        if guest.host and guest.host not in hosts:
            raise InputError(
                f"pod {pod_key(guest)} is on node {quote(guest.host)}, which is not there",
                hint="add the node, or take nodeName or the node selector away",
            )
        pods.append(SimonPod(guest, marks.get(CREATION_TIME, "")))
    for what, count in dropped.items():
        if count:
            warn(f"{what} of {count:,} pods do not count: pods are decided one by one, and stay")
    return tuple(pods)
