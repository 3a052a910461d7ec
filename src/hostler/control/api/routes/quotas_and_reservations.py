"""Routes for quotas and reservations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hostler.control.api.requests.call import ApiCall
from hostler.control.api.requests.route import Reply, Routes
from hostler.control.api.routes.lists import CREATE, DELETE, EDIT, GET, ProjectQuery
from hostler.control.api.routes.named_resources import NamedRoutes, created_reply
from hostler.control.schemas import (
    Page,
    Quota,
    QuotaCreate,
    QuotaEdit,
    Reservation,
    ReservationBody,
    ReservationCreate,
    ReservationEdit,
)
from hostler.control.services.errors import TakesAllRoomError
from hostler.control.services.tenancy import quotas, reservations
from hostler.control.services.versions import check_version
from hostler.control.store import Connection
from hostler.engine import Engine
from hostler.errors import HostlerError, InputError
from hostler.model import Amounts

__all__ = ["ROUTES"]

ROUTES = Routes("keeping")
_QUOTA = "/v1/quotas/{project}"


async def _read_use(call: ApiCall) -> Mapping[str, Amounts]:
    """Return the engine's count of what the VMs of each project with a quota use."""

    def look(engine: Engine) -> dict[str, Amounts]:
        return {project: tuple(sorted(amounts.items())) for project, amounts in engine.view.quotas.used.items()}

    return (await call.context.books.ask(look))[0]


@ROUTES.add("GET", "/v1/quotas", "List quotas", query=ProjectQuery, answers={200: Page[Quota]}, permission="quota.read")
async def list_quotas(call: ApiCall) -> Reply:
    """List quotas."""
    asked, used = call.ask(ProjectQuery), await _read_use(call)
    found = await call.read(
        lambda connection: quotas.list_page(
            connection, call.caller, used, project=asked.project, after=asked.after, limit=asked.limit
        )
    )
    return Reply(200, found)


@ROUTES.add(
    "POST",
    "/v1/quotas",
    "Create a quota",
    body=QuotaCreate,
    answers={201: Quota},
    permission="quota.change",
    **CREATE,
)
async def create_quota(call: ApiCall) -> Reply:
    """Create the quota of a project."""
    asked, used = call.body(QuotaCreate), await _read_use(call)
    found = await call.write_once(lambda connection: quotas.create(connection, asked, call.caller, used), Quota)
    counted, _ = await call.context.books.ask(lambda engine: quotas.with_use(engine, found))
    return created_reply(counted, 201)


@ROUTES.add("GET", _QUOTA, "Get the quota of a project", answers={200: Quota}, permission="quota.read", **GET)
async def get_quota(call: ApiCall) -> Reply:
    """Get the quota of a project."""
    used = await _read_use(call)
    return created_reply(
        await call.read(lambda connection: quotas.get(connection, call.part("project"), call.caller, used))
    )


@ROUTES.add("PATCH", _QUOTA, "Edit a quota", body=QuotaEdit, answers={200: Quota}, permission="quota.change", **EDIT)
async def edit_quota(call: ApiCall) -> Reply:
    """Edit a quota."""
    asked, project, versions, used = call.body(QuotaEdit), call.part("project"), call.versions, await _read_use(call)
    found = await call.write(
        lambda connection: quotas.edit(connection, project, asked, call.caller, used, versions=versions)
    )
    return created_reply((await call.context.books.ask(lambda engine: quotas.with_use(engine, found)))[0])


@ROUTES.add("DELETE", _QUOTA, "Delete a quota", permission="quota.delete", **DELETE)
async def delete_quota(call: ApiCall) -> Reply:
    """Delete the quota of a project."""
    project, versions = call.part("project"), call.versions
    await call.write(lambda connection: quotas.delete(connection, project, call.caller, versions=versions))
    return Reply(204)


class _Reservations(NamedRoutes[Reservation, ReservationCreate, ReservationEdit]):
    """Reservations with their current coverage. Lists leave it out, because it inspects every host."""

    async def create(self, call: ApiCall) -> Reply:
        """Create a reservation."""
        call.principal.check("reservation.change")
        asked = call.body(ReservationCreate)
        found: ReservationBody | HostlerError
        try:
            found, _ = await call.context.books.ask(lambda engine: reservations.prepare_new(engine, asked))
        except (InputError, TakesAllRoomError) as error:
            found = error

        def work(connection: Connection) -> Reservation:
            if isinstance(
                found, HostlerError
            ):  # raised here: a repetition gets the first answer, though its room is taken
                raise found
            return reservations.create(connection, found, call.caller)

        return await _with_note(call, created_reply(await call.write_once(work, Reservation), 201))

    async def get(self, call: ApiCall) -> Reply:
        """Get a reservation."""
        return await _with_note(call, await super().get(call))

    async def edit(self, call: ApiCall) -> Reply:
        """Edit a reservation."""
        asked, project, name = call.body(ReservationEdit), call.part("project"), call.part("name")
        if not reservations.needs_engine(asked):
            return await _with_note(call, await super().edit(call))
        before, version = await call.read(
            lambda connection: reservations.get_body(connection, project, name, call.caller)
        )
        call.principal.check("reservation.change")
        check_version(f"reservation {name}", version, call.versions)
        after, _ = await call.context.books.ask(lambda engine: reservations.prepare_edit(engine, before, asked))
        edited = await call.write(
            lambda connection: reservations.edit(
                connection, project, name, asked, call.caller, versions=frozenset({version}), prepared=after
            )
        )
        return await _with_note(call, created_reply(edited))


async def _with_note(call: ApiCall, reply: Reply) -> Reply:
    found = reply.body
    if not isinstance(found, Reservation):
        return reply
    told, _ = await call.context.books.ask(lambda engine: reservations.with_note(engine, found))
    return replace(reply, body=told)


_Reservations(reservations, Reservation, Page[Reservation], ReservationCreate, ReservationEdit).declare(
    ROUTES,
    "reservation",
    {
        "list": "List reservations",
        "create": "Create a reservation",
        "get": "Get a reservation",
        "edit": "Edit a reservation",
        "delete": "Delete a reservation",
    },
)
