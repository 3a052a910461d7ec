"""Resources that are named by a project and a name: five routes, the same for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from hostler.control.api.requests.call import ApiCall
from hostler.control.api.requests.route import Reply, Routes
from hostler.control.api.routes.lists import CREATE, DELETE, EDIT, GET, ProjectQuery, etag
from hostler.control.schemas import Page
from hostler.control.services.callers import Caller
from hostler.control.services.versions import Versions
from hostler.control.store import Connection

__all__ = ["NamedRoutes", "created_reply"]


class Versioned(Protocol):
    """A resource with a version."""

    @property
    def version(self) -> int:
        """Return the version of its ETag."""
        ...


T = TypeVar("T", bound=Versioned)
Wish_contra = TypeVar("Wish_contra", contravariant=True)
Edit_contra = TypeVar("Edit_contra", contravariant=True)


class ResourceService(Protocol[T, Wish_contra, Edit_contra]):
    """The operations that a module of services has for one kind of resource."""

    def list_page(self, connection: Connection, caller: Caller, *, project: str, after: str, limit: int) -> Page[T]: ...

    def create(self, connection: Connection, asked: Wish_contra, caller: Caller) -> T: ...

    def get(self, connection: Connection, project: str, name: str, caller: Caller) -> T: ...

    def edit(
        self,
        connection: Connection,
        project: str,
        name: str,
        asked: Edit_contra,
        caller: Caller,
        *,
        versions: Versions = None,
    ) -> T: ...

    def delete(
        self, connection: Connection, project: str, name: str, caller: Caller, *, versions: Versions = None
    ) -> None: ...


def created_reply(found: Versioned, status: int = 200) -> Reply:
    """Answer with a resource and its version."""
    return Reply(status, found, etag(found.version))


class NamedRoutes(Generic[T, Wish_contra, Edit_contra]):
    """The routes of one kind. Each calls the operation of the same name."""

    def __init__(
        self,
        works: ResourceService[T, Wish_contra, Edit_contra],
        shape: type[T],
        page: type[Page[T]],
        wish: type[Wish_contra],
        edit: type[Edit_contra],
    ) -> None:
        self._works = works
        self._shape = shape
        self._page = page
        self._wish = wish
        self._edit = edit

    def declare(self, routes: Routes, kind: str, words: Mapping[str, str]) -> None:
        """Add the routes; ``words`` has the description of each operation."""
        all_of, one = f"/v1/{kind}s", f"/v1/{kind}s/{{project}}/{{name}}"
        read, change, delete = f"{kind}.read", f"{kind}.change", f"{kind}.delete"
        shape = {200: self._shape}
        routes.add("GET", all_of, words["list"], query=ProjectQuery, answers={200: self._page}, permission=read)(
            self.list_page
        )
        routes.add(
            "POST", all_of, words["create"], body=self._wish, answers={201: self._shape}, permission=change, **CREATE
        )(self.create)
        routes.add("GET", one, words["get"], answers=shape, permission=read, **GET)(self.get)
        routes.add("PATCH", one, words["edit"], body=self._edit, answers=shape, permission=change, **EDIT)(self.edit)
        routes.add("DELETE", one, words["delete"], permission=delete, **DELETE)(self.delete)

    async def list_page(self, call: ApiCall) -> Reply:
        """List resources."""
        asked = call.ask(ProjectQuery)
        found = await call.read(
            lambda connection: self._works.list_page(
                connection, call.caller, project=asked.project, after=asked.after, limit=asked.limit
            )
        )
        return Reply(200, found)

    async def create(self, call: ApiCall) -> Reply:
        """Create a resource."""
        asked = call.body(self._wish)
        found = await call.write_once(
            lambda connection: self._works.create(connection, asked, call.caller), self._shape
        )
        return created_reply(found, 201)

    async def get(self, call: ApiCall) -> Reply:
        """Get a resource."""
        project, name = call.part("project"), call.part("name")
        return created_reply(
            await call.read(lambda connection: self._works.get(connection, project, name, call.caller))
        )

    async def edit(self, call: ApiCall) -> Reply:
        """Edit a resource."""
        asked, project, name, versions = call.body(self._edit), call.part("project"), call.part("name"), call.versions
        return created_reply(
            await call.write(
                lambda connection: self._works.edit(connection, project, name, asked, call.caller, versions=versions)
            )
        )

    async def delete(self, call: ApiCall) -> Reply:
        """Delete a resource."""
        project, name, versions = call.part("project"), call.part("name"), call.versions
        await call.write(
            lambda connection: self._works.delete(connection, project, name, call.caller, versions=versions)
        )
        return Reply(204)
