"""Kernels for one host row: does the shape fit, and what does each scorer say.

Resource scores are kube-scheduler's (integer division throughout, fractions in float64); the VM strategies keep their
float and unbounded integer scores. Scorers are numbered operations, because passing functions to a kernel costs far
more than the work they do.
"""

from __future__ import annotations

import math

import numpy as np

from hostler.engine.kernels.devices import (
    MAX_SPEC_CPU,
    MAX_SPEC_GPU,
    WHOLE,
    clustering_score,
    fragmentation,
    gather_gpus,
    packing_score,
    sigmoid_score,
    take_fullest,
)
from hostler.engine.kernels.layout import (
    OP_BALANCED,
    OP_CAPACITY_RATIO,
    OP_DOT_PRODUCT,
    OP_FGD,
    OP_FREE_CAPACITY,
    OP_GPU_BEST_FIT,
    OP_GPU_CLUSTERING,
    OP_GPU_PACKING,
    OP_LEAST_ALLOCATED,
    OP_MOST_ALLOCATED,
    OP_OUTER,
    OP_UTILIZATION,
    inlined_kernel,
    kernel,
)

_SAFE = 1 << 56  # below it, a hundredfold still fits 64 bits
MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30


@kernel
def divide(n, d):
    """Return floor(n / d), n >= 0, d > 0, quotient below 2^50: a corrected float guess is the fastest way."""
    q = np.int64(float(n) / float(d))
    rest = n - q * d
    if rest < 0:
        return q - 1
    if rest >= d:
        return q + 1
    return q


@kernel
def percent(part, whole):
    """Return floor(100 * part / whole) for 0 <= part <= whole, exact up to 2^62."""
    if whole < _SAFE:
        return divide(part * 100, whole)
    quotient = np.uint64(0)
    rest = np.uint64(0)
    p = np.uint64(part)
    w = np.uint64(whole)
    for bit in range(6, -1, -1):  # long division: 100 = 0b1100100
        quotient = quotient * np.uint64(2)
        rest = rest * np.uint64(2)
        while rest >= w:
            rest -= w
            quotient += np.uint64(1)
        if (100 >> bit) & 1:
            rest += p
        while rest >= w:
            rest -= w
            quotient += np.uint64(1)
    return np.int64(quotient)


@kernel
def allocated_score(most, params, limit, used, scored, h, request, scored_request):
    """Return kube-scheduler's LeastAllocated or MostAllocated. ``params``: n, then resource, weight, scored column."""
    total = np.int64(0)
    weights = np.int64(0)
    for i in range(params[0]):
        r = params[1 + 3 * i]
        weight = params[2 + 3 * i]
        column = params[3 + 3 * i]
        capacity = limit[h, r]
        if capacity == 0 or (column < 0 and request[r] == 0):
            continue
        if column >= 0:
            asked = scored[h, column] + scored_request[column]
        else:
            asked = used[h, r] + request[r]
        if most:
            total += weight * percent(min(asked, capacity), capacity)
        elif asked <= capacity:
            total += weight * percent(capacity - asked, capacity)
        weights += weight
    return divide(total, weights) if weights > 0 else np.int64(0)


@kernel
def ratio_score(params, limit, used, scored, h, request, scored_request):
    """Return kube-scheduler's RequestedToCapacityRatio; after the resources come the points: n, then use, score."""
    n = params[0]
    points = 1 + 3 * n
    total = np.int64(0)
    weights = np.int64(0)
    for i in range(n):
        r = params[1 + 3 * i]
        column = params[3 + 3 * i]
        capacity = limit[h, r]
        if column < 0 and request[r] == 0:
            continue
        asked = scored[h, column] + scored_request[column] if column >= 0 else used[h, r] + request[r]
        use = 100 if capacity == 0 or asked > capacity else percent(asked, capacity)
        score = broken_line(params, points, use)
        if score > 0:
            total += score * params[2 + 3 * i]
            weights += params[2 + 3 * i]
    return np.int64(math.floor(total / weights + 0.5)) if weights > 0 else np.int64(0)


@kernel
def broken_line(params, at, use):
    """Interpolate between points with Go's division, which truncates toward zero; Python's rounds down."""
    n = params[at]
    for i in range(n):
        x = params[at + 1 + 2 * i]
        y = params[at + 2 + 2 * i]
        if use <= x:
            if i == 0:
                return y
            x0 = params[at - 1 + 2 * i]
            y0 = params[at + 2 * i]
            rise = (y - y0) * (use - x0)
            step = abs(rise) // (x - x0)
            return y0 + (step if rise >= 0 else -step)
    return params[at + 2 * n]


@kernel
def balance(n, first, second, squares):
    """Return floor((1 - sigma) * 100), sigma being the standard deviation of n fractions."""
    sigma = 0.0
    if n == 2:
        sigma = abs((first - second) / 2.0)
    elif n > 2:
        sigma = math.sqrt(squares / n)
    return np.int64((1.0 - sigma) * 100.0)


@kernel
def squared_distances(params, limit, used, h, request, share, mean):
    """Sum the squared distances of the used fractions from their mean; ``share`` 1 adds the request, 0 does not."""
    squares = 0.0
    for i in range(params[0]):
        r = params[1 + 3 * i]
        if limit[h, r] == 0 or (params[3 + 3 * i] < 0 and request[r] == 0):
            continue
        fraction = min(float(used[h, r] + share * request[r]) / float(limit[h, r]), 1.0)
        squares += (fraction - mean) * (fraction - mean)
    return squares


@kernel
def balanced_score(params, limit, used, h, request):
    """Return kube-scheduler's balanced allocation from 1.36 on: how much the guest improves the balance."""
    n = 0
    first = 0.0
    second = 0.0
    total = 0.0
    first_without = 0.0
    second_without = 0.0
    total_without = 0.0
    for i in range(params[0]):
        r = params[1 + 3 * i]
        capacity = limit[h, r]
        if capacity == 0 or (params[3 + 3 * i] < 0 and request[r] == 0):
            continue
        before = used[h, r]
        without = min(float(before) / float(capacity), 1.0)
        fraction = min(float(before + request[r]) / float(capacity), 1.0)
        total += fraction
        total_without += without
        if n == 0:
            first = fraction
            first_without = without
        else:
            second = fraction
            second_without = without
        n += 1
    squares = 0.0
    squares_without = 0.0
    if n > 2:
        squares = squared_distances(params, limit, used, h, request, 1, total / n)
        squares_without = squared_distances(params, limit, used, h, request, 0, total_without / n)
    after = balance(n, first, second, squares)
    change = 50 + after - balance(n, first_without, second_without, squares_without)
    half = abs(change) // 2
    return 50 + (half if change >= 0 else -half)


@kernel
def utilization(params, limit, used, h):
    """Return 0.4 cpu + 0.4 memory + 0.2 storage, each as used share before the placement; 0 if the host has none."""
    value = 0.0
    for i in range(3):
        whole = limit[h, params[i]]
        part = float(used[h, params[i]]) / float(whole) if whole > 0 else 0.0
        value = value + (0.2 if i == 2 else 0.4) * part
    return value


@kernel
def free_capacity(params, limit, used, h):
    """Return free milli-cores + free MiB of memory + free GiB of storage before the placement, clamped to 2^40."""
    cpu = limit[h, params[0]] - used[h, params[0]]
    memory = limit[h, params[1]] - used[h, params[1]]
    storage = limit[h, params[2]] - used[h, params[2]]
    free = cpu + memory // MEBIBYTE + storage // GIBIBYTE
    return max(min(free, np.int64(1 << 40)), np.int64(-(1 << 40)))


@inlined_kernel
def score_row(hosts, shapes, policies, limit, s, p, x, h, scratch):
    """Return the raw score of scorer ``x`` for slot ``s`` on row ``h`` as (integer, float); one of them counts."""
    op = policies.op[p, x]
    params = policies.params[p, x]
    used = hosts.used
    request = shapes.request[s]
    if op == OP_LEAST_ALLOCATED or op == OP_MOST_ALLOCATED:
        most = op == OP_MOST_ALLOCATED
        value = allocated_score(most, params, limit, used, hosts.scored, h, request, shapes.scored[s])
        return value, 0.0
    if op == OP_BALANCED:
        return balanced_score(params, limit, used, h, request), 0.0
    if op == OP_CAPACITY_RATIO:
        return ratio_score(params, limit, used, hosts.scored, h, request, shapes.scored[s]), 0.0
    if op == OP_UTILIZATION:
        return np.int64(0), utilization(params, limit, used, h)
    if op == OP_FREE_CAPACITY:
        return free_capacity(params, limit, used, h), 0.0
    if OP_FGD <= op <= OP_GPU_PACKING:
        return gpu_score(op, hosts, shapes, policies, limit, s, p, h, scratch)[0], 0.0
    if op == OP_OUTER:
        return shapes.outer_raw[shapes.wide[s], x, h], 0.0
    return np.int64(0), 0.0  # peer rules are scored later, when the feasible hosts are known


@kernel
def truncate_score(value):
    """Truncate a score toward zero as C does, clamped to 2^40, so that weights times scores cannot overflow."""
    return np.int64(max(min(value, 2.0**40), -(2.0**40)))


@kernel
def gpu_score(op, hosts, shapes, policies, limit, s, p, h, scratch):
    """Return a GPU-sharing score and, for fgd, the device behind it (-1 for the other operations)."""
    cpu = policies.cpu[0]
    cpu_left = limit[h, cpu] - hosts.used[h, cpu]
    left = scratch[0]
    want_model = shapes.ask_model[s, shapes.gpu_millis[s, 3]]
    n = gather_gpus(
        hosts.device_left[h],
        hosts.device_kind[h],
        hosts.device_model[h],
        policies.gpu_kind[0],
        want_model,
        left,
        scratch[1],
        scratch[4],
    )
    idle = np.int64(0)
    for i in range(n):
        idle += left[i]
    milli = shapes.gpu_millis[s, 0]
    count = shapes.gpu_millis[s, 1]
    asked_cpu = shapes.request[s, cpu]
    if op == OP_GPU_BEST_FIT:
        cpu_part = 0.5 * (float(cpu_left - asked_cpu) / MAX_SPEC_CPU)
        gpu_part = 0.5 * (float(idle - shapes.gpu_millis[s, 2]) / MAX_SPEC_GPU)
        # The sum first, as in the FGD artifact (best_fit_score.go): 1 - cpu - gpu has other last bits, and the
        # truncation then gives another whole number for about one placement in a million.
        return truncate_score(100.0 * (1.0 - (cpu_part + gpu_part))), -1
    if op == OP_DOT_PRODUCT:
        cpu_part = (float(cpu_left) / MAX_SPEC_CPU) * (float(asked_cpu) / MAX_SPEC_CPU)
        gpu_part = (float(idle) / MAX_SPEC_GPU) * (float(shapes.gpu_millis[s, 2]) / MAX_SPEC_GPU)
        return truncate_score(100.0 * (1.0 - (cpu_part + gpu_part) / 2.0)), -1
    if op == OP_GPU_CLUSTERING:
        if count == 0:
            return np.int64(0), -1
        return np.int64(clustering_score(hosts.tags[h], shapes.tag[s], idle)), -1
    if op == OP_GPU_PACKING:
        if count == 0:
            return np.int64(0), -1
        size = np.int64(0)
        for i in range(n):
            size += hosts.device_size[h, scratch[1, i]]
        return np.int64(packing_score(left, scratch[4], n, size, milli, count)), -1
    return fgd_score(hosts, policies, p, h, n, cpu_left, asked_cpu, milli, count, scratch)


@kernel
def fgd_score(hosts, policies, p, h, n, cpu_left, asked_cpu, milli, count, scratch):
    """Return the fgd score and the device for a share. ``scratch``: 0 free milli-GPUs, 1 positions, 4 models."""
    left = scratch[0]
    model = np.int64(-1)
    if n > 0:
        model = np.int64(hosts.device_model[h, scratch[1, 0]])
    before = _fragments(policies, p, left, n, cpu_left, model, scratch)
    after_cpu = cpu_left - asked_cpu
    if count == 1 and milli < WHOLE:
        best = np.int64(-1)
        device = -1
        for i in range(n):
            if left[i] < milli or scratch[4, i] == 0:
                continue
            is_repeat = False
            for j in range(i):
                if left[j] == left[i] and scratch[4, j] != 0:
                    is_repeat = True
            if is_repeat:  # equal devices score alike, and the first index wins
                continue
            left[i] -= milli
            score = sigmoid_score(before - _fragments(policies, p, left, n, after_cpu, model, scratch))
            left[i] += milli
            if score > best:
                best = score
                device = scratch[1, i]
        return best, device
    if count > 0:
        take_fullest(left, scratch[4], n, milli, count)
    return np.int64(sigmoid_score(before - _fragments(policies, p, left, n, after_cpu, model, scratch))), -1


@kernel
def _fragments(policies, p, left, n, cpu_left, model, scratch):
    return fragmentation(left, n, cpu_left, model, policies.mix, policies.mix.bounds[p], scratch[2], scratch[3])
