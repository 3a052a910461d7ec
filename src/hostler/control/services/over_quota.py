"""What a VM would take beyond its project's quota: of which resource, used, asked, the limit, and what lets it in."""

from __future__ import annotations

import msgspec

from hostler.engine import Engine
from hostler.model import Explanation, GuestSpec, amount_of, format_resource

__all__ = ["counted"]

_replace = msgspec.structs.replace


def counted(engine: Engine, found: Explanation, *, asked: str = "asked") -> Explanation:
    """Return an explanation that says by how much a quota is exceeded, and in the decision that it is.

    ``asked`` is the word for what counts against it: of a VM that grows, what is asked comes on top.
    """
    spec = engine.view.guest(found.decision.uid).spec
    exceeded = engine.view.quotas.exceeded(spec) if found.quota else None
    if exceeded is None:
        return found
    text = f"{found.quota} ({_amounts(engine, spec, *exceeded, asked)}); {_cure(engine, spec, *exceeded)}"
    note = found.decision.note or f"the quota of {spec.tenant} has no room for it"
    return _replace(found, quota=text, decision=_replace(found.decision, note=note))


def _cure(engine: Engine, spec: GuestSpec, resource: str, is_maximum: bool) -> str:
    """Say by which command an admin lets it in: what is guaranteed is within the quota, whatever others have."""
    quotas = engine.view.quotas
    enough = format_resource(resource, quotas.used_of(spec.tenant, resource) + quotas.wanted(spec, resource))
    return f"'hostler quota set {spec.tenant} --{'max' if is_maximum else 'min'} {resource}={enough}' would let it in"


def _amounts(engine: Engine, spec: GuestSpec, resource: str, is_maximum: bool, asked: str) -> str:
    """Write what counts against a VM; beyond what is guaranteed, that is what all others have as well."""

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
