"""Typical pods: the kinds of pods that fragmentation is measured by, chosen as ``typicalPodsConfig`` says.

With cpu-only pods, 95 percent, steps of one and no weight this is the engine's ``typical_mix``.
"""

from __future__ import annotations

from collections.abc import Sequence

from hostler.engine.tables import GPU
from hostler.model import CPU, WHOLE_DEVICE, GuestSpec, MixEntry, amount_of
from hostler.sim.simon.cluster_config import TypicalPods

__all__ = ["typical_pods"]

_DEFAULT_CPU = 100  # milli-cores of a pod that asks for none
_DEFAULT_PERCENT = 60
_DEFAULT_STEP = 10

Need = tuple[int, int, int, str]  # cpu, milli of each gpu, gpus, models


def typical_pods(specs: Sequence[GuestSpec], config: TypicalPods) -> tuple[MixEntry, ...]:
    """Return the most common needs until they cover as much as is asked for, with their shares.

    Shares are computed as the artifact does, (n / N) / (covered / N): other ways of writing it flip single ties.
    """
    counts: dict[Need, float] = {}
    for spec in specs:
        need = _need(spec)
        if need[1] == 0 and not config.is_involved_cpu_pods:
            continue
        is_whole = need[1] == WHOLE_DEVICE and config.gpu_res_weight > 0
        counts[need] = counts.get(need, 0.0) + (1.0 + need[2] * config.gpu_res_weight if is_whole else 1.0)
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True)
    percent = config.pod_popularity_threshold
    if not 0 < percent <= 100:
        percent = _DEFAULT_PERCENT
    step = config.pod_increase_step if config.pod_increase_step > 0 else _DEFAULT_STEP
    chosen, covered = 0, 0.0
    while chosen < len(ordered) and covered * 100 < percent * total:
        covered += sum(count for _, count in ordered[chosen : chosen + step])
        chosen = min(chosen + step, len(ordered))
    return tuple(
        MixEntry(
            cpu_millis=cpu,
            device_millis=milli,
            device_count=gpus,
            models=tuple(models.split("|")) if models else (),
            share=(count / total) / (covered / total) if chosen < len(ordered) else count / total,
        )
        for (cpu, milli, gpus, models), count in ordered[:chosen]
    )


def _need(spec: GuestSpec) -> Need:
    gpu = next((device for device in spec.devices if device.kind == GPU), None)
    cpu = amount_of(spec.requests, CPU) or _DEFAULT_CPU
    return (cpu, gpu.milli, gpu.count, "|".join(gpu.models)) if gpu else (cpu, 0, 0, "")
