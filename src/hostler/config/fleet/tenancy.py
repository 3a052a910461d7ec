"""Namespaces, gangs, budgets, quotas and reservations of a fleet file, to the model.

Used by :mod:`hostler.config.fleet.input`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import UNSET

from hostler.config.documents import Document, Place
from hostler.config.entries import Quantities, check_name, read_amounts, read_duration
from hostler.config.fleet.constraints import read_labels, read_term
from hostler.config.fleet.file import FleetFile
from hostler.config.fleet.file_tenancy import BudgetEntry, GangEntry, NamespaceEntry, QuotaEntry, ReservationEntry
from hostler.config.fleet.guest_terms import check_namespace, read_gang_name, read_selector
from hostler.config.key_paths import Path
from hostler.config.strict import invalid
from hostler.config.tenancy import DeclaredTenancy, merge_tenancies
from hostler.model import (
    GUESTS,
    Amounts,
    Budget,
    Expression,
    Gang,
    HostShare,
    Labels,
    Quota,
    Reservation,
    Term,
    amount_of,
)

__all__ = ["read_reservation", "read_tenancy"]

E = TypeVar("E")
M = TypeVar("M")


def read_tenancy(document: Document, file: FleetFile) -> DeclaredTenancy:
    """Read everything of a file that is neither host, guest nor policy."""

    def read(key: str, entries: Sequence[E], one: Callable[[Document, Path, E], M]) -> list[tuple[Place, M]]:
        return [((document, (key, at)), one(document, (key, at), entry)) for at, entry in enumerate(entries)]

    parts: list[DeclaredTenancy] = []
    for place, namespace in read("namespaces", file.namespaces, _read_namespace):
        parts.append(DeclaredTenancy(namespaces=dict([namespace]), places={("namespace", namespace[0]): place}))
    for place, gang in read("gangs", file.gangs, _read_gang):
        parts.append(DeclaredTenancy(gangs=(gang,), places={("gang", gang.key): place}))
    for place, budget in read("budgets", file.budgets, _read_budget):
        parts.append(DeclaredTenancy(budgets=(budget,), places={("budget", budget.key): place}))
    for place, quota in read("quotas", file.quotas, _read_quota):
        parts.append(DeclaredTenancy(quotas=(quota,), places={("quota of tenant", quota.tenant): place}))
    for place, reservation in read("reservations", file.reservations, read_reservation):
        parts.append(DeclaredTenancy(reservations=(reservation,), places={("reservation", reservation.name): place}))
    return merge_tenancies(parts)


def _read_namespace(document: Document, path: Path, entry: NamespaceEntry) -> tuple[str, Labels]:
    check_namespace(document, (*path, "name"), entry.name)
    return entry.name, read_labels(document, (*path, "labels"), entry.labels)


def _read_gang(document: Document, path: Path, entry: GangEntry) -> Gang:
    _check_names(document, path, entry)
    if entry.max_count and entry.max_count < entry.min_count:
        raise invalid(
            document,
            (*path, "max_count"),
            f"is {entry.max_count}, below min_count {entry.min_count}",
            hint="raise max_count, or leave it away for any number",
        )
    return Gang(
        name=entry.name,
        namespace=entry.namespace,
        version=entry.version,
        min_count=entry.min_count,
        max_count=entry.max_count,
        priority=entry.priority,
        topology=entry.topology,
        disruption=entry.disruption,
        when_broken=entry.when_broken,
        release_after_ns=read_duration(document, (*path, "release_after"), entry.release_after),
        head_of_line=entry.head_of_line,
    )


def _read_budget(document: Document, path: Path, entry: BudgetEntry) -> Budget:
    _check_names(document, path, entry)
    for index, name in enumerate(entry.disrupted):
        check_name(document, (*path, "disrupted", index), name)
    return Budget(
        name=entry.name,
        namespace=entry.namespace,
        version=entry.version,
        selector=read_selector(document, (*path, "selector"), entry.selector),
        allowed=entry.allowed,
        disrupted=tuple(entry.disrupted),
    )


def _read_quota(document: Document, path: Path, entry: QuotaEntry) -> Quota:
    check_name(document, (*path, "tenant"), entry.tenant)
    least = read_amounts(document, (*path, "min"), entry.min)
    # A zero counts: without it there would be no maximum.
    most = read_amounts(document, (*path, "max"), entry.max, keep_zeros=True)
    for name, limit in most:
        if amount_of(least, name) > limit:
            raise invalid(document, (*path, "max", name), f"is below the min of {name}", hint="raise max or lower min")
    return Quota(tenant=entry.tenant, version=entry.version, min=least, max=most)


def read_reservation(document: Document, path: Path, entry: ReservationEntry) -> Reservation:
    """Read a reservation, which stands at a place of a document; InputError."""
    check_name(document, (*path, "name"), entry.name)
    shares = _read_shares(document, path, entry)
    if not shares and entry.amounts is UNSET:
        raise invalid(document, path, "has no 'amounts'", hint="add the key 'amounts'")
    amounts = () if entry.amounts is UNSET or shares else _read_kept(document, (*path, "amounts"), entry.amounts)
    whom = [key for key in ("tenant", "gang", "selector") if getattr(entry, key) not in ("", UNSET)]
    if len(whom) != 1:
        problem = f"is for {' and '.join(whom)} at once" if whom else "has no owner"
        raise invalid(document, path, problem, hint="give one of tenant, gang and selector")
    if entry.tenant:
        check_name(document, (*path, "tenant"), entry.tenant)
    since = read_duration(document, (*path, "since"), entry.since)
    until = read_duration(document, (*path, "until"), entry.until)
    if until and until <= since:
        raise invalid(document, (*path, "until"), "is not after since", hint="let it end after it begins, or never: 0s")
    return Reservation(
        name=entry.name,
        version=entry.version,
        amounts=amounts,
        hosts=_read_hosts(document, path, entry),
        shares=shares,
        tenant=entry.tenant,
        gang=read_gang_name(document, (*path, "gang"), entry.gang, "default"),
        selector=read_selector(document, (*path, "selector"), entry.selector),
        since=since,
        until=until,
    )


def _read_kept(document: Document, path: Path, values: Quantities) -> Amounts:
    """Read what a host keeps."""
    amounts = read_amounts(document, path, values)
    if not amounts:
        raise invalid(document, path, "reserves nothing", hint="name amounts, such as {cpu: 4}")
    if amount_of(amounts, GUESTS):
        raise invalid(document, (*path, GUESTS), "is no amount", hint="reserve cpu, memory or the like")
    return amounts


def _read_shares(document: Document, path: Path, entry: ReservationEntry) -> tuple[HostShare, ...]:
    """Read what single hosts keep, in order of their names."""
    if not entry.shares:
        return ()
    for key in ("amounts", "hosts", "host_selector"):
        if getattr(entry, key) not in (UNSET, {}, []):
            raise invalid(document, (*path, "shares"), f"cannot stand beside {key}", hint="keep one of them")
    for host in entry.shares:
        check_name(document, (*path, "shares", host), host)
    return tuple(
        HostShare(host, _read_kept(document, (*path, "shares", host), kept))
        for host, kept in sorted(entry.shares.items())
    )


def _read_hosts(document: Document, path: Path, entry: ReservationEntry) -> tuple[Term, ...]:
    if entry.host_selector:
        if entry.hosts:
            raise invalid(document, (*path, "hosts"), "cannot stand beside host_selector", hint="keep one of them")
        labels = read_labels(document, (*path, "host_selector"), entry.host_selector)
        return (Term(tuple(Expression(key, "In", (value,)) for key, value in labels)),)
    return tuple(read_term(document, (*path, "hosts", at), term) for at, term in enumerate(entry.hosts))


def _check_names(document: Document, path: Path, entry: GangEntry | BudgetEntry) -> None:
    """Reject a name with a slash too: it stands between namespace and name."""
    check_namespace(document, (*path, "namespace"), entry.namespace)
    check_name(document, (*path, "name"), entry.name)
    if "/" in entry.name:
        raise invalid(document, (*path, "name"), f"is '{entry.name}'", hint="the namespace has a key of its own")
