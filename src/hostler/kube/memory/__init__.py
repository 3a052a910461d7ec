"""An API server in memory, for scenarios in virtual time. It is exact wherever a scheduler can see a difference.

Server, kubelet, scheduler and clients share one event loop in virtual time (``virtual_time.run_simulation``). So an
hour of a cluster takes seconds, and the same seed gives the same run. One contract runs on it and on the real one.
``docs/guides/api-server-in-memory.md`` shows how to play a scenario on it.
"""

from hostler.kube.memory.controllers import DisruptionController, Kubelet
from hostler.kube.memory.kinds import ServedKind
from hostler.kube.memory.server import ApiServer, ApiTransport, HeldRequest

__all__ = ["ApiServer", "ApiTransport", "DisruptionController", "HeldRequest", "Kubelet", "ServedKind"]
