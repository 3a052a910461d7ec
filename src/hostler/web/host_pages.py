"""One host: what is promised of it, which VMs it has, and what may be done to it."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from hostler.control.api.shapes import Host, Scheduling, Vm
from hostler.control.services import hosts
from hostler.control.services.reserved import with_reserved
from hostler.control.services.scheduling import scheduling_of
from hostler.control.store import Connection, vms
from hostler.control.store.vms import VmFilter
from hostler.web.desk import Visit
from hostler.web.heat import load_of
from hostler.web.host_verbs import verbs_for
from hostler.web.live import live_link

__all__ = ["show"]


class _Read(msgspec.Struct, frozen=True):
    host: Host
    vms: list[Vm]
    scheduling: Scheduling


async def show(visit: Visit) -> Response:
    """Show a host, by its name or its id."""
    found = await visit.read(lambda connection: _read(connection, visit))
    principal = visit.caller.principal
    [host], _ = await visit.context.books.ask(lambda engine: with_reserved(engine, [found.host], principal))
    return await visit.render(
        "host.html",
        title=host.name,
        twin=f"/v1/hosts/{host.id}",
        more_twins=[f"/v1/hosts/{host.id}/{part}" for part in ("vms", "scheduling")],
        live=live_link(),
        host=host,
        load=load_of(host),
        vms=found.vms,
        scheduling=found.scheduling,
        verbs=verbs_for(host, visit),
    )


def _read(connection: Connection, visit: Visit) -> _Read:
    host = hosts.get(connection, visit.part("name"), visit.caller, visit.context.settings, visit.heard)
    running = vms.count(connection, VmFilter(host=host.id, state="running"))
    return _Read(host, hosts.list_vms(connection, host.id, visit.caller), scheduling_of(host, running))
