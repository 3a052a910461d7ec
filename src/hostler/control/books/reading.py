"""Why a VM waits, in one sentence, and what a step must be remembered with. Used by the leader after each step.

The sentence is written down with the VM and shown as it is: it has the words of those who have VMs, not the engine's.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.control.books.deciding import Decided, Rejection
from hostler.control.books.follower import Refusal, Step
from hostler.control.vms.reasons import NOT_TAKING, in_words, of_its_host, uncaused
from hostler.engine import Engine
from hostler.engine.gang_book import GANG
from hostler.errors import NamesFullError
from hostler.model import (
    Action,
    Bind,
    Evict,
    Guest,
    GuestArrived,
    GuestChanged,
    GuestSpec,
    Hold,
    HostChanged,
    HostJoined,
    Reason,
)

__all__ = ["QUOTA_FULL", "remembered", "why_held"]

QUOTA_FULL = "the project's quota has no room for it"

_replace = msgspec.structs.replace
_MOST_REASONS = 6
_HIGHER = "a VM of higher priority"
_REJECTED = "the scheduler rejects it"
_QUOTA = "quota"  # what refuses before any host is asked


def remembered(engine: Engine, step: Step, actions: Sequence[Action], refused: Sequence[Refusal] = ()) -> Decided:
    """Return what a step decided, with what only the engine knows, and what became of facts that it rejected."""
    versions: dict[str, int] = {}
    reasons: dict[str, str] = {}
    at_home: dict[str, str] = {}
    evictions: dict[str, str] = {}
    promised: set[str] = set()
    for action in actions:
        match action:
            case Bind():
                versions[action.uid] = engine.view.guest(action.uid).version
            case Hold():
                guest = engine.view.guest(action.uid)
                if nominated := _nominated(engine, guest):
                    promised.add(action.uid)
                reasons[action.uid] = nominated or _kept(engine, guest)
                if not reasons[action.uid]:
                    hold = _replace(action, reasons=uncaused(action.reasons))
                    reasons[action.uid] = why_held(hold, guest.spec)
                    if (home := _at_home(hold)) != hold:
                        at_home[action.uid] = why_held(home, guest.spec)
            case Evict():
                evictions[action.uid] = _named(engine, action) or _unnamed(action)
    return Decided(
        step=step,
        actions=actions,
        versions=versions,
        reasons=reasons,
        at_home=at_home,
        evictions=evictions,
        promised=promised,
        rejected=_rejected(engine, refused),
        rejected_hosts=_rejected_hosts(refused),
    )


def _rejected(engine: Engine, refused: Sequence[Refusal]) -> dict[str, Rejection]:
    """Return by uid why guests were rejected; a guest that the engine took by a later fact is none of them."""
    found: dict[str, Rejection] = {}
    for refusal in refused:
        if not isinstance(refusal.event, GuestArrived | GuestChanged):
            continue
        told = refusal.event.guest
        known = engine.view.records.get(told.uid)
        if known is None or known.guest.version < told.version:
            found[told.uid] = Rejection(told.version, f"{_REJECTED}: {refusal.error.message}")
    return found


def _rejected_hosts(refused: Sequence[Refusal]) -> dict[str, str]:
    """Return by id the hosts whose names the engine had no room for, and why; for each its last fact counts."""
    told = [one for one in refused if isinstance(one.event, HostJoined | HostChanged)]
    last = {one.event.host.uid: one for one in told if isinstance(one.event, HostJoined | HostChanged)}
    return {uid: one.error.message for uid, one in last.items() if isinstance(one.error, NamesFullError)}


def _at_home(hold: Hold) -> Hold:
    return _replace(hold, reasons=tuple(_replace(one, reason=of_its_host(one.reason)) for one in hold.reasons))


def _named(engine: Engine, action: Evict) -> str:
    """Say for whom a guest makes way, where both are of one project: its owner may know the name then; else nothing."""
    comes = engine.view.records.get(engine.view.evicting.get(action.uid, ""))
    project = engine.view.guest(action.uid).spec.namespace
    if comes is None or comes.guest.spec.namespace != project or not action.is_preemption:
        return ""
    return f"it makes room for {comes.guest.name}, {_HIGHER}"


def _unnamed(action: Evict) -> str:
    """Say why a guest makes way, without the name of whoever comes: its owner may not know of that project."""
    if action.is_reclaim:
        return "it makes room for a project that has less than it is guaranteed"
    return f"it makes room for {_HIGHER}" if action.is_preemption or not action.reason else action.reason


def _nominated(engine: Engine, guest: Guest) -> str:
    """Say where others make way for a guest or its gang; empty where nobody does."""
    nominations = engine.view.nominations
    found = nominations.get(guest.uid) or nominations.get(f"{GANG}{guest.gang}")
    if found is None or _only_keeps(engine, guest):
        return ""
    return f"room is made for it on {found.host}" if found.host else "room is made for its gang"


def _kept(engine: Engine, guest: Guest) -> str:
    """Say where room is kept for a guest whose gang holds what it could use; nobody makes way for it."""
    found = engine.view.nominations.get(guest.uid)
    if found is None or not _only_keeps(engine, guest):
        return ""
    return f"room on {found.host} is kept for it until there is room for the rest of its gang"


def _only_keeps(engine: Engine, guest: Guest) -> bool:
    """Say whether the gang of a guest holds room without anybody being evicted for it."""
    return bool(guest.gang) and engine.view.gangs.only_reserves(guest.gang)


def why_held(hold: Hold, spec: GuestSpec) -> str:
    """Say why a VM was placed nowhere; ``spec`` is what was asked for it."""
    if not hold.hosts:
        return "there is no host"
    if len(hold.reasons) == 1 and hold.reasons[0].reason.plugin == _QUOTA:
        return f"{QUOTA_FULL}: {hold.reasons[0].reason.subject}"
    counted = [(count.hosts, _words(in_words(count.reason, spec))) for count in hold.reasons]
    ordered = sorted(counted, key=lambda count: (-count[0], count[1]))
    shown = ", ".join(f"{hosts} {words}" for hosts, words in ordered[:_MOST_REASONS])
    more = len(ordered) - _MOST_REASONS
    hosts = "1 host" if hold.hosts == 1 else f"{hold.hosts} hosts"
    return f"0 of {hosts}: {shown}{f' and {more} more reasons' if more > 0 else ''}"


def _words(reason: Reason) -> str:
    """Write a reason as commands do."""
    return "not taking VMs" if reason == NOT_TAKING else reason.text().replace(": ", " ")
