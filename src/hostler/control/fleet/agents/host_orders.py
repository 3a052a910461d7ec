"""All orders of a host: for the VMs that are booked there, and for remains. Works for ``agent_service``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from hostler.agent.messages import Disk, Image, Order, Orders
from hostler.control.books import ledger
from hostler.control.books.ledger import StoredVm
from hostler.control.fleet.errors import HostDeletedError, StaleReportError
from hostler.control.fleet.hosts.host_body import HostBody, read_body
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import HostRow
from hostler.control.vms.orders import order_for, order_for_remains
from hostler.errors import HostlerError

__all__ = ["KEEPS_SHARED", "GivenOrder", "OrdersQuery", "count_teardown", "orders_of_all", "read_orders"]

KEEPS_SHARED = 2  # the first protocol whose agents know that word
_replace = msgspec.structs.replace
_FEW, _SHARE = 3, 4  # as agents count: more than three VMs and more than a quarter of the host's


class GivenOrder(NamedTuple):
    """An order, and whether it follows from the deletion of its VM."""

    order: Order
    is_deletion: bool


class OrdersQuery(NamedTuple):
    """A host, and the version of the orders that it has; 0 asks for them in any case.

    ``epoch`` is that of the registration by which its agent asks; 0 if the agent does not send it.
    """

    host: str
    from_version: int
    epoch: int = 0


def read_orders(connection: Connection, asked: Sequence[OrdersQuery]) -> list[Orders | HostlerError | None]:
    """Return all orders of hosts whose orders are newer than theirs, as a joint work; None for the others."""
    rows = hosts.find_some(connection, [one.host for one in asked])
    outcomes: list[HostRow | HostlerError | None] = [_newer(rows.get(one.host), one) for one in asked]
    bodies = {row.id: read_body(row) for row in outcomes if isinstance(row, HostRow)}
    given = orders_of_all(connection, bodies)
    return [_orders(row, bodies[row.id], given[row.id]) if isinstance(row, HostRow) else row for row in outcomes]


def _newer(row: HostRow | None, asked: OrdersQuery) -> HostRow | HostlerError | None:
    if row is None or row.deleted_ns is not None:
        return HostDeletedError("this host was deleted", hint="join again with a new token")
    if asked.epoch not in (0, row.epoch):  # a second agent of this host may carry the orders out by now
        return StaleReportError("this registration is over", hint="register again")
    if asked.from_version > row.generation:  # after a restore, only a registration begins again
        return StaleReportError("orders as new as the agent has were never given here", hint="register again")
    return None if asked.from_version == row.generation else row


def _orders(row: HostRow, body: HostBody, given: Sequence[GivenOrder]) -> Orders:
    return Orders(
        version=row.generation,
        is_full=True,
        orders=tuple(one.order for one in given if _is_understood(one.order, body.protocol)),
        allows_bulk_teardown=_allows_teardown(given, body),
    )


def _is_understood(order: Order, protocol: int) -> bool:
    """Say whether an agent understands an order. A VM without an order stays as it is.

    An agent of protocol 1 does not read ``keeps_shared``, and would remove disks that another host's VM uses.
    """
    return protocol >= KEEPS_SHARED or not order.keeps_shared


def orders_of_all(connection: Connection, bodies: Mapping[str, HostBody]) -> dict[str, list[GivenOrder]]:
    """Return the orders of some hosts, each by VM."""
    if not bodies:
        return {}
    booked = ledger.load_of_hosts(connection, list(bodies))
    remains = {vm for body in bodies.values() for vm in body.remains}
    left = ledger.load_many(connection, remains) if remains else {}
    return {host: _orders_of(host, body, booked[host], left) for host, body in bodies.items()}


def _orders_of(host: str, body: HostBody, booked: Sequence[StoredVm], left: Mapping[str, StoredVm]) -> list[GivenOrder]:
    found = [(stored.vm, order_for(stored.vm, host)) for stored in booked]
    here = {stored.vm.id for stored in booked}
    remains = [left[vm].vm for vm in body.remains if vm in left and vm not in here]
    found += [(vm, _bare(order_for_remains(vm, host))) for vm in remains]
    given = [GivenOrder(order, vm.power == "absent" or vm.is_gone) for vm, order in found if order is not None]
    return sorted(given, key=lambda one: one.order.vm)


def count_teardown(connection: Connection, host: str, body: HostBody, *, without: Collection[str] = ()) -> int:
    """Return how many VMs a host is ordered to remove."""
    given = orders_of_all(connection, {host: body})[host]
    return sum(1 for one in given if one.order.power == "absent" and one.order.vm not in without)


def _allows_teardown(given: Sequence[GivenOrder], body: HostBody) -> bool:
    """Say whether a host may remove everything that it is ordered to remove.

    Removing remains of VMs that live elsewhere needs no permission. Deleting many VMs at once needs an operator's.
    """
    absent = [one for one in given if one.order.power == "absent"]
    deleted = sum(1 for one in absent if one.is_deletion)
    is_bulk = deleted > _FEW and deleted * _SHARE > len(given)
    return bool(absent) and (not is_bulk or len(absent) <= body.may_tear_down)


def _bare(order: Order) -> Order:
    """Return an order with no more of the VM than stopping or removing it needs: any host may claim to have it.

    Removing it reserves nothing. Until it is removed, silence stops it, whatever its owner wants, since it must not run
    here. To keep its disks, sizes are needed: agents count by them and resize what differs. Images without an address
    stay for all disks: no driver makes a disk from those, so nothing is created by mistake.
    """
    let_go = Order(
        vm=order.vm,
        generation=order.generation,
        power=order.power,
        restarts=order.restarts,  # agents take what has fewer for older
        when_silent="stop",
        keeps_shared=order.keeps_shared,
    )
    if order.power == "absent":
        return let_go
    return _replace(
        let_go,
        cpu_count=order.cpu_count,
        cpu_millis=order.cpu_millis,
        memory_bytes=order.memory_bytes,
        disks=tuple(Disk(size_bytes=one.size_bytes, image=Image(), storage=one.storage) for one in order.disks),
        when_silent=order.when_silent,
    )
