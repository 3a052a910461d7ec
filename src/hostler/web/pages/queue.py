"""VMs that wait for a place, and the reasons."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from hostler.control.books import ledger
from hostler.control.books.ledger import StoredVm
from hostler.control.schemas import Waiting
from hostler.control.services.hosts import unavailable_hosts
from hostler.control.services.hosts.unavailable_hosts import UnavailableHosts, count_unavailable_reasons
from hostler.control.services.vms.gangs import with_stopped_members
from hostler.control.services.vms.vm_views import show_waiting, undecided_reason
from hostler.control.store import Connection
from hostler.control.store.history import lease
from hostler.control.store.rows.vms import list_waiting
from hostler.control.vms.reasons import to_user_counts
from hostler.engine import Engine
from hostler.model.vocabulary import VM_WORDS, reason_text
from hostler.web.jinja_environment import with_query
from hostler.web.live_updates import live_link
from hostler.web.page_requests import PageRequest

__all__ = ["show"]

_ROWS = 200


class WaitReason(msgspec.Struct, frozen=True):
    """A reason that keeps VMs waiting: how many, and on how many hosts at most."""

    reason: str
    vms: int
    hosts: int


async def show(visit: PageRequest) -> Response:
    """Show the VMs that wait, the most important first."""
    after = visit.query("after")
    project = visit.principal.limit_project(visit.query("project"))
    visit.principal.check("vm.read", project)
    books = visit.context.books

    def work(connection: Connection) -> tuple[list[StoredVm], list[Waiting], str, UnavailableHosts]:
        page = list_waiting(connection, project, after=after, limit=_ROWS)
        gathers = with_stopped_members(connection, books.gathers)
        found = [ledger.read_row(row) for row in page.items]
        undecided = undecided_reason(lease.read(connection))
        items = [show_waiting(one, gathers, books.tried_at, undecided) for one in found]
        return found, items, page.next, unavailable_hosts.read(connection)

    found, items, cursor, unavailable = await visit.read(work)
    uids = [claim.uid for one in found for claim in (one.vm.run,) if claim is not None]
    summary, _ = await books.ask(lambda engine: _obstacles(engine, uids, unavailable))
    return await visit.render(
        "queue.html",
        title="Queue",
        twin=with_query("/v1/queue", project=project),
        live=live_link(),
        items=items,
        summary=summary,
        next_link=with_query("/queue", project=project, after=cursor) if cursor else "",
        first_link=with_query("/queue", project=project),
        is_first=not after,
        here=visit.here,
    )


def _obstacles(engine: Engine, uids: Sequence[str], unavailable: UnavailableHosts) -> list[WaitReason]:
    """Count what the engine last found against each of those who wait."""
    counts: dict[str, tuple[int, int]] = {}
    closed = [host.name for host in engine.hosts() if host.cordoned]
    for uid in uids:
        if uid not in engine.view.records:
            continue
        reasons = to_user_counts(engine.decision(uid).reasons, engine.view.guest(uid).spec)
        for count in count_unavailable_reasons(reasons, closed, unavailable):
            text = reason_text(count.reason, VM_WORDS)
            seen, most = counts.get(text, (0, 0))
            counts[text] = (seen + 1, max(most, count.hosts))
    found = [WaitReason(text, seen, most) for text, (seen, most) in counts.items()]
    return sorted(found, key=lambda one: (-one.vms, -one.hosts, one.reason))
