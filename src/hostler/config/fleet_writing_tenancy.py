"""Namespaces, gangs, budgets, quotas and reservations to plain values, the inverse of how a fleet file is read.

Used by :mod:`hostler.config.fleet_writing`.
"""

from __future__ import annotations

from hostler.config.durations import format_duration
from hostler.config.entries import write_amounts
from hostler.config.fleet_writing_terms import with_selector, without_empty, write_term
from hostler.config.tenancy import Tenancy
from hostler.model import Budget, Gang, Quota, Reservation, format_resource

__all__ = ["gang_text", "write_tenancy"]

_USUAL = Gang(name="usual")


def write_tenancy(tenancy: Tenancy) -> dict[str, object]:
    """Return the lists of a fleet file; those that would be empty are left out."""
    return without_empty(
        namespaces=[
            without_empty(name=name, labels=dict(labels)) for name, labels in tenancy.namespaces.items() if labels
        ],
        gangs=[_write_gang(gang) for gang in tenancy.gangs],
        budgets=[_write_budget(budget) for budget in tenancy.budgets],
        quotas=[_write_quota(quota) for quota in tenancy.quotas],
        reservations=[_write_reservation(one) for one in tenancy.reservations],
    )


def gang_text(key: str, namespace: str) -> str:
    """Write the key of a gang as somebody in a namespace does."""
    return key.removeprefix(f"{namespace}/")


def _namespace(namespace: str) -> str:
    return namespace if namespace != "default" else ""


def _write_gang(gang: Gang) -> dict[str, object]:
    entry = without_empty(
        name=gang.name,
        namespace=_namespace(gang.namespace),
        version=gang.version,
        min_count=gang.min_count,
        max_count=gang.max_count,
        topology=gang.topology,
    )
    if gang.priority is not None:
        entry["priority"] = gang.priority
    for key in ("disruption", "when_broken", "head_of_line"):
        if getattr(gang, key) != getattr(_USUAL, key):
            entry[key] = getattr(gang, key)
    if gang.release_after_ns != _USUAL.release_after_ns:
        entry["release_after"] = format_duration(gang.release_after_ns)
    return entry


def _write_budget(budget: Budget) -> dict[str, object]:
    entry = without_empty(
        name=budget.name,
        namespace=_namespace(budget.namespace),
        version=budget.version,
        allowed=max(budget.allowed, 0),  # a budget that was broken has nothing left
        disrupted=list(budget.disrupted),
    )
    return with_selector(entry, "selector", budget.selector)


def _write_quota(quota: Quota) -> dict[str, object]:
    return without_empty(
        tenant=quota.tenant,
        version=quota.version,
        min=write_amounts(quota.min, format_resource),
        max=write_amounts(quota.max, format_resource),
    )


def _write_reservation(one: Reservation) -> dict[str, object]:
    entry = without_empty(
        name=one.name,
        version=one.version,
        amounts=write_amounts(one.amounts, format_resource),
        hosts=[write_term(term) for term in one.hosts],
        tenant=one.tenant,
        gang=one.gang,
        since=format_duration(one.since) if one.since else "",
        until=format_duration(one.until) if one.until else "",
    )
    return with_selector(entry, "selector", one.selector)
