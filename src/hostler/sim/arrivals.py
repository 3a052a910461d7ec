"""Orders of arrival for experiments that fill a fleet: shuffled, and tuned to a share of its gpus.

As in the FGD artifact, pods are shuffled first. If they ask for too much, some are dropped at random. If they ask for
too little, clones of random pods follow at the end. The random numbers are our own; published orders are data.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hostler.errors import InputError
from hostler.model import GuestSpec, Host
from hostler.sim.shuffles import draws, permutation
from hostler.sim.workload import Ints

__all__ = ["gpu_millis", "tune_arrival_order"]

_ORDER, _TUNING, _RANKS = 1, 2, 3
_MOST = 10_000_000  # arrivals
_MOST_TUNE = 1000


def gpu_millis(spec: GuestSpec) -> int:
    """Return the milli-gpus that a guest asks for."""
    return sum(device.count * device.milli for device in spec.devices)


def tune_arrival_order(specs: Sequence[GuestSpec], hosts: Sequence[Host], seed: int, tune: float) -> tuple[Ints, Ints]:
    """Return an order of arrival (indices into specs, a repeated one is a clone) and the ranks of hosts for ties.

    ``tune`` is the demand for gpus as a share of what the hosts have; 0 leaves it as it is.
    """
    if not 0 <= tune <= _MOST_TUNE:
        raise InputError(f"the demand cannot be tuned to {tune:g} of the gpus", hint=f"it is from 0 to {_MOST_TUNE}")
    order = permutation(seed, _ORDER, len(specs))
    ranks = permutation(seed, _RANKS, len(hosts))
    if tune <= 0:
        return order, ranks
    total = np.array([gpu_millis(spec) for spec in specs], dtype=np.int64)
    each = np.array([max((d.milli for d in spec.devices), default=0) for spec in specs], dtype=np.int64)
    target = tune * 1000 * sum(len(host.devices) for host in hosts)
    demand = int(total.sum())
    if not demand:
        raise InputError("no guest asks for gpus, so the demand cannot be tuned", hint="leave it as it is: --tune 0")
    if demand > target:
        return _thinned(order, total, target, seed), ranks
    clones: list[int] = []
    while len(clones) < _MOST:
        for pick in (draws(seed, _TUNING, 4096, len(clones)) % np.uint64(len(order))).tolist():
            pod = int(order[pick])
            if demand + int(each[pod]) > target:
                return np.concatenate((order, np.array(clones, dtype=np.int64))), ranks
            demand += int(total[pod])
            clones.append(pod)
    raise InputError(f"tuning to {tune:g} takes more than {_MOST:,} arrivals")


def _thinned(order: Ints, total: Ints, target: float, seed: int) -> Ints:
    """Drop pods at random until the demand is at most the target."""
    left = order.tolist()
    demand = int(total.sum())
    numbers = draws(seed, _TUNING, len(left)).tolist()
    for number in numbers:
        if demand <= target:
            break
        demand -= int(total[left.pop(number % len(left))])
    return np.array(left, dtype=np.int64)
