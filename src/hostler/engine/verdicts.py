"""Why a host refuses a guest, filter by filter, with amounts: the long form of the kernel's one code per host.

Plain Python over one host at a time; its first failure is the primary reason that the kernel counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hostler.engine.adapters import ForeignFilter
from hostler.engine.plugins.cordon import Cordon
from hostler.engine.plugins.host_affinity import AFFINITY_MISMATCH, SELECTOR_MISMATCH, HostAffinity, about
from hostler.engine.plugins.host_name import HostName
from hostler.engine.plugins.taints import Taints, untolerated
from hostler.engine.profile import Profile
from hostler.engine.shapes import Shape
from hostler.engine.state import State
from hostler.model import Expression, Failure, Host, Reason

__all__ = ["failures_on"]


def failures_on(state: State, profile: Profile, shape: Shape, row: int) -> tuple[Failure, ...]:
    """Return every filter of the policy that the host in a row fails, in filter order."""
    host = state.cluster.host(row)
    found: list[Failure] = []
    for use in profile.filters:
        verdict = use.evaluate(shape.spec, np.array([row], dtype=np.int64))
        if verdict is None or not verdict[0]:
            continue
        if use.name == Taints.name:
            found += [_failure(use.name, "untolerated_taint", t.text()) for t in untolerated(shape.spec, host.taints)]
        elif use.name == HostAffinity.name:
            found += _affinity(shape, host)
        elif use.name in (Cordon.name, HostName.name) or isinstance(use, ForeignFilter):
            found.append(Failure(reason=state.tables.reasons.values[int(verdict[0])]))
    found += _resources(state, profile, shape, row)
    found += _devices(state, shape, row, host)
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


def _resources(state: State, profile: Profile, shape: Shape, row: int) -> Iterator[Failure]:
    for resource, amount in shape.amounts:
        free = state.cluster.limit(row, resource, profile.limit_set) - state.cluster.used(row, resource)
        if amount > free:
            reason = state.tables.reasons.values[state.tables.insufficient(resource)]
            yield Failure(reason=reason, needed=amount, free=free, missing=amount - free)


def _devices(state: State, shape: Shape, row: int, host: Host) -> Iterator[Failure]:
    """Walk the device requests in order; later ones see what earlier ones leave, fullest device first."""
    left = state.cluster.device_left(row)
    for ask in shape.spec.devices:
        of_kind = [at for at, device in enumerate(host.devices) if device.kind == ask.kind]
        of_model = [at for at in of_kind if not ask.models or host.devices[at].model in ask.models]
        fitting = sorted((at for at in of_model if left[at] >= ask.milli), key=lambda at: (left[at], at))
        if len(fitting) >= ask.count:
            for at in fitting[: ask.count]:
                left[at] -= ask.milli
            continue
        kind = state.tables.kinds.number(ask.kind)
        none, model, room = state.tables.device_codes(kind)
        code = none if not of_kind else model if not of_model else room
        best = sum(sorted((min(max(left[at], 0), ask.milli) for at in of_model), reverse=True)[: ask.count])
        needed = ask.count * ask.milli
        yield Failure(reason=state.tables.reasons.values[code], needed=needed, free=best, missing=needed - best)
        return
