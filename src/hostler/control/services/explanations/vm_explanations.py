"""Explains why a VM is on its host, or on none: the engine's explanation in the words of users.

It also says by how much a VM would exceed its project's quota, and which command raises the quota.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.control.services.explanations.cure_commands import with_commands
from hostler.control.services.explanations.vms_in_place import pin_of, with_own_host_only, with_total_amounts
from hostler.control.services.hosts.unavailable_hosts import UnavailableHosts, explain_unavailable_hosts
from hostler.control.services.visible_names import MayRead, hide_names, one_project
from hostler.control.store.errors import NotFoundError
from hostler.control.vms import desired_state
from hostler.control.vms.guests import claim_update
from hostler.control.vms.reasons import host_left_by_move, to_user_change, to_user_counts, to_user_reason
from hostler.control.vms.state import Vm, state_of
from hostler.control.vms.status_texts import advice, describe_status
from hostler.engine import Engine
from hostler.model import DecisionNote, Event, Explanation, GuestSpec, HostVerdict, amount_of, format_resource
from hostler.model.notes import QUOTA_EXCEEDED
from hostler.model.plain_data import explanation_as_data
from hostler.model.vocabulary import VM_WORDS, render_explanation, with_notes

__all__ = ["answer_decision", "answer_refusal", "explain_guest", "explain_refusal", "explain_vm"]

_replace = msgspec.structs.replace


def explain_vm(
    engine: Engine,
    vm: Vm,
    may_read: MayRead | None = None,
    unavailable: UnavailableHosts | None = None,
    missing: Sequence[str] = (),
) -> dict[str, object]:
    """Return the explanation object of a VM: of the claim that waits, else of the one that holds its room.

    A stopped VM that holds no room is explained as if it were started now: ``if_started`` says so, and ``wakes`` is
    empty. A VM that has its place is explained as if it were placed now, without the constraints of its last move or
    start: ``if_placed_now`` names the best host, and ``pinned`` says what keeps the VM on one host.

    Without ``may_read`` only names of the VM's own project are shown. ``unavailable`` says why hosts take no VMs;
    without it such a host is just cordoned. The object also has the VM's ``state``, its status ``now``, and a ``hint``
    if an operator has to act. ``missing`` names the hosts that may still have a lost VM.
    """
    waiting = [one for one in (vm.run, vm.grow, vm.move) if one is not None and not one.is_bound]
    claim = waiting[0] if waiting else vm.run
    if_started = claim is None and vm.power == "stopped"
    if if_started:
        change = desired_state.start(vm)
        for fact in change.facts:
            engine.apply(fact)
        claim = change.vm.run
    is_placed = claim is not None and claim is vm.run and claim.is_bound and vm.power != "absent"
    if claim is not None and is_placed and claim.uid in engine.view.records:
        engine.apply(claim_update(vm, _replace(claim, version=claim.version + 1)))
    if claim is None or claim.uid not in engine.view.records:
        if claim is not None and vm.why:  # the engine rejected what it was told of it
            raise NotFoundError(
                f"nothing is decided about VM {vm.name}: {vm.why}", hint="change its spec, or delete it"
            )
        raise NotFoundError(f"nothing is decided about VM {vm.name}", hint="it is being deleted, or was just created")
    asked = "more asked" if claim is vm.grow else "asked"
    found = explain_guest(engine, claim.uid, may_read or one_project(vm.project), unavailable, asked=asked)
    if claim is not vm.move:
        found = with_own_host_only(found, vm)
    if claim is vm.grow:
        found = with_total_amounts(found, vm)
    found = with_commands(found, vm)
    if if_started:
        found = _replace(found, wakes=(), wake_events=())
    how_it_is = {
        "state": state_of(vm),
        "now": describe_status(vm),
        "hint": _start_hint(found, vm) or advice(vm, _remedy_of_host(vm, unavailable or {}), missing),
        "if_started": if_started,
        "made_way": vm.made_way,
        "moved_for": vm.moved_for,
        "if_placed_now": next((one.host for one in found.verdicts if one.fits), None) if is_placed else None,
        "pinned": pin_of(vm),
    }
    return explanation_as_data(found, vm.project, None) | how_it_is


def answer_decision(
    engine: Engine,
    seq: int,
    *,
    vm: Vm,
    may_read: MayRead | None = None,
    unavailable: UnavailableHosts | None = None,
    missing: Sequence[str] = (),
) -> bytes:
    """Return the explanation object of a VM as JSON: a question for ``control.books``; see ``explain_vm``."""
    return msgspec.json.encode({**explain_vm(engine, vm, may_read, unavailable, missing), "seq": seq})


def answer_refusal(
    engine: Engine,
    seq: int,
    *,
    facts: tuple[Event, ...],
    uid: str,
    project: str,
    may_read: MayRead | None = None,
    unavailable: UnavailableHosts | None = None,
) -> bytes:
    """Return the explanation object of a rejected VM as JSON: a question for ``control.books``."""
    return msgspec.json.encode({**explain_refusal(engine, facts, uid, project, may_read, unavailable), "seq": seq})


def _start_hint(found: Explanation, vm: Vm) -> str:
    """Return a hint if a start would only make the VM wait; empty if some host would take it."""
    if state_of(vm) != "stopped" or not found.verdicts or any(verdict.fits for verdict in found.verdicts):
        return ""
    name = f"{vm.project}/{vm.name}"
    return f"change it, or make room for it, before 'hostler vm start {name}': no host would take it as it is"


def _remedy_of_host(vm: Vm, unavailable: UnavailableHosts) -> str:
    """Return what brings the silent host of a VM back."""
    host = vm.home.name if vm.home is not None else ""
    return next((cause.cure.format(host=host) for cause in unavailable.get(host, ())), "")


def explain_refusal(
    engine: Engine,
    facts: tuple[Event, ...],
    uid: str,
    project: str,
    may_read: MayRead | None = None,
    unavailable: UnavailableHosts | None = None,
) -> dict[str, object]:
    """Return the explanation object of a rejected VM, for the fleet as it is now; see ``explain_vm``."""
    for fact in facts:
        engine.apply(fact)
    engine.step(engine.now)
    return explanation_as_data(explain_guest(engine, uid, may_read or one_project(project), unavailable), project, None)


def explain_guest(
    engine: Engine, uid: str, may_read: MayRead, unavailable: UnavailableHosts | None, *, asked: str = "asked"
) -> Explanation:
    """Return the engine's explanation of a guest in the words of users, with the names that the caller may see."""
    found = hide_names(_with_quota_excess(engine, engine.explain(uid), asked=asked), may_read)
    found = render_explanation(found, VM_WORDS)
    found = _in_user_terms(found, engine.view.guest(uid).spec)
    return found if unavailable is None else explain_unavailable_hosts(found, unavailable)


def _in_user_terms(found: Explanation, spec: GuestSpec) -> Explanation:
    """Return an explanation about the user's request, without labels and terms that the service added."""
    home, cure, gang = host_left_by_move(spec), found.cure, found.gang
    if cure is not None:
        changes = tuple(to_user_change(one, cure.host) for one in cure.changes)
        cure = None if cure.host == home else _replace(cure, changes=changes)
    if gang is not None:
        gang = _replace(
            gang, members=tuple(_replace(one, reasons=to_user_counts(one.reasons, spec)) for one in gang.members)
        )
    return _replace(
        found,
        decision=_replace(found.decision, reasons=to_user_counts(found.decision.reasons, spec)),
        verdicts=tuple(_verdict_in_user_terms(one, spec) for one in found.verdicts),
        near_misses=tuple(name for name in found.near_misses if name != home),
        cure=cure,
        gang=gang,
    )


def _verdict_in_user_terms(verdict: HostVerdict, spec: GuestSpec) -> HostVerdict:
    failures = (_replace(one, reason=to_user_reason(one.reason, spec, verdict.host)) for one in verdict.failures)
    return _replace(verdict, failures=tuple(failures))


def _with_quota_excess(engine: Engine, found: Explanation, *, asked: str = "asked") -> Explanation:
    """Return an explanation that says by how much a quota is exceeded.

    ``asked`` is the word for the request: for a VM that grows, it is what the VM asks in addition.
    """
    spec = engine.view.guest(found.decision.uid).spec
    exceeded = engine.view.quotas.exceeded(spec) if found.quota else None
    if exceeded is None:
        return found
    text = f"{found.quota} ({_amounts(engine, spec, *exceeded, asked)}); {_cure(engine, spec, *exceeded)}"
    notes = found.decision.notes or (DecisionNote(QUOTA_EXCEEDED, spec.tenant),)
    return _replace(found, quota=text, decision=with_notes(found.decision, notes))


def _cure(engine: Engine, spec: GuestSpec, resource: str, is_maximum: bool) -> str:
    """Return the command with which an admin lets it in. Guaranteed room is within the quota, whatever others use."""
    quotas = engine.view.quotas
    enough = format_resource(resource, quotas.used_of(spec.tenant, resource) + quotas.wanted(spec, resource))
    return f"'hostler quota set {spec.tenant} --{'max' if is_maximum else 'min'} {resource}={enough}' would let it in"


def _amounts(engine: Engine, spec: GuestSpec, resource: str, is_maximum: bool, asked: str) -> str:
    """Describe use, request and limit. Beyond the guaranteed minimum, the use of all projects counts as well."""

    def text(amount: int) -> str:
        return format_resource(resource, amount)

    quotas = engine.view.quotas
    quota = quotas.by_tenant[spec.tenant]
    told = f"{text(quotas.used_of(spec.tenant, resource))} used, {text(quotas.wanted(spec, resource))} {asked}"
    if is_maximum:
        return f"{told}, {text(amount_of(quota.max, resource))} at most"
    guaranteed = sum(amount_of(one.min, resource) for one in quotas.by_tenant.values())
    total = sum(one.get(resource, 0) for one in quotas.used.values())
    least = amount_of(quota.min, resource)
    return f"{told}, {text(least)} guaranteed; all projects use {text(total)} of {text(guaranteed)} guaranteed in all"
