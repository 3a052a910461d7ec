"""The arrays that kernels read and write, and the numbers that Python code and kernels share.

Each tuple groups the columns of one concept. Sizes in the comments: H host rows, R resources, D devices of the widest
host, L limit sets, S shape slots, W of them with raw scores, Q device requests of the widest shape, M device models,
P policies, X scorers of the widest policy, N normalized scorers, C reason codes, B blocks of ``BLOCK`` rows, T device
tags, E entries of all typical mixes. Arrays grow by being replaced, so the tuples are built for every call
and never kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = [
    "BLOCK",
    "DEVICE_RULES",
    "NORMALIZERS",
    "TAGS",
    "TIES",
    "Bools",
    "CacheColumns",
    "CounterColumns",
    "HoldColumns",
    "HostColumns",
    "Int16s",
    "Int32s",
    "Int64s",
    "MixColumns",
    "PeerColumns",
    "PolicyColumns",
    "Scratch",
    "ShapeColumns",
    "TouchLog",
    "kernel",
]  # fmt: skip

# Kernels own no memory: without reference counting (_nrt) a row costs tens of nanoseconds instead of a microsecond, and
# scratch space is passed in. Divisors are checked by hand, so numpy's error model spares the test for zero.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}
kernel = njit(**_OPTIONS)
# For functions called once per row with whole tuples of columns: passing those by value would cost more than the work.
inlined_kernel = njit(inline="always", **_OPTIONS)

Int8s: TypeAlias = NDArray[np.int8]
Int16s: TypeAlias = NDArray[np.int16]
Int32s: TypeAlias = NDArray[np.int32]
Int64s: TypeAlias = NDArray[np.int64]
Uint64s: TypeAlias = NDArray[np.uint64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

BLOCK = 16  # rows whose best is remembered together: one placement costs a scan of BLOCK rows and H / BLOCK bests
TAGS = 17  # device tags of a guest: 0 shares one device, k takes k whole devices (16 means 16 or more)
PARAMS = 48  # integer parameters of one scorer

ABSENT = -1  # the code of a row without a host
FITS = 0
NO_TOTAL = -(2**63)  # the total of a row that does not fit: below every other

# Soft constraints that come first add multiples of ``PREFERENCE`` to a total: an own score, kept within half of it,
# can only decide between hosts that are preferred equally. Float scores are rounded to ``FRACTION`` of one for that.
PREFERENCE = 1 << 42
MOST_OWN = (1 << 41) - 1
FRACTION = 1 << 30

NORMALIZERS = {"none": 0, "max": 1, "reverse_max": 2, "min_max": 3, "min_max_real": 4, "even": 5}
TIES = {"fewer_guests": 1, "rank": 2, "name": 3, "random": 4, "after_last": 5}
DEVICE_RULES = {"lowest": 0, "best": 1, "worst": 2, "random": 3, "fgd": 4}

OP_OUTER = 0
OP_LEAST_ALLOCATED = 1
OP_MOST_ALLOCATED = 2
OP_CAPACITY_RATIO = 3
OP_BALANCED = 4
OP_UTILIZATION = 5
OP_FREE_CAPACITY = 6
OP_FGD = 7
OP_GPU_BEST_FIT = 8
OP_DOT_PRODUCT = 9
OP_GPU_CLUSTERING = 10
OP_GPU_PACKING = 11
OP_GUEST_AFFINITY = 12
OP_GUEST_SPREAD = 13

# Kinds of peer rules, in the order in which they are checked; scores come after all filters.
PEER_PORT = 1
PEER_SPREAD = 2  # params: max skew, 1 if the guest counts itself, minimum of domains
PEER_AFFINITY = 3
PEER_APART = 4  # its own anti-affinity, and that of placed guests
PEER_PREFER = 5  # params: weight
PEER_EVEN = 6  # params: max skew, 1 if every host is a domain
PEER_PARAMS = 4


class HoldColumns(NamedTuple):
    """Held room, as one chain of holds for each host row. G holds."""

    first: Int32s  # (H,) -1 for none
    next: Int32s  # (G,)
    priority: Int64s  # (G,)
    bearer: Int32s  # (G,) the pass that lets a guest use it, -1 for none
    devices: Int8s  # (G,) 1 if guests that request devices are kept away
    amount: Int64s  # (G, R)


class HostColumns(NamedTuple):
    """The cluster: one column entry per host row."""

    rows: Int64s  # (1,) rows in use, holes included
    present: Int8s  # (H,)
    limit: Int64s  # (L, H, R) what a host may give
    used: Int64s  # (H, R); column 0 counts guests
    guests: Int64s  # (H,) column 0 of ``used`` again, contiguous because ties read it often
    scored: Int64s  # (H, 2) cpu and memory with the defaults that Kubernetes scores by
    rank: Int64s  # (H,)
    name_key: Int64s  # (H,) sorts like the host's name
    name_hash: Uint64s  # (H,)
    device_left: Int64s  # (H, D)
    device_size: Int64s  # (H, D)
    device_kind: Int16s  # (H, D), -1 where there is none
    device_model: Int16s  # (H, D)
    tags: Int32s  # (H, TAGS) guests on the host by device tag
    version: Int64s  # (H,) counts the changes of a row
    holds: HoldColumns


class ShapeColumns(NamedTuple):
    """The shapes that hold a slot of the cache."""

    policy: Int32s  # (S,)
    request: Int64s  # (S, R)
    scored: Int64s  # (S, 2)
    asks: Int32s  # (S,) device requests in use
    ask_kind: Int16s  # (S, Q)
    ask_count: Int64s  # (S, Q)
    ask_milli: Int64s  # (S, Q)
    ask_model: Int8s  # (S, Q, M) 1 if the model is accepted
    tag: Int32s  # (S,) device tag, -1 for none
    gpu_millis: Int64s  # (S, 4) milli per gpu, count, total, which request it is; zeros without a gpu request
    has_outer: Int8s  # (S,) 0 if no filter outside the kernel rejects any row
    outer_code: Int16s  # (S, H) verdict of the filters outside the kernel
    outer_raw: Int64s  # (W, X, H) raw scores computed outside the kernel
    wide: Int32s  # (S,) the shape's entry among those with raw scores, -1 for none
    active: Int8s  # (S, X) 0 if a scorer does not apply to the shape
    scorers: Int32s  # (S,) how many scorers to look at: the policy's own, or with those of soft constraints behind them
    priority: Int64s  # (S,)
    passes: Int8s  # (S, passes) 1 if the guests may use the held room


class CounterColumns(NamedTuple):
    """Guests per domain. K topologies, E masks, C counters, V domains of the widest topology."""

    domain: Int32s  # (K, H) the row's domain, -1 for none
    mask: Int8s  # (E, H) 1 if the host is eligible
    topology: Int32s  # (C,)
    mask_of: Int32s  # (C,) -1 if all hosts count
    guests: Int32s  # (C, V)
    hosts: Int32s  # (C, V) eligible hosts
    total: Int64s  # (C,)


class PeerColumns(NamedTuple):
    """Peer rules of the shapes in the cache, and the counters that their own guests change. J rules, I counters."""

    rules: Int32s  # (S,) how many entries of the next arrays are in use
    filters: Int32s  # (S,) how many of them are filters; those come first
    kind: Int8s  # (S, J)
    counter: Int32s  # (S, J)
    params: Int64s  # (S, J, PEER_PARAMS)
    code: Int16s  # (S, J) reason
    code_absent: Int16s  # (S, J) reason if the host is in no domain
    may_be_first: Int8s  # (S,) 1 if a guest of the shape meets its own affinity
    all_keys: Int8s  # (S,) 1 if hosts that lack one of the topology labels are left out
    shifts: Int32s  # (S,)
    shift_counter: Int32s  # (S, I)
    shift_by: Int32s  # (S, I)
    least: Int64s  # (J,) scratch: the lowest count of each hard spread
    log_size: Floats  # (J,) scratch: the weight of each soft spread
    seen: Int64s  # (V,) scratch: the last pass that met each domain
    tick: Int64s  # (1,)


class MixColumns(NamedTuple):
    """The typical mixes of all policies, concatenated."""

    bounds: Int32s  # (P, 4) first and last + 1 of the policy's entries, first and last + 1 of its sizes
    cpu: Int64s  # (E,)
    milli: Int64s  # (E,) per device
    devices: Int64s  # (E,)
    share: Floats  # (E,)
    level: Int32s  # (E,) index of ``milli`` among the policy's distinct sizes
    model: Int8s  # (E, M) 1 if the model is accepted
    level_milli: Int64s  # (sizes,)


class PolicyColumns(NamedTuple):
    """The policies, encoded as numbers."""

    limit_set: Int32s  # (P,)
    scorers: Int32s  # (P,) its own; those of soft constraints that come first are behind them
    op: Int32s  # (P, X)
    weight: Int64s  # (P, X)
    normalizer: Int32s  # (P, X)
    normal_slot: Int32s  # (P, X) index among the normalized scorers, -1 for none
    is_float: Int8s  # (P,)
    params: Int64s  # (P, X, PARAMS)
    ties: Int32s  # (P, 4)
    has_moving_ties: Int8s  # (P,) 1 if the tie keys change from one decision to the next
    device_rule: Int32s  # (P,)
    last_key: Int64s  # (P,) name key after which the next round-robin turn begins
    cpu: Int64s  # (1,) the resource number of cpu
    gpu_kind: Int16s  # (1,)
    resource_code: Int16s  # (R,)
    device_code: Int16s  # (kinds, 3)
    mix: MixColumns


class CacheColumns(NamedTuple):
    """The verdicts and scores of each shape slot for each host row; see ``kernels.run`` for the states of a row."""

    seen: Int64s  # (S,) position in the touch log up to which the slot is fresh; -1: never
    code: Int16s  # (S, H)
    base: Int64s  # (W, H) sum of the scorers that need no normalizing
    total: Int64s  # (S, H)
    raw: Int64s  # (W, N, H)
    local: Int16s  # (W, H) verdicts without the peer rules
    counts: Int32s  # (S, C) hosts by code; column 0 counts the feasible ones
    best: Int32s  # (S, B) the best row of each block, -1 for none
    low: Int64s  # (S, N)
    high: Int64s  # (S, N)
    row_stamp: Int64s  # (H,) scratch: the last refresh that looked at the row
    block_stamp: Int64s  # (B,)
    dirty: Int32s  # (H,) scratch: the rows that one refresh looks at
    tick: Int64s  # (1,)


class TouchLog(NamedTuple):
    """The rows that changed, in order, as a ring buffer."""

    rows: Int32s
    end: Int64s  # (1,) how many entries were ever written; the last one is at (end - 1) % size


class Scratch(NamedTuple):
    """Temporary space of one call: kernels allocate no memory."""

    table: Int64s  # (5, devices or mix levels)
    number: Floats  # (1,)
    bits: Int64s  # (1,) the same memory as ``number``


def new_scratch(devices: int, levels: int) -> Scratch:
    """Return temporary space for hosts with so many devices and mixes with so many sizes."""
    number = np.zeros(1, dtype=np.float64)
    return Scratch(np.zeros((5, max(devices, levels, 1)), dtype=np.int64), number, number.view(np.int64))
