"""Files of kind ``Fleet``: hosts and guests in our own format, to the model; and several files put together.

``hostler place``, ``explain`` and ``capacity`` read through here. Facts that come from elsewhere
(Kubernetes manifests) are wrapped in a :class:`DeclaredFleet` and merged with the rest, so that all checks
across files are made in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hostler.config.documents import Document, Place
from hostler.config.entries import check_kind
from hostler.config.fleet.entries import read_guests, read_hosts
from hostler.config.fleet.file import FleetFile
from hostler.config.fleet.tenancy import read_tenancy
from hostler.config.key_paths import Path, did_you_mean, quote
from hostler.config.policies import read_policies
from hostler.config.strict import convert, invalid
from hostler.config.tenancy import DeclaredTenancy, merge_tenancies
from hostler.errors import DuplicateNameError, InputError, UnknownNameError
from hostler.model import Guest, GuestSpec, Host, Policy

__all__ = ["MAX_MEMBERS", "DeclaredFleet", "fleet_of", "merge_fleets", "read_fleet"]

MAX_MEMBERS = 1_000_000  # hosts and guests together, of one file


class DeclaredFleet(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts, guests, what binds them, and policies; the ``places`` say, in the same order, where they stand."""

    hosts: tuple[Host, ...] = ()
    guests: tuple[Guest, ...] = ()
    policies: tuple[Policy, ...] = ()
    policy: str = ""
    tenancy: DeclaredTenancy = DeclaredTenancy()
    host_places: tuple[Place, ...] = ()
    guest_places: tuple[Place, ...] = ()


def read_fleet(document: Document, known_policies: Mapping[str, Policy] | None = None) -> DeclaredFleet:
    """Read a document of kind ``Fleet``; its policies may extend ``known_policies``."""
    check_kind(document, "Fleet")
    return fleet_of(document, convert(document, document.data, FleetFile), known_policies)


def fleet_of(document: Document, file: FleetFile, known_policies: Mapping[str, Policy] | None = None) -> DeclaredFleet:
    """Return the fleet that a file describes, whatever else its kind holds."""
    members = sum(host.count or 1 for host in file.hosts) + sum(guest.count or 1 for guest in file.guests)
    if members > MAX_MEMBERS:
        raise InputError(
            f"{document.source}: it has {members:,} hosts and guests",
            hint=f"one file has at most {MAX_MEMBERS:,}",
        )
    hosts: list[Host] = []
    guests: list[Guest] = []
    host_places: list[Place] = []
    guest_places: list[Place] = []
    specs: dict[GuestSpec, GuestSpec] = {}
    path: Path
    for index, host_entry in enumerate(file.hosts):
        path = ("hosts", index)
        found_hosts = read_hosts(document, path, host_entry)
        hosts += found_hosts
        host_places += [(document, path)] * len(found_hosts)
    for index, guest_entry in enumerate(file.guests):
        path = ("guests", index)
        found_guests = read_guests(document, path, guest_entry, specs)
        guests += found_guests
        guest_places += [(document, path)] * len(found_guests)
    fleet = DeclaredFleet(
        hosts=tuple(hosts),
        guests=tuple(guests),
        policies=read_policies(document, file.policies, ("policies",), known_policies or {}),
        policy=file.policy,
        tenancy=read_tenancy(document, file),
        host_places=tuple(host_places),
        guest_places=tuple(guest_places),
    )
    _refuse_duplicates(fleet)
    return fleet


def merge_fleets(fleets: Sequence[DeclaredFleet]) -> DeclaredFleet:
    """Merge several fleets. Reject duplicate names, and guests on hosts that are not declared."""
    policies = [policy for fleet in fleets for policy in fleet.policies]
    declared: set[str] = set()
    for policy in policies:
        if policy.name in declared:
            raise DuplicateNameError(f"policy {quote(policy.name)} is declared in two files", hint="rename one of them")
        declared.add(policy.name)
    named = sorted({fleet.policy for fleet in fleets if fleet.policy})
    if len(named) > 1:
        raise InputError(
            f"the files name different policies: {', '.join(map(quote, named))}",
            hint="keep one of them, or use --policy",
        )
    fleet = DeclaredFleet(
        hosts=tuple(host for fleet in fleets for host in fleet.hosts),
        guests=tuple(guest for fleet in fleets for guest in fleet.guests),
        policies=tuple(policies),
        policy=named[0] if named else "",
        tenancy=merge_tenancies(fleet.tenancy for fleet in fleets),
        host_places=_places((fleet.host_places, len(fleet.hosts)) for fleet in fleets),
        guest_places=_places((fleet.guest_places, len(fleet.guests)) for fleet in fleets),
    )
    _refuse_duplicates(fleet)
    _check_placements(fleet)
    return fleet


def _places(parts: Iterable[tuple[tuple[Place, ...], int]]) -> tuple[Place, ...]:
    """Join the places of several fleets; a fleet that knows none gets a document without a name."""
    places: list[Place] = []
    for known, length in parts:
        places += known if len(known) == length else [(Document(None, ""), ())] * length
    return tuple(places)


def _refuse_duplicates(fleet: DeclaredFleet) -> None:
    host_names = [host.name for host in fleet.hosts]
    _refuse_twice("host", host_names, fleet.host_places)
    names = [f"{guest.spec.namespace}/{guest.name}" for guest in fleet.guests]
    _refuse_twice("guest", names, fleet.guest_places)
    uids = [guest.uid or name for guest, name in zip(fleet.guests, names, strict=True)]
    _refuse_twice("guest with uid", uids, fleet.guest_places)


def _refuse_twice(what: str, names: Sequence[str], places: Sequence[Place]) -> None:
    if len(set(names)) == len(names):
        return
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if (first := seen.setdefault(name, index)) != index:
            here, there = _where(places, index), _where(places, first)
            raise DuplicateNameError(
                f"{here}{': ' if here else ''}{what} {quote(name.removeprefix('default/'))} is declared twice"
                + (f", first at {there}" if there else ""),
                hint="rename or remove one of them",
            )


def _check_placements(fleet: DeclaredFleet) -> None:
    """Check that guests which already run somewhere name a host and devices that exist."""
    hosts = {host.name: host for host in fleet.hosts}
    for index, guest in enumerate(fleet.guests):
        if not guest.host:
            continue
        host = hosts.get(guest.host)
        if host is None:
            here = _where(fleet.guest_places, index, "host")
            raise UnknownNameError(
                f"{here}{': ' if here else ''}guest {quote(guest.name)} runs on host {quote(guest.host)}, "
                "which is not declared",
                hint=did_you_mean(guest.host, hosts) or "declare the host",
            )
        if guest.on_devices and (problem := _why_not_on(guest, host)):
            document, path = fleet.guest_places[index]
            raise invalid(document, (*path, "on_devices"), problem, hint="devices are counted from 0")


def _why_not_on(guest: Guest, host: Host) -> str | None:
    """Say why the devices that a guest holds cannot be those of its host, or return None."""
    indices = list(guest.on_devices)
    for request in guest.spec.devices:
        held, indices = indices[: request.count], indices[request.count :]
        if len(set(held)) < len(held):
            return "names one device twice for one request"
        for index in held:
            if index >= len(host.devices):
                return f"names device {index}, but host {quote(host.name)} has {len(host.devices)}"
            if host.devices[index].kind != request.kind:
                return f"names device {index} of host {quote(host.name)}, which is no {quote(request.kind)}"
    return None


def _where(places: Sequence[Place], index: int, key: str = "") -> str:
    if index >= len(places):
        return ""
    document, path = places[index]
    return document.where((*path, key) if key else path)
