"""Routes for projects and gangs."""

from __future__ import annotations

from dataclasses import replace

from hostler.control.api.requests.call import ApiCall
from hostler.control.api.requests.route import Reply, Routes
from hostler.control.api.routes.lists import CREATE, DELETE, EDIT, GET, PageQuery
from hostler.control.api.routes.named_resources import NamedRoutes, created_reply
from hostler.control.schemas import (
    Gang,
    GangCreate,
    GangEdit,
    Page,
    Project,
    ProjectCreate,
    ProjectEdit,
)
from hostler.control.services.tenancy import projects
from hostler.control.services.vms import gangs

__all__ = ["ROUTES"]

ROUTES = Routes("tenancy")

_PROJECT = "/v1/projects/{name}"


@ROUTES.add(
    "GET", "/v1/projects", "List projects", query=PageQuery, answers={200: Page[Project]}, permission="project.read"
)
async def list_projects(call: ApiCall) -> Reply:
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
async def create_project(call: ApiCall) -> Reply:
    """Create a project."""
    asked = call.body(ProjectCreate)
    found = await call.write_once(lambda connection: projects.create(connection, asked, call.caller), Project)
    return created_reply(found, 201)


@ROUTES.add("GET", _PROJECT, "Get a project", answers={200: Project}, permission="project.read", **GET)
async def get_project(call: ApiCall) -> Reply:
    """Get a project."""
    found = await call.read(lambda connection: projects.get(connection, call.part("name"), call.caller))
    return created_reply(found)


@ROUTES.add(
    "PATCH",
    _PROJECT,
    "Edit a project",
    body=ProjectEdit,
    answers={200: Project},
    permission="project.change",
    **EDIT,
)
async def edit_project(call: ApiCall) -> Reply:
    """Edit a project."""
    asked, name, versions = call.body(ProjectEdit), call.part("name"), call.versions
    return created_reply(
        await call.write(lambda connection: projects.edit(connection, name, asked, call.caller, versions=versions))
    )


@ROUTES.add("DELETE", _PROJECT, "Delete a project that has no VMs", permission="project.delete", **DELETE)
async def delete_project(call: ApiCall) -> Reply:
    """Delete a project, with its gangs, quotas, reservations and keys."""
    name, versions = call.part("name"), call.versions
    revoked = await call.write(lambda connection: projects.delete(connection, name, call.caller, versions=versions))
    for key in revoked:
        call.context.authenticator.forget(key)
    return Reply(204)


class _Gangs(NamedRoutes[Gang, GangCreate, GangEdit]):
    """Gangs, with whether the search for room is in progress; a new gang has none yet."""

    async def list_page(self, call: ApiCall) -> Reply:
        """List gangs."""
        return _with_search(call, await super().list_page(call))

    async def get(self, call: ApiCall) -> Reply:
        """Get a gang."""
        return _with_search(call, await super().get(call))

    async def edit(self, call: ApiCall) -> Reply:
        """Edit a gang."""
        return _with_search(call, await super().edit(call))


def _with_search(call: ApiCall, reply: Reply) -> Reply:
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
