"""Host and guest entries of a fleet file to the model, ``count`` expanded.

Used by :mod:`hostler.config.fleet.input`.
"""

from __future__ import annotations

import msgspec

from hostler.config.documents import Document
from hostler.config.entries import check_name, read_amounts, read_ratios, read_sizes
from hostler.config.fleet.constraints import (
    read_device_requests,
    read_devices,
    read_labels,
    read_taints,
    read_term,
    read_tolerations,
)
from hostler.config.fleet.file import GuestEntry, HostEntry
from hostler.config.fleet.guest_terms import (
    check_namespace,
    read_gang_name,
    read_guest_terms,
    read_ports,
    read_selector,
    read_spreads,
    read_weighted_guest_terms,
)
from hostler.config.key_paths import Path
from hostler.config.strict import invalid, with_location
from hostler.config.times import parse_time
from hostler.errors import InputError, QuantityError
from hostler.model import GUESTS, Guest, GuestSpec, Host, WeightedTerm, may_give

__all__ = ["read_guests", "read_hosts"]


def read_hosts(document: Document, path: Path, entry: HostEntry) -> list[Host]:
    """Read one entry: one host, or ``count`` of them."""
    names = _expand(document, path, entry)
    host = Host(
        name=names[0],
        uid=entry.uid or names[0],
        version=entry.version,
        # A limit of no guests at all counts: without it any number would fit.
        capacity=tuple(
            pair
            for pair in read_amounts(document, (*path, "capacity"), entry.capacity, keep_zeros=True)
            if pair[1] or pair[0] == GUESTS
        ),
        devices=read_devices(document, (*path, "devices"), entry.devices) if entry.devices else (),
        labels=read_labels(document, (*path, "labels"), entry.labels),
        taints=read_taints(document, (*path, "taints"), entry.taints) if entry.taints else (),
        cordoned=entry.cordoned,
        images=read_sizes(document, (*path, "images"), entry.images) if entry.images else (),
        overcommit=read_ratios(document, (*path, "overcommit"), entry.overcommit),
        # A zero counts: it beats what the policy reserves.
        reserve=read_amounts(document, (*path, "reserve"), entry.reserve, keep_zeros=True),
        rank=entry.rank,
        draw_key=entry.draw_key,
    )
    for resource, _ in host.overcommit:
        try:
            may_give(host, resource)
        except InputError as error:
            raise with_location(document, (*path, "overcommit", resource), error) from None
    if len(names) == 1:
        return [host]
    return [msgspec.structs.replace(host, name=name, uid=name) for name in names]


def read_guests(document: Document, path: Path, entry: GuestEntry, specs: dict[GuestSpec, GuestSpec]) -> list[Guest]:
    """Read one entry: one guest, or ``count`` of them; equal specs become one object, kept in ``specs``."""
    names = _expand(document, path, entry)
    check_namespace(document, (*path, "namespace"), entry.namespace)
    spec = _read_spec(document, path, entry)
    spec = specs.setdefault(spec, spec)
    on_devices = tuple(entry.on_devices)
    if on_devices:
        wanted = sum(request.count for request in spec.devices)
        if not entry.host:
            raise invalid(document, path, "has 'on_devices' but no 'host'", hint="name the host where it runs")
        if len(on_devices) != wanted:
            raise invalid(
                document,
                (*path, "on_devices"),
                f"names {len(on_devices)} devices, not {wanted}",
                hint="name one for each device that the guest asks for",
            )
    if entry.is_leaving and not entry.host:
        raise invalid(document, path, "has 'is_leaving' but no 'host'", hint="name the host that it leaves")
    if entry.draw_key is not None and entry.draw_key >= 2**64:
        raise invalid(document, (*path, "draw_key"), "is too large", hint="it is below 2^64")
    started = _read_started(document, path, entry)
    gang = read_gang_name(document, (*path, "gang"), entry.gang, entry.namespace)
    return [
        Guest(
            name=name,
            uid=entry.uid or f"{entry.namespace}/{name}",
            version=entry.version,
            spec=spec,
            host=entry.host,
            on_devices=on_devices,
            started=started,
            gang=gang,
            draw_key=entry.draw_key,
        )
        for name in names
    ]


def _read_spec(document: Document, path: Path, entry: GuestEntry) -> GuestSpec:
    return GuestSpec(
        requests=read_amounts(document, (*path, "requests"), entry.requests),
        scored_requests=read_amounts(document, (*path, "scored_requests"), entry.scored_requests),
        devices=read_device_requests(document, (*path, "devices"), entry.devices) if entry.devices else (),
        priority=entry.priority,
        policy=entry.policy,
        host_name=entry.host_name,
        host_selector=read_labels(document, (*path, "host_selector"), entry.host_selector),
        host_affinity=tuple(
            read_term(document, (*path, "host_affinity", index), term) for index, term in enumerate(entry.host_affinity)
        ),
        preferred_hosts=tuple(
            WeightedTerm(one.weight, read_term(document, (*path, "preferred_hosts", index, "term"), one.term))
            for index, one in enumerate(entry.preferred_hosts)
        ),
        tolerations=read_tolerations(document, (*path, "tolerations"), entry.tolerations) if entry.tolerations else (),
        namespace=entry.namespace,
        labels=read_labels(document, (*path, "labels"), entry.labels),
        affinity=read_guest_terms(document, (*path, "affinity"), entry.affinity),
        anti_affinity=read_guest_terms(document, (*path, "anti_affinity"), entry.anti_affinity),
        preferred_affinity=read_weighted_guest_terms(document, (*path, "preferred_affinity"), entry.preferred_affinity),
        preferred_anti_affinity=read_weighted_guest_terms(
            document, (*path, "preferred_anti_affinity"), entry.preferred_anti_affinity
        ),
        spread=read_spreads(document, (*path, "spread"), entry.spread),
        siblings=read_selector(document, (*path, "siblings"), entry.siblings),
        ports=read_ports(document, (*path, "ports"), entry.ports),
        images=tuple(entry.images),
        tenant=entry.tenant,
        may_preempt=entry.may_preempt,
        is_leaving=entry.is_leaving,
        unsupported=tuple(entry.unsupported),
        prepare=tuple(entry.prepare),
    )


def _read_started(document: Document, path: Path, entry: GuestEntry) -> int:
    if not entry.started:
        return 0
    try:
        return parse_time(entry.started)
    except QuantityError as error:
        raise with_location(document, (*path, "started"), error) from None


def _expand(document: Document, path: Path, entry: HostEntry | GuestEntry) -> list[str]:
    """Return the entry's names: its own, or NAME-0, NAME-1 and so on."""
    check_name(document, (*path, "name"), entry.name)
    if entry.count is None:
        return [entry.name]
    for key in ("uid", "draw_key"):
        if getattr(entry, key, None):
            raise invalid(document, (*path, key), "cannot stand beside 'count'", hint="each one needs its own")
    names = [f"{entry.name}-{number}" for number in range(entry.count)]
    check_name(document, (*path, "name"), names[-1])
    return names
