"""What binds several guests together or apart: gangs, disruption budgets, quotas of tenants, reservations."""

from __future__ import annotations

from typing import Literal

import msgspec

from hostler.model.constraints import Selector
from hostler.model.guests import Guest
from hostler.model.resources import Amounts
from hostler.model.selectors import Term

__all__ = ["Budget", "Gang", "Quota", "Reservation"]


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
        """Return what members name: namespace and name."""
        return f"{self.namespace}/{self.name}"


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many of the selected guests may be disrupted now; without a selector none is meant."""

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
        """Say whether a guest's eviction counts against this budget; not where it is counted in ``allowed`` already."""
        return (
            self.namespace == guest.spec.namespace
            and self.selector is not None
            and self.selector.matches(guest.spec.labels)
            and guest.name not in self.disrupted
        )


class Quota(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tenant is guaranteed (``min``) and may have at most (``max``; a resource not named has no maximum).

    Beyond its ``min`` a tenant borrows what others leave of theirs.
    """

    tenant: str
    version: int = 0
    min: Amounts = ()
    max: Amounts = ()


class Reservation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An amount kept free on every matching host for a tenant, a gang, or the guests that a selector matches.

    It counts as used for all others, is consumed by the guests it is for, and returns when it ends. Without a host term
    all hosts match. Times are in nanoseconds; ``until`` 0 means for good.
    """

    name: str
    version: int = 0
    amounts: Amounts = ()
    hosts: tuple[Term, ...] = ()
    tenant: str = ""
    gang: str = ""  # namespace/name
    selector: Selector | None = None
    since: int = 0
    until: int = 0
