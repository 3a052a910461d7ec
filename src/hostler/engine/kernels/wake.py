"""The wake kernel: which waiting shapes could fit on a few improved rows, judged by amounts alone.

A flag may be set for a shape that something else rejects; a shape without a flag certainly fits on none of the rows.
"""

from __future__ import annotations

from hostler.engine.kernels.layout import kernel


@kernel
def may_fit(limit, used, request, limit_set, rows, count, result):
    """Set a flag per waiting shape: some row has room for all its amounts. O(count * rows * R).

    ``limit``: (L, H, R); ``used``: (H, R); ``request``: (K, R') with R' >= R; ``limit_set`` and
    ``result``: (K,); ``rows``: (n,).
    """
    for k in range(count):
        for i in range(rows.shape[0]):
            fits = True
            for r in range(used.shape[1]):
                asked = request[k, r]
                if asked > 0 and asked > limit[limit_set[k], rows[i], r] - used[rows[i], r]:
                    fits = False
                    break
            if fits:
                result[k] = True
                break
