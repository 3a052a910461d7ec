"""``simon apply``: the configuration files of the FGD artifact's simulator, run on the engine."""

from hostler.sim.simon.cluster_config import ClusterConfig, read_cluster_config
from hostler.sim.simon.experiment import SimonResult, apply_simon_config
from hostler.sim.simon.scheduler_config import read_scheduler_config

__all__ = ["ClusterConfig", "SimonResult", "apply_simon_config", "read_cluster_config", "read_scheduler_config"]
