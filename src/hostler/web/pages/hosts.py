"""One host: what is promised of it, which VMs it has, and what may be done to it.

What cannot be taken back needs the host's name (or the number of VMs) in words of its own, and the service checks it,
as it does for REST.
"""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from hostler.control.api.requests.problems import status_of
from hostler.control.fleet.agents.host_orders import count_teardown
from hostler.control.fleet.hosts.drains import StayingVm, list_staying
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.schemas import Host, Scheduling, Vm
from hostler.control.services.callers import Caller
from hostler.control.services.hosts import host_changes
from hostler.control.services.hosts.host_views import scheduling_of, with_reserved
from hostler.control.services.visible_names import STRANGER, MayRead, readable
from hostler.control.store import Connection
from hostler.control.store.rows import vms
from hostler.control.store.rows.hosts import HostRow
from hostler.control.store.rows.vms import VmFilter
from hostler.errors import HostlerError
from hostler.model.vocabulary import plural
from hostler.web.host_map import load_of
from hostler.web.live_updates import live_link
from hostler.web.page_requests import PageRequest
from hostler.web.request_forms import whole_number

__all__ = ["VERBS", "HostAction", "actions_for", "ask", "do", "show"]

_UNHEARD = ("silent", "offline")
_MOST = 2**31


class HostAction(msgspec.Struct, frozen=True, kw_only=True):
    """One action of a page. A direct one is done without a confirmation."""

    name: str
    title: str
    question: str
    permission: str = "host.operate"
    lines: tuple[str, ...] = ()
    is_direct: bool = False
    is_dangerous: bool = False
    confirm: str = ""  # what must be typed: name or count


VERBS = {
    one.name: one
    for one in (
        HostAction(
            name="cordon",
            title="Cordon",
            question="Cordon {}?",
            lines=("It takes no new VMs until it is uncordoned. Those it has stay.",),
        ),
        HostAction(
            name="uncordon",
            title="Uncordon",
            question="Uncordon {}?",
            lines=("It takes new VMs again.",),
            is_direct=True,
        ),
        HostAction(
            name="drain",
            title="Drain",
            question="Drain {}?",
            lines=("It takes no new VMs, and those that can move go elsewhere.",),
            is_dangerous=True,
        ),
        HostAction(
            name="undrain",
            title="Stop draining",
            question="Stop draining {}?",
            lines=("It takes new VMs again; those that left stay away.",),
            is_direct=True,
        ),
        HostAction(
            name="allow-teardown",
            title="Allow teardown",
            question="Let {} remove its VMs?",
            permission="host.admin",
            lines=("What it was told to remove goes for good, with its disks.",),
            is_dangerous=True,
            confirm="count",
        ),
        HostAction(
            name="force-offline",
            title="Force offline",
            question="Take {} for offline?",
            permission="host.admin",
            lines=(
                "Its agent is not listened to until it registers again. How its VMs are is unknown; they are not "
                "started elsewhere.",
            ),
            is_dangerous=True,
            confirm="name",
        ),
        HostAction(
            name="confirm-dead",
            title="Confirm dead",
            question="Is {} dead?",
            permission="host.admin",
            lines=(
                "You give your word that nothing runs there any more: it is switched off, or cut off from network and "
                "storage. VMs that may start elsewhere do.",
                "If it does run, they run twice and may destroy their data.",
            ),
            is_dangerous=True,
            confirm="name",
        ),
        HostAction(
            name="delete",
            title="Delete",
            question="Delete {}?",
            permission="host.admin",
            lines=("It is forgotten, and its agent is locked out. It must have no VMs.",),
            is_dangerous=True,
            confirm="name",
        ),
    )
}


def actions_for(host: Host, visit: PageRequest) -> list[HostAction]:
    """Return what the visitor may do to a host as it is. The service may still reject it with a reason."""
    sensible = {
        "cordon": not host.cordoned and not host.draining,
        "uncordon": host.cordoned and not host.draining,
        "drain": not host.draining,
        "undrain": host.draining,
        "allow-teardown": host.refused_teardown > 0,
        "force-offline": host.state in ("ready", "silent"),
        "confirm-dead": host.state in _UNHEARD,
        "delete": True,
    }
    return [verb for verb in VERBS.values() if sensible[verb.name] and visit.may(verb.permission)]


def _is_so(host: Host, verb: str) -> bool:
    """Say whether a host is still as a visitor's action made it."""
    takes_vms = not host.cordoned and not host.draining
    now = {
        "cordon": host.cordoned,
        "uncordon": takes_vms,
        "drain": host.draining,
        "undrain": takes_vms,
        "force-offline": host.state == "offline",
        "confirm-dead": host.state == "fenced",
    }
    return now.get(verb, True)


async def ask(visit: PageRequest) -> Response:
    """Ask before something is done."""
    return await _question(visit, None)


async def do(visit: PageRequest) -> Response:
    """Do it, and go back to the host, or to the others if it is gone."""
    verb, name = VERBS[visit.part("verb")], visit.part("name")
    typed = (await visit.form()).get("confirm", "").strip()

    def work(connection: Connection, caller: Caller) -> str:
        if verb.name == "delete":
            return host_changes.delete(connection, name, typed, caller)
        confirm = whole_number("confirm", typed, 1, _MOST) if verb.confirm == "count" else typed
        return host_changes.act(connection, name, verb.name, confirm, caller, visit.context.settings, visit.heard).id

    try:
        identity = await visit.write(work)
    except HostlerError as error:
        return await _question(visit, error)
    if verb.name == "delete" or verb.name in host_changes.ENDS_REGISTRATION:
        visit.context.fleet.forget(identity)
    return visit.go("/?done=host-delete" if verb.name == "delete" else f"/hosts/{identity}?done={verb.name}")


async def _question(visit: PageRequest, error: HostlerError | None) -> Response:
    name, verb, caller = visit.part("name"), VERBS[visit.part("verb")], visit.caller

    def work(connection: Connection) -> tuple[HostRow, tuple[str, ...], int]:
        row = host_changes.find(connection, name, caller, verb.permission)
        due = count_teardown(connection, row.id, read_body(row)) if verb.confirm == "count" else 0
        return row, _consequences(connection, verb, row, due, readable(caller.principal)), due

    row, consequences, due = await visit.read(work)
    return await visit.render(
        "question.html",
        title=verb.question.format(row.name),
        twin=f"/v1/hosts/{row.id}",
        status=status_of(error) if error is not None else 200,
        error=error,
        lines=(*verb.lines, *consequences),
        action=f"/hosts/{row.id}/{verb.name}",
        targets=None,
        confirm={"name": row.name, "count": str(due)}.get(verb.confirm, ""),
        danger=verb.is_dangerous,
        button=verb.title,
        back=f"/hosts/{row.id}",
    )


def _consequences(
    connection: Connection, verb: HostAction, row: HostRow, due: int, may_read: MayRead
) -> tuple[str, ...]:
    """Return what an action would do to the VMs of a host now."""
    if verb.confirm == "count":
        return (f"{plural(due, 'VM')} will be removed.",)
    if verb.name not in ("drain", "force-offline", "confirm-dead", "delete"):
        return ()
    there = list_staying(connection, row.id)
    if verb.name == "drain":
        return _leaving(there, may_read)
    return (f"{plural(len(there), 'VM')} {'is' if len(there) == 1 else 'are'} there now.",)


def _leaving(there: list[StayingVm], may_read: MayRead) -> tuple[str, ...]:
    if not there:
        return ()
    stuck = [one for one in there if one.is_stuck]
    lines = [f"{plural(len(there) - len(stuck), 'VM')} will leave, where other hosts have room."]
    if stuck:
        name = stuck[0].name if may_read(stuck[0].project) else STRANGER
        lines.append(f"{plural(len(stuck), 'VM')} cannot, for example {name}: {stuck[0].why}.")
    return tuple(lines)


class _Read(msgspec.Struct, frozen=True):
    host: Host
    vms: list[Vm]
    scheduling: Scheduling


async def show(visit: PageRequest) -> Response:
    """Show a host, by its name or its id."""
    found = await visit.read(lambda connection: _read(connection, visit))
    principal = visit.caller.principal
    [host], _ = await visit.context.books.ask(lambda engine: with_reserved(engine, [found.host], principal))
    return await visit.render(
        "host.html",
        title=host.name,
        here=visit.here,
        done=None if _is_so(host, visit.query("done")) else "",
        twin=f"/v1/hosts/{host.id}",
        more_twins=[f"/v1/hosts/{host.id}/{part}" for part in ("vms", "scheduling")],
        live=live_link(),
        host=host,
        load=load_of(host),
        vms=found.vms,
        scheduling=found.scheduling,
        verbs=actions_for(host, visit),
    )


def _read(connection: Connection, visit: PageRequest) -> _Read:
    host = host_changes.get(connection, visit.part("name"), visit.caller, visit.context.settings, visit.heard)
    running = vms.count(connection, VmFilter(host=host.id, state="running"))
    return _Read(host, host_changes.list_vms(connection, host.id, visit.caller), scheduling_of(host, running))
