"""The smallest change that would let a guest in: one amount, toleration, selector or victim, else at most three.

The size of a change is relative: an amount counts what is missing over what is asked, a victim what it holds over what
is asked, and giving up a whole constraint counts 1. Fewer changes win, then smaller ones, then the host's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from hostler.engine.plugins.room import Devices, Resources
from hostler.engine.profile import Profile
from hostler.engine.reasons import full_name
from hostler.engine.reservations import RESERVATION
from hostler.engine.shapes import Shape
from hostler.engine.state import State
from hostler.engine.verdicts import device_failures, failures_on
from hostler.model import GUESTS, Change, Cure, Failure, HostVerdict, amount_of, format_resource

__all__ = ["MAX_CHANGES", "find_cure"]

MAX_CHANGES = 3
_ROOM = (Resources.name, Devices.name)


def find_cure(state: State, profile: Profile, shape: Shape, refusals: Sequence[HostVerdict], uid: str) -> Cure | None:
    """Return the cure of least size over all refusing hosts, or None when more than three changes are needed."""
    best: tuple[int, float, str, tuple[Change, ...]] | None = None
    for verdict in refusals:
        constraints = [f for f in verdict.failures if f.reason.plugin not in _ROOM]
        if len(constraints) > MAX_CHANGES or (best is not None and len(constraints) > best[0]):
            continue
        changes = _cure_host(state, profile, shape, verdict, uid)
        if changes is not None and len(changes) <= MAX_CHANGES:
            candidate = (len(changes), sum(c.relative for c in changes), verdict.host, changes)
            if best is None or candidate[:3] < best[:3]:
                best = candidate
    return Cure(host=best[2], changes=best[3]) if best is not None else None


def _cure_host(
    state: State, profile: Profile, shape: Shape, verdict: HostVerdict, uid: str
) -> tuple[Change, ...] | None:
    """Return the changes that make one host fit, or None when nothing does."""
    changes: list[Change] = []
    room: list[Failure] = []
    for failure in verdict.failures:
        if failure.reason.plugin in _ROOM and failure.reason.code in ("insufficient", "insufficient_devices"):
            room.append(failure)
            continue
        change = _give_up(failure, verdict.host)
        if change is None:
            return None
        if failure.reason.code == "wrong_device_model" and not _fits_any_model(state, shape, verdict.host):
            return None
        changes.append(change)
    if not room:
        return tuple(changes)
    smaller = [
        _reduce_devices(state, shape, verdict.host, failure)
        if failure.reason.plugin == Devices.name
        else _reduce(failure)
        for failure in room
    ]
    reductions = tuple(c for c in smaller if c is not None)
    if len(reductions) == len(room) == 1:
        return (*changes, *reductions)
    holder = _holder(room)
    if holder is not None:
        return (*changes, holder)
    victim = _victim(state, profile, shape, verdict.host, room, uid)
    if victim is not None:
        return (*changes, victim)
    return (*changes, *reductions) if len(reductions) == len(room) else None


def _fits_any_model(state: State, shape: Shape, host: str) -> bool:
    """Say whether the devices would do if the guest did not care for models."""
    devices = tuple(msgspec.structs.replace(device, models=()) for device in shape.spec.devices)
    spec = msgspec.structs.replace(shape.spec, devices=devices)
    row = state.cluster.row_of[host]
    return not any(device_failures(state, spec, row, state.cluster.host(row)))


def _give_up(failure: Failure, host: str) -> Change | None:
    """Return the change that lifts a constraint, or None where there is no such thing."""
    subject = failure.reason.subject
    match failure.reason.code:
        case "untolerated_taint":
            return Change(kind="tolerate", subject=subject, text=f"tolerate {subject}", relative=1.0)
        case "selector_mismatch" | "affinity_mismatch":
            return Change(kind="relax_selector", subject=subject, text=f"do not ask for {subject}", relative=1.0)
        case "not_the_named_host":
            return Change(kind="relax_selector", subject=host, text=f"name {host} instead, or no host", relative=1.0)
        case "wrong_device_model":
            return Change(kind="relax_selector", subject=subject, text=f"accept any {subject} model", relative=1.0)
        case "cordoned":
            return Change(kind="uncordon", subject=host, text=f"uncordon {host}", relative=1.0)
        case "not_supported":
            return Change(kind="other", subject=subject, text=f"see to this first: {subject}", relative=1.0)
        case _:
            return _give_up_others(failure, host)


def _give_up_others(failure: Failure, host: str) -> Change | None:
    """Return the change that lifts a constraint across guests."""
    subject = failure.reason.subject
    match failure.reason.code:
        case "affinity_unmet":
            text = f"do not ask to be near {subject}"
        case "anti_affinity":
            text = f"do not ask to be apart from {subject}"
        case "existing_anti_affinity" if len(failure.by) == 1:
            text = f"move or stop {failure.by[0]} by hand, which wants to be apart from {subject}"
            return Change(kind="evict", subject=failure.by[0], text=text, relative=1.0)
        case "skew_too_large":
            text = f"allow a skew of {failure.needed} for {subject}"
        case "port_taken":
            text = f"do not ask for port {subject}"
        case "no_topology_label":
            return Change(kind="other", subject=host, text=f"label {host} with {subject}", relative=1.0)
        case _:
            return None
    return Change(kind="relax_selector", subject=subject, text=text, relative=1.0)


def _reduce(failure: Failure) -> Change | None:
    """Return how much less of an amount would fit; nothing fits where nothing is free."""
    subject = failure.reason.subject
    if failure.missing is None or not failure.needed or not failure.free or failure.free < 0 or subject == GUESTS:
        return None
    less, most = format_resource(subject, failure.missing), format_resource(subject, failure.free)
    held = "".join(f"; reservation {name} holds the rest" for name in _reservations(failure)[:1])
    text = f"ask for {less} {subject} less (at most {most}{held})"
    relative = failure.missing / failure.needed
    return Change(kind="reduce_request", subject=subject, text=text, relative=relative, amount=failure.missing)


def _reduce_devices(state: State, shape: Shape, host: str, failure: Failure) -> Change | None:
    """Return how much less of each device would fit: a request takes the same of all its devices."""
    kind = failure.reason.subject
    row = state.cluster.row_of[host]
    machine, left = state.cluster.host(row), state.cluster.device_left(row)
    devices = list(shape.spec.devices)
    at = next(at for at, device in enumerate(devices) if device.kind == kind)
    ask = devices[at]
    shares = sorted(
        (
            left[i]
            for i, d in enumerate(machine.devices)
            if d.kind == kind and (not ask.models or d.model in ask.models)
        ),
        reverse=True,
    )
    share = min(shares[ask.count - 1], ask.milli) if len(shares) >= ask.count else 0
    if share <= 0 or share == ask.milli:
        return None
    devices[at] = msgspec.structs.replace(ask, milli=share)
    if any(device_failures(state, msgspec.structs.replace(shape.spec, devices=tuple(devices)), row, machine)):
        return None
    less, asked = ask.count * (ask.milli - share), ask.count * ask.milli
    text = f"ask for {less} milli-{kind} less (at most {ask.count * share})"
    return Change(kind="reduce_request", subject=kind, text=text, relative=less / asked, amount=less)


def _victim(
    state: State, profile: Profile, shape: Shape, host: str, room: Sequence[Failure], uid: str
) -> Change | None:
    """Return the smallest single guest of at most equal priority whose leaving makes enough room."""
    row = state.cluster.row_of[host]
    best: tuple[float, str] | None = None
    for other in sorted(state.cluster.guests_on[row].keys() - {uid}):
        record = state.guests[other]
        if record.guest.spec.priority > shape.spec.priority:
            continue
        held = state.shape(record)
        if not _frees_enough(held, room):
            continue
        state.cluster.unbook(row, held, record.devices, other)
        fits = all(f.reason.plugin not in _ROOM for f in failures_on(state, profile, shape, row))
        state.cluster.book(row, held, record.devices, other)
        size = max(_relative(held, failure) for failure in room)
        if fits and (best is None or (size, full_name(record.guest)) < best):
            best = (size, full_name(record.guest))
    if best is None:
        return None
    return Change(kind="evict", subject=best[1], text=f"move or stop {best[1]} on {host} by hand", relative=best[0])


def _holder(room: Sequence[Failure]) -> Change | None:
    """Return the one reservation without which there would be room; what is held for others ends by itself."""
    names = {name for failure in room for name in _reservations(failure)}
    if len(names) != 1 or any(len(failure.by) != 1 or (failure.missing or 0) > failure.held for failure in room):
        return None
    name = names.pop()
    return Change(kind="other", subject=name, text=f"end reservation {name}, or let it hold less", relative=1.0)


def _reservations(failure: Failure) -> list[str]:
    return [name.removeprefix(RESERVATION) for name in failure.by if name.startswith(RESERVATION)]


def _frees_enough(held: Shape, room: Iterable[Failure]) -> bool:
    """Say whether a guest holds as much as is missing of every plain resource (cheap test before the real one)."""
    return all(f.reason.plugin == Devices.name or f.missing is None or _held(held, f) >= f.missing for f in room)


def _held(held: Shape, failure: Failure) -> int:
    if failure.reason.plugin == Devices.name:
        return sum(d.count * d.milli for d in held.spec.devices if d.kind == failure.reason.subject)
    if failure.reason.subject == GUESTS:
        return max(amount_of(held.spec.requests, GUESTS), 1)
    return amount_of(held.spec.requests, failure.reason.subject)


def _relative(held: Shape, failure: Failure) -> float:
    return _held(held, failure) / failure.needed if failure.needed else 1.0
