"""The list of VMs, and one VM with its decision."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec
from starlette.responses import Response

from hostler.control.schemas import Page, Vm
from hostler.control.services.explanations.vm_explanations import answer_decision
from hostler.control.services.hosts import unavailable_hosts
from hostler.control.services.hosts.unavailable_hosts import UnavailableHosts
from hostler.control.services.visible_names import readable
from hostler.control.services.vms import vm_changes
from hostler.control.services.vms.gangs import with_stopped_members
from hostler.control.services.vms.lost_vms import find_missing
from hostler.control.services.vms.vm_views import show_vm
from hostler.control.store import Connection
from hostler.control.store.errors import NotFoundError
from hostler.control.store.rows import vms
from hostler.control.vms import state as pure
from hostler.control.vms.status_texts import describe_bring_back, describe_with_reason
from hostler.errors import HostlerError
from hostler.web.jinja_environment import with_query
from hostler.web.lists import STATES, EventPage, VmListFilter, VmListPage, list_events_before, list_vms, project_names
from hostler.web.live_updates import live_link
from hostler.web.page_requests import PageRequest
from hostler.web.pages.vm_actions import NEEDS_ANSWER, actions_for, is_coming, why_not_migrate
from hostler.web.request_forms import HEADERS, wants_json
from hostler.web.verdicts import explanation_of, verdicts_of

__all__ = ["rest_list_url", "show_list", "show_one"]

_ROWS = 100
_EVENTS = 30
_GONE = "The VM is deleted."


class _Read(msgspec.Struct, frozen=True):
    vm: pure.Vm
    shown: Vm
    looked: EventPage
    unavailable: UnavailableHosts
    unmovable: HostlerError | None


class Remedy(msgspec.Struct, frozen=True):
    """What to do about a VM on a silent host."""

    host: str
    bring_back: str
    outcome: str  # of the VM, if the host is confirmed dead
    may_confirm: bool


def rest_list_url(asked: Mapping[str, str]) -> str:
    """Return the address of the same list in REST; none if it filters by a part of a name, which REST cannot."""
    if asked.get("name", "").strip():
        return ""
    return with_query("/v1/vms", **{name: asked.get(name, "") for name in (*VmListFilter.__struct_fields__, "after")})


async def show_list(visit: PageRequest) -> Response:
    """Show VMs, a page at a time."""
    asked = VmListFilter(**{name: visit.query(name) for name in VmListFilter.__struct_fields__})
    after, caller, gathers = visit.query("after"), visit.caller, visit.context.books.gathers

    def work(connection: Connection) -> tuple[VmListPage, list[str], str | None]:
        found = list_vms(connection, asked, caller, gathers, after=after, limit=_ROWS)
        deleted = visit.query("vm") if visit.query("done") == "delete" else ""
        row = vms.find(connection, deleted) if deleted else None
        done = _GONE if deleted and (row is None or row.deleted_ns is not None) else None
        return found, project_names(connection, caller), done

    found, projects, done = await visit.read(work)
    if wants_json(visit.request):
        told = Page(items=found.items, next=found.next)
        return Response(msgspec.json.encode(told), media_type="application/json", headers=HEADERS)
    filters = msgspec.structs.asdict(asked)
    return await visit.render(
        "vms.html",
        title="VMs",
        done=done,
        twin=rest_list_url({**filters, "after": after}) or with_query("/vms", ask="json", **filters, after=after),
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


async def show_one(visit: PageRequest) -> Response:
    """Show one VM: its specification, its status, and the verdict of every host."""
    identity, caller, books = visit.part("id"), visit.caller, visit.context.books

    def work(connection: Connection) -> _Read:
        stored = vm_changes.find(connection, identity, caller)
        looked = EventPage(items=[], before=0)
        if visit.may("event.read", stored.vm.project):
            looked = list_events_before(connection, caller, limit=_EVENTS, subject=identity, project=stored.vm.project)
        said, missing = with_stopped_members(connection, books.gathers), find_missing(connection)
        shown = show_vm(stored, said, books.tried_at, missing)
        return _Read(
            stored.vm, shown, looked, unavailable_hosts.read(connection), why_not_migrate(connection, stored.vm)
        )

    found = await visit.read(work)
    verbs = actions_for(found.vm, visit)
    remedy = _remedy_for(found.vm, found.unavailable, visit)
    if remedy is not None:
        verbs = [verb for verb in verbs if verb.name not in NEEDS_ANSWER]
    told, seq, unexplained = await _explain(visit, found.vm, found.unavailable)
    explanation = explanation_of(told) if told is not None else None
    return await visit.render(
        "vm.html",
        title=found.vm.name,
        here=visit.here,
        done=None if is_coming(found.vm, visit.query("done")) else "",
        twin=f"/v1/vms/{identity}",
        more_twins=_parts(identity, visit.may("event.read", found.vm.project)),
        live=live_link(found.vm.id),
        vm=found.shown,
        verbs=[verb for verb in verbs if verb.name != "migrate" or found.unmovable is None],
        unmovable=found.unmovable if any(verb.name == "migrate" for verb in verbs) else None,
        explanation=explanation,
        unexplained=unexplained,
        if_started=told is not None and told["if_started"],
        pinned=told["pinned"] if told is not None else None,
        verdicts=verdicts_of(explanation, explanation.decision.host) if explanation is not None else None,
        seq=seq,
        events=found.looked.items,
        with_subject=False,
        sees_hosts=visit.may("host.read"),
        remedy=remedy,
        status_text=describe_with_reason(found.vm, found.shown.why),
    )


def _remedy_for(vm: pure.Vm, unavailable: UnavailableHosts, visit: PageRequest) -> Remedy | None:
    """Return what to do about a VM whose host is silent; None for all others."""
    if vm.home is None or pure.state_of(vm) != "unknown":
        return None
    host = vm.home.name
    causes = unavailable.get(host, ()) if visit.may("host.read") else ()
    bring_back = next((cause.cure.format(host=host) for cause in causes), describe_bring_back(host))
    if not vm.spec.is_movable:
        outcome = "Its local disk is then lost."
    elif vm.spec.when_lost == "restart":
        outcome = "The VM then starts on another host."
    else:
        outcome = "The VM is then stopped, and can be started on another host."
    return Remedy(host, bring_back, outcome, visit.may("host.admin"))


def _parts(identity: str, sees_events: bool) -> list[str]:
    parts = ("decision", "events") if sees_events else ("decision",)
    return [f"/v1/vms/{identity}/{part}" for part in parts]


async def _explain(
    visit: PageRequest, vm: pure.Vm, unavailable: UnavailableHosts
) -> tuple[dict[str, object] | None, int, str]:
    """Return the decision as REST shows it, with its entry of the log; or None, and the reason as text."""
    may_read, books = readable(visit.principal), visit.context.books
    try:
        with visit.context.asking.explanation(vm.project, visit.now_ns):
            question = partial(answer_decision, vm=vm, may_read=may_read, unavailable=unavailable)
            told: dict[str, object] = msgspec.json.decode(await books.explain(question))
    except NotFoundError:
        return None, books.seq, "It asks for no room at the moment, so nothing was decided."
    except HostlerError as error:
        return None, books.seq, f"No explanation: {error.message}; {error.hint}."
    return told, int(str(told["seq"])), ""
