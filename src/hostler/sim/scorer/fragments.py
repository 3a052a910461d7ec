"""How much idle gpu a typical mix of guests could not use, for many hosts at once, in numpy.

The same measure as the engine's (Weng et al., "Beware of Fragmentation", USENIX ATC 2023), with shares rounded to
2^-30: sums are then exact, and it does not matter how many hosts are looked at together, or in which order they are
added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hostler.model import MixEntry
from hostler.sim.workload import Ints

__all__ = ["Bools", "EncodedMix", "Floats"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

_SHARE_STEPS = 2.0**30


class EncodedMix:
    """A typical mix as columns."""

    def __init__(self, mix: Sequence[MixEntry]) -> None:
        self.mix = tuple(mix)
        self.models = tuple(sorted({model for entry in mix for model in entry.models}))
        with_gpu = [entry for entry in mix if entry.device_millis]
        self._cpu = np.array([entry.cpu_millis for entry in with_gpu], dtype=np.int64)
        self._count = np.array([entry.device_count for entry in with_gpu], dtype=np.int64)
        self._levels = np.array(sorted({entry.device_millis for entry in with_gpu}), dtype=np.int64)
        millis = np.array([entry.device_millis for entry in with_gpu], dtype=np.int64)
        self._level_of = np.searchsorted(self._levels, millis)
        self._share = _rounded([entry.share for entry in with_gpu])
        self._whole = float(_rounded([entry.share for entry in mix]).sum())
        # One row per model that the mix names, and a last one for all others.
        self._allowed = np.array(
            [[not entry.models or model in entry.models for entry in with_gpu] for model in (*self.models, None)],
            dtype=np.bool_,
        ).reshape(len(self.models) + 1, len(with_gpu))

    def number(self, model: str) -> int:
        """Return the number of a model; all that the mix does not name share one."""
        return self.models.index(model) if model in self.models else len(self.models)

    def before(self, cpu_free: Ints, left: Ints, model: Ints) -> Floats:
        """Return the expected fragment of each host in milli-gpus; ``left``: (hosts, gpus), -1 where there is none."""
        count, small = self._by_level(left)
        return self._fragment(cpu_free[:, None], _idle(left)[:, None], count[:, None], small[:, None], model)[:, 0]

    def after_share(self, cpu_free: Ints, left: Ints, model: Ints, milli: int) -> Floats:
        """Return (hosts, gpus) fragments: what they are once a share has been put on each of the gpus in turn."""
        count, small = self._by_level(left)
        rest = left - milli
        counts = count[:, None] - self._fits(left) + self._fits(rest)
        smalls = small[:, None] - self._too_small(left) + self._too_small(rest)
        idle = np.broadcast_to((_idle(left) - milli)[:, None], left.shape)
        return self._fragment(cpu_free[:, None], idle, counts, smalls, model)

    def _fits(self, left: Ints) -> Ints:
        return (left[:, :, None] >= self._levels).astype(np.int64)

    def _too_small(self, left: Ints) -> Ints:
        kept = np.maximum(left, 0)[:, :, None]
        return np.where(kept < self._levels, kept, 0)

    def _by_level(self, left: Ints) -> tuple[Ints, Ints]:
        """Return per host and size of the mix how many gpus have as much left, and what those below it have."""
        return self._fits(left).sum(axis=1), self._too_small(left).sum(axis=1)

    def _fragment(self, cpu_free: Ints, idle: Ints, count: Ints, small: Ints, model: Ints) -> Floats:
        """Return the fragment for arrays of (hosts, cases) and, by size, (hosts, cases, sizes)."""
        can_use = (
            (count[:, :, self._level_of] >= self._count)
            & (cpu_free[:, :, None] >= self._cpu)
            & self._allowed[model][:, None, :]
        )
        usable = np.where(can_use, idle[:, :, None] - small[:, :, self._level_of], 0)
        fragment: Floats = self._whole * idle - usable.astype(np.float64) @ self._share
        return fragment


def _idle(left: Ints) -> Ints:
    idle: Ints = np.maximum(left, 0).sum(axis=1)
    return idle


def _rounded(shares: Sequence[float]) -> Floats:
    rounded: Floats = np.rint(np.array(shares, dtype=np.float64) * _SHARE_STEPS) / _SHARE_STEPS
    return rounded
