"""Errors of services, with codes that never change."""

from __future__ import annotations

from hostler.errors import ConflictError, UnavailableError

__all__ = [
    "InsufficientResourcesError", "NoAgentsError", "NoDecisionError", "TakesAllRoomError", "TooManyInProjectError",
    "TooManyInServiceError", "TooManyVmsError",
]  # fmt: skip


class NoAgentsError(UnavailableError):
    """No host is ready."""

    code = "no_available_agents"


class NoDecisionError(UnavailableError):
    """A VM was not decided in time."""

    code = "agent_service_unavailable"


class TooManyVmsError(ConflictError):
    """A project has the maximum number of VMs, placed or not."""

    code = "too_many_vms"
    retryable = False


class TooManyInProjectError(ConflictError):
    """A project has the maximum number of gangs, keys or reservations."""

    code = "too_many_in_project"
    retryable = False


class TooManyInServiceError(ConflictError):
    """All projects together have the maximum number that the service holds."""

    code = "too_many_in_service"
    retryable = False


class TakesAllRoomError(ConflictError):
    """A reservation would leave other VMs nothing of a resource, and was to leave room."""

    code = "takes_all_room"
    retryable = False


class InsufficientResourcesError(ConflictError):
    """No host has room for a VM that had to be placed at once; ``decision`` has the reason of each host."""

    code = "insufficient_resources"
    retryable = False

    def __init__(self, message: str, *, hint: str = "", decision: dict[str, object] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.decision = decision
