"""One host: what is promised of it, which VMs it has, and what may be done to it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from hostler.control.api.shapes import Host, Scheduling, Vm
from hostler.control.services import hosts
from hostler.control.services.scheduling import scheduling_of
from hostler.control.store import Connection, vms
from hostler.control.store.vms import VmFilter
from hostler.engine import Engine
from hostler.engine.reservations import RESERVATION
from hostler.web.desk import Visit
from hostler.web.heat import load_of
from hostler.web.host_verbs import verbs_for
from hostler.web.live import live_link
from hostler.web.wording import amount_text

__all__ = ["show"]


class Held(msgspec.Struct, frozen=True):
    """Room of a host that one reservation keeps."""

    reservation: str
    amounts: list[str]


class _Read(msgspec.Struct, frozen=True):
    host: Host
    vms: list[Vm]
    scheduling: Scheduling


async def show(visit: Visit) -> Response:
    """Show a host, by its name or its id."""
    found = await visit.read(lambda connection: _read(connection, visit))
    held, _ = await visit.context.books.ask(lambda engine: _held_on(engine, found.host.name))
    return await visit.render(
        "host.html",
        title=found.host.name,
        twin=f"/v1/hosts/{found.host.id}",
        more_twins=[f"/v1/hosts/{found.host.id}/{part}" for part in ("vms", "scheduling")],
        live=live_link(),
        host=found.host,
        load=load_of(found.host),
        held=held,
        vms=found.vms,
        scheduling=found.scheduling,
        verbs=verbs_for(found.host, visit),
    )


def _read(connection: Connection, visit: Visit) -> _Read:
    host = hosts.get(connection, visit.part("name"), visit.caller, visit.context.settings, visit.heard)
    running = vms.count(connection, VmFilter(host=host.id, state="running"))
    return _Read(host, hosts.list_vms(connection, host.id, visit.caller), scheduling_of(host, running))


def _held_on(engine: Engine, host: str) -> list[Held]:
    """Return what reservations keep on a host now, by name; what VMs have that they are for is used, not kept."""
    state = engine.state
    row = state.cluster.row_of.get(host)
    holds = state.cluster.holds.on(row) if row is not None else []
    kept = [(name.removeprefix(RESERVATION), hold.amounts) for name, hold in holds if name.startswith(RESERVATION)]
    names = state.tables.resources.values
    return [
        Held(name, _texts(names, amounts)) for name, amounts in sorted(kept) if any(amount for _, amount in amounts)
    ]


def _texts(names: Sequence[str], amounts: Sequence[tuple[int, int]]) -> list[str]:
    return [f"{names[number]} {amount_text(names[number], amount)}" for number, amount in amounts if amount]
