"""Reasons of the engine in words of those who have VMs: what the service itself asks of hosts nobody wrote. Pure.

A VM with a disk on shared storage, one on a bridge and one that moves need hosts of which labels say that they will do.
Whoever reads why a host will not do asked for a storage, a bridge or a move.
"""

from __future__ import annotations

import msgspec

from hostler.control.vms.guests import CAN_MIGRATE, HAS_BRIDGE, HAS_STORAGE, YES
from hostler.model import Change, GuestSpec, Reason, ReasonCount

__all__ = [
    "IT_LEAVES", "NOT_ITS_HOST", "NOT_TAKING", "NO_BRIDGE", "NO_MIGRATION", "NO_STORAGE", "in_words", "is_cordon",
    "left_by", "mended", "of_its_host", "reworded", "uncaused",
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
_MOST_TEXT = 200  # characters of what somebody asked for, as in the engine
_MENDED = {
    NO_MIGRATION: "let {host} take VMs that run: its agent says that it cannot",
    NO_STORAGE: "give {host} the storage {name}, and name it to its agent",
    NO_BRIDGE: "give {host} the bridge {name}, and name it to its agent",
}
_replace = msgspec.structs.replace


def left_by(spec: GuestSpec) -> str:
    """Return the host that the claim of a move is to leave; empty for every other claim.

    Only a VM that moves needs hosts that can migrate, or, where it is stopped, may not preempt others.
    """
    if spec.may_preempt and (CAN_MIGRATE, YES) not in spec.host_selector:
        return ""
    last = {term.names[-1] for term in spec.host_affinity if term.names}
    if len(last) != 1 or not all(term.names for term in spec.host_affinity):
        return ""
    here = last.pop()
    return here.values[0] if here.operator == "NotIn" and len(here.values) == 1 else ""


def in_words(reason: Reason, spec: GuestSpec, host: str = "") -> Reason:
    """Return a reason in those words, of a host where one is named; what the owner wrote himself stays as it is."""
    if reason.plugin != _FILTER:
        return reason
    if reason.code == _SELECTOR:
        return _of_label(reason)
    home = left_by(spec)
    return _of_move(reason, spec, home, host) if home and reason.code == _AFFINITY else reason


def is_cordon(reason: Reason) -> bool:
    """Say whether a reason is the engine's word for a host that takes nothing."""
    return reason == _CORDONED


def uncaused(counts: tuple[ReasonCount, ...]) -> tuple[ReasonCount, ...]:
    """Return counts that say of closed hosts no more than that: what keeps VMs away may be something else tomorrow."""
    return tuple(_replace(count, reason=NOT_TAKING) if is_cordon(count.reason) else count for count in counts)


def reworded(counts: tuple[ReasonCount, ...], spec: GuestSpec) -> tuple[ReasonCount, ...]:
    """Return how many hosts refuse for which reason, in those words."""
    return tuple(_replace(count, reason=in_words(count.reason, spec)) for count in counts)


def of_its_host(reason: Reason) -> Reason:
    """Return a reason as for a VM that stays on its own host, although its owner named none."""
    return _replace(reason, code=NOT_ITS_HOST) if reason.code == _NAMED else reason


def mended(change: Change, host: str) -> Change:
    """Return a part of a cure in those words: what lacks is given to the host, since nobody can do without it."""
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
    """Return why a host will not do for a move: it is the one that is left, or the owner's own terms do not match."""
    own = [_replace(term, names=term.names[:-1]) for term in spec.host_affinity]
    asked = " or ".join(term.text() for term in own if term.expressions or term.names)
    if not asked or host == home:
        return Reason(reason.plugin, IT_LEAVES, home)
    if len(asked) > _MOST_TEXT:
        asked = f"{asked[:_MOST_TEXT]}…"
    return _replace(reason, subject=asked if host else f"{asked}, on another host than {home}")
