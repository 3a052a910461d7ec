"""Kernels for peer rules (affinity, anti-affinity, spread, ports), and the counters of guests per domain behind them.

Filters and raw scores read one count per rule and row. The lowest count of a spread and the number of domains are found
once per decision. Formulas are kube-scheduler's (kubernetes/kubernetes pkg/scheduler/framework/plugins/interpodaffinity
and podtopologyspread, as of 1.37).
"""

from __future__ import annotations

import math

import numpy as np

from hostler.engine.kernels.layout import (
    FITS,
    PEER_AFFINITY,
    PEER_APART,
    PEER_EVEN,
    PEER_PORT,
    PEER_PREFER,
    PEER_SPREAD,
    inlined_kernel,
    kernel,
)


@kernel
def shift_counters(counters, peers, s, h, by):
    """Count a guest of slot ``s`` on row ``h`` in all counters that count it. O(I)."""
    for i in range(peers.shifts[s]):
        c = peers.shift_counter[s, i]
        domain = counters.domain[counters.topology[c], h]
        mask = counters.mask_of[c]
        if domain >= 0 and (mask < 0 or counters.mask[mask, h] != 0):
            counters.guests[c, domain] += by * peers.shift_by[s, i]
            counters.total[c] += by * peers.shift_by[s, i]


@kernel
def prepare_filters(counters, peers, s):
    """Find the lowest count of every hard spread; return 1 if a guest may be the first of its group. O(J * V)."""
    near = np.int64(0)
    for j in range(peers.filters[s]):
        c = peers.counter[s, j]
        if peers.kind[s, j] == PEER_AFFINITY:
            near += counters.total[c]
        elif peers.kind[s, j] == PEER_SPREAD:
            least = np.int64(0)
            found = 0
            for v in range(counters.guests.shape[1]):
                if counters.hosts[c, v] > 0:
                    found += 1
                    if found == 1 or counters.guests[c, v] < least:
                        least = np.int64(counters.guests[c, v])
            peers.least[j] = least if found >= peers.params[s, j, 2] else 0
    return 1 if near == 0 and peers.may_be_first[s] != 0 else 0


@inlined_kernel
def guests_code(counters, peers, s, h, is_first):
    """Return the code of the first peer rule that rejects row ``h``, or FITS. O(J)."""
    for j in range(peers.filters[s]):
        kind = peers.kind[s, j]
        c = peers.counter[s, j]
        domain = counters.domain[counters.topology[c], h]
        if domain < 0:
            if kind == PEER_AFFINITY or kind == PEER_SPREAD:
                return peers.code_absent[s, j]
            continue
        count = np.int64(counters.guests[c, domain])
        if kind == PEER_AFFINITY:
            if count <= 0 and is_first == 0:
                return peers.code[s, j]
        elif kind == PEER_SPREAD:
            if count + peers.params[s, j, 1] - peers.least[j] > peers.params[s, j, 0]:
                return peers.code[s, j]
        elif kind == PEER_APART or kind == PEER_PORT:
            if count > 0:
                return peers.code[s, j]
    return np.int16(FITS)


@kernel
def lacks_key(counters, peers, s, h):
    """Say whether a host is left out of soft spreading because it lacks one of the labels."""
    if peers.all_keys[s] == 0:
        return False
    for j in range(peers.filters[s], peers.rules[s]):
        if peers.kind[s, j] == PEER_EVEN and counters.domain[counters.topology[peers.counter[s, j]], h] < 0:
            return True
    return False


@kernel
def prepare_spread(counters, peers, code, s, rows):
    """Find the weight of every soft spread: ln(domains among the feasible hosts + 2). O(J * H)."""
    for j in range(peers.filters[s], peers.rules[s]):
        if peers.kind[s, j] != PEER_EVEN:
            continue
        peers.tick[0] += 1
        c = peers.counter[s, j]
        size = 0
        lacking = 0  # kube-scheduler counts hosts without the label as one more domain, unless it leaves them out
        for h in range(rows):
            if code[s, h] != FITS or lacks_key(counters, peers, s, h):
                continue
            domain = counters.domain[counters.topology[c], h]
            if peers.params[s, j, 1] != 0:
                size += 1
            elif domain < 0:
                lacking = 1
            elif peers.seen[domain] != peers.tick[0]:
                peers.seen[domain] = peers.tick[0]
                size += 1
        peers.log_size[j] = math.log(float(size + lacking + 2))


@kernel
def affinity_score(counters, peers, s, h):
    """Return the sum over preferred guests near row ``h`` of weight times their number. O(J)."""
    score = np.int64(0)
    for j in range(peers.filters[s], peers.rules[s]):
        if peers.kind[s, j] == PEER_PREFER:
            c = peers.counter[s, j]
            domain = counters.domain[counters.topology[c], h]
            if domain >= 0:
                score += peers.params[s, j, 0] * counters.guests[c, domain]
    return score


@kernel
def spread_score(counters, peers, s, h):
    """Return the weighted, rounded count of guests in the domains of row ``h``; -1 for a host left out. O(J)."""
    if lacks_key(counters, peers, s, h):
        return np.int64(-1)
    score = 0.0
    for j in range(peers.filters[s], peers.rules[s]):
        if peers.kind[s, j] == PEER_EVEN:
            c = peers.counter[s, j]
            domain = counters.domain[counters.topology[c], h]
            if domain >= 0:
                score += float(counters.guests[c, domain]) * peers.log_size[j] + float(peers.params[s, j, 0] - 1)
    return np.int64(math.floor(score + 0.5))
