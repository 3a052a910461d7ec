"""Refusals of this package, with codes that never change. ``status`` is the HTTP answer that belongs to each."""

from __future__ import annotations

from typing import ClassVar

from hostler.errors import ConflictError, HostlerError, InputError, UnavailableError

__all__ = [
    "AgentInUseError", "ConfirmationError", "DeviceNamesFullError", "HostAliveError", "HostDeletedError",
    "MessageBoundsError", "StaleReportError", "StillNeededError", "TeardownChangedError", "UnsupportedProtocolError",
]  # fmt: skip


class StaleReportError(ConflictError):
    """A message of an agent that is older than what we know, or of a registration that does not count any more."""

    code = "stale_report"
    status: ClassVar[int] = 409


class AgentInUseError(ConflictError):
    """A registration by the id of an agent that works for another host."""

    code = "agent_in_use"
    retryable = False
    status: ClassVar[int] = 409


class MessageBoundsError(InputError):
    """A message of an agent with names that are too long, or with more of something than any host has."""

    code = "message_out_of_bounds"
    status: ClassVar[int] = 422


class DeviceNamesFullError(UnavailableError):
    """A host that registers for the first time with kinds or models of devices while others use up all room for them.

    Agents try again: there is room as soon as some of those hosts are deleted.
    """

    code = "device_names_full"
    status: ClassVar[int] = 503


class HostDeletedError(HostlerError):
    """The credential of a host that was deleted: it never comes back by itself."""

    code = "host_deleted"
    exit_code = 2
    status: ClassVar[int] = 410


class UnsupportedProtocolError(HostlerError):
    """An agent that speaks none of our versions of the protocol."""

    code = "unsupported_protocol"
    exit_code = 2
    status: ClassVar[int] = 426


class ConfirmationError(InputError):
    """What was typed to confirm something is not what it is about."""

    code = "not_confirmed"
    status: ClassVar[int] = 400


class HostAliveError(ConflictError):
    """The host reports, so it cannot be taken for dead."""

    code = "host_is_alive"
    retryable = False
    status: ClassVar[int] = 409


class StillNeededError(ConflictError):
    """The host still has VMs, so it cannot be deleted."""

    code = "host_has_vms"
    retryable = False
    status: ClassVar[int] = 409


class TeardownChangedError(ConflictError):
    """Another number of VMs is to be torn down than was confirmed."""

    code = "teardown_changed"
    status: ClassVar[int] = 409
