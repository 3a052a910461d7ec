"""Why the service cannot do what was asked, with stable codes."""

from __future__ import annotations

from hostler.errors import ConflictError, UnavailableError

__all__ = [
    "InsufficientResourcesError",
    "NoAgentsError",
    "NoVerdictError",
    "TooManyInProjectError",
    "TooManyInServiceError",
    "TooManyVmsError",
]


class NoAgentsError(UnavailableError):
    """No host is ready."""

    code = "no_available_agents"


class NoVerdictError(UnavailableError):
    """Nobody decided about a VM in time."""

    code = "agent_service_unavailable"


class TooManyVmsError(ConflictError):
    """A project has as many VMs as one may have, placed or not."""

    code = "too_many_vms"
    retryable = False


class TooManyInProjectError(ConflictError):
    """A project has as many gangs, keys or reservations as one may have."""

    code = "too_many_in_project"
    retryable = False


class TooManyInServiceError(ConflictError):
    """All projects together have as many of something as the service holds."""

    code = "too_many_in_service"
    retryable = False


class InsufficientResourcesError(ConflictError):
    """No host has room for a VM that was to be placed at once or not at all; ``decision`` says why, host by host."""

    code = "insufficient_resources"
    retryable = False

    def __init__(self, message: str, *, hint: str = "", decision: dict[str, object] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.decision = decision
