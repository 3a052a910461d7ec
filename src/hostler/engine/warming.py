"""Loads or compiles the kernels that a first decision needs, so that it does not wait for that. Used by live fronts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from hostler.engine.engine import Engine
from hostler.engine.registry import Registry
from hostler.errors import PluginError
from hostler.model import Guest, GuestArrived, GuestSpec, Host, HostJoined, Policy, amounts

__all__ = ["warm_kernels"]


def warm_kernels(policies: Sequence[Policy], registry: Registry | None = None) -> None:
    """Let an engine of its own decide about two small guests."""
    engine = Engine(policies, registry=registry)
    engine.apply(HostJoined(host=Host(name="warm", capacity=amounts({"cpu": 1000, "memory": 2**30, "guests": 10}))))
    for number in range(2):
        spec = GuestSpec(requests=amounts({"cpu": 10}))
        engine.apply(GuestArrived(guest=Guest(name=f"warm-{number}", uid=f"warm-{number}", spec=spec)))
    with suppress(PluginError):  # somebody else's: it will be told to the guests that it fails on
        engine.step(0)
