"""How many hosts of one kind a set of guests needs, in an empty fleet.

The search starts from a lower bound by totals and then uses real placements under the policy: double the number until
all guests fit, then bisect. Placement by a policy is not strictly monotone (one more host may make it worse), so the
answer is a number of hosts that suffices, while one host less does not. Quotas are ignored: more hosts do not change
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from hostler.errors import InputError, UnknownNameError
from hostler.model import (
    GUESTS,
    Bind,
    Explanation,
    Guest,
    GuestArrived,
    GuestLeft,
    GuestSpec,
    Host,
    HostsJoined,
    Prepare,
    may_give,
)
from hostler.model.hosts import HOSTNAME
from hostler.model.nearest_names import did_you_mean
from hostler.model.vocabulary import plural
from hostler.queries.inputs import (
    PlacementInput,
    apply_members,
    apply_tenancy,
    is_pending,
    open_engine,
    with_preemption,
)
from hostler.queries.runs import Advance, decide_all, ignore_progress

__all__ = ["FleetSize", "Misfit", "size_fleet"]

CURED_BY_OTHERS = frozenset({"affinity_unmet", "skew_too_large"})


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """Guests of one shape that do not fit even on an empty host of the kind, with that host's verdict."""

    guest: Guest
    guests: int
    explanation: Explanation


class FleetSize(msgspec.Struct, frozen=True, kw_only=True):
    """The number of hosts needed; None if no number suffices, because of the misfits."""

    like: str
    guests: int
    hosts: int | None
    lower_bound: int
    misfits: tuple[Misfit, ...] = ()


def size_fleet(inputs: PlacementInput, like: str, *, advance: Advance = ignore_progress) -> FleetSize:
    """Find the number of hosts like the one named ``like`` on which all pending guests fit.

    Only that host of the input is used, empty and not cordoned, and only guests without a host. No guest is evicted,
    whatever the policies say. ``advance`` is called after each trial.
    """
    inputs = msgspec.structs.replace(inputs, policies=with_preemption(inputs.policies, is_on=False))
    model = _host_named(inputs, like)
    guests = [guest for guest in inputs.guests if is_pending(guest)]
    if not guests:
        return FleetSize(like=like, guests=0, hosts=0, lower_bound=0)
    misfits = _misfits(inputs, model, guests)
    bound = max(_lower_bound(inputs, model, guests), 1)
    if misfits:
        return FleetSize(like=like, guests=len(guests), hosts=None, lower_bound=bound, misfits=misfits)
    low, high = bound - 1, bound  # low is too few
    while not _is_enough(inputs, model, guests, high, advance):
        if high >= len(guests):
            verb = "does" if len(guests) == 1 else "do"
            raise InputError(
                f"{plural(len(guests), 'guest')} {verb} not fit on as many hosts like {like!r} "
                f"under policy {inputs.policy.name!r}",
                hint="external scorers, own filters and guests that need other labels cannot be sized",
            )
        low, high = high, min(high + max(high // 4, 1), len(guests))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_enough(inputs, model, guests, middle, advance) else (middle, high)
    return FleetSize(like=like, guests=len(guests), hosts=high, lower_bound=bound)


def _is_enough(inputs: PlacementInput, model: Host, guests: Sequence[Guest], count: int, advance: Advance) -> bool:
    """Say whether all guests fit on so many hosts."""
    advance(1)
    engine = open_engine(inputs)
    apply_tenancy(engine, msgspec.structs.replace(inputs.tenancy, quotas=()))
    apply_members(engine, _hosts_like(model, count), guests)
    decide_all(engine)
    return all(engine.decision(guest.uid).host for guest in guests)


def _host_named(inputs: PlacementInput, name: str) -> Host:
    found = next((host for host in inputs.hosts if host.name == name), None)
    if found is None:
        known = [host.name for host in inputs.hosts]
        hint = did_you_mean(name, known) or "there are no hosts at all"
        raise UnknownNameError(f"there is no host {name!r}", hint=hint)
    return found


def _hosts_like(model: Host, count: int) -> list[Host]:
    """Return empty hosts like the model, not cordoned; the first has its name."""
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


def _misfits(inputs: PlacementInput, model: Host, guests: Iterable[Guest]) -> tuple[Misfit, ...]:
    """Find guests that do not fit on an empty host of this kind: no number of hosts suffices for them."""
    engine = open_engine(inputs)
    engine.apply(HostsJoined(hosts=tuple(_hosts_like(model, 1))))
    groups: dict[GuestSpec, list[Guest]] = {}
    for guest in guests:
        groups.setdefault(guest.spec, []).append(guest)
    found: list[Misfit] = []
    for first, *others in groups.values():
        engine.apply(GuestArrived(guest=msgspec.structs.replace(first, gang="")))
        is_placed = any(isinstance(action, Bind | Prepare) for action in decide_all(engine))
        if not is_placed and not _needs_others(explanation := engine.explain(first.uid)):
            found.append(Misfit(guest=first, guests=1 + len(others), explanation=explanation))
        engine.apply(GuestLeft(uid=first.uid))
    return tuple(found)


def _needs_others(explanation: Explanation) -> bool:
    """Say whether an empty host lacks only other guests that the guest must be near."""
    codes = {failure.reason.code for verdict in explanation.verdicts for failure in verdict.failures}
    return bool(codes) and codes <= CURED_BY_OTHERS


def _lower_bound(inputs: PlacementInput, model: Host, guests: Sequence[Guest]) -> int:
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
    """Divide and round up; a host without a limit, or with none of the resource, gives no bound."""
    return -(-amount // per_host) if per_host else 0
