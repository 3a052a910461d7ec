"""An API server in memory, for tests in virtual time: exact where a scheduler can tell the difference."""

from hostler.testing.apiserver.kinds import Kind
from hostler.testing.apiserver.server import ApiServer
from hostler.testing.apiserver.transport import ApiTransport, HeldRequest

__all__ = ["ApiServer", "ApiTransport", "HeldRequest", "Kind"]
