"""Totals of the kernels as numbers that people read.

A total is an integer that sorts like what it stands for. It has one of three forms::

    integer policy                    the total itself
    float policy                      the bits of the float, those of a negative one turned over
    soft constraints that come first  preference x PREFERENCE + own score (of a float policy: in FRACTIONs of one)
"""

from __future__ import annotations

import numpy as np

from hostler.engine.cluster.shapes import Shape
from hostler.engine.kernels.layout import FRACTION, MOST_OWN, PREFERENCE, Int64s
from hostler.engine.policy.profile import Profile

__all__ = ["float_totals", "own_total"]

_FLIP = np.int64(0x7FFFFFFFFFFFFFFF)


def float_totals(totals: Int64s) -> list[float]:
    """Convert totals that are stored as sortable bits back into floats."""
    bits = np.where(totals >= 0, totals, totals ^ _FLIP)
    floats: list[float] = bits.view(np.float64).tolist()
    return floats


def own_total(total: int, profile: Profile, shape: Shape) -> int | float:
    """Return the policy's own score of a total, without the preference that came first."""
    if not shape.has_soft_constraints or not profile.prefers_first(shape.spec):
        return float_totals(np.array([total], dtype=np.int64))[0] if profile.is_float else total
    own = total - (total + MOST_OWN) // PREFERENCE * PREFERENCE
    return own / FRACTION if profile.is_float else own
