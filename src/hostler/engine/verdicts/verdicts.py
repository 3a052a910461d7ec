"""Why a host rejects a guest, filter by filter, with amounts: the long form of the kernel's one code per host.

Plain Python for one host at a time. Invariant: its first failure is the primary reason that the kernel counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from hostler.engine.cache.reasons import full_name, shape_reason
from hostler.engine.cluster.shapes import Shape
from hostler.engine.cluster.tables import UNKNOWN_RESOURCE
from hostler.engine.kernels.layout import PEER_AFFINITY, PEER_SPREAD
from hostler.engine.plugins.host_affinity import AFFINITY_MISMATCH, SELECTOR_MISMATCH, HostAffinity, about
from hostler.engine.plugins.room import Devices, Resources
from hostler.engine.plugins.taints import Taints
from hostler.engine.policy.peer_rules import PeerRule
from hostler.engine.policy.profile import Profile
from hostler.engine.state.nominations import NOMINATION
from hostler.engine.state.state import State
from hostler.model import WHOLE_DEVICE, Expression, Failure, GuestSpec, Host, Reason
from hostler.model.selectors import untolerated_taints

__all__ = ["device_failures", "failures_on"]

_NAMED = 3  # guests in the way that are named


def failures_on(
    state: State, profile: Profile, shape: Shape, row: int, gang: str = "", own_hold: str = ""
) -> tuple[Failure, ...]:
    """Return every filter of the policy that rejects the host in a row, in filter order.

    A member that is tried with its ``gang`` uses held room by the gang's rights. ``own_hold`` is the name of the hold
    of the guest itself.
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
                for t in untolerated_taints(shape.spec.tolerations, host.taints)
            ]
        elif use.name == HostAffinity.name:
            found += _affinity(shape, host)
        else:
            found.append(Failure(reason=shape_reason(state.tables.reasons, int(verdict[0]), shape)))
    found += _resources(state, profile, shape, row, gang, own_hold)
    found += device_failures(state, shape.spec, row, host)
    found += _guest_failures(state, state.cache.slot(shape, state.profiles.number(shape.spec.policy)), row)
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
    """Return requested names that no host has; guests bound there from outside may use some of them all the same."""
    others = [dict(other.spec.requests) for other in state.cluster.guests_on[row].values() if other.unknown]
    for name, needed in shape.spec.requests:
        if name in shape.unknown:
            free = -sum(other.get(name, 0) for other in others)
            reason = Reason(Resources.name, "insufficient", name)
            yield Failure(reason=reason, needed=needed, free=free, missing=needed - free)


def _holder(state: State, name: str) -> str:
    """Return for whom room is held: ``reservation:night``, ``gang:default/crew``, ``guest:web-0``."""
    record = state.guests.get(name.removeprefix(NOMINATION)) if name.startswith(NOMINATION) else None
    if record is None:
        return name
    return f"gang:{record.guest.gang}" if record.guest.gang else f"guest:{full_name(record.guest)}"


def device_failures(state: State, spec: GuestSpec, row: int, host: Host) -> Iterator[Failure]:
    """Check the device requests in order; later requests see what earlier ones leave, fullest device first."""
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
        shares = (min(max(left[at], 0), ask.milli) for at in of_model)
        if ask.count > 1 and ask.milli == WHOLE_DEVICE:  # who asks for several whole ones has no use for parts
            shares = (share for share in shares if share == WHOLE_DEVICE)
        best = sum(sorted(shares, reverse=True)[: ask.count])
        needed = ask.count * ask.milli
        yield Failure(reason=Reason(Devices.name, code, ask.kind), needed=needed, free=best, missing=needed - best)
        return


def _guest_failures(state: State, slot: int, row: int) -> Iterator[Failure]:
    """Return the peer rules that reject the host, with the guests behind them, in the order of the kernel's checks."""
    found = state.cache.guest_filters(slot)
    filters = list(zip(found.counters, found.rules, strict=True))
    near = sum(state.cluster.counters.total(number) for number, rule in filters if rule.kind == PEER_AFFINITY)
    is_first = found.may_be_first and not near
    seen = set()
    for number, rule in filters:
        failure = _guest_failure(state, rule, number, row, is_first=is_first)
        if failure is not None and failure.reason not in seen:
            seen.add(failure.reason)
            yield failure


def _guest_failure(state: State, rule: PeerRule, number: int, row: int, *, is_first: bool) -> Failure | None:
    assert rule.reason is not None
    counters = state.cluster.counters
    count = counters.count(number, row)
    if count < 0:
        return Failure(reason=rule.reason_absent) if rule.reason_absent is not None else None
    if rule.kind == PEER_AFFINITY:
        return Failure(reason=rule.reason) if count == 0 and not is_first else None
    if rule.kind == PEER_SPREAD:
        max_skew, itself, min_domains = rule.params
        skew = count + itself - counters.least(number, min_domains)
        if skew <= max_skew:
            return None
        return Failure(reason=rule.reason, needed=skew, free=max_skew, missing=skew - max_skew)
    if count == 0:
        return None
    return Failure(reason=rule.reason, by=_in_the_way(state, number, row))


def _in_the_way(state: State, number: int, row: int) -> tuple[str, ...]:
    """Name the first guests that a counter counts in the domain of a row."""
    cluster = state.cluster
    names = []
    for shape, other in cluster.counters.guests_near(number, row):
        for uid, held in cluster.guests_on[other].items():
            if held.number == shape:
                names.append(full_name(state.guests[uid].guest))
    return tuple(sorted(names)[:_NAMED])
