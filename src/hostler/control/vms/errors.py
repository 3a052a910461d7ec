"""Why a request about a VM is rejected: typed errors with stable codes for REST."""

from __future__ import annotations

from hostler.errors import ConflictError, InputError

__all__ = ["HostsMissingError", "MigratingError", "NotMovableError", "ProtectedError", "WrongStateError"]


class WrongStateError(ConflictError):
    """The state of the VM does not allow that."""

    code = "wrong_state"
    retryable = False


class MigratingError(ConflictError):
    """The VM is moving: try again after that."""

    code = "migrating"


class HostsMissingError(ConflictError):
    """The VM is lost, and hosts that may still have it are missing."""

    code = "hosts_missing"


class ProtectedError(ConflictError):
    """The VM is protected from deletion."""

    code = "deletion_protected"
    retryable = False


class NotMovableError(InputError):
    """The VM cannot leave its host, because it has a local disk."""

    code = "not_movable"
