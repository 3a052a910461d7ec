"""Kernels for what shapes ask about other guests: near, apart, spread, ports; and the counters behind the answers.

Filters and raw scores read one count per ask and row. The lowest count of a spread and the number of domains are found
once per decision. Formulas are kube-scheduler's (kubernetes/kubernetes pkg/scheduler/framework/plugins/interpodaffinity
and podtopologyspread, as of 1.37).
"""

from __future__ import annotations

import math

import numpy as np

from hostler.engine.kernels_layout import (
    ASK_AFFINITY,
    ASK_APART,
    ASK_EVEN,
    ASK_PORT,
    ASK_PREFER,
    ASK_SPREAD,
    FITS,
    inlined_kernel,
    kernel,
)


@kernel
def shift_counters(counters, asks, s, h, by):
    """Count a guest of slot ``s`` on row ``h`` in all counters that count it. O(I)."""
    for i in range(asks.shifts[s]):
        c = asks.shift_counter[s, i]
        domain = counters.domain[counters.topology[c], h]
        mask = counters.mask_of[c]
        if domain >= 0 and (mask < 0 or counters.mask[mask, h] != 0):
            counters.guests[c, domain] += by * asks.shift_by[s, i]
            counters.total[c] += by * asks.shift_by[s, i]


@kernel
def prepare_filters(counters, asks, s):
    """Find the lowest count of every hard spread; return 1 when the shape may be the first of its kind. O(J * V)."""
    near = np.int64(0)
    for j in range(asks.filters[s]):
        c = asks.counter[s, j]
        if asks.kind[s, j] == ASK_AFFINITY:
            near += counters.total[c]
        elif asks.kind[s, j] == ASK_SPREAD:
            least = np.int64(0)
            found = 0
            for v in range(counters.guests.shape[1]):
                if counters.hosts[c, v] > 0:
                    found += 1
                    if found == 1 or counters.guests[c, v] < least:
                        least = np.int64(counters.guests[c, v])
            asks.least[j] = least if found >= asks.params[s, j, 2] else 0
    return 1 if near == 0 and asks.may_be_first[s] != 0 else 0


@inlined_kernel
def guests_code(counters, asks, s, h, is_first):
    """Return the first reason why row ``h`` is refused because of other guests, or FITS. O(J)."""
    for j in range(asks.filters[s]):
        kind = asks.kind[s, j]
        c = asks.counter[s, j]
        domain = counters.domain[counters.topology[c], h]
        if domain < 0:
            if kind == ASK_AFFINITY or kind == ASK_SPREAD:
                return asks.code_absent[s, j]
            continue
        count = np.int64(counters.guests[c, domain])
        if kind == ASK_AFFINITY:
            if count <= 0 and is_first == 0:
                return asks.code[s, j]
        elif kind == ASK_SPREAD:
            if count + asks.params[s, j, 1] - asks.least[j] > asks.params[s, j, 0]:
                return asks.code[s, j]
        elif kind == ASK_APART or kind == ASK_PORT:
            if count > 0:
                return asks.code[s, j]
    return np.int16(FITS)


@kernel
def lacks_key(counters, asks, s, h):
    """Say whether a host is left out of soft spreading because it lacks one of the labels."""
    if asks.all_keys[s] == 0:
        return False
    for j in range(asks.filters[s], asks.asks[s]):
        if asks.kind[s, j] == ASK_EVEN and counters.domain[counters.topology[asks.counter[s, j]], h] < 0:
            return True
    return False


@kernel
def prepare_spread(counters, asks, code, s, rows):
    """Find the weight of every soft spread: ln(domains among the feasible hosts + 2). O(J * H)."""
    for j in range(asks.filters[s], asks.asks[s]):
        if asks.kind[s, j] != ASK_EVEN:
            continue
        asks.tick[0] += 1
        c = asks.counter[s, j]
        size = 0
        lacking = 0  # kube-scheduler counts the lack of a label as one more domain, where it does not leave hosts out
        for h in range(rows):
            if code[s, h] != FITS or lacks_key(counters, asks, s, h):
                continue
            domain = counters.domain[counters.topology[c], h]
            if asks.params[s, j, 1] != 0:
                size += 1
            elif domain < 0:
                lacking = 1
            elif asks.seen[domain] != asks.tick[0]:
                asks.seen[domain] = asks.tick[0]
                size += 1
        asks.log_size[j] = math.log(float(size + lacking + 2))


@kernel
def affinity_score(counters, asks, s, h):
    """Return the weights of preferred guests near row ``h``, times how many there are. O(J)."""
    score = np.int64(0)
    for j in range(asks.filters[s], asks.asks[s]):
        if asks.kind[s, j] == ASK_PREFER:
            c = asks.counter[s, j]
            domain = counters.domain[counters.topology[c], h]
            if domain >= 0:
                score += asks.params[s, j, 0] * counters.guests[c, domain]
    return score


@kernel
def spread_score(counters, asks, s, h):
    """Return how crowded the domains of row ``h`` are, weighted and rounded; -1 for a host that is left out. O(J)."""
    if lacks_key(counters, asks, s, h):
        return np.int64(-1)
    score = 0.0
    for j in range(asks.filters[s], asks.asks[s]):
        if asks.kind[s, j] == ASK_EVEN:
            c = asks.counter[s, j]
            domain = counters.domain[counters.topology[c], h]
            if domain >= 0:
                score += float(counters.guests[c, domain]) * asks.log_size[j] + float(asks.params[s, j, 0] - 1)
    return np.int64(math.floor(score + 0.5))
