"""Texts of decisions, reasons and amounts, the same in every command."""

from __future__ import annotations

from msgspec.structs import replace

from hostler.model import Decision, DeviceRequest, GuestSpec, format_resource
from hostler.model.explanation_texts import failure_text, readable_amount, reasons_text
from hostler.model.hosts import WHOLE_DEVICE
from hostler.model.notes import FITS_WITHOUT_GANG, GANG_LACKS, NO_EVICTION_HELPS, find_note
from hostler.model.resources import format_devices
from hostler.model.vocabulary import ENGINE_WORDS, Vocabulary, notes_text, plural, reason_text

__all__ = ["EVICTED", "amount_text", "failure_text", "number_text", "plural", "reason_line", "reason_text"]
__all__ += ["readable_amount", "reasons_text", "request_text"]

EVICTED = "evicted"  # the state of a guest that was placed and evicted again
_GANG_INCOMPLETE = "gang_incomplete"  # a host that would take the guest, if only its gang were placed


def reason_line(decision: Decision, words: Vocabulary = ENGINE_WORDS) -> str:
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
        return f"{line} ({reasons_text(others, words)})" if others else line
    line = f"{decision.feasible} of {plural(decision.hosts, 'host')}: {reasons_text(decision.reasons, words)}"
    return f"{line} ({decision.note})" if decision.note else line


def _note_on_gang(decision: Decision) -> str:
    """Write the note without repeating that the guest alone fits."""
    fits = find_note(decision.notes, FITS_WITHOUT_GANG)
    if fits is None:
        return decision.note
    lacks = replace(fits, code=GANG_LACKS)
    return notes_text(lacks if note is fits else note for note in decision.notes)


def amount_text(resource: str, amount: int) -> str:
    """Write an amount the shortest exact way, as files have it and cures write it: ``500m``, ``2Gi``."""
    return format_resource(resource, amount)


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
