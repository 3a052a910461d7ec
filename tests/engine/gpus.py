"""Hosts of gpus that are partly taken, for the tests of the gpu-sharing policies."""

from __future__ import annotations

from hostler.engine import Engine
from hostler.model import DeviceRequest, Guest, GuestSpec, Host, Policy
from tests.engine.fleet import arrive, engine_with, host


def gpu_host(name: str, left: list[int], cpu: int = 16_000, **fields) -> tuple[Host, list[Guest]]:
    """Return a host of whole gpus, and guests that leave so much of each."""
    machine = host(name, cpu, 2**40, gpus=len(left), **fields)
    tenants = [
        Guest(
            name=f"{name}-{i}",
            uid=f"{name}-{i}",
            host=name,
            on_devices=(i,),
            spec=GuestSpec(devices=(DeviceRequest("gpu", 1, 1000 - rest),)),
        )
        for i, rest in enumerate(left)
        if rest < 1000
    ]
    return machine, tenants


def gpu_engine(chosen: str | Policy, *fleet: tuple[Host, list[Guest]]) -> Engine:
    engine = engine_with([machine for machine, _ in fleet], chosen)
    arrive(engine, *(tenant for _, tenants in fleet for tenant in tenants))
    return engine
