"""Loads or compiles the kernels before the first decision needs them. Used by live fronts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from hostler.engine.engine import Engine
from hostler.engine.policy.registry import Registry
from hostler.errors import PluginError
from hostler.model import Guest, GuestArrived, GuestSpec, Host, HostJoined, Policy, amounts

__all__ = ["warm_kernels"]


def warm_kernels(policies: Sequence[Policy], registry: Registry | None = None) -> None:
    """Let a temporary engine decide about two small guests."""
    engine = Engine(policies, registry=registry)
    engine.apply(HostJoined(host=Host(name="warm", capacity=amounts({"cpu": 1000, "memory": 2**30, "guests": 10}))))
    for number in range(2):
        spec = GuestSpec(requests=amounts({"cpu": 10}))
        engine.apply(GuestArrived(guest=Guest(name=f"warm-{number}", uid=f"warm-{number}", spec=spec)))
    with suppress(PluginError):  # of a third party: the guests that it fails on will report it
        engine.step(0)
