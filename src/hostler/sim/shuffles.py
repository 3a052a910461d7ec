"""Random orders and numbers from counters: the same on every machine and with every version of every library."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hostler.sim.workload import Ints

__all__ = ["draws", "permutation", "uniforms"]

Words = NDArray[np.uint64]


def draws(seed: int, stream: int, count: int, start: int = 0) -> Words:
    """Return random 64-bit numbers ``start`` to ``start + count`` of one stream of a seed (splitmix64's finaliser)."""
    with np.errstate(over="ignore"):
        key = _mixed(_mixed(np.array([seed % 2**64], dtype=np.uint64)) ^ np.uint64(stream))
        return _mixed(key ^ _mixed(np.arange(start, start + count, dtype=np.uint64)))


def uniforms(seed: int, stream: int, count: int, start: int = 0) -> NDArray[np.float64]:
    """Return numbers from 0 up to but without 1."""
    return (draws(seed, stream, count, start) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permutation(seed: int, stream: int, count: int) -> Ints:
    """Return the numbers below ``count`` in a random order."""
    return np.argsort(draws(seed, stream, count), kind="stable").astype(np.int64)


def _mixed(words: Words) -> Words:
    z = words + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
