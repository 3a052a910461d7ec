"""The engine's reasons in words for VM owners, without labels that the service itself asks of hosts. Pure.

A VM with a disk on shared storage, one on a bridge and one that moves need hosts with certain labels. The owner asked
for a storage, a bridge or a move, and not for a label, so the reason names those.
"""

from __future__ import annotations

import msgspec

from hostler.control.vms.guests import CAN_MIGRATE, HAS_BRIDGE, HAS_STORAGE, YES
from hostler.model import CureChange, GuestSpec, Reason, ReasonCount

__all__ = [
    "IT_LEAVES", "NOT_ITS_HOST", "NOT_TAKING", "NO_BRIDGE", "NO_MIGRATION", "NO_STORAGE", "host_left_by_move",
    "is_cordon", "to_own_host_reason", "to_user_change", "to_user_counts", "to_user_reason", "without_cordon_cause",
]  # fmt: skip

NOT_TAKING = Reason("cordon", "not_taking_vms")
IT_LEAVES = "it_is_to_leave"
NOT_ITS_HOST = "not_its_host"
_NAMED = "not_the_named_host"
NO_MIGRATION = "no_live_migration"
NO_STORAGE = "no_storage"
NO_BRIDGE = "no_bridge"
_CORDONED = Reason("cordon", "cordoned")  # the engine's one word for whatever keeps VMs from a host
_FILTER = "host_affinity"
_SELECTOR = "selector_mismatch"
_AFFINITY = "affinity_mismatch"
_MOST_TEXT = 200  # characters of a request's own terms, as in the engine
_MENDED = {
    NO_MIGRATION: "let {host} take VMs that run: its agent says that it cannot",
    NO_STORAGE: "give {host} the storage {name}, and name it to its agent",
    NO_BRIDGE: "give {host} the bridge {name}, and name it to its agent",
}
_replace = msgspec.structs.replace


def host_left_by_move(spec: GuestSpec) -> str:
    """Return the host that a move leaves; empty for every other claim.

    Only a moving VM needs hosts that can migrate. A stopped one may not preempt others.
    """
    if spec.may_preempt and (CAN_MIGRATE, YES) not in spec.host_selector:
        return ""
    last = {term.names[-1] for term in spec.host_affinity if term.names}
    if len(last) != 1 or not all(term.names for term in spec.host_affinity):
        return ""
    here = last.pop()
    return here.values[0] if here.operator == "NotIn" and len(here.values) == 1 else ""


def to_user_reason(reason: Reason, spec: GuestSpec, host: str = "") -> Reason:
    """Return a reason in an owner's words, about one host if it is named; the owner's own terms stay."""
    if reason.plugin != _FILTER:
        return reason
    if reason.code == _SELECTOR:
        return _of_label(reason)
    home = host_left_by_move(spec)
    return _of_move(reason, spec, home, host) if home and reason.code == _AFFINITY else reason


def is_cordon(reason: Reason) -> bool:
    """Say whether a reason is the engine's word for a closed host."""
    return reason == _CORDONED


def without_cordon_cause(counts: tuple[ReasonCount, ...]) -> tuple[ReasonCount, ...]:
    """Return counts that only say that hosts are closed, since the cause may differ tomorrow."""
    return tuple(_replace(count, reason=NOT_TAKING) if is_cordon(count.reason) else count for count in counts)


def to_user_counts(counts: tuple[ReasonCount, ...], spec: GuestSpec) -> tuple[ReasonCount, ...]:
    """Return counts by reason, in an owner's words."""
    return tuple(_replace(count, reason=to_user_reason(count.reason, spec)) for count in counts)


def to_own_host_reason(reason: Reason) -> Reason:
    """Return a reason for a VM that stays on its own host, although its owner named none."""
    return _replace(reason, code=NOT_ITS_HOST) if reason.code == _NAMED else reason


def to_user_change(change: CureChange, host: str) -> CureChange:
    """Return a suggested change in an owner's words: the host gets what it lacks, since the VM needs it."""
    if change.kind != "relax_selector":
        return change
    reason = _of_label(Reason(_FILTER, _SELECTOR, change.subject))
    if reason.code not in _MENDED:
        return change
    text = _MENDED[reason.code].format(host=host, name=reason.subject)
    return _replace(change, kind="other", subject=host, text=text)


def _of_label(reason: Reason) -> Reason:
    label = reason.subject.removesuffix(f"={YES}")
    if label == CAN_MIGRATE:
        return Reason(reason.plugin, NO_MIGRATION)
    for mark, code in ((HAS_STORAGE, NO_STORAGE), (HAS_BRIDGE, NO_BRIDGE)):
        if label.startswith(mark):
            return Reason(reason.plugin, code, label.removeprefix(mark))
    return reason


def _of_move(reason: Reason, spec: GuestSpec, home: str, host: str) -> Reason:
    """Return why a host will not do for a move: it is the source, or the owner's own terms do not match."""
    own = [_replace(term, names=term.names[:-1]) for term in spec.host_affinity]
    asked = " or ".join(term.text() for term in own if term.expressions or term.names)
    if not asked or host == home:
        return Reason(reason.plugin, IT_LEAVES, home)
    if len(asked) > _MOST_TEXT:
        asked = f"{asked[:_MOST_TEXT]}…"
    return _replace(reason, subject=asked if host else f"{asked}, on another host than {home}")
