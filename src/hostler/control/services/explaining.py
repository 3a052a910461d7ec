"""Why a VM is where it is, or nowhere: what the engine says, in the words and with the names of whoever reads it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from hostler.control.services.discretion import MayRead, discreet, only
from hostler.control.services.over_quota import counted
from hostler.control.services.remedies import with_commands
from hostler.control.services.standing import Standings, restated
from hostler.control.services.staying import in_total, staying
from hostler.control.store.errors import NotFoundError
from hostler.control.vms import wishes
from hostler.control.vms.reasons import in_words, left_by, mended, reworded
from hostler.control.vms.state import Vm, state_of
from hostler.control.vms.telling import advice, standing
from hostler.engine import Engine
from hostler.model import Event, Explanation, GuestSpec, HostVerdict
from hostler.model.plain_data import explanation_as_data

__all__ = ["answer_decision", "answer_refusal", "explain_refusal", "explain_vm", "plain", "told"]

_replace = msgspec.structs.replace
_ENGINES = re.compile(r"\b(a|another|the|no|its|without) (guest|tenant)(?=s? |s?$|'s )")
_WORDS = {"guest": "VM", "tenant": "project"}


def explain_vm(
    engine: Engine,
    vm: Vm,
    may_read: MayRead | None = None,
    standings: Standings | None = None,
    missing: Sequence[str] = (),
) -> dict[str, object]:
    """Return the explanation object of a VM: of the claim that waits, else of the one that holds its room.

    A stopped VM that holds none is explained as if it were started now: ``if_started`` says so, and nothing wakes it,
    since nobody tries it before somebody starts it. Where nobody says what the caller may read,
    it is the VM's own project. ``standings`` say what keeps VMs from hosts; without them a host that takes none is just
    cordoned. Beside what the engine says stand the VM's ``state``, how it is ``now``, and a ``hint`` where somebody
    must do something about it. ``missing`` names the hosts that may still have a VM that is lost.
    """
    waiting = [one for one in (vm.run, vm.grow, vm.move) if one is not None and not one.is_bound]
    claim = waiting[0] if waiting else vm.run
    if_started = claim is None and vm.power == "stopped"
    if if_started:
        change = wishes.start(vm)
        for fact in change.facts:
            engine.apply(fact)
        claim = change.vm.run
    if claim is None or claim.uid not in engine.view.records:
        if claim is not None and vm.why:  # the engine rejected what it was told of it
            raise NotFoundError(
                f"nothing is decided about VM {vm.name}: {vm.why}", hint="change its spec, or delete it"
            )
        raise NotFoundError(f"nothing is decided about VM {vm.name}", hint="it is going, or has just come")
    asked = "more asked" if claim is vm.grow else "asked"
    found = told(engine, claim.uid, may_read or only(vm.project), standings, asked=asked)
    if claim is not vm.move:
        found = staying(found, vm)
    if claim is vm.grow:
        found = in_total(found, vm)
    found = with_commands(found, vm)
    if if_started:
        found = _replace(found, wakes=())
    how_it_is = {
        "state": state_of(vm),
        "now": standing(vm),
        "hint": _in_vain(found, vm) or advice(vm, _mend(vm, standings or {}), missing),
        "if_started": if_started,
        "made_way": vm.made_way,
    }
    return explanation_as_data(found, vm.project, None) | how_it_is


def answer_decision(
    engine: Engine,
    seq: int,
    *,
    vm: Vm,
    may_read: MayRead | None = None,
    standings: Standings | None = None,
    missing: Sequence[str] = (),
) -> bytes:
    """Return the explanation object of a VM as JSON: a question for ``control.books``; see ``explain_vm``."""
    return msgspec.json.encode({**explain_vm(engine, vm, may_read, standings, missing), "seq": seq})


def answer_refusal(
    engine: Engine,
    seq: int,
    *,
    facts: tuple[Event, ...],
    uid: str,
    project: str,
    may_read: MayRead | None = None,
    standings: Standings | None = None,
) -> bytes:
    """Return the explanation object of a rejected VM as JSON: a question for ``control.books``."""
    return msgspec.json.encode({**explain_refusal(engine, facts, uid, project, may_read, standings), "seq": seq})


def _in_vain(found: Explanation, vm: Vm) -> str:
    """Say what comes before a start that would only let a VM wait; empty where some host would take it."""
    if state_of(vm) != "stopped" or not found.verdicts or any(verdict.fits for verdict in found.verdicts):
        return ""
    name = f"{vm.project}/{vm.name}"
    return f"change it, or make room for it, before 'hostler vm start {name}': no host would take it as it is"


def _mend(vm: Vm, standings: Standings) -> str:
    """Say what would let the host of a VM be heard again."""
    host = vm.home.name if vm.home is not None else ""
    return next((cause.cure.format(host=host) for cause in standings.get(host, ())), "")


def explain_refusal(
    engine: Engine,
    facts: tuple[Event, ...],
    uid: str,
    project: str,
    may_read: MayRead | None = None,
    standings: Standings | None = None,
) -> dict[str, object]:
    """Return the explanation object of a VM that was refused, as the fleet is now; see ``explain_vm``."""
    for fact in facts:
        engine.apply(fact)
    engine.step(engine.now)
    return explanation_as_data(told(engine, uid, may_read or only(project), standings), project, None)


def told(
    engine: Engine, uid: str, may_read: MayRead, standings: Standings | None, *, asked: str = "asked"
) -> Explanation:
    """Return an explanation in the words of whoever reads it, with the names that he may know."""
    found = _of_vms(discreet(counted(engine, engine.explain(uid), asked=asked), may_read))
    found = _as_asked(found, engine.view.guest(uid).spec)
    return found if standings is None else restated(found, standings)


def _as_asked(found: Explanation, spec: GuestSpec) -> Explanation:
    """Return an explanation that speaks of what was asked for, not of labels and terms that the service added."""
    home, cure, gang = left_by(spec), found.cure, found.gang
    if cure is not None:
        changes = tuple(mended(one, cure.host) for one in cure.changes)
        cure = None if cure.host == home else _replace(cure, changes=changes)
    if gang is not None:
        gang = _replace(gang, members=tuple(_replace(one, reasons=reworded(one.reasons, spec)) for one in gang.members))
    return _replace(
        found,
        decision=_replace(found.decision, reasons=reworded(found.decision.reasons, spec)),
        verdicts=tuple(_verdict_as_asked(one, spec) for one in found.verdicts),
        near_misses=tuple(name for name in found.near_misses if name != home),
        cure=cure,
        gang=gang,
    )


def _verdict_as_asked(verdict: HostVerdict, spec: GuestSpec) -> HostVerdict:
    failures = (_replace(one, reason=in_words(one.reason, spec, verdict.host)) for one in verdict.failures)
    return _replace(verdict, failures=tuple(failures))


def _of_vms(found: Explanation) -> Explanation:
    """Return an explanation that speaks of VMs and projects where the engine speaks of guests and tenants."""
    eviction, gang = found.eviction, found.gang
    return _replace(
        found,
        wakes=tuple(map(plain, found.wakes)),
        eviction=None if eviction is None else _replace(eviction, why_not=plain(eviction.why_not)),
        gang=None if gang is None else _replace(gang, binding=plain(gang.binding)),
    )


def plain(text: str) -> str:
    """Return a sentence of the engine's in other words; a name that is such a word stays."""
    words = _ENGINES.sub(lambda found: f"{found[1]} {_WORDS[found[2]]}", text)
    return words.replace("a bind fails", "a placement fails")
