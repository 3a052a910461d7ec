"""What stands in a fleet beside hosts and guests: namespaces, gangs, budgets, quotas and reservations, of any origin.

:mod:`hostler.config.fleet_tenancy` reads it from fleet files; commands put in what manifests have, and feed it to the
engine before hosts and guests. :func:`merge_tenancies` makes the checks across files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from hostler.config.documents import Place
from hostler.config.wording import describe, quote
from hostler.errors import DuplicateNameError
from hostler.model import (
    Budget,
    BudgetChanged,
    Event,
    Gang,
    GangChanged,
    Labels,
    NamespaceChanged,
    Quota,
    QuotasChanged,
    Reservation,
    ReservationChanged,
)

__all__ = ["Tenancy", "merge_tenancies", "tenancy_facts"]

_OWN_NAME = "kubernetes.io/metadata.name"  # the label that every namespace of Kubernetes has anyway


class Tenancy(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is neither host nor guest; ``places`` says by kind and key where it stands."""

    namespaces: Mapping[str, Labels] = {}
    gangs: tuple[Gang, ...] = ()
    budgets: tuple[Budget, ...] = ()
    quotas: tuple[Quota, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    places: Mapping[tuple[str, str], Place] = {}

    def names(self) -> Iterable[tuple[str, str]]:
        """Name everything by kind and key, in order; namespaces may be told of twice, so they are left out."""
        yield from (("gang", gang.key) for gang in self.gangs)
        yield from (("budget", budget.key) for budget in self.budgets)
        yield from (("quota of tenant", quota.tenant) for quota in self.quotas)
        yield from (("reservation", reservation.name) for reservation in self.reservations)


def tenancy_facts(tenancy: Tenancy) -> Iterator[Event]:
    """Yield what an engine is told, as far as there is any: before hosts and guests, which depend on it."""
    for name, labels in tenancy.namespaces.items():
        yield NamespaceChanged(name=name, labels=labels)
    for gang in tenancy.gangs:
        yield GangChanged(gang=gang)
    for budget in tenancy.budgets:
        yield BudgetChanged(budget=budget)
    if tenancy.quotas:
        yield QuotasChanged(quotas=tenancy.quotas)
    for reservation in tenancy.reservations:
        yield ReservationChanged(reservation=reservation)


def merge_tenancies(parts: Iterable[Tenancy]) -> Tenancy:
    """Put several together; refuse names that stand twice, and namespaces whose labels contradict each other."""
    parts = list(parts)
    places: dict[tuple[str, str], Place] = {}
    seen: dict[tuple[str, str], Tenancy] = {}
    namespaces: dict[str, Labels] = {}
    for part in parts:
        places |= {key: place for key, place in part.places.items() if key not in places}
        for key in part.names():
            if key in seen:
                raise _twice(*key, part.places.get(key), seen[key].places.get(key))
            seen[key] = part
        for name, labels in part.namespaces.items():
            known = namespaces.get(name, ())
            if _says_nothing(name, labels) or _says_nothing(name, known):
                namespaces[name] = tuple(sorted({*known, *labels}))
            elif labels != known:
                raise _twice("namespace", name, part.places.get(("namespace", name)), places.get(("namespace", name)))
    return Tenancy(
        namespaces=namespaces,
        gangs=tuple(gang for part in parts for gang in part.gangs),
        budgets=tuple(budget for part in parts for budget in part.budgets),
        quotas=tuple(quota for part in parts for quota in part.quotas),
        reservations=tuple(reservation for part in parts for reservation in part.reservations),
        places=places,
    )


def _says_nothing(name: str, labels: Labels) -> bool:
    """Say whether these are the labels of a namespace that was only mentioned."""
    return labels in ((), ((_OWN_NAME, name),))


def _twice(kind: str, name: str, here: Place | None, there: Place | None) -> DuplicateNameError:
    prefix = f"{_where(here)}: " if here is not None else ""
    suffix = f", first at {_where(there)}" if there is not None and there != here else ""
    return DuplicateNameError(
        f"{prefix}{kind} {quote(name.removeprefix('default/'))} is declared twice{suffix}",
        hint="rename or remove one of them",
    )


def _where(place: Place) -> str:
    document, path = place
    where = document.where(path)
    return where if where != document.source or not path else f"{where} ({describe(path)})"
