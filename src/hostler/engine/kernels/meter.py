"""The kernel of the fragmentation meter: how fragmented the GPUs of a whole fleet are after each event of a run."""

from __future__ import annotations

from hostler.engine.kernels.devices import fragment_classes
from hostler.engine.kernels.layout import kernel

CLASSES = 7


@kernel
def measure_fragmentation(
    left, gpus, cpu_left, model, mix, rows, signs, cpu, milli, devices, counts, marks, by_host, fitting, small, out,
):  # fmt: skip
    """Write the sum of every class over all hosts, and the idle amount, after each marked event. O(events + marks * H).

    ``left``: (H, D) milli-devices, changed in place; event i adds or takes (``signs``) a guest with ``counts[i]``
    devices on row ``rows[i]``, -1 for an event that changes nothing. ``by_host``: (H, CLASSES); ``out``: (n, 8).
    Each sum is computed again over all hosts in order: a running sum of floats would drift from the published values.
    """
    bounds = mix.bounds[0]
    for i in range(rows.shape[0]):
        h = rows[i]
        if h < 0 and i > 0 and marks[i] != 0 and marks[i - 1] != 0:
            for c in range(CLASSES + 1):
                out[i, c] = out[i - 1, c]
            continue
        if h >= 0:
            cpu_left[h] -= signs[i] * cpu[i]
            for d in range(counts[i]):
                left[h, devices[i, d]] -= signs[i] * milli[i]
        # The first event looks at all hosts, the others at the one that they change.
        for row in range(0 if i == 0 else h, left.shape[0] if i == 0 else h + 1):
            if row < 0:
                continue
            q1, q2, q3, q4, xl, xr, no_access = fragment_classes(
                left[row], gpus[row], cpu_left[row], model[row], mix, bounds, fitting, small
            )
            by_host[row, 0] = q1
            by_host[row, 1] = q2
            by_host[row, 2] = q3
            by_host[row, 3] = q4
            by_host[row, 4] = xl
            by_host[row, 5] = xr
            by_host[row, 6] = no_access
            idle = 0
            for d in range(gpus[row]):
                idle += left[row, d]
            by_host[row, 7] = idle
        if marks[i] == 0:
            continue
        for c in range(CLASSES + 1):
            out[i, c] = 0.0
        for row in range(left.shape[0]):
            for c in range(CLASSES + 1):
                out[i, c] += by_host[row, c]
