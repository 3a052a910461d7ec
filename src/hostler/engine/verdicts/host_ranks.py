"""Ranks of hosts by the first policy, for one guest and the hosts that a front asks about. Nothing is decided.

Scores are normalized among the feasible hosts in question. Random ties are drawn for the uid that the front names, so a
temporary guest that represents a pod gets the answer that the pod would get.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hostler.engine.cluster.randomness import PLACEMENT, draw, name_hash
from hostler.engine.state.state import State
from hostler.engine.verdicts.selection import score_table, tie_keys
from hostler.model import Reason

__all__ = ["HostRanking", "choose_devices", "rank_hosts"]

_POLICY = 0


class HostRanking(NamedTuple):
    """Feasible hosts, best first, with scores; rejecting hosts with the first reason. Unknown hosts are left out.

    Where soft constraints come before the policy's own score, the score is that of the soft constraints.
    """

    order: tuple[tuple[str, int | float], ...]
    rejected: dict[str, Reason]


def rank_hosts(state: State, uid: str, hosts: Sequence[str], drawn_for: str) -> HostRanking:
    """Rank some hosts for a guest."""
    slot = state.cache.slot(state.shape(state.guests[uid]), _POLICY)
    codes, _ = state.cache.codes(slot)
    known = {name: row for name in hosts if (row := state.cluster.row_of.get(name)) is not None}
    rows = np.fromiter(known.values(), dtype=np.int64, count=len(known))
    feasible = rows[codes[rows] == 0]
    table = score_table(state, slot, _POLICY, feasible)
    shown = table.preferences or table.totals
    number = _draw(state, drawn_for)
    keyed = sorted(
        (tuple(-part for part in table.worth(i)), tie_keys(state, _POLICY, row, number), shown[i])
        for i, row in enumerate(feasible.tolist())
    )
    reasons: dict[int, Reason] = {}
    rejected: dict[str, Reason] = {}
    for name, row in known.items():
        if code := int(codes[row]):
            if code not in reasons:
                reasons[code] = state.cache.reason(slot, code)
            rejected[name] = reasons[code]
    return HostRanking(tuple((str(keys[-1]), score) for _, keys, score in keyed), rejected)


def choose_devices(state: State, uid: str, host: str, drawn_for: str) -> tuple[int, ...] | None:
    """Return the devices that a guest would get on a host; None if it would not get all of them."""
    shape = state.shape(state.guests[uid])
    row = state.cluster.row_of.get(host)
    slot = state.cache.slot(shape, _POLICY)
    codes, _ = state.cache.codes(slot)
    if row is None or codes[row]:
        return None
    taken = state.cache.choose_devices(slot, row, _draw(state, drawn_for), shape.device_count)
    return taken if len(taken) == shape.device_count else None


def _draw(state: State, uid: str) -> int:
    return draw(state.seed, name_hash(uid), 0, PLACEMENT)
