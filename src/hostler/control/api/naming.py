"""Things that are called by a project and a name: five routes, the same for each kind of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from hostler.control.api.calls import Call
from hostler.control.api.listing import CREATE, DELETE, EDIT, GET, ProjectQuery, etag
from hostler.control.api.routes import Reply, Routes
from hostler.control.api.shapes import Page
from hostler.control.services.callers import Caller
from hostler.control.services.versions import Versions
from hostler.control.store import Connection

__all__ = ["Named", "made"]


class Versioned(Protocol):
    """What has a version."""

    @property
    def version(self) -> int:
        """Return what its ETag says."""
        ...


T = TypeVar("T", bound=Versioned)
Wish_contra = TypeVar("Wish_contra", contravariant=True)
Edit_contra = TypeVar("Edit_contra", contravariant=True)


class Works(Protocol[T, Wish_contra, Edit_contra]):
    """What a module of services does with one kind of things."""

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


def made(found: Versioned, status: int = 200) -> Reply:
    """Answer with a thing and its version."""
    return Reply(status, found, etag(found.version))


class Named(Generic[T, Wish_contra, Edit_contra]):
    """The routes of one kind; each is carried out by the work of that name."""

    def __init__(
        self,
        works: Works[T, Wish_contra, Edit_contra],
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
        """Add the routes; ``words`` says of each work what it is to whoever reads the description."""
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

    async def list_page(self, call: Call) -> Reply:
        """List some of them."""
        asked = call.ask(ProjectQuery)
        found = await call.read(
            lambda connection: self._works.list_page(
                connection, call.caller, project=asked.project, after=asked.after, limit=asked.limit
            )
        )
        return Reply(200, found)

    async def create(self, call: Call) -> Reply:
        """Make one."""
        asked = call.body(self._wish)
        found = await call.write_once(
            lambda connection: self._works.create(connection, asked, call.caller), self._shape
        )
        return made(found, 201)

    async def get(self, call: Call) -> Reply:
        """Show one."""
        project, name = call.part("project"), call.part("name")
        return made(await call.read(lambda connection: self._works.get(connection, project, name, call.caller)))

    async def edit(self, call: Call) -> Reply:
        """Change one."""
        asked, project, name, versions = call.body(self._edit), call.part("project"), call.part("name"), call.versions
        return made(
            await call.write(
                lambda connection: self._works.edit(connection, project, name, asked, call.caller, versions=versions)
            )
        )

    async def delete(self, call: Call) -> Reply:
        """Remove one."""
        project, name, versions = call.part("project"), call.part("name"), call.versions
        await call.write(
            lambda connection: self._works.delete(connection, project, name, call.caller, versions=versions)
        )
        return Reply(204)
