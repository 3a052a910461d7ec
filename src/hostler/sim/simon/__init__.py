"""``simon apply``: the configuration files of the FGD artifact's simulator, run on the engine."""

from hostler.sim.simon.cluster_config import ClusterConfig, read_cluster_config
from hostler.sim.simon.experiment import SimonResult, apply_simon_config
from hostler.sim.simon.scheduler_config import SchedulerConfig, read_scheduler_config

__all__ = ["ClusterConfig", "SchedulerConfig", "SimonResult", "apply_simon_config", "read_cluster_config"]
__all__ += ["read_scheduler_config"]
