"""Kernels for devices: which fit, which are taken, and how useful a host's free devices are to a typical mix.

The gpu-sharing scores follow the formulas of the FGD artifact (Weng et al., "Beware of Fragmentation", USENIX ATC 2023)
to the last bit: integers are truncated where it truncates, sums run in its order, and nothing is fused.
"""

from __future__ import annotations

import math

import numpy as np

from hostler.engine.kernels.layout import kernel

MAX_SPEC_CPU = 128000.0  # milli-cores; the artifact scales cpu by the largest host of its trace
MAX_SPEC_GPU = 8000.0  # milli-gpus of that host
WHOLE = 1000  # milli-units of one device


@kernel
def mix64(x):
    """Return splitmix64's finalizer of an unsigned 64-bit number, as ``cluster.randomness.mix64`` does."""
    z = x + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def take_request(left, kind, model, want_kind, want_count, milli, want_model, rule, draw, out, first):
    """Take the devices of one request from ``left``, write them to ``out[first:]``, return how many fit. O(count * D).

    Whole devices are the lowest indices that are free. A share goes where ``rule`` says: 0 lowest index, 1 least left
    (best), 2 most left (worst), 3 at random; 4 (fgd) falls back to best, because its caller resolves a single share.
    """
    for k in range(want_count):
        pick = -1
        seen = 0
        for d in range(kind.shape[0]):  # ``left`` is scratch and may be wider
            if kind[d] != want_kind or left[d] < milli or want_model[model[d]] == 0:
                continue
            is_taken = False
            for j in range(first, first + k):
                if out[j] == d:
                    is_taken = True
            if is_taken:
                continue
            seen += 1
            if pick < 0:
                pick = d
            elif milli < WHOLE:
                if rule == 1 or rule == 4:
                    if left[d] < left[pick]:
                        pick = d
                elif rule == 2:
                    if left[d] > left[pick]:
                        pick = d
                elif rule == 3:  # reservoir sampling: each of the fitting devices has the same chance
                    roll = mix64(draw ^ np.uint64(7919 * (first + k + 1) + 104729 * seen))
                    if roll % np.uint64(seen) == np.uint64(0):
                        pick = d
        if pick < 0:
            return k
        out[first + k] = pick
    for j in range(first, first + want_count):
        left[out[j]] -= milli
    return want_count


@kernel
def device_verdict(left, kind, model, ask_kind, ask_count, ask_milli, ask_model, asks, scratch, taken):
    """Return 0 when all device requests of a shape fit one host, else 1 + 3 * request + (0 none, 1 model, 2 room).

    O(asks * count * D). ``left``, ``kind``, ``model``: (D,) of the host; ``ask_*``: of the shape; ``scratch`` and
    ``taken``: (D,). Later requests see what earlier ones leave, which then take the fullest devices that fit.
    """
    width = left.shape[0]
    for d in range(width):
        scratch[d] = left[d]
    for a in range(asks):
        of_kind = 0
        of_model = 0
        fitting = 0
        for d in range(width):
            if kind[d] != ask_kind[a]:
                continue
            of_kind += 1
            if ask_model[a, model[d]] == 0:
                continue
            of_model += 1
            if scratch[d] >= ask_milli[a]:
                fitting += 1
        if fitting < ask_count[a]:
            if of_kind == 0:
                return 1 + 3 * a
            if of_model == 0:
                return 2 + 3 * a
            return 3 + 3 * a
        if asks > 1:
            take_request(
                scratch, kind, model, ask_kind[a], ask_count[a], ask_milli[a], ask_model[a], 1, np.uint64(0), taken, 0
            )
    return 0


@kernel
def choose_devices(left, kind, model, ask_kind, ask_count, ask_milli, ask_model, asks, rule, draw, scratch, out):
    """Write the chosen device indices of all requests to ``out``; return how many, -1 where they do not fit.

    The policy's rule decides; several requests of one kind take the fullest devices, as the verdict assumed.
    """
    for d in range(left.shape[0]):
        scratch[d] = left[d]
    n = 0
    for a in range(asks):
        is_only = True
        for other in range(asks):
            if other != a and ask_kind[other] == ask_kind[a]:
                is_only = False
        taken = take_request(
            scratch,
            kind,
            model,
            ask_kind[a],
            ask_count[a],
            ask_milli[a],
            ask_model[a],
            rule if is_only else 1,
            draw,
            out,
            n,
        )
        if taken < ask_count[a]:
            return -1
        n += ask_count[a]
    return n


@kernel
def fragment_classes(left, n, cpu_left, model, mix, bounds, fitting, small):
    """Return what the typical mix makes of one host's idle milli-devices, by class. O(sizes * D + entries).

    ``left``: (D,), the first ``n`` count; ``bounds``: the policy's part of ``mix``; ``fitting`` and ``small``:
    scratch by size. Classes: q1 lacks both, q2 lacks devices, q3 can be used, q4 lacks cpu, xl and xr are seen by
    guests without devices (with cpu, without), no access is of a wrong model. Each is summed in mix order.
    """
    idle = 0
    for i in range(n):
        idle += left[i]
    for level in range(bounds[2], bounds[3]):
        milli = mix.level_milli[level]
        count = 0
        below = 0
        for i in range(n):
            if left[i] >= milli:
                count += 1
            else:
                below += left[i]
        fitting[level - bounds[2]] = count
        small[level - bounds[2]] = below
    q1 = 0.0
    q2 = 0.0
    q3 = 0.0
    q4 = 0.0
    xl = 0.0
    xr = 0.0
    no_access = 0.0
    whole = float(idle)
    for m in range(bounds[0], bounds[1]):
        share = mix.share[m]
        has_cpu = cpu_left >= mix.cpu[m]
        if mix.milli[m] == 0:
            if has_cpu:
                xl += share * whole
            else:
                xr += share * whole
        elif model < 0 or mix.model[m, model] == 0:
            no_access += share * whole
        elif fitting[mix.level[m]] >= mix.devices[m]:
            if has_cpu:
                q2 += share * float(small[mix.level[m]])
                q3 += share * float(idle - small[mix.level[m]])
            else:
                q4 += share * whole
        elif has_cpu:
            q2 += share * whole
        else:
            q1 += share * whole
    return q1, q2, q3, q4, xl, xr, no_access


@kernel
def fragmentation(left, n, cpu_left, model, mix, bounds, fitting, small):
    """Return the expected fragment F of one host, in milli-devices: all classes but the usable one, in their order."""
    q1, q2, _, q4, xl, xr, no_access = fragment_classes(left, n, cpu_left, model, mix, bounds, fitting, small)
    return q1 + q2 + q4 + xl + xr + no_access


@kernel
def sigmoid_score(delta):
    """Return int(100 * sigmoid(delta / 1000))."""
    return int(100.0 * (1.0 / (1.0 + math.exp(-(delta / 1000.0)))))


@kernel
def gather_gpus(device_left, device_kind, device_model, gpu_kind, want_model, left, index, allowed):
    """Copy the GPUs of one host: free milli-units, positions, accepted models. Return how many. O(D)."""
    n = 0
    for d in range(device_left.shape[0]):
        if device_kind[d] == gpu_kind:
            left[n] = device_left[d]
            index[n] = d
            allowed[n] = want_model[device_model[d]]
            n += 1
    return n


@kernel
def take_fullest(left, allowed, n, milli, count):
    """Subtract ``milli`` from the ``count`` fullest fitting devices of ``left``. O(count * n)."""
    used = np.uint64(0)
    for _ in range(count):
        pick = -1
        for i in range(n):
            free = (used >> np.uint64(i)) & np.uint64(1) == np.uint64(0)
            if free and allowed[i] != 0 and left[i] >= milli and (pick < 0 or left[i] < left[pick]):
                pick = i
        if pick < 0:
            return
        left[pick] -= milli
        used |= np.uint64(1) << np.uint64(pick)


@kernel
def packing_score(left, allowed, n, size_sum, milli, count):
    """Score a host as GpuPacking does: partly used devices first, then partly used hosts, then small free hosts."""
    idle = 0
    for i in range(n):
        idle += left[i]
    if idle == size_sum:
        return max(33 - n, n)
    used = np.uint64(0)
    free_taken = 0
    left_percent = 0
    for _ in range(count):
        pick = -1
        for i in range(n):
            if (used >> np.uint64(i)) & np.uint64(1) == np.uint64(0) and allowed[i] != 0 and left[i] >= milli:
                if pick < 0 or left[i] < left[pick]:
                    pick = i
        if pick < 0:
            break
        used |= np.uint64(1) << np.uint64(pick)
        if left[pick] >= WHOLE:
            free_taken += 1
        left_percent += left[pick] * 100 // WHOLE
    if free_taken > 0:
        return max(50 - free_taken, 33)
    return max(100 - left_percent // 10, 50)


@kernel
def clustering_score(tags, own_tag, idle):
    """Score a host as GpuClustering does: hosts that hold only guests of the same device tag first."""
    base = int(25 * (8000 - idle) / 8000.0)
    same = tags[own_tag] > 0
    others = False
    for t in range(tags.shape[0]):
        if t != own_tag and tags[t] > 0:
            others = True
    if same and not others:
        return base + 75
    if same:
        return base + 50
    if not others:
        return base + 25
    return base
