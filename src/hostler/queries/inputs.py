"""The values that a placement starts from: hosts, guests, tenancy, and policies.

Commands read them from files or from a live cluster; a Python program creates them. ``open_engine`` returns an empty
engine for them, and ``apply_input`` applies everything as facts, in an order in which each fact finds what it depends
on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from hostler.engine import Engine, Registry
from hostler.errors import InputError, UnknownNameError
from hostler.model import (
    BudgetChanged,
    Event,
    GangChanged,
    Guest,
    GuestArrived,
    GuestsArrived,
    GuestSpec,
    Host,
    HostsJoined,
    NamespaceChanged,
    Policy,
    PreemptionRules,
    QueueRules,
    QuotasChanged,
    ReservationChanged,
    Tenancy,
)
from hostler.model.nearest_names import did_you_mean
from hostler.model.policies import BudgetRule
from hostler.queries.runs import Driver

__all__ = [
    "PlacementInput", "apply_input", "apply_members", "apply_tenancy", "copy_guest", "display_name", "find_guest",
    "is_pending", "open_engine", "with_preemption",
]  # fmt: skip


class PlacementInput(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts, guests and policies. The first policy is the default; the others are those that guests name.

    A guest with a host runs there already. ``pods`` has the uids of guests from Kubernetes manifests.
    """

    hosts: tuple[Host, ...] = ()
    guests: tuple[Guest, ...] = ()
    tenancy: Tenancy = Tenancy()
    policies: tuple[Policy, ...]
    queue: QueueRules = QueueRules()
    registry: Registry = msgspec.field(default_factory=Registry)
    seed: int = 0
    pods: frozenset[str] = frozenset()

    @property
    def policy(self) -> Policy:
        """Return the default policy."""
        return self.policies[0]

    def policy_of(self, spec: GuestSpec) -> Policy:
        """Return the policy that decides about a guest with this spec."""
        return next((policy for policy in self.policies if policy.name == spec.policy), self.policy)


def open_engine(inputs: PlacementInput) -> Engine:
    """Return an empty engine with the policies of the input."""
    return Engine(inputs.policies, 0, inputs.seed, rules=inputs.queue, registry=inputs.registry)


def apply_input(driver: Driver, inputs: PlacementInput) -> None:
    """Apply everything in the input to the engine."""
    apply_tenancy(driver, inputs.tenancy)
    apply_members(driver, inputs.hosts, inputs.guests)


def apply_tenancy(driver: Driver, tenancy: Tenancy) -> None:
    """Apply namespaces, gangs, budgets, quotas and reservations."""
    for name, labels in tenancy.namespaces.items():
        driver.apply(NamespaceChanged(name=name, labels=labels))
    for gang in tenancy.gangs:
        driver.apply(GangChanged(gang=gang))
    for budget in tenancy.budgets:
        driver.apply(BudgetChanged(budget=budget))
    if tenancy.quotas:
        driver.apply(QuotasChanged(quotas=tenancy.quotas))
    for reservation in tenancy.reservations:
        driver.apply(ReservationChanged(reservation=reservation))


def apply_members(driver: Driver, hosts: Sequence[Host], guests: Sequence[Guest]) -> None:
    """Apply hosts, then guests that already run, then guests to be placed, each in their order."""
    driver.apply(HostsJoined(hosts=tuple(hosts)))
    # Guests that name their devices come first, so that no other guest gets those devices.
    for guest in guests:
        if guest.host and guest.on_devices:
            driver.apply(GuestArrived(guest=guest))
    for is_placed in (True, False):
        chosen = [guest for guest in guests if bool(guest.host) == is_placed and not (is_placed and guest.on_devices)]
        for event in _arrivals(chosen):
            driver.apply(event)


def _arrivals(guests: Sequence[Guest]) -> Iterator[Event]:
    """Turn guests into facts; guests without special fields become columns of one fact."""
    for is_plain, group in groupby(guests, key=_is_plain):
        if not is_plain:
            yield from (GuestArrived(guest=guest) for guest in group)
            continue
        members = list(group)
        specs: dict[GuestSpec, int] = {}
        spec_of = tuple(specs.setdefault(guest.spec, len(specs)) for guest in members)
        yield GuestsArrived(
            specs=tuple(specs),
            spec_of=spec_of,
            names=tuple(guest.name for guest in members),
            uids=tuple(guest.uid for guest in members),
            hosts=tuple(guest.host for guest in members) if members[0].host else (),
        )


def _is_plain(guest: Guest) -> bool:
    has_more = guest.version or guest.on_devices or guest.started or guest.gang
    return not has_more and guest.draw_key is None


def with_preemption(
    policies: Sequence[Policy], *, is_on: bool, budgets: BudgetRule | None = None
) -> tuple[Policy, ...]:
    """Turn evictions on (by each policy's own rules, else the usual ones) or off; ``budgets`` overrides the rules."""
    replace = msgspec.structs.replace
    if not is_on:
        return tuple(replace(policy, preemption=None, reclaim=False) for policy in policies)
    return tuple(replace(policy, preemption=_rules(policy, budgets)) for policy in policies)


def _rules(policy: Policy, budgets: BudgetRule | None) -> PreemptionRules:
    rules = policy.preemption or PreemptionRules()
    return msgspec.structs.replace(rules, budgets=budgets) if budgets else rules


def copy_guest(guest: Guest, number: int) -> Guest:
    """Return a guest of the same shape with a new uid; it has a space in it, so it differs from all others."""
    return Guest(name=f"{guest.name}-{number}", uid=f"copy {number} of {guest.uid}", spec=guest.spec)


def is_pending(guest: Guest) -> bool:
    """Say whether a guest is still to be placed."""
    return not guest.host


def display_name(guest: Guest) -> str:
    """Return a guest's name for people: with its namespace unless that is the default one."""
    return guest.name if guest.spec.namespace == "default" else f"{guest.spec.namespace}/{guest.name}"


def find_guest(guests: Sequence[Guest], wanted: str) -> Guest:
    """Find a guest by name, ``namespace/name`` or uid."""
    for guest in guests:
        if wanted in (guest.uid, f"{guest.spec.namespace}/{guest.name}"):
            return guest
    found = [guest for guest in guests if guest.name == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        names = [f"{guest.spec.namespace}/{guest.name}" for guest in found]
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        raise InputError(f"{len(found)} guests are called {wanted!r}", hint=f"write one of {shown}")
    known = [display_name(guest) for guest in guests]
    numbers = sorted(int(name[len(wanted) + 1 :]) for name in known if _is_counted(name, wanted))
    if len(numbers) > 1:
        raise InputError(
            f"{wanted!r} stands for {len(numbers):,} guests",
            hint=f"name one, {wanted}-{numbers[0]} to {wanted}-{numbers[-1]}",
        )
    raise UnknownNameError(
        f"there is no guest {wanted!r}", hint=did_you_mean(wanted, known) or "there are no guests at all"
    )


def _is_counted(name: str, prefix: str) -> bool:
    """Say whether a name is the prefix and a number, as an entry with a count makes it."""
    number = name.removeprefix(f"{prefix}-")
    return number != name and number.isascii() and number.isdecimal()
