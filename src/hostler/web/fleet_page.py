"""The first page: all hosts on a map, how much is promised, who decides."""

from __future__ import annotations

from collections import Counter

import msgspec
from starlette.responses import Response

from hostler.control.access.names import by_number
from hostler.control.api.shapes import Key, Vm
from hostler.control.books import ledger
from hostler.control.services import hosts, keys
from hostler.control.services.gangs import counting_stopped
from hostler.control.services.hindered import list_hindered
from hostler.control.services.lost_vms import find_missing
from hostler.control.services.showing import Gathers, show_vm, undecided_reason
from hostler.control.store import Connection, lease, vms
from hostler.control.store.hosts import HostFilter
from hostler.control.store.lease import Lease
from hostler.control.store.rows import MOST_IN_A_PAGE
from hostler.control.store.vms import VmFilter
from hostler.web.desk import Visit
from hostler.web.heat import RESOURCES, Cell, Load, Usage, cells, density, load_of, totals
from hostler.web.live import live_link
from hostler.web.menu import first_page

__all__ = ["show"]

_SOME = 8
_TROUBLES = ("lost", "failed", "unknown")


class Fleet(msgspec.Struct, frozen=True):
    """What the page shows of all hosts."""

    count: int
    ready: int
    others: list[tuple[str, int]]
    totals: list[Usage]
    hosts: list[Load]
    cells: list[Cell]
    density: str


class Looked(msgspec.Struct, frozen=True):
    """VMs that want somebody's eyes."""

    waiting: list[Vm]
    troubled: list[Vm]


class _Read(msgspec.Struct, frozen=True):
    hosts: list[Load]
    vms: int
    waiting: int
    lease: Lease
    looked: Looked
    unconfirmed: list[Key]


async def show(visit: Visit) -> Response:
    """Show the fleet."""
    if not visit.may("host.read") and visit.principal.project:
        return visit.go(first_page(visit.principal))  # whoever has one project begins with its VMs
    visit.principal.check("host.read")
    found = await visit.read(lambda connection: _read(connection, visit))
    by = visit.query("by", "cpu")
    by = by if by in RESOURCES else "cpu"
    sort, view, name = visit.query("sort"), visit.query("view"), visit.query("name")
    return await visit.render(
        "fleet.html",
        title="Fleet",
        twin="/v1/hosts",
        live=live_link(),
        fleet=_fleet(found.hosts, by, sort),
        vm_count=found.vms,
        unconfirmed=found.unconfirmed,
        waiting=found.waiting,
        leader=(found.lease.address or found.lease.holder[:12]) if found.lease.is_held else "",
        is_leader=visit.context.books.is_leader,
        is_astray=bool(visit.context.books.trouble),
        went_back=visit.context.database.history.went_back is not None,
        epoch=found.lease.epoch,
        seq=visit.context.books.seq,
        looked=found.looked,
        undecided=undecided_reason(found.lease),
        resources=RESOURCES,
        by=by,
        sort="use" if sort == "use" else "",
        view="table" if view == "table" else "",
        name=name,
        here=visit.here,
    )


def _read(connection: Connection, visit: Visit) -> _Read:
    return _Read(
        all_hosts(connection, visit, visit.query("name")),
        vms.count(connection, VmFilter()),
        vms.count(connection, VmFilter(state="pending")),
        lease.read(connection),
        _looked(connection, visit.context.books.gathers) if visit.may("vm.read") else Looked([], []),
        keys.list_unconfirmed(connection, visit.caller) if visit.may("key.confirm") else [],
    )


def _looked(connection: Connection, gathers: Gathers) -> Looked:
    said = counting_stopped(connection, gathers)
    troubled = [vm for state in _TROUBLES for vm in _some(connection, state, said)]
    missing = find_missing(connection)
    troubled += [show_vm(ledger.stored(row), said, missing=missing) for row in list_hindered(connection)[:_SOME]]
    return Looked(_some(connection, "pending", said), troubled[:_SOME])


def all_hosts(connection: Connection, visit: Visit, part: str) -> list[Load]:
    """Return all hosts that have something in their names, by name."""
    found: list[Load] = []
    after = ""
    while True:
        page = hosts.list_page(
            connection,
            visit.caller,
            HostFilter(name_part=part or None),
            visit.context.settings,
            visit.heard,
            after=after,
            limit=MOST_IN_A_PAGE,
        )
        found += map(load_of, page.items)
        after = page.next
        if not after:
            return sorted(found, key=lambda host: by_number(host.name))


def _some(connection: Connection, state: str, gathers: Gathers) -> list[Vm]:
    page = vms.list_page(connection, VmFilter(state=state), limit=_SOME)
    missing = find_missing(connection)
    return [show_vm(ledger.stored(row), gathers, missing=missing) for row in page.items]


def _fleet(found: list[Load], by: str, sort: str) -> Fleet:
    states = Counter(host.state for host in found)
    if sort == "use":
        found = sorted(found, key=lambda host: -(host.usage[by].percent or 0))
    return Fleet(
        count=len(found),
        ready=states.pop("ready", 0),
        others=sorted(states.items()),
        totals=totals(found),
        hosts=found,
        cells=cells(found, by),
        density=density(len(found)),
    )
