"""The openb experiments: a workload, a seed, and the order of arrival that was published for it, or one of our own."""

from __future__ import annotations

from pathlib import Path

from hostler.engine import typical_mix
from hostler.sim.arrivals import tune_arrival_order
from hostler.sim.fill_experiment import FillExperiment
from hostler.sim.traces.openb import published_arrivals, read_hosts, read_pods

__all__ = ["PUBLISHED_TUNE", "openb_experiment"]

PUBLISHED_TUNE = 1.3


def openb_experiment(
    workload: str = "default", seed: int = 42, *, tune: float = PUBLISHED_TUNE, data_dir: Path | None = None
) -> FillExperiment:
    """Return an experiment; for the published seeds and tuning it is the published one."""
    _, specs = read_pods(workload, data_dir)
    arrivals = published_arrivals(workload, seed, data_dir) if tune == PUBLISHED_TUNE else None
    order, ranks = arrivals or tune_arrival_order(specs, read_hosts(data_dir), seed, tune)
    return FillExperiment(workload, read_hosts(data_dir, ranks.tolist()), specs, order, typical_mix(specs))
