"""The smallest change that would let a guest in: one amount, toleration, selector or victim, else at most three.

The size of a change is relative: an amount counts what is missing over what is asked, a victim what it holds over what
is asked, and giving up a whole constraint counts 1. Fewer changes win, then smaller ones, then the host's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hostler.engine.cache.reasons import full_name
from hostler.engine.cluster.shapes import Shape
from hostler.engine.plugins.room import Devices, Resources
from hostler.engine.policy.profile import Profile
from hostler.engine.state.reservations import RESERVATION
from hostler.engine.state.state import State
from hostler.engine.verdicts.verdicts import device_failures, failures_on
from hostler.model import (
    GUESTS,
    WHOLE_DEVICE,
    Cure,
    CureChange,
    DeviceRequest,
    Failure,
    Host,
    HostVerdict,
    amount_of,
    format_resource,
)
from hostler.model.resources import format_devices

__all__ = ["MAX_CHANGES", "find_cure"]

MAX_CHANGES = 3
_ROOM = (Resources.name, Devices.name)


def find_cure(state: State, profile: Profile, shape: Shape, refusals: Sequence[HostVerdict], uid: str) -> Cure | None:
    """Return the cure of least size over all refusing hosts, or None when more than three changes are needed."""
    best: tuple[int, float, str, tuple[CureChange, ...]] | None = None
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
) -> tuple[CureChange, ...] | None:
    """Return the changes that make one host fit, or None when nothing does."""
    changes: list[CureChange] = []
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
    """Say whether the devices would fit if the guest accepted any model."""
    devices = tuple(msgspec.structs.replace(device, models=()) for device in shape.spec.devices)
    spec = msgspec.structs.replace(shape.spec, devices=devices)
    row = state.cluster.row_of[host]
    return not any(device_failures(state, spec, row, state.cluster.host(row)))


def _give_up(failure: Failure, host: str) -> CureChange | None:
    """Return the change that lifts a constraint, or None if there is none."""
    subject = failure.reason.subject
    match failure.reason.code:
        case "untolerated_taint":
            return CureChange(kind="tolerate", subject=subject, text=f"tolerate {subject}", relative=1.0)
        case "selector_mismatch" | "affinity_mismatch":
            return CureChange(kind="relax_selector", subject=subject, text=f"do not ask for {subject}", relative=1.0)
        case "not_the_named_host":
            return CureChange(
                kind="relax_selector", subject=host, text=f"name {host} instead, or no host", relative=1.0
            )
        case "wrong_device_model":
            return CureChange(kind="relax_selector", subject=subject, text=f"accept any {subject} model", relative=1.0)
        case "cordoned":
            return CureChange(kind="uncordon", subject=host, text=f"uncordon {host}", relative=1.0)
        case "not_supported":
            return CureChange(kind="other", subject=subject, text=f"see to this first: {subject}", relative=1.0)
        case _:
            return _give_up_others(failure, host)


def _give_up_others(failure: Failure, host: str) -> CureChange | None:
    """Return the change that lifts a constraint about other guests."""
    subject = failure.reason.subject
    match failure.reason.code:
        case "affinity_unmet":
            text = f"do not ask to be near {subject}"
        case "anti_affinity":
            text = f"do not ask to be apart from {subject}"
        case "existing_anti_affinity" if len(failure.by) == 1:
            text = f"move or stop {failure.by[0]} by hand, which wants to be apart from {subject}"
            return CureChange(kind="evict", subject=failure.by[0], text=text, relative=1.0)
        case "skew_too_large":
            text = f"allow a skew of {failure.needed} for {subject}"
        case "port_taken":
            text = f"do not ask for port {subject}"
        case "no_topology_label":
            return CureChange(kind="other", subject=host, text=f"label {host} with {subject}", relative=1.0)
        case _:
            return None
    return CureChange(kind="relax_selector", subject=subject, text=text, relative=1.0)


def _reduce(failure: Failure) -> CureChange | None:
    """Return the reduction of an amount that would fit, or None if nothing is free."""
    subject = failure.reason.subject
    if failure.missing is None or not failure.needed or not failure.free or failure.free < 0 or subject == GUESTS:
        return None
    less, most = format_resource(subject, failure.missing), format_resource(subject, failure.free)
    held = "".join(f"; reservation {name} holds the rest" for name in _reservations(failure)[:1])
    text = f"ask for {less} {subject} less (at most {most}{held})"
    relative = failure.missing / failure.needed
    return CureChange(kind="reduce_request", subject=subject, text=text, relative=relative, amount=failure.missing)


def _reduce_devices(state: State, shape: Shape, host: str, failure: Failure) -> CureChange | None:
    """Return the smallest reduction of one of its requests for devices after which all of them fit.

    Who asks for several whole devices is offered fewer of them; who asks for shares, less of each or fewer, whichever
    is the smaller change.
    """
    kind = failure.reason.subject
    row = state.cluster.row_of[host]
    machine, left = state.cluster.host(row), state.cluster.device_left(row)
    asks = shape.spec.devices
    best: tuple[int, str, int] | None = None  # milli-units less, text, milli-units asked for
    for at, ask in enumerate(asks):
        if ask.kind != kind:
            continue
        for smaller in _smaller_requests(ask, machine, left):
            less = ask.count * ask.milli - smaller.count * smaller.milli
            spec = msgspec.structs.replace(shape.spec, devices=(*asks[:at], smaller, *asks[at + 1 :]))
            if (best is None or less < best[0]) and not any(device_failures(state, spec, row, machine)):
                best = (less, _less_text(ask, smaller), ask.count * ask.milli)
    if best is None:
        return None
    return CureChange(kind="reduce_request", subject=kind, text=best[1], relative=best[0] / best[2], amount=best[0])


def _smaller_requests(ask: DeviceRequest, machine: Host, left: Sequence[int]) -> Iterator[DeviceRequest]:
    """Yield requests for less that one host may have room for: less of each device, and every lower count."""
    shares = sorted(
        (
            left[i]
            for i, d in enumerate(machine.devices)
            if d.kind == ask.kind and (not ask.models or d.model in ask.models)
        ),
        reverse=True,
    )
    is_whole = ask.count > 1 and ask.milli == WHOLE_DEVICE
    share = min(shares[ask.count - 1], ask.milli) if len(shares) >= ask.count else 0
    if 0 < share < ask.milli and not is_whole:
        yield msgspec.structs.replace(ask, milli=share)
    for count in range(ask.count - 1, 0, -1):
        yield msgspec.structs.replace(ask, count=count)


def _less_text(ask: DeviceRequest, smaller: DeviceRequest) -> str:
    less = format_devices(ask.count * ask.milli - smaller.count * smaller.milli)
    if smaller.milli < ask.milli and ask.count > 1:
        return f"ask for at most {format_devices(smaller.milli)} of each {ask.kind} ({less} less in all)"
    return f"ask for {less} {ask.kind} less (at most {format_devices(smaller.count * smaller.milli)})"


def _victim(
    state: State, profile: Profile, shape: Shape, host: str, room: Sequence[Failure], uid: str
) -> CureChange | None:
    """Return the smallest guest of at most equal priority whose departure makes enough room."""
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
    return CureChange(kind="evict", subject=best[1], text=f"move or stop {best[1]} on {host} by hand", relative=best[0])


def _holder(room: Sequence[Failure]) -> CureChange | None:
    """Return the one reservation without which there would be room; other holds end by themselves."""
    names = {name for failure in room for name in _reservations(failure)}
    if len(names) != 1 or any(len(failure.by) != 1 or (failure.missing or 0) > failure.held for failure in room):
        return None
    name = names.pop()
    return CureChange(kind="other", subject=name, text=f"end reservation {name}, or let it hold less", relative=1.0)


def _reservations(failure: Failure) -> list[str]:
    return [name.removeprefix(RESERVATION) for name in failure.by if name.startswith(RESERVATION)]


def _frees_enough(held: Shape, room: Iterable[Failure]) -> bool:
    """Say whether a guest uses at least what is missing of every plain resource (a cheap test before the real one)."""
    return all(f.reason.plugin == Devices.name or f.missing is None or _held(held, f) >= f.missing for f in room)


def _held(held: Shape, failure: Failure) -> int:
    if failure.reason.plugin == Devices.name:
        return sum(d.count * d.milli for d in held.spec.devices if d.kind == failure.reason.subject)
    if failure.reason.subject == GUESTS:
        return max(amount_of(held.spec.requests, GUESTS), 1)
    return amount_of(held.spec.requests, failure.reason.subject)


def _relative(held: Shape, failure: Failure) -> float:
    return _held(held, failure) / failure.needed if failure.needed else 1.0
