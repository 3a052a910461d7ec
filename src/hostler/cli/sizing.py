"""How many hosts like one a set of guests needs, from an empty fleet.

A lower bound by totals starts the search; real placements under the policy decide from there: galloping up until
all guests fit, then halving down. Placement by a policy is not monotone in theory (one more host may once make it
worse), so the answer is a number of hosts that is shown to do, with one less shown not to. Quotas do not count: more
hosts change nothing about them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from hostler.cli.arrivals import arrive, arrive_tenancy
from hostler.cli.hostnames import HOSTNAME
from hostler.cli.inputs import Inputs
from hostler.cli.kernels import Kernels
from hostler.cli.runs import decide, is_pending, open_engine, shown_name
from hostler.cli.terminal import progress
from hostler.cli.wording import failure_text, reason_line
from hostler.config import did_you_mean
from hostler.errors import InputError, UnknownNameError
from hostler.model import (
    GUESTS,
    Bind,
    Explanation,
    Failure,
    Guest,
    GuestArrived,
    GuestLeft,
    GuestSpec,
    Host,
    HostsJoined,
    Prepare,
    may_give,
)

__all__ = ["Misfit", "Sizing", "size_fleet"]

LONG = 10_000  # guests from which on a progress bar is shown


CURED_BY_OTHERS = frozenset({"affinity_unmet", "skew_too_large"})
LARGER = "choose a larger host, or leave these guests out"
HINTS = {  # by the code of a reason
    "untolerated_taint": "add a toleration or choose another host",
    "no_device": "choose a host with such a device, or leave these guests out",
    "wrong_device_model": "accept another model or choose another host",
    "selector_mismatch": "relax the selector or choose another host",
    "affinity_mismatch": "relax the affinity or choose another host",
    "not_the_named_host": "choose the host that the guest names, or let it name none",
    "insufficient": LARGER,
    "insufficient_devices": LARGER,
    "no_topology_label": "choose a host with the label that guests are spread by",
}


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """Guests of one shape that do not fit even on an empty host of the kind, and why."""

    guest: str
    guests: int
    reason: str
    hint: str


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """How many hosts like one are needed; None when no number would do, because of the misfits."""

    like: str
    guests: int
    hosts: int | None
    lower_bound: int
    misfits: tuple[Misfit, ...] = ()


def size_fleet(inputs: Inputs, kernels: Kernels, like: str, *, seed: int = 0) -> Sizing:
    """Find the number of hosts like ``like`` on which all pending guests fit."""
    model = _host_named(inputs, like)
    guests = [guest for guest in inputs.fleet.guests if is_pending(guest)]
    if not guests:
        return Sizing(like=like, guests=0, hosts=0, lower_bound=0)
    misfits = _misfits(inputs, kernels, model, guests)
    bound = max(_lower_bound(inputs, model, guests), 1)
    if misfits:
        return Sizing(like=like, guests=len(guests), hosts=None, lower_bound=bound, misfits=misfits)
    with progress("trying numbers of hosts", None, is_long=len(guests) > LONG) as advance:

        def is_enough(count: int) -> bool:
            advance(1)
            engine = open_engine(inputs, kernels, seed=seed)
            arrive_tenancy(engine, msgspec.structs.replace(inputs.fleet.tenancy, quotas=()))
            arrive(engine, _hosts_like(model, count), guests)
            for _ in decide(engine):
                pass
            return all(engine.decision(guest.uid).host for guest in guests)

        low, high = bound - 1, bound  # low is too few
        while not is_enough(high):
            if high >= len(guests):
                raise InputError(
                    f"{len(guests):,} guests do not fit on as many hosts like {like!r} under policy "
                    f"{inputs.policy.name!r}",
                    hint="what asks outside, refuses by itself or needs hosts with other labels cannot be sized",
                )
            low, high = high, min(high + max(high // 4, 1), len(guests))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_enough(middle) else (middle, high)
    return Sizing(like=like, guests=len(guests), hosts=high, lower_bound=bound)


def _host_named(inputs: Inputs, name: str) -> Host:
    found = next((host for host in inputs.fleet.hosts if host.name == name), None)
    if found is None:
        known = [host.name for host in inputs.fleet.hosts]
        hint = did_you_mean(name, known) or "the files have no hosts at all"
        raise UnknownNameError(f"--hosts-like: there is no host {name!r}", hint=hint)
    return found


def _hosts_like(model: Host, count: int) -> list[Host]:
    """Return empty, open hosts like the model; the first bears its name."""
    width = len(str(count))
    names = [model.name, *(f"{model.name}-{number:0{width}d}" for number in range(2, count + 1))]
    labels = dict(model.labels)
    found = []
    for name in names:
        if HOSTNAME in labels:  # each is a domain of its own
            labels[HOSTNAME] = name
        own = tuple(labels.items())
        found.append(msgspec.structs.replace(model, name=name, uid=name, version=0, cordoned=False, labels=own))
    return found


def _misfits(inputs: Inputs, kernels: Kernels, model: Host, guests: Iterable[Guest]) -> tuple[Misfit, ...]:
    """Find guests that do not fit on an empty host of this kind: no number of them would do."""
    engine = open_engine(inputs, kernels)
    engine.apply(HostsJoined(hosts=tuple(_hosts_like(model, 1))))
    groups: dict[GuestSpec, list[Guest]] = {}
    for guest in guests:
        groups.setdefault(guest.spec, []).append(guest)
    found: list[Misfit] = []
    for first, *others in groups.values():
        engine.apply(GuestArrived(guest=msgspec.structs.replace(first, gang="")))
        is_placed = any(isinstance(action, Bind | Prepare) for action in decide(engine))
        if not is_placed and not _needs_others(explanation := engine.explain(first.uid)):
            reason, hint = _why(explanation)
            found.append(Misfit(guest=shown_name(first), guests=1 + len(others), reason=reason, hint=hint))
        engine.apply(GuestLeft(uid=first.uid))
    return tuple(found)


def _needs_others(explanation: Explanation) -> bool:
    """Say whether an empty host lacks nothing but the company of other guests."""
    codes = {failure.reason.code for verdict in explanation.verdicts for failure in verdict.failures}
    return bool(codes) and codes <= CURED_BY_OTHERS


def _why(explanation: Explanation) -> tuple[str, str]:
    """Return why the only host refuses a guest, and what to do about the first reason."""
    failures: tuple[Failure, ...] = explanation.verdicts[0].failures if explanation.verdicts else ()
    if not failures:
        return reason_line(explanation.decision), "a policy that asks outside cannot be sized"
    return "; ".join(map(failure_text, failures)), HINTS.get(failures[0].reason.code, "choose another host")


def _lower_bound(inputs: Inputs, model: Host, guests: Sequence[Guest]) -> int:
    """Return how many hosts the totals alone need, over resources and kinds of devices."""
    specs = Counter(guest.spec for guest in guests)
    wanted: Counter[str] = Counter({GUESTS: len(guests)})
    device_millis: Counter[str] = Counter()
    for spec, count in specs.items():
        for name, amount in spec.requests:
            if name != GUESTS:
                wanted[name] += amount * count
        for request in spec.devices:
            device_millis[request.kind] += request.count * request.milli * count
    policy = inputs.policy
    needs = [
        _rounded_up(amount, may_give(model, name, policy.overcommit, policy.reserve)) for name, amount in wanted.items()
    ]
    for kind, amount in device_millis.items():
        needs.append(_rounded_up(amount, sum(device.milli for device in model.devices if device.kind == kind)))
    return min(max(needs), len(guests))


def _rounded_up(amount: int, per_host: int) -> int:
    """Divide and round up; a host without a limit (or with none of it) says nothing."""
    return -(-amount // per_host) if per_host else 0
