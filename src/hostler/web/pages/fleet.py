"""The first page: all hosts on a map, how much is promised, who decides."""

from __future__ import annotations

from collections import Counter

import msgspec
from starlette.responses import Response

from hostler.control.access.names import by_number
from hostler.control.books import ledger
from hostler.control.schemas import Key, Vm
from hostler.control.services.hosts import host_changes
from hostler.control.services.tenancy import keys
from hostler.control.services.vms.gangs import with_stopped_members
from hostler.control.services.vms.lost_vms import find_missing
from hostler.control.services.vms.stalled_vms import list_hindered
from hostler.control.services.vms.vm_views import NO_LEADER, Gathers, show_vm, undecided_reason
from hostler.control.store import Connection
from hostler.control.store.history import lease
from hostler.control.store.history.lease import LeaderLease
from hostler.control.store.rows import vms
from hostler.control.store.rows.hosts import HostFilter
from hostler.control.store.rows.versioned_rows import MOST_IN_A_PAGE
from hostler.control.store.rows.vms import VmFilter
from hostler.web.host_map import RESOURCES, HostLoad, HostUsage, MapCell, fleet_usage, load_of, map_cells, map_density
from hostler.web.live_updates import live_link
from hostler.web.menu import first_page
from hostler.web.page_requests import PageRequest

__all__ = ["show"]

_SOME = 8
_TROUBLES = ("lost", "failed", "unknown")


class FleetOverview(msgspec.Struct, frozen=True):
    """What the page shows of all hosts."""

    count: int
    ready: int
    others: list[tuple[str, int]]
    totals: list[HostUsage]
    hosts: list[HostLoad]
    cells: list[MapCell]
    density: str


class VmsToAttend(msgspec.Struct, frozen=True):
    """VMs that need an operator's attention."""

    waiting: list[Vm]
    troubled: list[Vm]


class _Read(msgspec.Struct, frozen=True):
    hosts: list[HostLoad]
    vms: int
    waiting: int
    lease: LeaderLease
    looked: VmsToAttend
    unconfirmed: list[Key]


async def show(visit: PageRequest) -> Response:
    """Show the fleet."""
    if not visit.may("host.read") and visit.principal.project:
        return visit.go(first_page(visit.principal))  # a key of one project begins with its VMs
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
        no_leader=NO_LEADER,
        resources=RESOURCES,
        by=by,
        sort="use" if sort == "use" else "",
        view="table" if view == "table" else "",
        name=name,
        here=visit.here,
    )


def _read(connection: Connection, visit: PageRequest) -> _Read:
    return _Read(
        all_hosts(connection, visit, visit.query("name")),
        vms.count(connection, VmFilter()),
        vms.count(connection, VmFilter(state="pending")),
        lease.read(connection),
        _looked(connection, visit.context.books.gathers) if visit.may("vm.read") else VmsToAttend([], []),
        keys.list_unconfirmed(connection, visit.caller) if visit.may("key.confirm") else [],
    )


def _looked(connection: Connection, gathers: Gathers) -> VmsToAttend:
    said = with_stopped_members(connection, gathers)
    troubled = [vm for state in _TROUBLES for vm in _some(connection, state, said)]
    missing = find_missing(connection)
    troubled += [show_vm(ledger.read_row(row), said, missing=missing) for row in list_hindered(connection)[:_SOME]]
    return VmsToAttend(_some(connection, "pending", said), troubled[:_SOME])


def all_hosts(connection: Connection, visit: PageRequest, part: str) -> list[HostLoad]:
    """Return all hosts that have something in their names, by name."""
    found: list[HostLoad] = []
    after = ""
    while True:
        page = host_changes.list_page(
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
    return [show_vm(ledger.read_row(row), gathers, missing=missing) for row in page.items]


def _fleet(found: list[HostLoad], by: str, sort: str) -> FleetOverview:
    states = Counter(host.state for host in found)
    if sort == "use":
        found = sorted(found, key=lambda host: -(host.usage[by].percent or 0))
    return FleetOverview(
        count=len(found),
        ready=states.pop("ready", 0),
        others=sorted(states.items()),
        totals=fleet_usage(found),
        hosts=found,
        cells=map_cells(found, by),
        density=map_density(len(found)),
    )
