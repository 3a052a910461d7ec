"""The typical mix of policies that measure fragmentation, where neither file nor policy gives one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.engine.policies import typical_mix
from hostler.model import GuestSpec, MixEntry, Policy

__all__ = ["USUAL_MIX", "with_mixes"]

# Of a cluster that has no guests with gpus yet: halves, whole ones and whole machines of eight, in equal parts.
USUAL_MIX = (
    MixEntry(4000, 500, 1, (), 0.25),
    MixEntry(8000, 1000, 1, (), 0.25),
    MixEntry(16000, 1000, 2, (), 0.25),
    MixEntry(64000, 1000, 8, (), 0.25),
)
_FGD = "fgd"
_MOST = 512  # needs of guests that are there: tenants invent any number, and every host is scored by each


def with_mixes(policies: Sequence[Policy], specs: Sequence[GuestSpec] = ()) -> tuple[Policy, ...]:
    """Give policies that need a typical mix the one of these guests that ask for gpus, or a usual one without any."""
    asking = [spec for spec in specs if spec.devices]
    mix = typical_mix(asking, most=_MOST) if asking else USUAL_MIX
    return tuple(
        msgspec.structs.replace(policy, mix=mix)
        if not policy.mix and any(scorer.name == _FGD for scorer in policy.scorers)
        else policy
        for policy in policies
    )
