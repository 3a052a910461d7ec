"""Why a host refuses a guest, filter by filter, with amounts: the long form of the kernel's one code per host.

Plain Python over one host at a time; its first failure is the primary reason that the kernel counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from hostler.engine.guest_verdicts import guest_failures
from hostler.engine.nominations import NOMINATION
from hostler.engine.plugins.host_affinity import AFFINITY_MISMATCH, SELECTOR_MISMATCH, HostAffinity, about
from hostler.engine.plugins.room import Devices, Resources
from hostler.engine.plugins.taints import Taints
from hostler.engine.profile import Profile
from hostler.engine.reasons import full_name, shape_reason
from hostler.engine.shapes import Shape
from hostler.engine.state import State
from hostler.engine.tables import UNKNOWN_RESOURCE
from hostler.model import Expression, Failure, GuestSpec, Host, Reason
from hostler.model.selectors import untolerated

__all__ = ["device_failures", "failures_on"]


def failures_on(
    state: State, profile: Profile, shape: Shape, row: int, gang: str = "", own_hold: str = ""
) -> tuple[Failure, ...]:
    """Return every filter of the policy that the host in a row fails, in filter order.

    A member that is tried with its ``gang`` takes room that is held for others by the gang's rights. ``own_hold``
    is the name of what is held for the guest itself.
    """
    host = state.cluster.host(row)
    found: list[Failure] = []
    for use in profile.filters:
        verdict = use.evaluate(shape.spec, np.array([row], dtype=np.int64))
        if verdict is None or not verdict[0]:
            continue
        if use.name == Taints.name:
            found += [
                _failure(use.name, "untolerated_taint", t.text())
                for t in untolerated(shape.spec.tolerations, host.taints)
            ]
        elif use.name == HostAffinity.name:
            found += _affinity(shape, host)
        else:
            found.append(Failure(reason=shape_reason(state.tables.reasons, int(verdict[0]), shape)))
    found += _resources(state, profile, shape, row, gang, own_hold)
    found += device_failures(state, shape.spec, row, host)
    found += guest_failures(state, state.cache.slot(shape, state.profiles.number(shape.spec.policy)), row)
    return tuple(found)


def _failure(plugin: str, code: str, subject: str) -> Failure:
    return Failure(reason=Reason(plugin, code, subject))


def _affinity(shape: Shape, host: Host) -> Iterator[Failure]:
    spec = shape.spec
    for key, value in spec.host_selector:
        if not Expression(key, "In", (value,)).matches(host.labels):
            yield _failure(HostAffinity.name, SELECTOR_MISMATCH, f"{key}={value}")
    if spec.host_affinity and not any(term.matches(host.name, host.labels) for term in spec.host_affinity):
        yield Failure(reason=about(Reason(HostAffinity.name, AFFINITY_MISMATCH), spec))


def _resources(state: State, profile: Profile, shape: Shape, row: int, gang: str, own_hold: str) -> Iterator[Failure]:
    passes = set(state.passes(shape.spec, gang))
    priority = state.gangs.priority(gang) if gang else shape.spec.priority
    holds = [
        (_holder(state, name), hold)
        for name, hold in state.cluster.holds.on(row)
        if name != own_hold and hold.priority >= priority and hold.pass_number not in passes
    ]
    for resource, amount in shape.amounts:
        if resource == UNKNOWN_RESOURCE:
            yield from _unknown(state, shape, row)
            continue
        free = state.cluster.limit(row, resource, profile.limit_set) - state.cluster.used(row, resource)
        kept: Counter[str] = Counter()
        for name, hold in holds:
            kept[name] += dict(hold.amounts).get(resource, 0)
        free -= kept.total()
        if amount > free:
            reason = Reason(Resources.name, "insufficient", state.tables.resources.values[resource])
            by = tuple(name for name, held in kept.items() if held)[:3]
            yield Failure(reason=reason, needed=amount, free=free, missing=amount - free, held=kept.total(), by=by)
    if shape.asks and any(hold.has_devices for _, hold in holds):
        owners = dict.fromkeys(name for name, hold in holds if hold.has_devices)
        reason = Reason(Devices.name, "insufficient_devices", shape.spec.devices[0].kind)
        yield Failure(reason=reason, by=tuple(owners)[:3])


def _unknown(state: State, shape: Shape, row: int) -> Iterator[Failure]:
    """Return what no host has; guests that are bound there from outside may take some of it all the same."""
    others = [dict(other.spec.requests) for other in state.cluster.guests_on[row].values() if other.unknown]
    for name, needed in shape.spec.requests:
        if name in shape.unknown:
            free = -sum(other.get(name, 0) for other in others)
            reason = Reason(Resources.name, "insufficient", name)
            yield Failure(reason=reason, needed=needed, free=free, missing=needed - free)


def _holder(state: State, name: str) -> str:
    """Say for whom room is held: ``reservation:night``, ``gang:default/crew``, ``guest:web-0``."""
    record = state.guests.get(name.removeprefix(NOMINATION)) if name.startswith(NOMINATION) else None
    if record is None:
        return name
    return f"gang:{record.guest.gang}" if record.guest.gang else f"guest:{full_name(record.guest)}"


def device_failures(state: State, spec: GuestSpec, row: int, host: Host) -> Iterator[Failure]:
    """Walk the device requests in order; later ones see what earlier ones leave, fullest device first."""
    left = state.cluster.device_left(row)
    for ask in spec.devices:
        of_kind = [at for at, device in enumerate(host.devices) if device.kind == ask.kind]
        of_model = [at for at in of_kind if not ask.models or host.devices[at].model in ask.models]
        fitting = sorted((at for at in of_model if left[at] >= ask.milli), key=lambda at: (left[at], at))
        if len(fitting) >= ask.count:
            for at in fitting[: ask.count]:
                left[at] -= ask.milli
            continue
        code = "no_device" if not of_kind else "wrong_device_model" if not of_model else "insufficient_devices"
        best = sum(sorted((min(max(left[at], 0), ask.milli) for at in of_model), reverse=True)[: ask.count])
        needed = ask.count * ask.milli
        yield Failure(reason=Reason(Devices.name, code, ask.kind), needed=needed, free=best, missing=needed - best)
        return
