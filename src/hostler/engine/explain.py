"""Explanations: every host's verdict on one guest, near misses first, the cure, and what would wake it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from hostler.engine.cures import find_cure
from hostler.engine.eviction_advice import advise_eviction
from hostler.engine.evictions import hold_of
from hostler.engine.framework import Wake
from hostler.engine.gang_advice import advise_gang
from hostler.engine.kernels_layout import Int64s
from hostler.engine.profile import Profile
from hostler.engine.profiles import NO_POLICY
from hostler.engine.reasons import counted, reason_counts
from hostler.engine.records import GROUPED, PLACED_STATES, GuestRecord
from hostler.engine.selection import score_table, tie_keys
from hostler.engine.shapes import Shape
from hostler.engine.state import State
from hostler.engine.verdicts import failures_on
from hostler.model import Decision, Explanation, GuestSpec, HostVerdict, Score

__all__ = ["explain"]

_NEAR_MISSES = 10
_AS_IT_IS = "now"
_WITHOUT_ITSELF = "now, its own booking set aside"


def explain(state: State, record: GuestRecord, decision: Decision) -> Explanation:
    """Explain where a guest may go as the cluster is; what the guest itself holds is set aside meanwhile."""
    shape = state.shape(record)
    row = state.cluster.row_of.get(record.host) if record.state in PLACED_STATES else None
    if row is None or state.is_parked(record):
        held = hold_of(state, record.guest.uid)
        if held is None:
            return _explain(state, record, shape, decision, _AS_IT_IS)
        name, hold = held
        state.cluster.release_hold(name, hold.row)
        try:
            return _explain(state, record, shape, decision, _AS_IT_IS)
        finally:
            state.cluster.hold(name, hold)
    state.cluster.unbook(row, shape, record.devices, record.guest.uid)
    try:
        return _explain(state, record, shape, decision, _WITHOUT_ITSELF)
    finally:
        state.cluster.book(row, shape, record.devices, record.guest.uid)


def _explain(state: State, record: GuestRecord, shape: Shape, decision: Decision, as_of: str) -> Explanation:
    policy = state.wait_key(shape)[1]
    if policy == NO_POLICY:
        return Explanation(decision=decision, as_of=as_of, wakes=(Wake.POLICY_CHANGED.value, Wake.GUEST_CHANGED.value))
    profile = state.profiles.profiles[policy]
    slot = state.cache.slot(shape, policy)
    codes, counts = state.cache.codes(slot)
    feasible, refused = counted(counts[None, :])[0]
    fitting = _fitting(state, slot, policy, np.flatnonzero(codes == 0).astype(np.int64))
    refusals = sorted(
        (
            HostVerdict(host=state.cluster.host(row).name, failures=failures_on(state, profile, shape, row))
            for row in np.flatnonzero(codes > 0).tolist()
        ),
        key=_nearness,
    )
    is_stuck = not fitting and bool(refusals)
    gang = record.guest.gang if record.state == GROUPED else ""
    quota = state.quotas.beyond(shape.spec) if record.state not in PLACED_STATES else ""
    return Explanation(
        decision=_with_counts(state, decision, shape.spec, feasible, refused),
        as_of=as_of,
        verdicts=(*fitting, *refusals),
        near_misses=tuple(v.host for v in refusals[:_NEAR_MISSES]),
        cure=find_cure(state, profile, shape, refusals, record.guest.uid) if is_stuck else None,
        eviction=advise_eviction(state, shape, policy, profile.policy.preemption) if is_stuck else None,
        gang=advise_gang(state, gang) if gang else None,
        quota=quota,
        wakes=_wakes(state, profile, refused) if not fitting else (),
    )


def _fitting(state: State, slot: int, policy: int, rows: Int64s) -> list[HostVerdict]:
    """Return the verdicts of the hosts that fit, best first."""
    table = score_table(state, slot, policy, rows)
    verdicts = []
    for i, row in enumerate(rows.tolist()):
        scores = tuple(
            Score(plugin, raw[i], weighted[i])
            for plugin, raw, weighted in zip(table.plugins, table.raw, table.weighted, strict=True)
        )
        verdict = HostVerdict(host=state.cluster.host(row).name, scores=scores, total=table.totals[i])
        verdicts.append((-table.totals[i], tie_keys(state, policy, row, 0), verdict))
    return [verdict for _, _, verdict in sorted(verdicts, key=lambda v: v[:2])]


def _nearness(verdict: HostVerdict) -> tuple[int, float, str]:
    """Order refusing hosts: fewest failing filters, then the smallest missing share, then the name."""
    missing = sum(f.missing / f.needed if f.missing and f.needed else 1.0 for f in verdict.failures)
    return len(verdict.failures), missing, verdict.host


def _with_counts(
    state: State, decision: Decision, spec: GuestSpec, feasible: int, refused: Sequence[tuple[int, int]]
) -> Decision:
    return msgspec.structs.replace(
        decision,
        hosts=feasible + sum(n for _, n in refused),
        feasible=feasible,
        reasons=reason_counts(state.tables, tuple(refused), spec),
    )


def _wakes(state: State, profile: Profile, refused: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    wakes = {Wake.HOST_JOINED, Wake.GUEST_CHANGED}
    for code, _ in refused:
        wakes |= profile.cures(state.tables.reasons.values[code].plugin)
    return tuple(wake.value for wake in Wake if wake in wakes)
