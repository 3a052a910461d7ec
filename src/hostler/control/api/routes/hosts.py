"""Routes for hosts: what operators see and do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, field
from starlette.responses import PlainTextResponse, Response

from hostler.config.entries import means
from hostler.control.api.requests.call import ApiCall
from hostler.control.api.requests.route import Reply, Routes
from hostler.control.api.routes.lists import LabelTexts, PageQuery, Query, Short, etag, read_labels
from hostler.control.schemas import AllowTeardown, Confirm, Host, HostEdit, Nothing, Page, Scheduling
from hostler.control.services.hosts import host_changes
from hostler.control.services.hosts.host_views import scheduling_of, with_reserved
from hostler.control.services.tenancy import reservations
from hostler.control.store import Connection
from hostler.control.store.rows import vms
from hostler.control.store.rows.hosts import HostFilter
from hostler.control.store.rows.vms import VmFilter

__all__ = ["ROUTES"]

ROUTES = Routes("hosts")
_TEXT = "text/plain"
_CONFIRMED = "What cannot be taken back needs the name of the host in confirm."


class HostQuery(PageQuery, frozen=True):
    """Filters for the list of hosts."""

    state: Annotated[Short | None, means("Only in this state: joined, ready, silent, offline or fenced.")] = None
    cordoned: Annotated[bool | None, means("Only those that are cordoned, or not.")] = None
    name: Annotated[Short | None, means("Only of this name.")] = None
    label: LabelTexts = field(default_factory=list)


class ConfirmQuery(Query, frozen=True):
    """The confirmation of a deletion."""

    confirm: Annotated[Short, means("The host's name, written out.")] = ""


def heard_by(call: ApiCall) -> Callable[[str], int | None]:
    """Return a function for the last contact of a host with this replica, in wall time."""
    fleet, now_ns = call.context.fleet, call.now_ns
    steady = fleet.steady()

    def heard(host: str) -> int | None:
        at = fleet.presence.heard_at(host)
        return None if at is None else now_ns - (steady - at)

    return heard


@ROUTES.add("GET", "/v1/hosts", "List hosts", query=HostQuery, answers={200: Page[Host]}, permission="host.read")
async def list_hosts(call: ApiCall) -> Reply:
    """List hosts, oldest first."""
    asked, settings = call.ask(HostQuery), call.context.settings
    wanted = HostFilter(state=asked.state, name=asked.name, is_cordoned=asked.cordoned, labels=read_labels(asked.label))

    def work(connection: Connection) -> Page[Host]:
        return host_changes.list_page(
            connection, call.caller, wanted, settings, heard_by(call), after=asked.after, limit=asked.limit
        )

    page = await call.read(work)
    return Reply(200, msgspec.structs.replace(page, items=await _with_reserved_room(call, page.items)))


async def _with_reserved_room(call: ApiCall, found: Sequence[Host]) -> list[Host]:
    """Return hosts with their reserved room. Without reservations the engine is not needed."""
    if not await call.read(reservations.has_any):
        return list(found)
    return (await call.context.books.ask(lambda engine: with_reserved(engine, found, call.principal)))[0]


async def _host_reply(call: ApiCall, host: Host) -> Reply:
    [shown] = await _with_reserved_room(call, [host])
    return Reply(200, shown, etag(host.version))


async def _host(call: ApiCall) -> Host:
    identity, settings = call.part("id"), call.context.settings
    return await call.read(
        lambda connection: host_changes.get(connection, identity, call.caller, settings, heard_by(call))
    )


@ROUTES.add(
    "GET",
    "/v1/hosts/{id}",
    "Get a host, by id or name",
    answers={200: Host},
    permission="host.read",
    has_etag=True,
    refusals=(404, 410),
)
async def get(call: ApiCall) -> Reply:
    """Get a host."""
    return await _host_reply(call, await _host(call))


@ROUTES.add(
    "GET",
    "/v1/hosts/{id}/scheduling",
    "The view of a host for schedulers",
    answers={200: (Scheduling, _TEXT)},
    permission="host.read",
    refusals=(404, 410),
    description="With Accept: text/plain a block of lines.",
)
async def scheduling(call: ApiCall) -> Reply | Response:
    """Return the view of a host for schedulers."""
    host = await _host(call)
    wanted = VmFilter(host=host.id, state="running")
    found = scheduling_of(host, await call.read(lambda connection: vms.count(connection, wanted)))
    accept = call.request.headers.get("accept", "")
    if accept.partition(",")[0].partition(";")[0].strip() == _TEXT:
        return PlainTextResponse(found.text)
    return Reply(200, found)


@ROUTES.add(
    "PATCH",
    "/v1/hosts/{id}",
    "Change labels, taints, overcommitment or reserve",
    body=HostEdit,
    answers={200: Host},
    permission="host.admin",
    has_match=True,
    has_etag=True,
    is_repeatable=True,
    refusals=(404, 410),
)
async def edit(call: ApiCall) -> Reply:
    """Change a host."""
    asked, identity, settings, versions = call.body(HostEdit), call.part("id"), call.context.settings, call.versions

    def work(connection: Connection) -> Host:
        return host_changes.edit(connection, identity, asked, call.caller, settings, heard_by(call), versions=versions)

    host = await call.write_once(work, Host)
    if asked.overcommit is not UNSET or asked.reserve is not UNSET:
        call.context.fleet.forget(host.id)  # its agent learns by a registration what it may give
    return await _host_reply(call, host)


@ROUTES.add(
    "DELETE",
    "/v1/hosts/{id}",
    "Delete a host that has no VMs",
    query=ConfirmQuery,
    answers={204: None},
    permission="host.admin",
    has_match=True,
    refusals=(404, 409, 410),
    description=_CONFIRMED,
)
async def delete(call: ApiCall) -> Reply:
    """Delete a host."""
    confirm, versions = call.ask(ConfirmQuery).confirm, call.versions

    def work(connection: Connection) -> str:
        return host_changes.delete(connection, call.part("id"), confirm, call.caller, versions=versions)

    call.context.fleet.forget(await call.write(work))
    return Reply(204)


def _act(verb: str, summary: str, kind: type[Nothing | Confirm | AllowTeardown], description: str = "") -> None:
    permission = host_changes.ACTS[verb][0]

    @ROUTES.add(
        "POST",
        f"/v1/hosts/{{id}}/{verb}",
        summary,
        body=kind,
        is_body_needed=kind is not Nothing,
        answers={200: Host},
        permission=permission,
        has_match=True,
        has_etag=True,
        is_repeatable=True,
        refusals=(404, 409, 410),
        description=description,
    )
    async def handler(call: ApiCall) -> Reply:
        asked = call.asked
        confirm = asked.confirm if isinstance(asked, Confirm | AllowTeardown) else ""
        identity, settings, versions = call.part("id"), call.context.settings, call.versions

        def work(connection: Connection) -> Host:
            return host_changes.act(
                connection, identity, verb, confirm, call.caller, settings, heard_by(call), versions=versions
            )

        host = await call.write_once(work, Host)
        if verb in host_changes.ENDS_REGISTRATION:
            call.context.fleet.forget(host.id)
        return await _host_reply(call, host)


_act("cordon", "Cordon a host: no new VMs", Nothing)
_act("uncordon", "Uncordon a host", Nothing)
_act("drain", "Drain a host: move its VMs elsewhere", Nothing)
_act("undrain", "Stop draining a host", Nothing)
_act("force-offline", "Treat a host as silent at once", Confirm, _CONFIRMED)
_act("confirm-dead", "Confirm that a silent host runs nothing", Confirm, _CONFIRMED)
_act("allow-teardown", "Let a host remove many VMs at once", AllowTeardown, "confirm is the number of VMs.")
_act(
    "rotate-credential",
    "Give a host's agent a new credential",
    Nothing,
    "It gets it when it registers again, which its next report makes it do; the old one is good until 5 minutes after "
    "the new one was used first.",
)
_act(
    "revoke-credential",
    "Revoke the credential of a host's agent",
    Nothing,
    "Its VMs keep running, and the host counts as offline. A new token that names this host lets it join again.",
)
