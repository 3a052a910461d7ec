"""What a VM would take beyond its project's quota, with the amounts: of which resource, used, asked, and the limit."""

from __future__ import annotations

import msgspec

from hostler.engine import Engine
from hostler.engine.quotas import wants
from hostler.model import Explanation, amount_of, format_resource
from hostler.model.tenancy import Quota

__all__ = ["counted"]

_replace = msgspec.structs.replace


def counted(engine: Engine, found: Explanation) -> Explanation:
    """Return an explanation that says by how much a quota is exceeded, and in the decision that it is."""
    if not found.quota:
        return found
    spec = engine.state.guests[found.decision.uid].guest.spec
    resource = found.quota.partition(" ")[0]
    quota = engine.state.quotas.quotas[spec.tenant]
    text = f"{found.quota} ({_amounts(engine, quota, resource, wants(spec, resource))})"
    note = found.decision.note or f"the quota of {spec.tenant} has no room for it"
    return _replace(found, quota=text, decision=_replace(found.decision, note=note))


def _amounts(engine: Engine, quota: Quota, resource: str, asked: int) -> str:
    """Write what counts against a VM; beyond what is guaranteed, that is what all others have as well."""

    def text(amount: int) -> str:
        return format_resource(resource, amount)

    books = engine.state.quotas
    used = books.used.get(quota.tenant, {}).get(resource, 0)
    most = dict(quota.max).get(resource)
    told = f"{text(used)} used, {text(asked)} asked"
    if most is not None and used + asked > most:
        return f"{told}, {text(most)} at most"
    guaranteed = sum(amount_of(one.min, resource) for one in books.quotas.values())
    total = sum(one.get(resource, 0) for one in books.used.values())
    least = amount_of(quota.min, resource)
    return f"{told}, {text(least)} guaranteed; all projects use {text(total)} of {text(guaranteed)} guaranteed in all"
