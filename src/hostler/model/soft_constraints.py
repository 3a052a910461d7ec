"""Soft constraints of a guest, and which of them a policy ignores.

A soft constraint prefers some hosts and rejects none. A policy with ``soft_constraints: first`` counts all of them. Any
other policy counts those whose scorer it lists.
"""

from __future__ import annotations

from hostler.model.guests import GuestSpec
from hostler.model.policies import Policy

__all__ = ["ignored_soft_constraints", "soft_constraints"]

_SCORERS = {
    "preferred_hosts": "preferred_hosts",
    "preferred_affinity": "near_guests",
    "preferred_anti_affinity": "near_guests",
    "spread (soft)": "even_spread",
}


def soft_constraints(spec: GuestSpec) -> tuple[str, ...]:
    """Name the soft constraints that a guest has, by the words of files."""
    has = {
        "preferred_hosts": bool(spec.preferred_hosts),
        "preferred_affinity": bool(spec.preferred_affinity),
        "preferred_anti_affinity": bool(spec.preferred_anti_affinity),
        "spread (soft)": any(not one.is_hard for one in spec.spread),
    }
    return tuple(name for name, is_there in has.items() if is_there)


def ignored_soft_constraints(policy: Policy, spec: GuestSpec) -> tuple[str, ...]:
    """Name the soft constraints of a guest that do not count under a policy."""
    if policy.soft_constraints == "first":
        return ()
    listed = {scorer.name for scorer in policy.scorers}
    return tuple(name for name in soft_constraints(spec) if _SCORERS[name] not in listed)
