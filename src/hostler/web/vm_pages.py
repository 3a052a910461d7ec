"""The list of VMs, and one VM with its decision."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec
from starlette.responses import Response

from hostler.control.api.shapes import Page, Vm
from hostler.control.services import standing, vms
from hostler.control.services.discretion import readable
from hostler.control.services.explaining import answer_decision
from hostler.control.services.gangs import counting_stopped
from hostler.control.services.lost_vms import find_missing
from hostler.control.services.showing import show_vm
from hostler.control.services.standing import Standings
from hostler.control.store import Connection
from hostler.control.store.errors import NotFoundError
from hostler.control.vms import state as pure
from hostler.errors import HostlerError
from hostler.web.desk import Visit
from hostler.web.exchange import HEADERS, wants_json
from hostler.web.lists import STATES, Looked, VmsAsked, VmsFound, list_vms, look_back, project_names
from hostler.web.live import live_link
from hostler.web.templating import with_query
from hostler.web.verdicts import explanation_of, verdicts_of
from hostler.web.vm_verbs import verbs_for, why_not_migrate

__all__ = ["list_twin", "show_list", "show_one"]

_ROWS = 100
_EVENTS = 30


class _Read(msgspec.Struct, frozen=True):
    vm: pure.Vm
    shown: Vm
    looked: Looked
    standings: Standings
    unmovable: HostlerError | None


def list_twin(asked: Mapping[str, str]) -> str:
    """Return where REST tells the same as a list of VMs; nowhere where it goes by parts of names, as REST does not."""
    if asked.get("name", "").strip():
        return ""
    return with_query("/v1/vms", **{name: asked.get(name, "") for name in (*VmsAsked.__struct_fields__, "after")})


async def show_list(visit: Visit) -> Response:
    """Show VMs, a page at a time."""
    asked = VmsAsked(**{name: visit.query(name) for name in VmsAsked.__struct_fields__})
    after, caller, gathers = visit.query("after"), visit.caller, visit.context.books.gathers

    def work(connection: Connection) -> tuple[VmsFound, list[str]]:
        found = list_vms(connection, asked, caller, gathers, after=after, limit=_ROWS)
        return found, project_names(connection, caller)

    found, projects = await visit.read(work)
    if wants_json(visit.request):
        told = Page(items=found.items, next=found.next)
        return Response(msgspec.json.encode(told), media_type="application/json", headers=HEADERS)
    filters = msgspec.structs.asdict(asked)
    return await visit.render(
        "vms.html",
        title="VMs",
        twin=list_twin({**filters, "after": after}) or with_query("/vms", ask="json", **filters, after=after),
        live=live_link(),
        page=found,
        count=found.count,
        wanted=asked,
        is_filtered=asked.is_filtered,
        projects=projects if len(projects) > 1 else [],
        states=STATES,
        sees_hosts=visit.may("host.read"),
        new_link=with_query("/vms/new", project=asked.project)
        if visit.may("vm.create", visit.principal.project)
        else "",
        next_link=with_query("/vms", **filters, after=found.next) if found.next else "",
        first_link=with_query("/vms", **filters),
        is_first=not after,
        here=visit.here,
    )


async def show_one(visit: Visit) -> Response:
    """Show one VM: what it is, how it is, and what every host says to it."""
    identity, caller, books = visit.part("id"), visit.caller, visit.context.books

    def work(connection: Connection) -> _Read:
        stored = vms.find(connection, identity, caller)
        looked = Looked(items=[], before=0)
        if visit.may("event.read", stored.vm.project):
            looked = look_back(connection, caller, limit=_EVENTS, subject=identity, project=stored.vm.project)
        said, missing = counting_stopped(connection, books.gathers), find_missing(connection)
        shown = show_vm(stored, said, books.tried_at, missing)
        return _Read(stored.vm, shown, looked, standing.read(connection), why_not_migrate(connection, stored.vm))

    found = await visit.read(work)
    verbs = verbs_for(found.vm, visit)
    told, seq, unexplained = await _explain(visit, found.vm, found.standings)
    explanation = explanation_of(told) if told is not None else None
    return await visit.render(
        "vm.html",
        title=found.vm.name,
        twin=f"/v1/vms/{identity}",
        more_twins=_parts(identity, visit.may("event.read", found.vm.project)),
        live=live_link(found.vm.id),
        vm=found.shown,
        verbs=[verb for verb in verbs if verb.name != "migrate" or found.unmovable is None],
        unmovable=found.unmovable if any(verb.name == "migrate" for verb in verbs) else None,
        explanation=explanation,
        unexplained=unexplained,
        if_started=told is not None and told["if_started"],
        verdicts=verdicts_of(explanation, explanation.decision.host) if explanation is not None else None,
        seq=seq,
        events=found.looked.items,
        with_subject=False,
        sees_hosts=visit.may("host.read"),
    )


def _parts(identity: str, sees_events: bool) -> list[str]:
    parts = ("decision", "events") if sees_events else ("decision",)
    return [f"/v1/vms/{identity}/{part}" for part in parts]


async def _explain(visit: Visit, vm: pure.Vm, standings: Standings) -> tuple[dict[str, object] | None, int, str]:
    """Return the decision as REST shows it, with its entry of the log; or None, and the reason as text."""
    may_read, books = readable(visit.principal), visit.context.books
    try:
        with visit.context.asking.explanation(vm.project, visit.now_ns):
            question = partial(answer_decision, vm=vm, may_read=may_read, standings=standings)
            told: dict[str, object] = msgspec.json.decode(await books.explain(question))
    except NotFoundError:
        return None, books.seq, "It asks for no room at the moment, so nothing was decided."
    except HostlerError as error:
        return None, books.seq, f"No explanation: {error.message}; {error.hint}."
    return told, int(str(told["seq"])), ""
