"""An API server in memory, for tests in virtual time: exact where a scheduler can tell the difference."""

from hostler.testing.apiserver.disruption import DisruptionController
from hostler.testing.apiserver.kinds import Kind
from hostler.testing.apiserver.kubelet import Kubelet
from hostler.testing.apiserver.server import ApiServer
from hostler.testing.apiserver.transport import ApiTransport, HeldRequest

__all__ = ["ApiServer", "ApiTransport", "DisruptionController", "HeldRequest", "Kind", "Kubelet"]
