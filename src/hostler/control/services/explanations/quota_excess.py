"""By how much a VM would exceed its project's quota: resource, use, request, limit, and the command that raises it."""

from __future__ import annotations

import msgspec

from hostler.engine import Engine
from hostler.model import DecisionNote, Explanation, GuestSpec, amount_of, format_resource
from hostler.model.notes import QUOTA_EXCEEDED
from hostler.model.vocabulary import with_notes

__all__ = ["with_quota_excess"]

_replace = msgspec.structs.replace


def with_quota_excess(engine: Engine, found: Explanation, *, asked: str = "asked") -> Explanation:
    """Return an explanation that says by how much a quota is exceeded.

    ``asked`` is the word for the request: for a VM that grows, it is what the VM asks in addition.
    """
    spec = engine.view.guest(found.decision.uid).spec
    exceeded = engine.view.quotas.exceeded(spec) if found.quota else None
    if exceeded is None:
        return found
    text = f"{found.quota} ({_amounts(engine, spec, *exceeded, asked)}); {_cure(engine, spec, *exceeded)}"
    notes = found.decision.notes or (DecisionNote(QUOTA_EXCEEDED, spec.tenant),)
    return _replace(found, quota=text, decision=with_notes(found.decision, notes))


def _cure(engine: Engine, spec: GuestSpec, resource: str, is_maximum: bool) -> str:
    """Return the command with which an admin lets it in. Guaranteed room is within the quota, whatever others use."""
    quotas = engine.view.quotas
    enough = format_resource(resource, quotas.used_of(spec.tenant, resource) + quotas.wanted(spec, resource))
    return f"'hostler quota set {spec.tenant} --{'max' if is_maximum else 'min'} {resource}={enough}' would let it in"


def _amounts(engine: Engine, spec: GuestSpec, resource: str, is_maximum: bool, asked: str) -> str:
    """Describe use, request and limit. Beyond the guaranteed minimum, the use of all projects counts as well."""

    def text(amount: int) -> str:
        return format_resource(resource, amount)

    quotas = engine.view.quotas
    quota = quotas.by_tenant[spec.tenant]
    told = f"{text(quotas.used_of(spec.tenant, resource))} used, {text(quotas.wanted(spec, resource))} {asked}"
    if is_maximum:
        return f"{told}, {text(amount_of(quota.max, resource))} at most"
    guaranteed = sum(amount_of(one.min, resource) for one in quotas.by_tenant.values())
    total = sum(one.get(resource, 0) for one in quotas.used.values())
    least = amount_of(quota.min, resource)
    return f"{told}, {text(least)} guaranteed; all projects use {text(total)} of {text(guaranteed)} guaranteed in all"
