"""Why a VM waits, in one sentence, and how long VMs waited; and the text that is stored with each step.

The sentence is stored with the VM and shown unchanged, so it uses the words of VM owners, not those of the engine. The
leader calls ``summarize_step`` after each step. ``PlacementWaits`` computes from the log, which the service reads
anyway, how long VMs waited for a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from hostler.control.books.decisions import Rejection, StepOutcome
from hostler.control.books.follower import RejectedFact, Step
from hostler.control.store.history.log import StoredEntry
from hostler.control.vms.reasons import NOT_TAKING, to_own_host_reason, to_user_reason, without_cordon_cause
from hostler.engine import Engine
from hostler.engine.state.gang_book import GANG
from hostler.errors import NamesFullError
from hostler.model import (
    Action,
    Bind,
    Defer,
    Evict,
    Guest,
    GuestArrived,
    GuestChanged,
    GuestSpec,
    HostChanged,
    HostJoined,
    Move,
    Reason,
)

__all__ = ["QUOTA_FULL", "PlacementWaits", "summarize_step", "why_held"]

QUOTA_FULL = "the project's quota has no room for it"

_replace = msgspec.structs.replace
_MOST_REASONS = 6
_HIGHER = "a VM of higher priority"
_REJECTED = "the scheduler rejects it"
_QUOTA = "quota"  # what refuses before any host is asked


def summarize_step(
    engine: Engine, step: Step, actions: Sequence[Action], refused: Sequence[RejectedFact] = ()
) -> StepOutcome:
    """Return what a step decided, with the reasons that only the engine knows, and the rejected facts."""
    versions: dict[str, int] = {}
    reasons: dict[str, str] = {}
    at_home: dict[str, str] = {}
    evictions: dict[str, str] = {}
    moves: dict[str, str] = {}
    promised: set[str] = set()
    for action in actions:
        match action:
            case Bind():
                versions[action.uid] = engine.view.guest(action.uid).version
            case Defer():
                guest = engine.view.guest(action.uid)
                if nominated := _nominated(engine, guest):
                    promised.add(action.uid)
                reasons[action.uid] = nominated or _kept(engine, guest)
                if not reasons[action.uid]:
                    hold = _replace(action, reasons=without_cordon_cause(action.reasons))
                    reasons[action.uid] = why_held(hold, guest.spec)
                    if (home := _at_home(hold)) != hold:
                        at_home[action.uid] = why_held(home, guest.spec)
            case Evict():
                evictions[action.uid] = (
                    f"it makes room for {name}" if (name := _named(engine, action)) else _unnamed(action)
                )
            case Move():
                moves[action.uid] = _named(engine, action) or _HIGHER
    return StepOutcome(
        step=step,
        actions=actions,
        versions=versions,
        reasons=reasons,
        at_home=at_home,
        evictions=evictions,
        moves=moves,
        promised=promised,
        rejected=_rejected(engine, refused),
        rejected_hosts=_rejected_hosts(refused),
    )


def _rejected(engine: Engine, refused: Sequence[RejectedFact]) -> dict[str, Rejection]:
    """Return by uid why guests were rejected, without those whose later fact was accepted."""
    found: dict[str, Rejection] = {}
    for refusal in refused:
        if not isinstance(refusal.event, GuestArrived | GuestChanged):
            continue
        told = refusal.event.guest
        known = engine.view.records.get(told.uid)
        if known is None or known.guest.version < told.version:
            found[told.uid] = Rejection(told.version, f"{_REJECTED}: {refusal.error.message}")
    return found


def _rejected_hosts(refused: Sequence[RejectedFact]) -> dict[str, str]:
    """Return by id the hosts whose names the engine had no room for, and why; their last fact counts."""
    told = [one for one in refused if isinstance(one.event, HostJoined | HostChanged)]
    last = {one.event.host.uid: one for one in told if isinstance(one.event, HostJoined | HostChanged)}
    return {uid: one.error.message for uid, one in last.items() if isinstance(one.error, NamesFullError)}


def _at_home(hold: Defer) -> Defer:
    return _replace(hold, reasons=tuple(_replace(one, reason=to_own_host_reason(one.reason)) for one in hold.reasons))


def _named(engine: Engine, action: Evict | Move) -> str:
    """Return for whom a guest makes room, if both are in one project, because then its owner may know the name."""
    comes = engine.view.records.get(engine.view.evicting.get(action.uid, ""))
    project = engine.view.guest(action.uid).spec.namespace
    is_preemption = isinstance(action, Move) or action.is_preemption
    if comes is None or comes.guest.spec.namespace != project or not is_preemption:
        return ""
    return f"{comes.guest.name}, {_HIGHER}"


def _unnamed(action: Evict) -> str:
    """Say why a guest makes room, without the name of the other guest: its owner may not know that project."""
    if action.is_reclaim:
        return "it makes room for a project that has less than it is guaranteed"
    return f"it makes room for {_HIGHER}" if action.is_preemption or not action.reason else action.reason


def _nominated(engine: Engine, guest: Guest) -> str:
    """Say where others make room for a guest or its gang; empty if none do."""
    nominations = engine.view.nominations
    found = nominations.get(guest.uid) or nominations.get(f"{GANG}{guest.gang}")
    if found is None or _only_keeps(engine, guest):
        return ""
    return f"room is made for it on {found.host}" if found.host else "room is made for its gang"


def _kept(engine: Engine, guest: Guest) -> str:
    """Say where room is kept for a guest whose gang holds room; nothing is evicted for it."""
    found = engine.view.nominations.get(guest.uid)
    if found is None or not _only_keeps(engine, guest):
        return ""
    return f"room on {found.host} is kept for it until there is room for the rest of its gang"


def _only_keeps(engine: Engine, guest: Guest) -> bool:
    """Say whether the gang of a guest holds room without evictions."""
    return bool(guest.gang) and engine.view.gangs.only_reserves(guest.gang)


def why_held(hold: Defer, spec: GuestSpec) -> str:
    """Say why a VM was not placed; ``spec`` is its request."""
    if not hold.hosts:
        return "there is no host"
    if len(hold.reasons) == 1 and hold.reasons[0].reason.plugin == _QUOTA:
        return f"{QUOTA_FULL}: {hold.reasons[0].reason.subject}"
    counted = [(count.hosts, _words(to_user_reason(count.reason, spec))) for count in hold.reasons]
    ordered = sorted(counted, key=lambda count: (-count[0], count[1]))
    shown = ", ".join(f"{hosts} {words}" for hosts, words in ordered[:_MOST_REASONS])
    more = len(ordered) - _MOST_REASONS
    hosts = "1 host" if hold.hosts == 1 else f"{hold.hosts} hosts"
    return f"0 of {hosts}: {shown}{f' and {more} more reasons' if more > 0 else ''}"


def _words(reason: Reason) -> str:
    """Write a reason as commands do."""
    return "not taking VMs" if reason == NOT_TAKING else reason.text().replace(": ", " ")


# The tag comes first in the JSON of a fact: nothing need be decoded to see what it is.
_ARRIVED = b'{"event":"guest_arrived"'
_BOUND = b'{"event":"guest_bound"'
_LEFT = b'{"event":"guest_left"'
_NS = 1_000_000_000


class PlacementWaits:
    """VMs that wait for their place, by when they asked."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self._upto = 0  # the last entry read; a rebuilt follower reads many entries again

    def read(self, entries: Iterable[StoredEntry], now_ns: int) -> list[float]:
        """Take in entries of the log; return the waits, in seconds, of VMs that these entries place."""
        placed: list[float] = []
        for entry in entries:
            if entry.kind != "fact" or entry.seq <= self._upto:
                continue
            self._upto = entry.seq
            if entry.body.startswith(_ARRIVED):
                self._since[entry.subject] = entry.at_ns
            elif entry.body.startswith(_BOUND):
                since = self._since.pop(entry.subject, None)
                if since is not None:
                    placed.append(max(now_ns - since, 0) / _NS)
            elif entry.body.startswith(_LEFT):
                self._since.pop(entry.subject, None)
        return placed
