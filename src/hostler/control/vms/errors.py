"""Why a wish about a VM is refused: typed, with stable codes that REST answers with."""

from __future__ import annotations

from hostler.errors import ConflictError, InputError

__all__ = ["HostsMissingError", "MigratingError", "NotMovableError", "ProtectedError", "WrongStateError"]


class WrongStateError(ConflictError):
    """The VM is not in a state in which that can be done."""

    code = "wrong_state"
    retryable = False


class MigratingError(ConflictError):
    """The VM is moving: that must wait."""

    code = "migrating"


class HostsMissingError(ConflictError):
    """The VM is lost, and hosts that may still have it are missing."""

    code = "hosts_missing"


class ProtectedError(ConflictError):
    """The VM is protected from deletion."""

    code = "deletion_protected"
    retryable = False


class NotMovableError(InputError):
    """The VM cannot leave its host: a disk of it lies there."""

    code = "not_movable"
