"""Explanations: every host's verdict on one guest, near misses first, the cure, and what would wake the guest."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import numpy as np

from hostler.engine.cache.reasons import NamedCounts, reason_counts, split_counts
from hostler.engine.cluster.shapes import Shape
from hostler.engine.framework import Wake
from hostler.engine.gangs.advice import OUTSIDE, advise_gang, as_member
from hostler.engine.kernels.layout import Int64s
from hostler.engine.policy.profile import Profile
from hostler.engine.policy.profiles import NO_POLICY
from hostler.engine.preemption.eviction_advice import advise_eviction
from hostler.engine.preemption.evictions import hold_of
from hostler.engine.state.records import GROUPED, PLACED_STATES, GuestRecord
from hostler.engine.state.reservations import RESERVATION
from hostler.engine.state.state import State
from hostler.engine.verdicts.cures import find_cure
from hostler.engine.verdicts.selection import score_table, tie_keys
from hostler.engine.verdicts.verdicts import failures_on
from hostler.model import Decision, Explanation, Failure, GangAdvice, HostVerdict, Score
from hostler.model.decisions import WakeEvent
from hostler.model.reasons import GANG_DECLARED, MEMBER_ARRIVES, MEMBER_LEAVES, QUOTA_FREED, RESERVATION_ENDS
from hostler.model.soft_constraints import ignored_soft_constraints
from hostler.model.vocabulary import ENGINE_WORDS, render_explanation

__all__ = ["explain"]

_NEAR_MISSES = 10
_AS_IT_IS = "now"
_NO_FILTERS = frozenset({"gang", "quota"})  # they refuse, and no event of a host cures that
_WITHOUT_ITSELF = "now, its own booking set aside"


def explain(state: State, record: GuestRecord, decision: Decision) -> Explanation:
    """Explain where a guest may go in the current cluster; a placed guest's own booking is ignored meanwhile."""
    return render_explanation(_explain_without_itself(state, record, decision), ENGINE_WORDS)


def _explain_without_itself(state: State, record: GuestRecord, decision: Decision) -> Explanation:
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
    gang = record.guest.gang if record.state == GROUPED and policy != NO_POLICY else ""
    if not gang:
        return _judge(state, record, shape, policy, decision, as_of)
    advice, eviction = advise_gang(state, gang)
    with as_member(state, record, state.cache.slot(shape, policy), advice.domain):
        found = _judge(state, record, shape, policy, decision, as_of)
    wakes = _gang_wakes(record.guest.name, state.profiles.profiles[policy], advice)
    wakes = tuple(dict.fromkeys((*wakes, *found.wake_events)))
    return msgspec.structs.replace(found, gang=advice, eviction=eviction, wake_events=wakes)


def _judge(state: State, record: GuestRecord, shape: Shape, policy: int, decision: Decision, as_of: str) -> Explanation:
    if policy == NO_POLICY:
        wakes = (WakeEvent(Wake.POLICY_CHANGED.value), WakeEvent(Wake.GUEST_CHANGED.value))
        return Explanation(decision=decision, as_of=as_of, wake_events=wakes)
    profile = state.profiles.profiles[policy]
    slot = state.cache.slot(shape, policy)
    codes, counts = state.cache.codes(slot)
    feasible, refusing = split_counts(counts[None, :])[0]
    refused = state.cache.name_counts(slot, refusing)
    fitting = _fitting(state, slot, policy, np.flatnonzero(codes == 0).astype(np.int64))
    gang = record.guest.gang if record.state == GROUPED else ""
    refusals = sorted(
        (
            HostVerdict(host=state.cluster.host(row).name, failures=_failures(state, profile, shape, row, code, gang))
            for row, code in enumerate(codes.tolist())
            if code > 0
        ),
        key=_nearness,
    )
    is_stuck = not fitting and bool(refusals)
    quota = state.quotas.beyond(shape.spec) if record.state not in PLACED_STATES else ""
    advise = is_stuck and not gang and record.state not in PLACED_STATES  # placed guests evict no others
    return Explanation(
        decision=_with_counts(decision, feasible, refused),
        as_of=as_of,
        verdicts=(*fitting, *refusals),
        near_misses=tuple(v.host for v in refusals[:_NEAR_MISSES]),
        cure=find_cure(state, profile, shape, refusals, record.guest.uid) if is_stuck else None,
        eviction=advise_eviction(state, shape, policy, profile.policy.preemption) if advise else None,
        quota=quota,
        ignored=ignored_soft_constraints(profile.policy, shape.spec),
        wake_events=(*_wakes(profile, refused, refusals), *((WakeEvent(QUOTA_FREED),) if quota else ()))
        if quota or not fitting
        else (),
    )


def _failures(state: State, profile: Profile, shape: Shape, row: int, code: int, gang: str) -> tuple[Failure, ...]:
    """Return all that a host lacks, the primary reason first; a host outside the gang's domain says so."""
    state.pause()
    found = failures_on(state, profile, shape, row, gang)
    return (Failure(reason=OUTSIDE), *found) if state.tables.reasons.values[code] == OUTSIDE else found


def _fitting(state: State, slot: int, policy: int, rows: Int64s) -> list[HostVerdict]:
    """Return the verdicts of the hosts that fit, best first."""
    table = score_table(state, slot, policy, rows)
    verdicts = []
    for i, row in enumerate(rows.tolist()):
        scores = tuple(
            Score(plugin, raw[i], weighted[i])
            for plugin, raw, weighted in zip(table.plugins, table.raw, table.weighted, strict=True)
        )
        verdict = HostVerdict(
            host=state.cluster.host(row).name,
            scores=scores,
            total=table.totals[i],
            preference=table.preferences[i] if table.preferences else None,
        )
        verdicts.append((tuple(-part for part in table.worth(i)), tie_keys(state, policy, row, 0), verdict))
    return [verdict for _, _, verdict in sorted(verdicts, key=lambda v: v[:2])]


def _nearness(verdict: HostVerdict) -> tuple[int, float, str]:
    """Sort key of rejecting hosts: fewest failing filters, then the smallest missing share, then the name."""
    missing = sum(f.missing / f.needed if f.missing and f.needed else 1.0 for f in verdict.failures)
    return len(verdict.failures), missing, verdict.host


def _with_counts(decision: Decision, feasible: int, refused: NamedCounts) -> Decision:
    return msgspec.structs.replace(
        decision,
        hosts=feasible + sum(n for _, n in refused),
        feasible=feasible,
        reasons=reason_counts(refused),
    )


def _wakes(profile: Profile, refused: NamedCounts, refusals: Sequence[HostVerdict]) -> tuple[WakeEvent, ...]:
    wakes = {Wake.HOST_JOINED, Wake.GUEST_CHANGED}
    for plugin in {reason.plugin for reason, _ in refused} - _NO_FILTERS:
        wakes |= profile.cures(plugin)
    holders = dict.fromkeys(name for verdict in refusals for failure in verdict.failures for name in failure.by)
    held = [name.removeprefix(RESERVATION) for name in holders if name.startswith(RESERVATION)]
    return (*_wake_events(wakes), *(WakeEvent(RESERVATION_ENDS, name) for name in sorted(held)))


def _wake_events(wakes: Collection[Wake]) -> tuple[WakeEvent, ...]:
    """Return wake events in the order of their declaration."""
    return tuple(WakeEvent(wake.value) for wake in Wake if wake in wakes)


def _gang_wakes(name: str, profile: Profile, advice: GangAdvice) -> tuple[WakeEvent, ...]:
    """Return what lets a gang be tried again: the cures of its members, or the arrival of missing members."""
    if not advice.min_count:
        return (WakeEvent(GANG_DECLARED),)
    if not advice.members and advice.not_ready is not None:
        return (WakeEvent(MEMBER_ARRIVES),)
    if all(member.guest != name for member in advice.members):
        return (WakeEvent(MEMBER_LEAVES),)  # the gang has its maximum
    if advice.binding_reason is None:
        return ()
    wakes = {Wake.HOST_JOINED, Wake.GUEST_CHANGED}
    for count in (count for member in advice.members for count in member.reasons):
        if count.reason.plugin not in _NO_FILTERS:
            wakes |= profile.cures(count.reason.plugin)
    return _wake_events(wakes)
