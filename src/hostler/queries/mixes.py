"""Typical mixes for policies that measure fragmentation, such as ``fgd``: one rule for all fronts.

A policy may declare its mix. Otherwise a front computes it from the guests that it knows: files and the simulator from
all of them, a live front from those that are placed. A live front gives a mix to its engine as a fact
(``PolicyChanged``), so the journal has it, and renews it at most once a minute (``MixRenewal``). The same guests give
the same mix in every front.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from hostler.engine import Engine
from hostler.engine.cluster.tables import GPU
from hostler.engine.engine_view import EngineView
from hostler.engine.policy.policies import mix_of_counts
from hostler.model import GuestSpec, MixEntry, Policy, PolicyChanged

__all__ = ["RENEW_NS", "USUAL_MIX", "MixRenewal", "needs_mix", "with_mixes", "with_placed_mixes"]

RENEW_NS = 60_000_000_000  # between two looks at the guests of a live front
# Of a cluster that has no guests with gpus yet: halves, whole ones and whole machines of eight, in equal parts.
USUAL_MIX = (
    MixEntry(4000, 500, 1, (), 0.25),
    MixEntry(8000, 1000, 1, (), 0.25),
    MixEntry(16000, 1000, 2, (), 0.25),
    MixEntry(64000, 1000, 8, (), 0.25),
)
_MOST = 512  # needs: tenants invent any number of them, and every host is scored by each
_FGD = "fgd"


def needs_mix(policy: Policy) -> bool:
    """Say whether a policy needs a typical mix and declares none."""
    return not policy.mix and any(scorer.name == _FGD for scorer in policy.scorers)


def with_mixes(policies: Iterable[Policy], specs: Iterable[GuestSpec] = ()) -> tuple[Policy, ...]:
    """Return policies with the typical mix of these guests if they need one; a default mix if no guest wants GPUs."""
    return _with_mix(policies, ((spec, 1) for spec in specs))


def with_placed_mixes(policies: Iterable[Policy], view: EngineView) -> tuple[Policy, ...]:
    """Return policies with the typical mix of an engine's placed guests, if they need one."""
    return _with_mix(policies, view.placed_specs())


def _with_mix(policies: Iterable[Policy], counts: Iterable[tuple[GuestSpec, int]]) -> tuple[Policy, ...]:
    chosen = tuple(policies)
    if not any(map(needs_mix, chosen)):
        return chosen
    mix = _mix_of(tuple(counts))
    return tuple(msgspec.structs.replace(one, mix=mix) if needs_mix(one) else one for one in chosen)


def _mix_of(counts: Sequence[tuple[GuestSpec, int]]) -> tuple[MixEntry, ...]:
    """Return the mix of guests, given with the number of guests of each spec.

    A mix covers 95 percent of its guests. If most guests request no GPU, they would push the GPU requests out of it, so
    then only guests with GPUs are counted.
    """
    asking = [(spec, count) for spec, count in counts if any(ask.kind == GPU for ask in spec.devices)]
    number, total = sum(count for _, count in asking), sum(count for _, count in counts)
    if not number:
        return USUAL_MIX
    return mix_of_counts(asking if 2 * number < total else counts, most=_MOST)


class MixRenewal:
    """Decides when a live engine's typical mixes are renewed, and returns the fact that does it.

    ``declared`` are the policies without computed mixes. Times are those of the engine. An unchanged mix gives no fact.
    """

    def __init__(self, declared: Iterable[Policy]) -> None:
        self._names: frozenset[str] = frozenset()
        self._looked_at: int | None = None
        self._has_news = True
        self.use(declared)

    def use(self, declared: Iterable[Policy]) -> None:
        """Renew the mixes of other policies from now on."""
        self._names = frozenset(policy.name for policy in declared if needs_mix(policy))

    def note_news(self) -> None:
        """Note that other guests may be placed than at the last renewal."""
        self._has_news = True

    def due(self) -> int | None:
        """Return when to compute the mixes again; None if nothing changed since."""
        if not self._names or not self._has_news:
            return None
        return 0 if self._looked_at is None else self._looked_at + RENEW_NS

    def renew(self, engine: Engine, now: int) -> PolicyChanged | None:
        """Compute the mixes if it is time to; return the fact for the engine, or None if nothing changed."""
        due = self.due()
        if due is None or due > now:
            return None
        self._looked_at, self._has_news = now, False
        bare = [self._without_mix(policy) for policy in engine.policies]
        policies = with_placed_mixes(bare, engine.view)
        return PolicyChanged(policies=policies, wakes=False, at=now) if policies != engine.policies else None

    def _without_mix(self, policy: Policy) -> Policy:
        return msgspec.structs.replace(policy, mix=()) if policy.name in self._names else policy
