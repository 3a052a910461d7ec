"""The fragmentation meter: replays placements, and measures how much idle GPU the typical mix can still use.

The simulator uses it for every policy, also for those that do not consider fragmentation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hostler.engine.cluster.tables import GPU, Table
from hostler.engine.kernels import meter as kernels_meter
from hostler.engine.kernels.layout import Floats, Int8s, Int64s
from hostler.engine.policy.policy_columns import encode_mixes
from hostler.model import CPU, WHOLE_DEVICE, Host, MixEntry, amount_of

__all__ = ["CLASS_NAMES", "Meter"]

# Columns of what a meter returns; "q3" is idle and usable, the others before "idle" are fragments.
CLASS_NAMES = ("q1", "q2", "q3", "q4", "xl", "xr", "no_access", "idle")


class Meter:
    """The GPUs and cpu of an empty fleet."""

    def __init__(self, hosts: Sequence[Host], mix: Sequence[MixEntry]) -> None:
        models: Table[str] = Table()
        gpus = [[device for device in host.devices if device.kind == GPU] for host in hosts]
        self._model = np.array([models.number(each[0].model) if each else -1 for each in gpus], dtype=np.int64)
        self._gpus = np.array([len(each) for each in gpus], dtype=np.int64)
        width = max(int(self._gpus.max(initial=0)), 1)
        self._left = np.zeros((len(hosts), width), dtype=np.int64)
        for row, count in enumerate(self._gpus.tolist()):
            self._left[row, :count] = WHOLE_DEVICE
        self._cpu = np.array([amount_of(host.capacity, CPU) for host in hosts], dtype=np.int64)
        self._mix = encode_mixes([mix], models)

    def run(
        self,
        rows: Int64s,
        signs: Int8s,
        cpu: Int64s,
        milli: Int64s,
        devices: Int64s,
        counts: Int64s,
        marks: Int8s | None = None,
    ) -> Floats:
        """Return (events, 8) amounts in milli-GPUs, by ``CLASS_NAMES``, after each event or each marked event.

        Event i adds a guest to a row (sign 1) or removes it (-1), with ``counts[i]`` of ``devices[i]`` and ``milli`` of
        each; row -1 changes nothing. Devices are numbered among the GPUs of their host.
        """
        out: Floats = np.zeros((len(rows), len(CLASS_NAMES)), dtype=np.float64)
        levels = np.zeros((2, max(len(self._mix.level_milli), 1)), dtype=np.int64)
        by_host = np.zeros((len(self._cpu), len(CLASS_NAMES)), dtype=np.float64)
        kernels_meter.measure_fragmentation(
            self._left.copy(), self._gpus, self._cpu.copy(), self._model, self._mix, rows, signs, cpu, milli, devices,
            counts, np.ones(len(rows), dtype=np.int8) if marks is None else marks, by_host, levels[0], levels[1], out,
        )  # fmt: skip
        return out
