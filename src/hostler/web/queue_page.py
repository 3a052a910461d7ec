"""Who waits for a place, and what stands in the way."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from hostler.control.api.shapes import Waiting
from hostler.control.books import ledger
from hostler.control.books.ledger import Stored
from hostler.control.services import standing
from hostler.control.services.gangs import counting_stopped
from hostler.control.services.showing import show_waiting, undecided_reason
from hostler.control.services.standing import Standings, recounted
from hostler.control.store import Connection, lease
from hostler.control.store.vms import list_waiting
from hostler.control.vms.reasons import reworded
from hostler.engine import Engine
from hostler.web.desk import Visit
from hostler.web.live import live_link
from hostler.web.templating import with_query
from hostler.web.wording import reason_text

__all__ = ["show"]

_ROWS = 200


class Obstacle(msgspec.Struct, frozen=True):
    """A reason that keeps VMs waiting: how many, and on how many hosts at most."""

    reason: str
    vms: int
    hosts: int


async def show(visit: Visit) -> Response:
    """Show the VMs that wait, the most important first."""
    after = visit.query("after")
    project = visit.principal.narrowed(visit.query("project"))
    visit.principal.check("vm.read", project)
    books = visit.context.books

    def work(connection: Connection) -> tuple[list[Stored], list[Waiting], str, Standings]:
        page = list_waiting(connection, project, after=after, limit=_ROWS)
        gathers = counting_stopped(connection, books.gathers)
        found = [ledger.stored(row) for row in page.items]
        undecided = undecided_reason(lease.read(connection))
        items = [show_waiting(one, gathers, books.tried_at, undecided) for one in found]
        return found, items, page.next, standing.read(connection)

    found, items, cursor, standings = await visit.read(work)
    uids = [claim.uid for one in found for claim in (one.vm.run,) if claim is not None]
    summary, _ = await books.ask(lambda engine: _obstacles(engine, uids, standings))
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


def _obstacles(engine: Engine, uids: Sequence[str], standings: Standings) -> list[Obstacle]:
    """Count what the engine last found against each of those who wait."""
    counts: dict[str, tuple[int, int]] = {}
    closed = [host.name for host in engine.hosts() if host.cordoned]
    for uid in uids:
        if uid not in engine.view.records:
            continue
        reasons = reworded(engine.decision(uid).reasons, engine.view.guest(uid).spec)
        for count in recounted(reasons, closed, standings):
            text = reason_text(count.reason)
            seen, most = counts.get(text, (0, 0))
            counts[text] = (seen + 1, max(most, count.hosts))
    found = [Obstacle(text, seen, most) for text, (seen, most) in counts.items()]
    return sorted(found, key=lambda one: (-one.vms, -one.hosts, one.reason))
