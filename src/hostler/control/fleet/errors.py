"""Errors of this package, with stable codes. ``status`` is the HTTP status."""

from __future__ import annotations

from typing import ClassVar

from hostler.errors import ConflictError, HostlerError, InputError, UnavailableError

__all__ = [
    "AgentInUseError", "ConfirmationError", "DeviceNamesFullError", "HostAliveError", "HostDeletedError",
    "MessageBoundsError", "StaleReportError", "StillNeededError", "TeardownChangedError", "UnsupportedProtocolError",
]  # fmt: skip


class StaleReportError(ConflictError):
    """A message of an agent that is out of date, or belongs to a registration that is over."""

    code = "stale_report"
    status: ClassVar[int] = 409


class AgentInUseError(ConflictError):
    """A registration with the id of an agent that works for another host."""

    code = "agent_in_use"
    retryable = False
    status: ClassVar[int] = 409


class MessageBoundsError(InputError):
    """A message of an agent with names that are too long, or with too many entries."""

    code = "message_out_of_bounds"
    status: ClassVar[int] = 422


class DeviceNamesFullError(UnavailableError):
    """A new host with device kinds or models for which the engine has no room.

    Agents try again: deleting other hosts with such devices makes room.
    """

    code = "device_names_full"
    status: ClassVar[int] = 503


class HostDeletedError(HostlerError):
    """The credential of a deleted host: it never comes back by itself."""

    code = "host_deleted"
    exit_code = 2
    status: ClassVar[int] = 410


class UnsupportedProtocolError(HostlerError):
    """An agent that speaks none of our versions of the protocol."""

    code = "unsupported_protocol"
    exit_code = 2
    status: ClassVar[int] = 426


class ConfirmationError(InputError):
    """The confirmation does not match."""

    code = "not_confirmed"
    status: ClassVar[int] = 400


class HostAliveError(ConflictError):
    """The host reports, so it cannot be declared dead."""

    code = "host_is_alive"
    retryable = False
    status: ClassVar[int] = 409


class StillNeededError(ConflictError):
    """The host still has VMs, so it cannot be deleted."""

    code = "host_has_vms"
    retryable = False
    status: ClassVar[int] = 409


class TeardownChangedError(ConflictError):
    """The number of VMs to remove differs from the confirmed number."""

    code = "teardown_changed"
    status: ClassVar[int] = 409
