"""The settings of an agent; the control plane decides how often it reports."""

from __future__ import annotations

import msgspec

__all__ = ["AgentSettings"]


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one agent."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    storages: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    gather_s: float = 0.05  # news of a moment go into one report
    look_s: float = 10.0  # between looks at the host, when nothing asks for one
    landing_look_s: float = 0.5  # while a VM is on its way here
    look_timeout_s: float = 60.0  # after that a look counts as hanging; 200 VMs whose QEMU hangs need 35 s
    poll_s: float = 45.0  # how long the control plane may hold a poll
    resync_s: float = 300.0  # between lists of all orders
    grace_s: float = 30.0  # for a guest to end by itself
    verb_timeout_s: float = 600.0
    shutdown_s: float = 5.0
    lanes: int = 16  # actions at once
