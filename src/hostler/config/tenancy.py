"""What files declare beside hosts and guests: namespaces, gangs, budgets, quotas and reservations.

:mod:`hostler.config.fleet.tenancy` reads it from fleet files; commands put in what manifests have.
:func:`merge_tenancies` makes the checks across files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hostler.config.documents import Place
from hostler.config.key_paths import describe_path, quote
from hostler.errors import DuplicateNameError
from hostler.model import Labels, Tenancy

__all__ = ["DeclaredTenancy", "merge_tenancies"]

_OWN_NAME = "kubernetes.io/metadata.name"  # the label that every namespace of Kubernetes has anyway


class DeclaredTenancy(Tenancy, frozen=True, kw_only=True):
    """What files declare; ``places`` says by kind and key where it stands."""

    places: Mapping[tuple[str, str], Place] = {}


def merge_tenancies(parts: Iterable[DeclaredTenancy]) -> DeclaredTenancy:
    """Merge several. Reject duplicate names, and namespaces whose labels contradict each other."""
    parts = list(parts)
    places: dict[tuple[str, str], Place] = {}
    seen: dict[tuple[str, str], DeclaredTenancy] = {}
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
    return DeclaredTenancy(
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
    return where if where != document.source or not path else f"{where} ({describe_path(path)})"
