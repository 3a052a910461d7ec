"""Dumps of a Kubernetes cluster (``kubectl get nodes,pods -A -o json``): pods as guests that come and go.

Objects are read as ``hostler place`` reads them. A pod arrives when it was created. A finished pod holds nothing any
more, but here it counts when its end is known; it ran from its start until its last container ended. The annotations
``creation-time`` and ``deletion-time`` of the openb simulator beat what Kubernetes says. Where pods ran is not kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hostler.config import Document, parse_documents, quote
from hostler.config.times import parse_time
from hostler.errors import DuplicateNameError, InputError, QuantityError
from hostler.manifests import ManifestNote, is_manifest, read_manifests
from hostler.model import Gang, Guest, Host
from hostler.sim.traces.demand import with_chosen_hosts
from hostler.sim.traces.files import read_first_bytes, read_unpacked
from hostler.sim.traces.options import TraceOptions
from hostler.sim.workload import FOREVER, Workload

__all__ = ["CREATION_TIME", "DELETION_TIME", "note_lines", "read_kubernetes", "recognizes_kubernetes", "workload_of"]

CREATION_TIME = "alibabacloud.com/creation-time"
DELETION_TIME = "alibabacloud.com/deletion-time"
_FINISHED = ("Succeeded", "Failed")
_USUAL_HOST = (64_000, 256 * 2**30)
_MAX_DEPTH = 8  # lists in lists


class PodTimes(NamedTuple):
    """When a guest arrived and how long it ran; None if unknown."""

    arrived: int | None = None
    runs: int | None = None


def recognizes_kubernetes(path: Path) -> bool:
    """Say whether a file begins as a manifest of Kubernetes does."""
    head = read_first_bytes(path)
    return b"apiVersion" in head and b"kind" in head and b"hostler/v1" not in head


def read_kubernetes(path: Path, options: TraceOptions) -> Workload:
    """Read nodes and pods of a dump."""
    objects: list[Mapping[str, object]] = []
    times: dict[tuple[str, str], PodTimes] = {}
    for document in parse_documents(read_unpacked(path), str(path)):
        if not is_manifest(document.data) or not isinstance(document.data, Mapping):
            raise InputError(f"{document.where()}: this is no Kubernetes object", hint="give Kubernetes manifests only")
        objects.append(_revived(document.data, str(document.data["kind"]), times, document))
    found = read_manifests(objects, sources=[str(path)] * len(objects))
    for line in note_lines(found.notes):
        options.note(line)
    workload = workload_of(path.name.split(".")[0], found.hosts, found.guests, found.gangs, times, str(path))
    return with_chosen_hosts(workload, options, cpu_milli=_USUAL_HOST[0], memory_bytes=_USUAL_HOST[1])


def workload_of(
    name: str,
    hosts: Sequence[Host],
    guests: Sequence[Guest],
    gangs: Sequence[Gang],
    times: Mapping[tuple[str, str], PodTimes],
    where: str,
) -> Workload:
    """Put guests with their times, by namespace and name, together; who has no time arrives with the first."""
    if not guests:
        raise InputError(f"{where}: there are no guests in it", hint="a trace has at least one")
    of_each = [times.get((guest.spec.namespace, guest.name), PodTimes()) for guest in guests]
    first = min((one.arrived for one in of_each if one.arrived is not None), default=0)
    specs = {spec: number for number, spec in enumerate(dict.fromkeys(guest.spec for guest in guests))}
    keys = {guest.gang for guest in guests if guest.gang}
    known = tuple(gang for gang in gangs if gang.key in keys)
    number_of = {gang.key: number for number, gang in enumerate(known)}
    gang_of = [number_of.get(guest.gang, -1) for guest in guests] if known else []
    return Workload(
        name=name,
        hosts=tuple(hosts),
        specs=tuple(specs),
        spec_of=np.array([specs[guest.spec] for guest in guests], dtype=np.int64),
        names=_names(guests, where),
        arrives_ns=np.array([first if one.arrived is None else one.arrived for one in of_each], dtype=np.int64),
        runs_ns=np.array([FOREVER if one.runs is None else one.runs for one in of_each], dtype=np.int64),
        gangs=known,
        gang_of=np.array(gang_of, dtype=np.int64),
    ).by_arrival()


def _names(guests: Sequence[Guest], where: str) -> list[str]:
    """Return names that differ: one that stands in several namespaces gets the namespace in front."""
    counts = Counter(guest.name for guest in guests)
    names = [g.name if counts[g.name] == 1 else f"{g.spec.namespace}.{g.name}" for g in guests]
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DuplicateNameError(f"{where}: guest {quote(twice)} appears twice", hint="rename or remove one of them")
    return names


def _revived(
    data: Mapping[str, object], kind: str, times: dict[tuple[str, str], PodTimes], document: Document, depth: int = 0
) -> Mapping[str, object]:
    """Note the times of all pods, and return the objects with finished pods as they were before they ended."""
    items = data.get("items")
    if kind.endswith("List") and isinstance(items, list) and depth < _MAX_DEPTH:
        inner = kind.removesuffix("List")
        revived = [
            _revived(item, str(item.get("kind") or inner), times, document, depth + 1)
            if isinstance(item, dict)
            else item
            for item in items
        ]
        return {**data, "items": revived}
    if kind != "Pod":
        return data
    metadata, status = _part(data, "metadata"), _part(data, "status")
    place = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
    found = _times(metadata, status, f"{document.source}: pod {place}")
    namespace, _, name = place.partition("/")
    times[namespace, name] = found
    if found.runs is None:
        return data
    alive = {key: value for key, value in status.items() if key != "phase"}
    kept = {key: value for key, value in metadata.items() if key != "deletionTimestamp"}
    return {**data, "metadata": kept, "status": alive}


def _times(metadata: Mapping[str, object], status: Mapping[str, object], place: str) -> PodTimes:
    annotations = _part(metadata, "annotations")
    created = _time(annotations.get(CREATION_TIME) or metadata.get("creationTimestamp"), place)
    started = None if CREATION_TIME in annotations else _time(status.get("startTime"), place)
    ended = _time(annotations.get(DELETION_TIME), place)
    if ended is None and status.get("phase") in _FINISHED:
        ended = _last_end(status, place)
        if ended is None:
            ended = _time(metadata.get("deletionTimestamp"), place)
    arrived = created if created is not None else started
    if ended is None or arrived is None:
        return PodTimes(arrived)
    begin = started if started is not None else arrived
    if ended < begin:
        raise InputError(f"{place}: it ends before it starts", hint="check its times")
    return PodTimes(arrived, ended - begin)


def _last_end(status: Mapping[str, object], place: str) -> int | None:
    """Return when the last container ended."""
    containers = status.get("containerStatuses")
    ends: list[int] = []
    for container in containers if isinstance(containers, list) else ():
        state = _part(container, "state") if isinstance(container, Mapping) else {}
        end = _time(_part(state, "terminated").get("finishedAt"), place)
        if end is not None:
            ends.append(end)
    return max(ends, default=None)


def _time(value: object, place: str) -> int | None:
    if value is None:
        return None
    try:
        return parse_time(str(value))
    except QuantityError as error:
        raise InputError(f"{place}: {error.message}", hint=error.hint) from None


def _part(data: Mapping[str, object], key: str) -> Mapping[str, object]:
    part = data.get(key)
    return part if isinstance(part, Mapping) else {}


def note_lines(notes: Iterable[ManifestNote]) -> Iterator[str]:
    """Yield what did not count, one line for all objects of a kind."""
    groups: dict[tuple[str, str, str], list[ManifestNote]] = {}
    for one in notes:
        groups.setdefault((one.object.split(" ", 1)[0], one.field, one.text), []).append(one)
    for (kind, _, _), group in groups.items():
        more = f" (and {len(group) - 1:,} more of kind {kind})" if len(group) > 1 else ""
        yield f"{group[0].line()}{more}"
