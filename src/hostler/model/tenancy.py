"""Relations between guests: gangs, disruption budgets, quotas of tenants, reservations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

from hostler.model.guests import Guest, Selector
from hostler.model.resources import Amounts, Labels
from hostler.model.selectors import Term

__all__ = ["Budget", "Gang", "HostShare", "Quota", "Reservation", "Tenancy"]


class Gang(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Guests that are placed together: at least ``min_count`` of them, or none.

    ``priority`` is the gang's; without one the lowest of its members counts. ``topology`` confines the gang to one
    domain of that label. ``disruption``: whether members may be evicted one by one or only all together.
    ``when_broken``: what happens when a running gang has fewer than ``min_count`` members placed.
    ``head_of_line``: whether a gang that finds no room lets smaller ones pass, or keeps guests of lower and equal
    priority from taking what it waits for. ``draw_key`` replaces the key in random choices (a redacted journal needs it
    to draw the same).
    """

    name: str
    namespace: str = "default"
    version: int = 0
    min_count: int = 1
    max_count: int = 0  # 0: no maximum
    priority: int | None = None
    topology: str = ""
    disruption: Literal["single", "all"] = "single"
    when_broken: Literal["keep", "prefer_repair", "release_after"] = "keep"
    release_after_ns: int = 60_000_000_000
    head_of_line: Literal["skip", "reserve"] = "skip"
    draw_key: int | None = None

    @property
    def key(self) -> str:
        """Return the key that members name: namespace and name."""
        return f"{self.namespace}/{self.name}"


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many of the selected guests may be disrupted now; without a selector it is about no guest."""

    name: str
    namespace: str = "default"
    version: int = 0
    selector: Selector | None = None
    allowed: int = 0
    disrupted: tuple[str, ...] = ()  # names of guests whose disruption is counted in ``allowed`` already

    @property
    def key(self) -> str:
        """Return namespace and name."""
        return f"{self.namespace}/{self.name}"

    def concerns(self, guest: Guest) -> bool:
        """Say whether a guest's eviction counts against this budget; not if ``allowed`` includes it already."""
        return (
            self.namespace == guest.spec.namespace
            and self.selector is not None
            and self.selector.matches(guest.spec.labels)
            and guest.name not in self.disrupted
        )


class Quota(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tenant is guaranteed (``min``) and may use at most (``max``; a resource not named has no maximum).

    Beyond its ``min`` a tenant borrows what others leave of theirs.
    """

    tenant: str
    version: int = 0
    min: Amounts = ()
    max: Amounts = ()


class HostShare(NamedTuple):
    """What one host holds for a reservation."""

    host: str
    amounts: Amounts


class Reservation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An amount held on every matching host for a tenant, a gang, or the guests that a selector matches.

    It counts as used for all other guests, is used up by the guests it is for, and ends by itself. Without a host term,
    all hosts match. Instead of ``amounts`` and ``hosts``, ``shares`` may have what single hosts keep, in order of name.
    Times are in nanoseconds; ``until`` 0 means that it never ends.
    """

    name: str
    version: int = 0
    amounts: Amounts = ()
    hosts: tuple[Term, ...] = ()
    shares: tuple[HostShare, ...] = ()
    tenant: str = ""
    gang: str = ""  # namespace/name
    selector: Selector | None = None
    since: int = 0
    until: int = 0

    @property
    def resources(self) -> tuple[str, ...]:
        """All resources that it names, each once, in order."""
        shared = (name for _, amounts in self.shares for name, _ in amounts)
        return tuple(dict.fromkeys((*(name for name, _ in self.amounts), *shared)))


class Tenancy(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in a fleet except hosts and guests."""

    namespaces: Mapping[str, Labels] = {}
    gangs: tuple[Gang, ...] = ()
    budgets: tuple[Budget, ...] = ()
    quotas: tuple[Quota, ...] = ()
    reservations: tuple[Reservation, ...] = ()

    def names(self) -> Iterable[tuple[str, str]]:
        """Return all objects by kind and key, in order, except namespaces: several files may mention the same one."""
        yield from (("gang", gang.key) for gang in self.gangs)
        yield from (("budget", budget.key) for budget in self.budgets)
        yield from (("quota of tenant", quota.tenant) for quota in self.quotas)
        yield from (("reservation", reservation.name) for reservation in self.reservations)
