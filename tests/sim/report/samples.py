"""Results for tests of reports: small, and made by hand, so that every number is known."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.sim.fill_experiment import BINS, KINDS, Curves, FillResult
from hostler.sim.scenarios.outcome import ScenarioOutcome, Series, WaitTimes


def filled(policy: str = "fgd", seed: int = 42, workload: str = "default", **fields: Any) -> FillResult:
    """Return an experiment on ten gpus; each seed leaves one percent more of them in use."""
    most = 80 + seed % 10
    result = FillResult(
        workload=workload,
        policy=policy,
        seed=seed,
        events=1300,
        failed=207,
        failed_by_kind={kind: 207 if kind == "share" else 0 for kind in KINDS},
        gpu_milli_allocated=100 * most,
        gpu_milli_total=10_000,
        cpu_milli_allocated=5_000,
        cpu_milli_total=10_000,
        memory_bytes_allocated=2**30,
        memory_bytes_total=2**32,
        gpus_touched=9,
        fragmentation={"q1": 500.0, "q3": 700.0, "idle": 1200.0},
        curves=Curves(
            tuple(float(min(at, most)) for at in range(BINS)), (7.0,) * BINS, tuple(at / 2 for at in range(BINS))
        ),
    )
    return msgspec.structs.replace(result, **fields)


def played(policy: str = "spread", seed: int = 1, scenario: str = "two nights", **fields: Any) -> ScenarioOutcome:
    """Return a scenario of three hosts and five measurements."""
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    nothing = (0.0,) * 5
    waits = WaitTimes(12, 61.5, 30.0, 97.25, 119.0)
    outcome = ScenarioOutcome(
        scenario=scenario, policy=policy, seed=seed, hosts=3, guests=1234, began=1230, finished=1200, running=30,
        waiting=2, dropped=1, gave_up=3, failed_by_kind={"cpu_only": 4}, evictions=17, restarts=5, migrations=6,
        host_failures=2, lost_work_s=5400.0, span_s=14_400.0, cpu_mean=0.4321, memory_mean=0.2, gpu_mean=0.0,
        cpu_peak=1.0, gpu_peak=0.0, fragmented_mean=0.0, stranded_cpu_mean=0.01, stranded_memory_mean=0.0,
        overloaded_share=0.0, waits=waits, waits_by_priority={"0": waits, "100": WaitTimes(3, 1.0, 1.0, 1.0, 1.0)},
        waits_by_size={"up to 4 cores": waits},
        series=Series(
            at_s=(0.0, 3600.0, 7200.0, 10_800.0, 14_400.0), running=(0, 1, 2, 3, 4), waiting=(4, 3, 2, 1, 0),
            cpu=shares, memory=shares, gpu=nothing, fragmented=nothing, stranded_cpu=shares, stranded_memory=nothing,
            load=shares, overloaded_hosts=(0,) * 5, by_host=tuple((share, 0.0, 1.2) for share in shares),
        ),
    )  # fmt: skip
    return msgspec.structs.replace(outcome, **fields)
