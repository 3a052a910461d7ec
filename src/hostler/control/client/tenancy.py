"""Calls for projects, quotas, reservations and gangs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Generic, TypeVar

from hostler.control.client.errors import NotAllowedError, ServerNotFoundError
from hostler.control.client.wire import Wire, list_items, path_of
from hostler.control.schemas import (
    Gang,
    GangCreate,
    GangEdit,
    Page,
    Project,
    ProjectCreate,
    ProjectEdit,
    Quota,
    QuotaCreate,
    QuotaEdit,
    Reservation,
    ReservationCreate,
    ReservationEdit,
)

__all__ = ["Documents", "check_project", "gangs", "projects", "quotas", "reservations"]

T = TypeVar("T")
Wish = TypeVar("Wish")
Edit = TypeVar("Edit")


class Documents(Generic[T, Wish, Edit]):
    """Resources that are named by a project alone, or by a project and a name."""

    def __init__(self, wire: Wire, kind: str, shape: type[T], page: type[Page[T]]) -> None:
        self._wire = wire
        self._kind = kind
        self._shape = shape
        self._page = page

    def create(self, wish: Wish) -> T:
        """Create a resource."""
        return self._wire.change("POST", path_of(self._kind), self._shape, body=wish)

    def list(self, *, project: str = "") -> Iterator[T]:
        """Return all resources, or those of a project, page by page."""
        return list_items(self._wire, path_of(self._kind), self._page, {"project": project})

    def get(self, *name: str) -> T:
        """Return one resource."""
        return self._wire.read(path_of(self._kind, *name), self._shape)

    def edit(self, edit: Edit, *name: str, version: str = "") -> T:
        """Change a resource; if a version is given, only at that version."""
        return self._wire.change("PATCH", path_of(self._kind, *name), self._shape, body=edit, version=version)

    def delete(self, *name: str) -> None:
        """Delete a resource."""
        self._wire.remove(path_of(self._kind, *name))


def check_project(wire: Wire, name: str) -> None:
    """Reject a project that does not exist, as far as the key may see projects; ServerNotFoundError."""
    try:
        projects(wire).get(name)
    except ServerNotFoundError:
        with suppress(NotAllowedError):  # to a key that may read no projects, none seems to be there
            next(projects(wire).list(), None)
            raise


def projects(wire: Wire) -> Documents[Project, ProjectCreate, ProjectEdit]:
    """Return the calls for projects; each is named by its name."""
    return Documents(wire, "projects", Project, Page[Project])


def quotas(wire: Wire) -> Documents[Quota, QuotaCreate, QuotaEdit]:
    """Return the calls for quotas; each is named by its project."""
    return Documents(wire, "quotas", Quota, Page[Quota])


def reservations(wire: Wire) -> Documents[Reservation, ReservationCreate, ReservationEdit]:
    """Return the calls for reservations; each is named by project and name."""
    return Documents(wire, "reservations", Reservation, Page[Reservation])


def gangs(wire: Wire) -> Documents[Gang, GangCreate, GangEdit]:
    """Return the calls for gangs; each is named by project and name."""
    return Documents(wire, "gangs", Gang, Page[Gang])
