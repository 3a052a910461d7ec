"""Quotas and reservations: what is kept for whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hostler.control.api.calls import Call
from hostler.control.api.listing import CREATE, DELETE, EDIT, GET, ProjectQuery
from hostler.control.api.naming import Named, made
from hostler.control.api.routes import Reply, Routes
from hostler.control.api.shapes import (
    Page,
    Quota,
    QuotaCreate,
    QuotaEdit,
    Reservation,
    ReservationCreate,
    ReservationEdit,
)
from hostler.control.services import quotas, reservations
from hostler.engine import Engine
from hostler.model import Amounts

__all__ = ["ROUTES"]

ROUTES = Routes("keeping")
_QUOTA = "/v1/quotas/{project}"


async def _used(call: Call) -> Mapping[str, Amounts]:
    """Return what the VMs of each project that has a quota have, as the engine counts it."""

    def look(engine: Engine) -> dict[str, Amounts]:
        return {project: tuple(sorted(amounts.items())) for project, amounts in engine.view.quotas.used.items()}

    return (await call.context.books.ask(look))[0]


@ROUTES.add("GET", "/v1/quotas", "List quotas", query=ProjectQuery, answers={200: Page[Quota]}, permission="quota.read")
async def list_quotas(call: Call) -> Reply:
    """List quotas."""
    asked, used = call.ask(ProjectQuery), await _used(call)
    found = await call.read(
        lambda connection: quotas.list_page(
            connection, call.caller, used, project=asked.project, after=asked.after, limit=asked.limit
        )
    )
    return Reply(200, found)


@ROUTES.add(
    "POST",
    "/v1/quotas",
    "Give a project a quota",
    body=QuotaCreate,
    answers={201: Quota},
    permission="quota.change",
    **CREATE,
)
async def create_quota(call: Call) -> Reply:
    """Give a project a quota."""
    asked, used = call.body(QuotaCreate), await _used(call)
    found = await call.write_once(lambda connection: quotas.create(connection, asked, call.caller, used), Quota)
    return made(found, 201)


@ROUTES.add("GET", _QUOTA, "Get the quota of a project", answers={200: Quota}, permission="quota.read", **GET)
async def get_quota(call: Call) -> Reply:
    """Get the quota of a project."""
    used = await _used(call)
    return made(await call.read(lambda connection: quotas.get(connection, call.part("project"), call.caller, used)))


@ROUTES.add("PATCH", _QUOTA, "Edit a quota", body=QuotaEdit, answers={200: Quota}, permission="quota.change", **EDIT)
async def edit_quota(call: Call) -> Reply:
    """Edit a quota."""
    asked, project, versions, used = call.body(QuotaEdit), call.part("project"), call.versions, await _used(call)
    return made(
        await call.write(
            lambda connection: quotas.edit(connection, project, asked, call.caller, used, versions=versions)
        )
    )


@ROUTES.add("DELETE", _QUOTA, "Take a quota away", permission="quota.delete", **DELETE)
async def delete_quota(call: Call) -> Reply:
    """Take a project's quota away."""
    project, versions = call.part("project"), call.versions
    await call.write(lambda connection: quotas.delete(connection, project, call.caller, versions=versions))
    return Reply(204)


class _Reservations(Named[Reservation, ReservationCreate, ReservationEdit]):
    """Reservations that say what they do; not in lists, since it takes a look at every host."""

    async def create(self, call: Call) -> Reply:
        """Make one."""
        return await _noted(call, await super().create(call))

    async def get(self, call: Call) -> Reply:
        """Show one."""
        return await _noted(call, await super().get(call))

    async def edit(self, call: Call) -> Reply:
        """Change one."""
        return await _noted(call, await super().edit(call))


async def _noted(call: Call, reply: Reply) -> Reply:
    found = reply.body
    if not isinstance(found, Reservation):
        return reply
    told, _ = await call.context.books.ask(lambda engine: reservations.noted(engine, found))
    return replace(reply, body=told)


_Reservations(reservations, Reservation, Page[Reservation], ReservationCreate, ReservationEdit).declare(
    ROUTES,
    "reservation",
    {
        "list": "List reservations",
        "create": "Keep room on hosts",
        "get": "Get a reservation",
        "edit": "Edit a reservation",
        "delete": "Give reserved room back",
    },
)
