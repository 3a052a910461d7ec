"""The wake kernel: which waiting shapes could fit on a few improved rows, judged by their amounts alone."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def may_fit(limit, used, request, limit_set, rows, count):
    """Return a flag per waiting shape: some row has room for all its amounts. O(count * rows * R).

    ``limit``: (L, R, H); ``used``: (R, H); ``request``: (K, R') with R' >= R; ``limit_set``: (K,); ``rows``: (n,).
    """
    result = np.zeros(count, dtype=np.bool_)
    for k in range(count):
        for i in range(rows.shape[0]):
            fits = True
            for r in range(used.shape[0]):
                asked = request[k, r]
                if asked > 0 and asked > limit[limit_set[k], r, rows[i]] - used[r, rows[i]]:
                    fits = False
                    break
            if fits:
                result[k] = True
                break
    return result
