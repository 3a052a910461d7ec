"""Projects and gangs."""

from __future__ import annotations

from dataclasses import replace

from hostler.control.api.calls import Call
from hostler.control.api.listing import CREATE, DELETE, EDIT, GET, PageQuery
from hostler.control.api.naming import Named, made
from hostler.control.api.routes import Reply, Routes
from hostler.control.api.shapes import (
    Gang,
    GangCreate,
    GangEdit,
    Page,
    Project,
    ProjectCreate,
    ProjectEdit,
)
from hostler.control.services import gangs, projects

__all__ = ["ROUTES"]

ROUTES = Routes("tenancy")

_PROJECT = "/v1/projects/{name}"


@ROUTES.add(
    "GET", "/v1/projects", "List projects", query=PageQuery, answers={200: Page[Project]}, permission="project.read"
)
async def list_projects(call: Call) -> Reply:
    """List projects by name."""
    asked = call.ask(PageQuery)
    found = await call.read(
        lambda connection: projects.list_page(connection, call.caller, after=asked.after, limit=asked.limit)
    )
    return Reply(200, found)


@ROUTES.add(
    "POST",
    "/v1/projects",
    "Create a project",
    body=ProjectCreate,
    answers={201: Project},
    permission="project.create",
    **CREATE,
)
async def create_project(call: Call) -> Reply:
    """Create a project."""
    asked = call.body(ProjectCreate)
    found = await call.write_once(lambda connection: projects.create(connection, asked, call.caller), Project)
    return made(found, 201)


@ROUTES.add("GET", _PROJECT, "Get a project", answers={200: Project}, permission="project.read", **GET)
async def get_project(call: Call) -> Reply:
    """Get a project."""
    found = await call.read(lambda connection: projects.get(connection, call.part("name"), call.caller))
    return made(found)


@ROUTES.add(
    "PATCH",
    _PROJECT,
    "Edit a project",
    body=ProjectEdit,
    answers={200: Project},
    permission="project.change",
    **EDIT,
)
async def edit_project(call: Call) -> Reply:
    """Edit a project."""
    asked, name, versions = call.body(ProjectEdit), call.part("name"), call.versions
    return made(
        await call.write(lambda connection: projects.edit(connection, name, asked, call.caller, versions=versions))
    )


@ROUTES.add("DELETE", _PROJECT, "Delete a project that has no VMs", permission="project.delete", **DELETE)
async def delete_project(call: Call) -> Reply:
    """Delete a project, with its gangs, quotas, reservations and keys."""
    name, versions = call.part("name"), call.versions
    revoked = await call.write(lambda connection: projects.delete(connection, name, call.caller, versions=versions))
    for key in revoked:
        call.context.doorkeeper.forget(key)
    return Reply(204)


class _Gangs(Named[Gang, GangCreate, GangEdit]):
    """Gangs that say whether a search for room for them goes on; a new one has none yet."""

    async def list_page(self, call: Call) -> Reply:
        """List some of them."""
        return _with_search(call, await super().list_page(call))

    async def get(self, call: Call) -> Reply:
        """Show one."""
        return _with_search(call, await super().get(call))

    async def edit(self, call: Call) -> Reply:
        """Change one."""
        return _with_search(call, await super().edit(call))


def _with_search(call: Call, reply: Reply) -> Reply:
    found, gathers = reply.body, call.context.books.gathers
    if isinstance(found, Gang):
        return replace(reply, body=gangs.with_search(found, gathers))
    if isinstance(found, Page):
        items = [gangs.with_search(one, gathers) for one in found.items]
        return replace(reply, body=Page(items=items, next=found.next))
    return reply


_Gangs(gangs, Gang, Page[Gang], GangCreate, GangEdit).declare(
    ROUTES,
    "gang",
    {
        "list": "List gangs",
        "create": "Create a gang",
        "get": "Get a gang",
        "edit": "Edit a gang",
        "delete": "Delete a gang that no VM names",
    },
)
