"""The decision kernel: a run of queued guests, decided exactly as one at a time.

For each guest the slot of its shape is refreshed (only rows touched since it was last seen), the best row is selected
through the bests of blocks, and the placement is booked. Cost per decision: touched rows + H / BLOCK. Used by
``engine.cache``; the slow twin that checks it lives in the tests.
"""

from __future__ import annotations

import numpy as np

from hostler.engine.kernels_devices import choose_devices, device_verdict, mix64
from hostler.engine.kernels_layout import (
    ABSENT,
    BLOCK,
    FITS,
    NO_TOTAL,
    OP_FGD,
    OP_UTILIZATION,
    inlined_kernel,
    kernel,
)
from hostler.engine.kernels_scores import gpu_score, score_row

_FLIP = np.int64(0x7FFFFFFFFFFFFFFF)


@inlined_kernel
def row_code(hosts, shapes, policies, limit, s, h, scratch):
    """Return the primary reason of slot ``s`` on row ``h``: ABSENT, FITS or a reason code. O(R + D)."""
    if hosts.present[h] == 0:
        return np.int16(ABSENT)
    if shapes.has_outer[s] != 0 and shapes.outer_code[s, h] != 0:
        return shapes.outer_code[s, h]
    for r in range(shapes.request.shape[1]):
        asked = shapes.request[s, r]
        if asked > 0 and asked > limit[h, r] - hosts.used[h, r]:
            return policies.resource_code[r]
    if shapes.asks[s] > 0:
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
    """Scale a raw score to 0..100 over the feasible hosts, in integers."""
    if mode == 1:
        return value * 100 // high if high > 0 else value
    if mode == 2:
        return 100 - value * 100 // high if high > 0 else np.int64(100)
    if mode == 3:
        return (value - low) * 100 // (high - low) if high > low else np.int64(0)
    return value


@inlined_kernel
def score_feasible(hosts, shapes, policies, cache, limit, s, p, h, scratch, number, bits):
    """Fill base and raw of one feasible row; a float total is kept as bits that sort like the number."""
    wide = shapes.wide[s]
    base = np.int64(0)
    value = 0.0
    for x in range(policies.scorers[p]):
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
        number[0] = value + 0.0  # no negative zero
        base = bits[0] if bits[0] >= 0 else bits[0] ^ _FLIP
    cache.total[s, h] = base
    if wide >= 0:
        cache.base[wide, h] = base


@kernel
def total_of(shapes, policies, cache, s, p, h):
    """Return base plus all normalised scores of one feasible row."""
    wide = shapes.wide[s]
    total = cache.base[wide, h]
    for x in range(policies.scorers[p]):
        slot = policies.normal_slot[p, x]
        if slot >= 0 and shapes.active[s, x] != 0:
            scaled = normalize(
                policies.normalizer[p, x], cache.raw[wide, slot, h], cache.low[s, slot], cache.high[s, slot]
            )
            total += policies.weight[p, x] * scaled
    return total


@inlined_kernel
def is_better(hosts, policies, cache, s, p, a, b, draw):
    """Say whether row ``a`` beats row ``b``: total, then the policy's tie keys in order."""
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
        elif tie == 5:
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
    """Find the best feasible row of one block again. O(BLOCK)."""
    best = -1
    for h in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
        fits = cache.total[s, h] != NO_TOTAL
        if fits and (best < 0 or is_better(hosts, policies, cache, s, p, h, best, np.uint64(0))):
            best = h
    cache.best[s, block] = best


@kernel
def update_ranges(shapes, policies, cache, s, p, rows):
    """Find the lowest and highest raw score of each normalised scorer; say whether any of them moved. O(H)."""
    moved = False
    for x in range(policies.scorers[p]):
        slot = policies.normal_slot[p, x]
        if slot < 0 or shapes.active[s, x] == 0:
            continue
        low = np.int64(0)
        high = np.int64(0)
        found = False
        for h in range(rows):
            if cache.code[s, h] == FITS:
                value = cache.raw[shapes.wide[s], slot, h]
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
def normalizes(shapes, policies, s, p):
    """Say whether any scorer of the slot needs the range over all feasible rows."""
    for x in range(policies.scorers[p]):
        if policies.normal_slot[p, x] >= 0 and shapes.active[s, x] != 0:
            return True
    return False


@kernel
def refresh(hosts, shapes, policies, cache, log, s, scratch, number, bits):
    """Bring slot ``s`` up to date with every row touched since it was last seen. O(touched) or, at first, O(H)."""
    rows = hosts.rows[0]
    end = log.end[0]
    start = cache.seen[s]
    if start == end:
        return
    p = shapes.policy[s]
    limit = hosts.limit[policies.limit_set[p]]
    ring = log.rows.shape[0]
    is_full = start < 0 or end - start > ring or end - start > rows
    if is_full:
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
        if not is_full and cache.code[s, h] >= 0:
            cache.counts[s, cache.code[s, h]] -= 1
        cache.total[s, h] = NO_TOTAL
    for i in range(count):
        h = cache.dirty[i]
        cache.block_stamp[h // BLOCK] = tick
        code = row_code(hosts, shapes, policies, limit, s, h, scratch)
        cache.code[s, h] = code
        if code >= 0:
            cache.counts[s, code] += 1
        if code == FITS:
            score_feasible(hosts, shapes, policies, cache, limit, s, p, h, scratch, number, bits)
    moved = False
    if normalizes(shapes, policies, s, p):
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
def select(hosts, policies, cache, s, p, draw):
    """Return the best feasible row of a fresh slot, -1 for none. O(H / BLOCK), or O(H) with moving tie keys."""
    rows = hosts.rows[0]
    best = -1
    if policies.has_moving_ties[p] == 0:
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
def book(hosts, shapes, log, s, h, devices, taken):
    """Book slot ``s`` on row ``h`` with the given devices, and log the touch. O(R + devices)."""
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
    log.rows[log.end[0] % log.rows.shape[0]] = h
    log.end[0] += 1


@kernel
def decide_run(hosts, shapes, policies, cache, log, scratch, slots, draws, out_row, out_total, out_devices, out_counts):
    """Decide guests 0..n-1 in order; guest i has shape ``slots[i]`` and random number ``draws[i]``.

    Writes row and total (-1 for refused), the devices taken, and the counts by code before the placement.
    """
    for i in range(slots.shape[0]):
        s = slots[i]
        p = shapes.policy[s]
        refresh(hosts, shapes, policies, cache, log, s, scratch.table, scratch.number, scratch.bits)
        for c in range(cache.counts.shape[1]):
            out_counts[i, c] = cache.counts[s, c]
        h = select(hosts, policies, cache, s, p, draws[i])
        out_row[i] = h
        if h < 0:
            continue
        out_total[i] = cache.total[s, h]
        taken = pick_devices(hosts, shapes, policies, s, p, h, draws[i], scratch.table, out_devices[i])
        book(hosts, shapes, log, s, h, out_devices[i], taken)
        policies.last_key[p] = hosts.name_key[h]


@kernel
def refresh_slots(hosts, shapes, policies, cache, log, scratch, slots):
    """Refresh several slots without deciding anything."""
    for i in range(slots.shape[0]):
        refresh(hosts, shapes, policies, cache, log, slots[i], scratch.table, scratch.number, scratch.bits)


@kernel
def raw_scores(hosts, shapes, policies, scratch, s, rows, out_whole, out_real):
    """Write every active scorer's raw score of slot ``s`` on the given rows: (X, n) integers and floats."""
    p = shapes.policy[s]
    limit = hosts.limit[policies.limit_set[p]]
    for x in range(policies.scorers[p]):
        for i in range(rows.shape[0]):
            if shapes.active[s, x] != 0:
                out_whole[x, i], out_real[x, i] = score_row(
                    hosts, shapes, policies, limit, s, p, x, rows[i], scratch.table
                )


@kernel
def taken_devices(hosts, shapes, policies, scratch, s, h, draw, out):
    """Choose devices for slot ``s`` on row ``h`` without booking; return how many."""
    return pick_devices(hosts, shapes, policies, s, shapes.policy[s], h, draw, scratch.table, out)
