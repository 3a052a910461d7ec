"""Documents of either kind to fleets: our own format one by one, Kubernetes manifests all together.

A pod means something else when a service, an owner or a priority class stands beside it, whichever file that is in.
So manifests are collected first and read once. Used by ``file_input`` and ``hostler config validate``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hostler.cli.output.terminal import note
from hostler.config import DeclaredFleet, DeclaredTenancy, Document, invalid, kind_of, likely_mistakes, read_fleet
from hostler.engine import BUILT_IN
from hostler.manifests import ManifestNote, Manifests, is_manifest, read_manifests
from hostler.model import Policy

__all__ = ["FleetPart", "is_pod", "read_parts"]


class FleetPart(NamedTuple):
    """The content of one file. Manifests of several files form one part without a source."""

    source: str
    fleet: DeclaredFleet


def read_parts(
    documents: Iterable[Document], known: Mapping[str, Policy], *, seed_annotations: bool = False
) -> list[FleetPart]:
    """Read documents of either kind; print likely mistakes, and what of the manifests does not count."""
    parts: list[FleetPart] = []
    objects: list[Mapping[str, object]] = []
    sources: list[str] = []
    for document in documents:
        if is_manifest(document.data):
            assert isinstance(document.data, Mapping)
            objects.append(document.data)
            sources.append(document.source)
            continue
        _, kind = kind_of(document)
        if kind == "Config":
            raise invalid(document, ("kind",), "is 'Config'", hint=f"give it by --config {document.source}")
        parts.append(FleetPart(document.source, read_fleet(document, _without_repeated(document, known))))
    if objects:
        found = read_manifests(
            objects,
            sources=sources,
            more_hosts=[host for part in parts for host in part.fleet.hosts],
            seed_annotations=seed_annotations,
        )
        _print_notes(found.notes)
        parts += _by_source(found, sources)
    for part in parts:
        for warning in likely_mistakes(part.fleet):
            note(warning, label="warning: ")
    return parts


def is_pod(fleet: DeclaredFleet, index: int) -> bool:
    """Say whether a guest comes from Kubernetes manifests."""
    return fleet.guest_places[index][0].data is None


def _by_source(found: Manifests, sources: Sequence[str]) -> list[FleetPart]:
    parts: list[FleetPart] = []
    for source in dict.fromkeys(sources):
        place = (Document(None, source), ())
        hosts = tuple(host for host, of in zip(found.hosts, found.host_sources, strict=True) if of == source)
        guests = tuple(guest for guest, of in zip(found.guests, found.guest_sources, strict=True) if of == source)
        fleet = DeclaredFleet(
            hosts=hosts, guests=guests, host_places=(place,) * len(hosts), guest_places=(place,) * len(guests)
        )
        parts.append(FleetPart(source, fleet))
    tenancy = DeclaredTenancy(namespaces=found.namespaces, gangs=found.gangs, budgets=found.budgets)
    return [*parts, FleetPart("", DeclaredFleet(tenancy=tenancy))]


def _without_repeated(document: Document, known: Mapping[str, Policy]) -> Mapping[str, Policy]:
    """Leave out what the document declares itself: an output repeats the policies that it was made with."""
    data = document.data
    entries = data.get("policies") if isinstance(data, Mapping) else None
    own = {
        entry["name"]
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
    }
    if not any(name in known and name not in BUILT_IN for name in own):
        return known
    return {name: policy for name, policy in known.items() if name in BUILT_IN or name not in own}


def _print_notes(notes: Sequence[ManifestNote]) -> None:
    """Print what did not count, one line for all objects of a kind that it is true of."""
    groups: dict[tuple[str, str, str], list[ManifestNote]] = {}
    for one in notes:
        groups.setdefault((one.object.split(" ", 1)[0], one.field, one.text), []).append(one)
    for (kind, field, text), group in groups.items():
        more = f" and {len(group) - 1} more of kind {kind}" if len(group) > 1 else ""
        note(f"{group[0].object}{more}: {field} {text}" if field else f"{group[0].object}{more}: {text}")
