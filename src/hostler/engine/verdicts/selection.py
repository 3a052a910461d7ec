"""Selection outside the kernel: totals with every scorer's part, and the best of some rows.

Used by explanations, and when an answer from outside changes the totals. The rule is the same as the kernel's, which
uses cached totals.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hostler.engine.cluster.randomness import host_key, mix64
from hostler.engine.kernels.layout import FRACTION, Int64s
from hostler.engine.plugins.across_guests import NearGuests
from hostler.engine.policy.profile import BuiltScorer
from hostler.engine.state.records import GuestRecord
from hostler.engine.state.state import State
from hostler.model import AskUse
from hostler.model.policies import Normalizer

__all__ = ["ScoreTable", "answered_rows", "best_row", "score_table"]


class ScoreTable(NamedTuple):
    """Scores of some feasible rows: one list per applicable scorer, and the totals.

    ``preferences`` is compared before the totals, and is not part of them. It is empty if the policy's own scorers are
    all that counts. Otherwise totals that are floats are rounded as the kernel rounds them.
    """

    plugins: list[str]
    raw: list[list[int | float]]
    weighted: list[list[int | float]]
    totals: list[int | float]
    preferences: list[int]

    def worth(self, i: int, bonus: int = 0) -> tuple[int, int | float]:
        """Return what makes row ``i`` better than others, as the kernel compares it; the greatest wins."""
        return self.preferences[i] if self.preferences else 0, self.totals[i] + bonus


def score_table(state: State, slot: int, policy: int, rows: Int64s) -> ScoreTable:
    """Score the feasible rows of a slot; ``rows`` must be all of them, because normalizers depend on the whole set."""
    profile = state.profiles.profiles[policy]
    active = state.cache.active(slot)
    whole, real = state.cache.raw_scores(slot, rows)
    table = ScoreTable([], [], [], [0] * len(rows), [0] * len(rows) if state.cache.prefers(slot) else [])
    for x, scorer in enumerate(profile.all_scorers if table.preferences else profile.scorers):
        sums: list[int | float] = table.totals if x < len(profile.scorers) else table.preferences  # type: ignore[assignment]
        if not active[x] and x in profile.idle_scores:
            _add(table, sums, scorer, [0] * len(rows), [profile.idle_scores[x]] * len(rows))
            continue
        if not active[x] or (scorer.use.name == NearGuests.name and not state.cache.has_preferred_peers(slot)):
            continue
        raw: list[int | float] = real[x].tolist() if scorer.is_float else whole[x].tolist()
        scaled = raw if scorer.is_float else normalize_scores(scorer.normalizer, whole[x]).tolist()
        _add(table, sums, scorer, raw, [scorer.use.weight * value for value in scaled])
    if table.preferences and profile.is_float:
        table.totals[:] = [math.floor(total * FRACTION) / FRACTION for total in table.totals]
    return table


def _add(
    table: ScoreTable,
    sums: list[int | float],
    scorer: BuiltScorer,
    raw: list[int | float],
    weighted: list[int | float],
) -> None:
    table.plugins.append(scorer.use.shown_as or scorer.use.name)
    table.raw.append(raw)
    table.weighted.append(weighted)
    for i, part in enumerate(weighted):
        sums[i] += part


def normalize_scores(mode: Normalizer, raw: Int64s) -> Int64s:
    """Scale raw scores of all feasible rows to 0..100, in integers."""
    if mode == "none" or not len(raw):
        return raw
    low, high = int(raw.min()), int(raw.max())
    if mode == "max":
        return raw * 100 // high if high > 0 else raw
    if mode == "reverse_max":
        return 100 - raw * 100 // high if high > 0 else np.full_like(raw, 100)
    if mode == "min_max":
        return (raw - low) * 100 // (high - low) if high > low else np.zeros_like(raw)
    if mode == "min_max_real":
        scaled = 100.0 * ((raw - low) / float(high - low)) if high > low else np.zeros(len(raw))
        return scaled.astype(np.int64)
    counted = raw[raw >= 0]
    low, high = (int(counted.min()), int(counted.max())) if len(counted) else (0, 0)
    return np.where(raw < 0, 0, 100 * (high + low - raw) // high if high > 0 else np.int64(100))


def answered_rows(state: State, record: GuestRecord, ask: AskUse, rows: Int64s) -> tuple[Int64s, dict[int, int]]:
    """Return those of the rows that the answer from outside allows, and what it adds to their totals.

    An answer that failed and may be ignored allows all rows; without an answer there are none.
    """
    answer = record.answer
    if answer is None:
        return rows[:0], {}
    if answer.error:
        return rows, {}
    scores = dict(answer.scores)
    hosts = state.cluster.host_at
    bonus = {
        row: ask.weight * scores[host.name]
        for row in rows.tolist()
        if (host := hosts[row]) is not None and host.name in scores
    }
    return np.array(sorted(bonus), dtype=np.int64), bonus


def best_row(
    state: State, slot: int, policy: int, rows: Int64s, bonus: dict[int, int], number: int
) -> tuple[int, int | float]:
    """Return the row with the best total (own scores plus bonus), with ties broken by the policy, and that total."""
    codes, _ = state.cache.codes(slot)
    feasible: Int64s = np.flatnonzero(codes == 0).astype(np.int64)
    table = score_table(state, slot, policy, feasible)
    place = {row: i for i, row in enumerate(feasible.tolist())}
    candidates = [(table.worth(place[row], bonus.get(row, 0)), row) for row in rows.tolist()]
    top = max(worth for worth, _ in candidates)
    tied = [row for worth, row in candidates if worth == top]
    best = min(tied, key=lambda row: tie_keys(state, policy, row, number))
    return best, table.totals[place[best]] + bonus.get(best, 0)


def tie_keys(state: State, policy: int, row: int, number: int) -> tuple[int | bool | str, ...]:
    """Return the sort key of a row among equal totals; the smallest wins."""
    profile = state.profiles.profiles[policy]
    host = state.cluster.host(row)
    keys: list[int | bool | str] = []
    for tie in profile.policy.ties:
        match tie:
            case "fewer_guests":
                keys.append(state.cluster.used(row, 0))
            case "rank":
                keys.append(host.rank)
            case "random":
                keys.append(-mix64(number ^ host_key(host)))
            case "after_last":
                keys.append(host.name <= state.turns.last(profile.policy.name))
                break
            case "name":
                break
    return (*keys, host.name)
