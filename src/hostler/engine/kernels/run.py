"""The decision kernel: decides a run of queued guests in one call, exactly as if they came one at a time.

For each guest, in order:

1. ``refresh_slot`` brings the slot of its (shape, policy) up to date: it judges and scores only the rows that the touch
   log has since the slot was last fresh.
2. ``select_row`` finds the best feasible row through the best rows of blocks of ``BLOCK`` rows.
3. ``pick_devices`` chooses the devices, and ``book`` subtracts the guest's amounts from the row and logs the touch. So
   the slots of all other shapes see the placement when they are refreshed.

The cost of a decision is the number of touched rows + H / BLOCK. A run ends at its last guest, or at the first rejected
guest whose ``stops`` flag is set: Python then looks for victims.

A row in a slot is in one of these states (``cache.code``, with ``cache.total``):

======================  =====================================  =================================================
absent                  ``ABSENT``, total ``NO_TOTAL``         no host has this row; it is counted nowhere
rejected                a reason code > 0, total ``NO_TOTAL``  ``counts[code]`` has it
feasible                ``FITS``, a total                      ``counts[0]`` has it; a candidate of its block
======================  =====================================  =================================================

For shapes with peer rules, ``cache.local`` has the verdict of the row alone, and ``cache.code`` adds the peer rules. A
placement anywhere may change those, so ``apply_peer_rules`` recomputes all rows, and the bests of blocks are not used.

Invariants:

- After ``refresh_slot`` every answer of a slot equals the one computed from nothing. The cache changes speed only.
- Every change of a row is in the touch log, written by ``book``, ``replay.unbook`` or ``Cluster.touch``.
- Totals are int64. Totals of float policies are stored as bits that sort like the floats, so ``is_better`` needs one
  comparison for both.
- Ties end in the order of host names, so a decision never depends on the order of rows.

``engine.cache`` calls these kernels. A slow twin in the tests checks their decisions.
"""

from __future__ import annotations

import math

import numpy as np

from hostler.engine.kernels.devices import choose_devices, device_verdict, mix64
from hostler.engine.kernels.guests import (
    affinity_score,
    guests_code,
    prepare_filters,
    prepare_spread,
    shift_counters,
    spread_score,
)
from hostler.engine.kernels.layout import (
    ABSENT,
    BLOCK,
    FITS,
    FRACTION,
    MOST_OWN,
    NO_TOTAL,
    OP_FGD,
    OP_GUEST_AFFINITY,
    OP_GUEST_SPREAD,
    OP_UTILIZATION,
    inlined_kernel,
    kernel,
)
from hostler.engine.kernels.scores import gpu_score, score_row

MOST_HELD = np.int64(2**62)  # sums of held amounts saturate here, so that they cannot wrap around
# XOR with this turns the bits of a negative float into an integer that sorts like the float. Bits of positive floats
# sort correctly as they are.
_FLIP = np.int64(0x7FFFFFFFFFFFFFFF)
_MOST_REAL = float(MOST_OWN // FRACTION)


@kernel
def held_amount(holds, shapes, s, h, r):
    """Return the amount of resource ``r`` on row ``h`` held against slot ``s``; r < 0: how many holds keep devices."""
    total = np.int64(0)
    g = holds.first[h]
    while g >= 0:
        has_pass = holds.bearer[g] >= 0 and shapes.passes[s, holds.bearer[g]] != 0
        if holds.priority[g] >= shapes.priority[s] and not has_pass:
            more = holds.amount[g, r] if r >= 0 else np.int64(holds.devices[g])
            total = total + more if more <= MOST_HELD - total else MOST_HELD
        g = holds.next[g]
    return total


@inlined_kernel
def row_code(hosts, shapes, policies, limit, s, h, scratch):
    """Return the primary reason of slot ``s`` on row ``h``: ABSENT, FITS or a reason code. O(R + D)."""
    if hosts.present[h] == 0:
        return np.int16(ABSENT)
    if shapes.has_outer[s] != 0 and shapes.outer_code[s, h] != 0:
        return shapes.outer_code[s, h]
    is_held = hosts.holds.first[h] >= 0  # most rows have no hold, and walking the chain costs time
    for r in range(shapes.request.shape[1]):
        asked = shapes.request[s, r]
        if asked > 0 and asked > limit[h, r] - hosts.used[h, r]:
            return policies.resource_code[r]
        if asked > 0 and is_held and asked > limit[h, r] - hosts.used[h, r] - held_amount(hosts.holds, shapes, s, h, r):
            return policies.resource_code[r]
    if shapes.asks[s] > 0:
        if is_held and held_amount(hosts.holds, shapes, s, h, -1) > 0:
            return policies.device_code[shapes.ask_kind[s, 0], 2]
        verdict = device_verdict(
            hosts.device_left[h],
            hosts.device_kind[h],
            hosts.device_model[h],
            shapes.ask_kind[s],
            shapes.ask_count[s],
            shapes.ask_milli[s],
            shapes.ask_model[s],
            shapes.asks[s],
            scratch[0],
            scratch[1],
        )
        if verdict != 0:
            kind = shapes.ask_kind[s, (verdict - 1) // 3]
            return policies.device_code[kind, (verdict - 1) % 3]
    return np.int16(FITS)


@kernel
def normalize(mode, value, low, high):
    """Scale a raw score to 0..100 over the feasible hosts, in integers. ``mode``: see ``layout.NORMALIZERS``."""
    if mode == 1:
        return value * 100 // high if high > 0 else value
    if mode == 2:
        return 100 - value * 100 // high if high > 0 else np.int64(100)
    if mode == 3:
        return (value - low) * 100 // (high - low) if high > low else np.int64(0)
    if mode == 4:
        return np.int64(100.0 * (float(value - low) / float(high - low))) if high > low else np.int64(0)
    if mode == 5:
        if value < 0:
            return np.int64(0)
        return 100 * (high + low - value) // high if high > 0 else np.int64(100)
    return value


@kernel
def own_score(is_float, whole, real):
    """Return the policy's own score of a row as an integer that leaves room for multiples of ``PREFERENCE``."""
    if is_float != 0:
        return np.int64(math.floor(max(min(real, _MOST_REAL), -_MOST_REAL) * FRACTION))
    return max(min(whole, np.int64(MOST_OWN)), np.int64(-MOST_OWN))


@inlined_kernel
def score_feasible(hosts, shapes, policies, cache, limit, s, p, h, scratch, number, bits):
    """Fill base and raw of one feasible row; a float total is stored as bits that sort like the float."""
    wide = shapes.wide[s]
    base = np.int64(0)
    value = 0.0
    for x in range(shapes.scorers[s]):
        if shapes.active[s, x] == 0:
            continue
        whole, real = score_row(hosts, shapes, policies, limit, s, p, x, h, scratch)
        slot = policies.normal_slot[p, x]
        if slot >= 0:
            cache.raw[wide, slot, h] = whole
        elif policies.is_float[p] != 0:
            part = real if policies.op[p, x] == OP_UTILIZATION else float(whole)
            value = value + float(policies.weight[p, x]) * part
        else:
            base += policies.weight[p, x] * whole
    if policies.is_float[p] != 0:
        number[0] = value + 0.0  # -0.0 would sort below 0.0; ``bits`` is the same memory as ``number``
        base = bits[0] if bits[0] >= 0 else bits[0] ^ _FLIP
    if shapes.scorers[s] != policies.scorers[p]:  # soft constraints come first, and the own score must leave room
        base = own_score(policies.is_float[p], base, value)
    cache.total[s, h] = base
    if wide >= 0:
        cache.base[wide, h] = base


@kernel
def total_of(shapes, policies, cache, s, p, h):
    """Return base plus all normalized scores of one feasible row."""
    wide = shapes.wide[s]
    total = cache.base[wide, h]
    for x in range(shapes.scorers[s]):
        slot = policies.normal_slot[p, x]
        if slot >= 0 and shapes.active[s, x] != 0:
            scaled = normalize(
                policies.normalizer[p, x], cache.raw[wide, slot, h], cache.low[s, slot], cache.high[s, slot]
            )
            total += policies.weight[p, x] * scaled
    return total


@inlined_kernel
def is_better(hosts, policies, cache, s, p, a, b, draw):
    """Say whether row ``a`` beats row ``b``: by total, then by the policy's tie keys (``layout.TIES``) in order."""
    if cache.total[s, a] != cache.total[s, b]:
        return cache.total[s, a] > cache.total[s, b]
    for k in range(4):
        tie = policies.ties[p, k]
        if tie == 1:
            if hosts.guests[a] != hosts.guests[b]:
                return hosts.guests[a] < hosts.guests[b]
        elif tie == 2:
            if hosts.rank[a] != hosts.rank[b]:
                return hosts.rank[a] < hosts.rank[b]
        elif tie == 4:
            return mix64(draw ^ hosts.name_hash[a]) > mix64(draw ^ hosts.name_hash[b])
        elif tie == 5:  # names after the last host chosen come first; the others wait for the next round
            a_waits = hosts.name_key[a] <= policies.last_key[p]
            b_waits = hosts.name_key[b] <= policies.last_key[p]
            if a_waits != b_waits:
                return b_waits
            return hosts.name_key[a] < hosts.name_key[b]
        else:
            return hosts.name_key[a] < hosts.name_key[b]
    return hosts.name_key[a] < hosts.name_key[b]


@inlined_kernel
def rebuild_block(hosts, policies, cache, s, p, block, rows):
    """Recompute the best feasible row of one block. O(BLOCK)."""
    best = -1
    for h in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
        fits = cache.total[s, h] != NO_TOTAL
        if fits and (best < 0 or is_better(hosts, policies, cache, s, p, h, best, np.uint64(0))):
            best = h
    cache.best[s, block] = best


@kernel
def update_ranges(shapes, policies, cache, s, p, rows):
    """Find the lowest and highest raw score of each normalized scorer; return whether any of them changed. O(H)."""
    moved = False
    for x in range(shapes.scorers[s]):
        slot = policies.normal_slot[p, x]
        if slot < 0 or shapes.active[s, x] == 0:
            continue
        low = np.int64(0)
        high = np.int64(0)
        found = False
        for h in range(rows):
            if cache.code[s, h] == FITS:
                value = cache.raw[shapes.wide[s], slot, h]
                if policies.normalizer[p, x] == 5 and value < 0:
                    continue
                if not found:
                    low = value
                    high = value
                    found = True
                elif value < low:
                    low = value
                elif value > high:
                    high = value
        if low != cache.low[s, slot] or high != cache.high[s, slot]:
            cache.low[s, slot] = low
            cache.high[s, slot] = high
            moved = True
    return moved


@kernel
def has_normalized_scorer(shapes, policies, s, p):
    """Say whether any scorer of the slot needs the range over all feasible rows."""
    for x in range(shapes.scorers[s]):
        if policies.normal_slot[p, x] >= 0 and shapes.active[s, x] != 0:
            return True
    return False


@kernel
def apply_peer_rules(shapes, policies, cache, counters, peers, s, rows):
    """Judge and score all rows whose local verdict is FITS by the peer rules of slot ``s``. O(J * H).

    A placement anywhere may change every row's answer, so only the local verdicts are reused.
    """
    p = shapes.policy[s]
    wide = shapes.wide[s]
    for c in range(cache.counts.shape[1]):
        cache.counts[s, c] = 0
    is_first = prepare_filters(counters, peers, s)
    for h in range(rows):
        code = cache.local[wide, h]
        if code == FITS:
            code = guests_code(counters, peers, s, h, is_first)
        cache.code[s, h] = code
        if code >= 0:
            cache.counts[s, code] += 1
    for x in range(shapes.scorers[s]):
        slot = policies.normal_slot[p, x]
        if shapes.active[s, x] == 0 or slot < 0:
            continue
        if policies.op[p, x] == OP_GUEST_AFFINITY:
            for h in range(rows):
                if cache.code[s, h] == FITS:
                    cache.raw[wide, slot, h] = affinity_score(counters, peers, s, h)
        elif policies.op[p, x] == OP_GUEST_SPREAD:
            prepare_spread(counters, peers, cache.code, s, rows)
            for h in range(rows):
                if cache.code[s, h] == FITS:
                    cache.raw[wide, slot, h] = spread_score(counters, peers, s, h)
    update_ranges(shapes, policies, cache, s, p, rows)
    for h in range(rows):
        if cache.code[s, h] == FITS:
            cache.total[s, h] = total_of(shapes, policies, cache, s, p, h)
        else:
            cache.total[s, h] = NO_TOTAL


@kernel
def refresh_slot(hosts, shapes, policies, cache, counters, peers, log, s, scratch, number, bits):
    """Bring slot ``s`` up to date with every row touched since it was last fresh. O(touched); the first time O(H)."""
    rows = hosts.rows[0]
    end = log.end[0]
    start = cache.seen[s]
    if start == end:
        return
    p = shapes.policy[s]
    limit = hosts.limit[policies.limit_set[p]]
    ring = log.rows.shape[0]
    is_full = start < 0 or end - start > ring or end - start > rows  # never fresh, overwritten, or no cheaper
    looks_around = peers.rules[s] > 0
    if is_full and not looks_around:
        for c in range(cache.counts.shape[1]):
            cache.counts[s, c] = 0
    cache.tick[0] += 1
    tick = cache.tick[0]
    count = 0
    # Two passes: the first only gathers, so that the cache misses of many rows overlap instead of waiting for scores.
    for i in range(rows if is_full else end - start):
        h = i if is_full else log.rows[(start + i) % ring]
        if cache.row_stamp[h] == tick:
            continue
        cache.row_stamp[h] = tick
        cache.dirty[count] = h
        count += 1
        if not is_full and not looks_around and cache.code[s, h] >= 0:
            cache.counts[s, cache.code[s, h]] -= 1
        cache.total[s, h] = NO_TOTAL
    for i in range(count):
        h = cache.dirty[i]
        cache.block_stamp[h // BLOCK] = tick
        code = row_code(hosts, shapes, policies, limit, s, h, scratch)
        if looks_around:
            cache.local[shapes.wide[s], h] = code
        else:
            cache.code[s, h] = code
            if code >= 0:
                cache.counts[s, code] += 1
        if code == FITS:
            score_feasible(hosts, shapes, policies, cache, limit, s, p, h, scratch, number, bits)
    if looks_around:
        apply_peer_rules(shapes, policies, cache, counters, peers, s, rows)
        cache.seen[s] = end
        return
    moved = False
    if has_normalized_scorer(shapes, policies, s, p):
        moved = update_ranges(shapes, policies, cache, s, p, rows)
        for h in range(rows):
            if cache.code[s, h] == FITS and (moved or cache.row_stamp[h] == tick):
                cache.total[s, h] = total_of(shapes, policies, cache, s, p, h)
    if policies.has_moving_ties[p] == 0:
        for block in range((rows + BLOCK - 1) // BLOCK):
            if moved or cache.block_stamp[block] == tick:
                rebuild_block(hosts, policies, cache, s, p, block, rows)
    cache.seen[s] = end


@kernel
def select_row(hosts, policies, cache, peers, s, p, draw):
    """Return the best feasible row of a fresh slot, -1 for none. O(H / BLOCK); O(H) with moving ties or peer rules."""
    rows = hosts.rows[0]
    best = -1
    if policies.has_moving_ties[p] == 0 and peers.rules[s] == 0:
        for block in range((rows + BLOCK - 1) // BLOCK):
            h = cache.best[s, block]
            if h >= 0 and (best < 0 or is_better(hosts, policies, cache, s, p, h, best, draw)):
                best = h
        return best
    for h in range(rows):
        if cache.code[s, h] == FITS and (best < 0 or is_better(hosts, policies, cache, s, p, h, best, draw)):
            best = h
    return best


@kernel
def pick_devices(hosts, shapes, policies, s, p, h, draw, scratch, out):
    """Write the devices that the guest gets on row ``h``; return how many. O(count * D)."""
    asks = shapes.asks[s]
    if asks == 0:
        return 0
    rule = policies.device_rule[p]
    # fgd scores a single share of a gpu by the device that it takes, so the score's device is the choice.
    if rule == 4 and asks == 1 and shapes.ask_count[s, 0] == 1 and shapes.ask_kind[s, 0] == policies.gpu_kind[0]:
        if shapes.ask_milli[s, 0] < 1000:
            limit = hosts.limit[policies.limit_set[p]]
            device = gpu_score(OP_FGD, hosts, shapes, policies, limit, s, p, h, scratch)[1]
            if device >= 0:
                out[0] = device
                return 1
    return choose_devices(
        hosts.device_left[h],
        hosts.device_kind[h],
        hosts.device_model[h],
        shapes.ask_kind[s],
        shapes.ask_count[s],
        shapes.ask_milli[s],
        shapes.ask_model[s],
        asks,
        rule,
        draw,
        scratch[0],
        out,
    )


@kernel
def book(hosts, shapes, counters, peers, log, s, h, devices, taken):
    """Book a guest of slot ``s`` on row ``h`` with the given devices, and log the touch. O(R + devices)."""
    for r in range(shapes.request.shape[1]):
        hosts.used[h, r] += shapes.request[s, r]
    hosts.guests[h] = hosts.used[h, 0]
    hosts.scored[h, 0] += shapes.scored[s, 0]
    hosts.scored[h, 1] += shapes.scored[s, 1]
    n = 0
    for a in range(shapes.asks[s]):
        for _ in range(shapes.ask_count[s, a]):
            if n < taken:
                hosts.device_left[h, devices[n]] -= shapes.ask_milli[s, a]
            n += 1
    if shapes.tag[s] >= 0:
        hosts.tags[h, shapes.tag[s]] += 1
    hosts.version[h] += 1
    shift_counters(counters, peers, s, h, 1)
    log.rows[log.end[0] % log.rows.shape[0]] = h
    log.end[0] += 1


@kernel
def decide_run(
    hosts, shapes, policies, cache, counters, peers, log, scratch, slots, draws, stops,
    out_row, out_total, out_devices, out_counts,
):  # fmt: skip
    """Decide guests 0..n-1 in order; guest i has shape ``slots[i]`` and random number ``draws[i]``.

    Writes the row (-1 if rejected), its total, the devices taken, and the counts by code before the placement.
    Returns how many guests were decided: all, or up to the first rejected one with a ``stops`` flag.
    """
    for i in range(slots.shape[0]):
        s = slots[i]
        p = shapes.policy[s]
        refresh_slot(
            hosts, shapes, policies, cache, counters, peers, log, s, scratch.table, scratch.number, scratch.bits
        )
        for c in range(cache.counts.shape[1]):
            out_counts[i, c] = cache.counts[s, c]
        h = select_row(hosts, policies, cache, peers, s, p, draws[i])
        out_row[i] = h
        if h < 0:
            if stops[i] != 0:
                return i + 1
            continue
        out_total[i] = cache.total[s, h]
        taken = pick_devices(hosts, shapes, policies, s, p, h, draws[i], scratch.table, out_devices[i])
        book(hosts, shapes, counters, peers, log, s, h, out_devices[i], taken)
        policies.last_key[p] = hosts.name_key[h]
    return slots.shape[0]


@kernel
def refresh_slots(hosts, shapes, policies, cache, counters, peers, log, scratch, slots):
    """Refresh several slots without deciding anything."""
    for i in range(slots.shape[0]):
        s = slots[i]
        refresh_slot(
            hosts, shapes, policies, cache, counters, peers, log, s, scratch.table, scratch.number, scratch.bits
        )


@kernel
def raw_scores(hosts, shapes, policies, cache, scratch, s, rows, out_whole, out_real):
    """Write every active scorer's raw score of a fresh slot ``s`` on the given rows: (X, n) integers and floats."""
    p = shapes.policy[s]
    limit = hosts.limit[policies.limit_set[p]]
    for x in range(shapes.scorers[s]):
        for i in range(rows.shape[0]):
            if shapes.active[s, x] == 0:
                continue
            if policies.op[p, x] == OP_GUEST_AFFINITY or policies.op[p, x] == OP_GUEST_SPREAD:
                out_whole[x, i] = cache.raw[shapes.wide[s], policies.normal_slot[p, x], rows[i]]
            else:
                out_whole[x, i], out_real[x, i] = score_row(
                    hosts, shapes, policies, limit, s, p, x, rows[i], scratch.table
                )


@kernel
def judge_row(hosts, shapes, policies, counters, peers, scratch, s, h):
    """Return the current reason code of slot ``s`` on one row, computed without the cache. O(R + D + J * V)."""
    limit = hosts.limit[policies.limit_set[shapes.policy[s]]]
    code = row_code(hosts, shapes, policies, limit, s, h, scratch.table)
    if code == FITS and peers.filters[s] > 0:
        code = guests_code(counters, peers, s, h, prepare_filters(counters, peers, s))
    return code


@kernel
def choose_row_devices(hosts, shapes, policies, scratch, s, h, draw, out):
    """Choose devices for slot ``s`` on row ``h`` without booking; return how many."""
    return pick_devices(hosts, shapes, policies, s, shapes.policy[s], h, draw, scratch.table, out)
