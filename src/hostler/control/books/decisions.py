"""One transaction of the leader: a step and its effects on VMs, written together or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import msgspec

from hostler.control.books import ledger
from hostler.control.books.follower import Step
from hostler.control.books.repeated_holds import HoldText, RepeatedHolds
from hostler.control.store import Connection
from hostler.control.store.history import lease, log
from hostler.control.store.rows import hosts
from hostler.control.vms import placement, victims
from hostler.control.vms.guests import vm_of_uid
from hostler.control.vms.state import Booking, Vm, VmChange, merge_changes
from hostler.model import Action, Bind, BindFailed, Defer, Evict, EvictFailed, Move

__all__ = ["LEADER", "Rejection", "StepOutcome", "carry_out"]

LEADER = "leader"
READY = "ready"  # the state of a host that may be given VMs
_ENCODER = msgspec.json.Encoder()


class Rejection(NamedTuple):
    """A fact about a guest that the engine rejected: its version, and the reason as text."""

    version: int
    why: str


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a step decided, with the version of each guest, and the reason why it waits.

    ``at_home`` has the reason for VMs that stay on their own hosts. ``promised`` are guests for which others make room.
    Nothing is decided about guests in ``rejected``, because the engine rejected their facts.
    """

    step: Step
    actions: Sequence[Action]
    versions: Mapping[str, int]
    reasons: Mapping[str, str]
    at_home: Mapping[str, str] = {}
    evictions: Mapping[str, str] = {}
    moves: Mapping[str, str] = {}  # victims that move, and for which VM
    promised: Set[str] = frozenset()
    rejected: Mapping[str, Rejection] = {}
    rejected_hosts: Mapping[str, str] = {}  # by id: why the engine has no room for their names


def carry_out(
    connection: Connection, epoch: int, decided: StepOutcome, now_ns: int, repeated: RepeatedHolds | None = None
) -> int:
    """Write a step and its decisions; return the number of its entry. LeaseLostError if this replica was deposed."""
    lease.check_epoch(connection, epoch)
    entry = log.NewEntry(at_ns=now_ns, kind="step", body=_ENCODER.encode(decided.step), actor=LEADER)
    seq = log.append(connection, [entry])[0]
    repeated = repeated or RepeatedHolds()
    wanted = [action for action in decided.actions if isinstance(action, Bind | Defer | Evict | Move)]
    texts = {action.uid: _text_of(action, decided) for action in wanted if isinstance(action, Defer)}
    wanted = repeated.remove_from(connection, wanted, texts)
    if not wanted and not decided.rejected:
        repeated.find([])
        return seq
    uids = [*(action.uid for action in wanted), *decided.rejected]
    known = ledger.load_many(connection, [vm_of_uid(uid) for uid in uids])
    places = hosts.find_by_names(connection, sorted({_target(a) for a in wanted if isinstance(a, Bind | Move)}))
    changes: dict[str, VmChange] = {}
    orphans: list[Action] = []
    for action in wanted:
        identity = vm_of_uid(action.uid)
        stored = known.get(identity)
        if stored is None:
            orphans.append(action)
            continue
        before = changes[identity].vm if identity in changes else stored.vm
        home = None
        if isinstance(action, Bind | Move):
            row = places.get(_target(action))
            if row is not None and row.state == READY:  # else it fell silent, or worse, since the engine was told
                home = Booking(host=row.id, name=row.name, seq=seq)
        change = _change(before, action, decided, home)
        changes[identity] = merge_changes(changes[identity], change) if identity in changes else change
    for uid, rejection in decided.rejected.items():
        identity = vm_of_uid(uid)
        if identity in known:
            before = changes[identity].vm if identity in changes else known[identity].vm
            change = placement.note_rejection(before, uid, rejection.version, rejection.why)
            changes[identity] = merge_changes(changes[identity], change) if identity in changes else change
    ledger.write_many(
        connection,
        [(known[identity], change) for identity, change in changes.items()],
        actor=LEADER,
        now_ns=now_ns,
    )
    _tell_orphans(connection, orphans, now_ns)
    count = Counter(map(vm_of_uid, uids))  # of two changes, one may take back the other: neither is without effect
    unchanged = {vm for vm, change in changes.items() if count[vm] == 1 and change == VmChange(vm=known[vm].vm)}
    repeated.find((uid, known[vm].row.version, texts[uid]) for uid in texts if (vm := vm_of_uid(uid)) in unchanged)
    return seq


def _text_of(hold: Defer, decided: StepOutcome) -> HoldText:
    return HoldText(decided.reasons.get(hold.uid, ""), decided.at_home.get(hold.uid, ""), hold.uid in decided.promised)


def _target(action: Bind | Move) -> str:
    return action.target if isinstance(action, Move) else action.host


def _change(vm: Vm, action: Bind | Defer | Evict | Move, decided: StepOutcome, home: Booking | None) -> VmChange:
    match action:
        case Bind():
            if home is None:
                failed = BindFailed(uid=action.uid, host=action.host, reason="the host is not ready any more")
                return VmChange(vm=vm, facts=(failed,))
            return placement.book_placement(vm, action.uid, decided.versions.get(action.uid, 0), home, action.devices)
        case Evict():
            return placement.evict_vm(vm, action.uid, decided.evictions.get(action.uid, "it makes room for another VM"))
        case Move():
            return victims.move_victim(vm, action.uid, home, decided.moves.get(action.uid, "another VM"))
        case Defer():
            text = _text_of(action, decided)
            return placement.note_wait(vm, action.uid, text.why, at_home=text.at_home, is_promised=text.is_promised)


def _tell_orphans(connection: Connection, actions: Sequence[Action], now_ns: int) -> None:
    """Tell the engine that a VM that no longer exists was not placed, and not evicted."""
    facts: list[BindFailed | EvictFailed] = []
    for action in actions:
        if isinstance(action, Bind):
            facts.append(BindFailed(uid=action.uid, host=action.host, reason="the VM is gone"))
        elif isinstance(action, Evict | Move):
            facts.append(EvictFailed(uid=action.uid, reason="the VM is gone"))
    log.append(
        connection,
        [log.NewEntry(at_ns=now_ns, kind="fact", body=_ENCODER.encode(fact), actor=LEADER) for fact in facts],
    )
