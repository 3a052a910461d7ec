"""Quotas of tenants: what each tenant uses, may use, and may borrow.

Up to its ``min`` a tenant is always within its quota. Beyond that it borrows what others leave of theirs: all tenants
together stay within the sum of all ``min``, and each within its own ``max``. A resource that no quota names is
unlimited.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hostler.errors import FactError
from hostler.model import GUESTS, MAX_AMOUNT, Amounts, GuestSpec, Quota, amount_of

__all__ = ["Quotas", "wants"]


def wants(spec: GuestSpec, resource: str) -> int:
    """Return how much of a resource a guest counts for; every guest is one guest."""
    asked = amount_of(spec.requests, resource)
    return max(asked, 1) if resource == GUESTS else asked


class Quotas:
    """The amounts used by all tenants that have a quota."""

    def __init__(self) -> None:
        self.quotas: dict[str, Quota] = {}
        self.used: dict[str, dict[str, int]] = {}  # tenant to resource to amount
        self._names: tuple[str, ...] = ()

    def set(self, quotas: Sequence[Quota], placed: Iterable[GuestSpec]) -> None:
        """Replace all quotas and count the placed guests again."""
        names = [quota.tenant for quota in quotas]
        if len(set(names)) < len(names) or not all(names):
            raise FactError("two quotas are for one tenant, or one names no tenant")
        for quota in quotas:
            _check(quota)
        self.quotas = {quota.tenant: quota for quota in quotas}
        self._names = tuple(sorted({name for quota in quotas for name, _ in (*quota.min, *quota.max)}))
        self.used = {}
        for spec in placed:
            self.shift(spec, 1)

    def concerns(self, spec: GuestSpec) -> bool:
        """Say whether a guest's tenant has a quota."""
        return spec.tenant in self.quotas

    def shift(self, spec: GuestSpec, by: int) -> None:
        """Add a placed guest (``by`` 1), or remove one (-1)."""
        if spec.tenant in self.quotas:
            used = self.used.setdefault(spec.tenant, {})
            for name in self._names:
                used[name] = used.get(name, 0) + by * wants(spec, name)

    def beyond(self, spec: GuestSpec, more: Iterable[GuestSpec] = ()) -> str:
        """Say what a guest would use beyond its tenant's quota, or return nothing; ``more`` count as placed."""
        found = self.exceeded(spec, more)
        if found is None:
            return ""
        name, is_maximum = found
        return f"{name} {'beyond the maximum of' if is_maximum else 'that others leave for'} {spec.tenant}"

    def exceeded(self, spec: GuestSpec, more: Iterable[GuestSpec] = ()) -> tuple[str, bool] | None:
        """Return the first resource over the quota, and whether the limit is the maximum or what others leave."""
        quota = self.quotas.get(spec.tenant)
        if quota is None:
            return None
        others = [other for other in more if other.tenant in self.quotas]
        for name in self._names:
            if not wants(spec, name):
                continue
            asked = wants(spec, name) + sum(wants(other, name) for other in others)
            own = wants(spec, name) + sum(wants(other, name) for other in others if other.tenant == spec.tenant)
            then = self._of(spec.tenant, name) + own
            if then > _most(quota.max, name):
                return name, True
            borrows = then > amount_of(quota.min, name) and self.is_guaranteed(name)
            if borrows and self._total(name) + asked > self._guaranteed(name):
                return name, False
        return None

    def is_owed(self, spec: GuestSpec, more: Iterable[GuestSpec] = ()) -> bool:
        """Say whether a guest's tenant would stay within its guarantee; ``more`` count as placed."""
        quota = self.quotas.get(spec.tenant)
        own = [other for other in more if other.tenant == spec.tenant]
        return quota is not None and all(
            self._of(spec.tenant, name) + sum(wants(each, name) for each in (spec, *own)) <= amount_of(quota.min, name)
            for name in self._names
            if self.is_guaranteed(name) and wants(spec, name)
        )

    def is_guaranteed(self, name: str) -> bool:
        """Say whether any tenant is guaranteed some of a resource; otherwise it cannot be borrowed."""
        return any(amount_of(quota.min, name) for quota in self.quotas.values())

    def excess(self, tenant: str) -> float:
        """Return how far a tenant is above its guarantee, as the largest share of all guarantees."""
        quota = self.quotas.get(tenant)
        if quota is None:
            return 0.0
        shares = [
            (self._of(tenant, name) - amount_of(quota.min, name)) / self._guaranteed(name)
            for name in self._names
            if self.is_guaranteed(name)
        ]
        return max(shares, default=0.0)

    def copy(self) -> Quotas:
        """Return an independent copy."""
        twin = Quotas()
        twin.quotas = self.quotas
        twin.used = {tenant: used.copy() for tenant, used in self.used.items()}
        twin._names = self._names
        return twin

    def _of(self, tenant: str, name: str) -> int:
        return self.used.get(tenant, {}).get(name, 0)

    def _total(self, name: str) -> int:
        return sum(used.get(name, 0) for used in self.used.values())

    def _guaranteed(self, name: str) -> int:
        return sum(amount_of(quota.min, name) for quota in self.quotas.values())


def _most(amounts: Amounts, name: str) -> int:
    return next((amount for known, amount in amounts if known == name), MAX_AMOUNT)


def _check(quota: Quota) -> None:
    for name, amount in (*quota.min, *quota.max):
        if not 0 <= amount <= MAX_AMOUNT:
            raise FactError(f"the quota of {quota.tenant!r} has {amount} of {name}, not between 0 and 2^62")
    for name, amount in quota.min:
        if amount > _most(quota.max, name):
            raise FactError(f"the quota of {quota.tenant!r} guarantees more {name} than it allows")
