"""How much idle gpu a typical mix of guests could not use, for many hosts at once, in numpy.

The same measure as the engine's (Weng et al., "Beware of Fragmentation", USENIX ATC 2023), with shares rounded to
2^-30: sums are then exact, and it does not matter how many hosts are looked at together, or in which order they are
added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hostler.model import MixEntry
from hostler.sim.workload import Ints

__all__ = ["Bools", "EncodedMix", "Floats", "MixLevels"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

_SHARE_STEPS = 2.0**30


class MixLevels(NamedTuple):
    """The free room of hosts, by the sizes that the mix requests."""

    idle: Ints  # (hosts,) milli-gpus
    fits: Bools  # (hosts, gpus, sizes) whether as much is left
    small: Ints  # (hosts, gpus, sizes) what is left where it is less
    fitting: Ints  # (hosts, sizes) gpus with as much left
    below: Ints  # (hosts, sizes) what the others have


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

    def levels(self, left: Ints) -> MixLevels:
        """Sort what is left by the sizes of the mix; ``left``: (hosts, gpus), -1 where there is none."""
        idle = np.maximum(left, 0)
        fits = left[:, :, None] >= self._levels
        small = np.where(fits, 0, idle[:, :, None])
        return MixLevels(idle.sum(axis=1), fits, small, fits.sum(axis=1), small.sum(axis=1))

    def fragment(self, cpu_free: Ints, levels: MixLevels, model: Ints) -> Floats:
        """Return the expected fragment of each host, in milli-gpus."""
        by_host = self._fragment(
            cpu_free[:, None], levels.idle[:, None], levels.fitting[:, None], levels.below[:, None], model
        )
        return by_host[:, 0]

    def after_share(self, cpu_free: Ints, left: Ints, levels: MixLevels, model: Ints, milli: int) -> Floats:
        """Return (hosts, gpus) fragments: what they are once a share has been put on each of the gpus in turn."""
        then = self.levels(left - milli)
        counts = levels.fitting[:, None] - levels.fits + then.fits
        below = levels.below[:, None] - levels.small + then.small
        idle = np.broadcast_to((levels.idle - milli)[:, None], left.shape)
        return self._fragment(cpu_free[:, None], idle, counts, below, model)

    def _fragment(self, cpu_free: Ints, idle: Ints, count: Ints, small: Ints, model: Ints) -> Floats:
        """Return the fragment for arrays of (hosts, cases) and, by size, (hosts, cases, sizes)."""
        can_use = (
            (count[:, :, self._level_of] >= self._count)
            & (cpu_free[:, :, None] >= self._cpu)
            & self._allowed[model][:, None, :]
        )
        usable = np.where(can_use, idle[:, :, None] - small[:, :, self._level_of], 0)
        # Not by BLAS, whose threads cost more than they bring for tables of this size.
        fragment: Floats = self._whole * idle - np.einsum("hcm,m->hc", usable, self._share)
        return fragment


def _rounded(shares: Sequence[float]) -> Floats:
    rounded: Floats = np.rint(np.array(shares, dtype=np.float64) * _SHARE_STEPS) / _SHARE_STEPS
    return rounded
