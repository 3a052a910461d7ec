"""Texts of decisions, reasons and amounts, the same in every command."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from hostler.model import Decision, DeviceRequest, Failure, GuestSpec, Reason, ReasonCount, format_resource
from hostler.model.hosts import WHOLE_DEVICE
from hostler.model.notes import FITS_WITHOUT_GANG, GANG_LACKS, NO_EVICTION_HELPS, find_note
from hostler.model.resources import GUESTS, format_devices
from hostler.model.vocabulary import notes_text, plural, reason_text

__all__ = ["EVICTED", "amount_text", "failure_text", "number_text", "plural", "reason_line", "reason_text"]
__all__ += ["readable_amount", "reasons_text", "request_text"]

MAX_REASONS = 6  # in one line
EVICTED = "evicted"  # the state of a guest that was placed and evicted again
_GANG_INCOMPLETE = "gang_incomplete"  # a host that would take the guest, if only its gang were placed
_ROOM = ("resources", "devices")  # the filters that what is held for others can fail
_SPREAD = "spread"  # the filter whose amounts are guests
_DEVICES = "devices"  # the filter whose amounts are thousandths of a device
_LONG = 5  # digits; more are not read at a glance
_UNITS = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_WITHOUT_AMOUNTS = ("no_device", "wrong_device_model")  # nothing to count: it is the kind or model that lacks


def _is_about_count(reason: Reason) -> bool:
    """Say whether a host has as many guests as it may have; to the engine that is a resource like any other."""
    return (reason.code, reason.subject) == ("insufficient", GUESTS)


def reason_line(decision: Decision) -> str:
    """Return one line that says why a guest was not placed: ``0 of 12 hosts: 7 insufficient cpu, 5 cordoned``."""
    if decision.state == EVICTED:
        return decision.note
    if not decision.hosts:
        # Without hosts, there is no guest to evict.
        needs_hosts = not decision.note or find_note(decision.notes, NO_EVICTION_HELPS)
        return "there are no hosts" if needs_hosts else decision.note
    alone = sum(count.hosts for count in decision.reasons if count.reason.code == _GANG_INCOMPLETE)
    alone += decision.feasible
    if alone and decision.note:  # the guest itself fits
        others = [count for count in decision.reasons if count.reason.code != _GANG_INCOMPLETE]
        line = f"{alone} of {plural(decision.hosts, 'host')} fit, but {_note_on_gang(decision)}"
        return f"{line} ({reasons_text(others)})" if others else line
    line = f"{decision.feasible} of {plural(decision.hosts, 'host')}: {reasons_text(decision.reasons)}"
    return f"{line} ({decision.note})" if decision.note else line


def _note_on_gang(decision: Decision) -> str:
    """Write the note without repeating that the guest alone fits."""
    fits = find_note(decision.notes, FITS_WITHOUT_GANG)
    if fits is None:
        return decision.note
    lacks = replace(fits, code=GANG_LACKS)
    return notes_text(lacks if note is fits else note for note in decision.notes)


def reasons_text(counts: Sequence[ReasonCount]) -> str:
    """Write the reasons of many hosts, the first few of them: ``7 insufficient cpu, 5 cordoned``."""
    shown = [f"{count.hosts:,} {reason_text(count.reason)}" for count in counts[:MAX_REASONS]]
    if len(counts) > MAX_REASONS:
        shown.append(f"{sum(count.hosts for count in counts[MAX_REASONS:]):,} for other reasons")
    return ", ".join(shown)


def failure_text(failure: Failure) -> str:
    """Return what one filter of one host lacks, in the units of the cure."""
    text = reason_text(failure.reason)
    if failure.by and failure.reason.plugin not in _ROOM:
        return f"{text} (in the way: {', '.join(failure.by)})"
    held = f" ({_held_text(failure)})" if failure.by else ""
    if failure.reason.plugin == _SPREAD and failure.needed is not None:
        return f"{text}: it would be {failure.needed}"
    if failure.needed is None or failure.missing is None or failure.reason.code in _WITHOUT_AMOUNTS:
        return text + held
    if _is_about_count(failure.reason):
        return text + held  # it is always one that is missing
    subject = failure.reason.subject
    if failure.reason.plugin == _DEVICES:
        return f"{text}: {format_devices(failure.missing)} of {format_devices(failure.needed)} missing"
    if failure.free is not None and failure.free < 0:
        asked, excess = readable_amount(subject, failure.needed), readable_amount(subject, -failure.free)
        problem = held or f" ({excess} too many booked)"
        return f"{text}: asks {asked}, nothing free{problem}"
    missing, needed = readable_amount(subject, failure.missing), readable_amount(subject, failure.needed)
    return f"{text}: {missing} of {needed} missing{held}"


def _held_text(failure: Failure) -> str:
    """Return who holds room that a guest lacks: ``3 held by reservation night``, ``held for gang crew``."""
    words = [name.replace(":", " ", 1).replace("gang default/", "gang ") for name in failure.by]
    owners = ", ".join(f"{'by' if word.startswith('reservation ') else 'for'} {word}" for word in words)
    return (
        f"{readable_amount(failure.reason.subject, failure.held)} held {owners}" if failure.held else f"held {owners}"
    )


def amount_text(resource: str, amount: int) -> str:
    """Write an amount the shortest exact way, as files have it and cures write it: ``500m``, ``2Gi``."""
    return format_resource(resource, amount)


def readable_amount(resource: str, amount: int) -> str:
    """Write an amount for people: exact if that is short, else in bytes with at most one decimal: ``23.5Gi``."""
    exact = format_resource(resource, amount)
    is_bytes = format_resource(resource, 1024) == "1Ki"
    if not is_bytes or sum(map(str.isdigit, exact)) < _LONG:
        return exact
    suffix, unit = next(((suffix, unit) for suffix, unit in _UNITS if abs(amount) >= unit), ("", 1))
    return f"{amount / unit:.1f}".removesuffix(".0") + suffix


def request_text(spec: GuestSpec) -> str:
    """Write what a guest asks for in one line."""
    parts = [_request(name, amount) for name, amount in spec.requests]
    parts += [_device_request(request) for request in spec.devices]
    return ", ".join(parts) or "no requests"


def number_text(value: int | float | None) -> str:
    """Write a score."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value + 0.0:.6g}"  # a weight of -1 makes -0.0 of nothing


def _request(name: str, amount: int) -> str:
    return f"{name} {amount_text(name, amount)}"


def _device_request(request: DeviceRequest) -> str:
    models = f" ({' or '.join(request.models)})" if request.models else ""
    if request.milli == WHOLE_DEVICE:
        return f"{request.count} {request.kind}{models}"
    many = f"{request.count} x " if request.count > 1 else ""
    return f"{many}{format_devices(request.milli)} {request.kind}{models}"
