"""Why a VM is where it is, or nowhere: what the engine says, in the words and with the names of whoever reads it."""

from __future__ import annotations

import re

import msgspec

from hostler.control.services.discretion import MayRead, discreet, only
from hostler.control.services.over_quota import counted
from hostler.control.services.standing import Standings, restated
from hostler.control.services.staying import in_total, staying
from hostler.control.store.errors import NotFoundError
from hostler.control.vms import wishes
from hostler.control.vms.state import Vm
from hostler.engine import Engine
from hostler.model import Event, Explanation
from hostler.model.plain_data import explanation_as_data

__all__ = ["explain_refusal", "explain_vm", "plain", "told"]

_replace = msgspec.structs.replace
_ENGINES = re.compile(r"\b(a|another|the|no|its|without) (guest|tenant)(?=s? |s?$|'s )")
_WORDS = {"guest": "VM", "tenant": "project"}


def explain_vm(
    engine: Engine, vm: Vm, may_read: MayRead | None = None, standings: Standings | None = None
) -> dict[str, object]:
    """Return the explanation object of a VM: of the claim that waits, else of the one that holds its room.

    A stopped VM that holds none is explained as if it were started now. Where nobody says what the caller may read,
    it is the VM's own project. ``standings`` say what keeps VMs from hosts; without them a host that takes none is just
    cordoned.
    """
    waiting = [one for one in (vm.run, vm.grow, vm.move) if one is not None and not one.is_bound]
    claim = waiting[0] if waiting else vm.run
    if claim is None and vm.power == "stopped":
        change = wishes.start(vm)
        for fact in change.facts:
            engine.apply(fact)
        claim = change.vm.run
    if claim is None or claim.uid not in engine.state.guests:
        raise NotFoundError(f"nothing is decided about VM {vm.name}", hint="it is going, or has just come")
    found = staying(told(engine, claim.uid, may_read or only(vm.project), standings), vm)
    if claim is vm.grow:
        found = in_total(found, vm)
    return explanation_as_data(found, vm.project, None)


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


def told(engine: Engine, uid: str, may_read: MayRead, standings: Standings | None) -> Explanation:
    """Return an explanation in the words of whoever reads it, with the names that he may know."""
    found = _of_vms(discreet(counted(engine, engine.explain(uid)), may_read))
    return found if standings is None else restated(found, standings)


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
