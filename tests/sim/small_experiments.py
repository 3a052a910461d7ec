"""Small experiments by hand: a few hosts, and guests in an order that a seed gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hostler.engine import typical_mix
from hostler.model import Device, DeviceRequest, GuestSpec, Host, amounts
from hostler.sim.fill_experiment import FillExperiment
from hostler.sim.shuffles import draws

GIB = 2**30


def host(name: str, gpus: int, *, model: str = "T4", cpu: int = 64, memory: int = 256) -> Host:
    size = amounts({"cpu": cpu * 1000, "memory": memory * GIB})
    return Host(name=name, uid=name, capacity=size, devices=(Device("gpu", model),) * gpus)


def pod(milli: int = 0, count: int = 1, *, cpu: int = 1000, memory: int = 1, models: Sequence[str] = ()) -> GuestSpec:
    gpus = (DeviceRequest("gpu", count, milli, tuple(models)),) if milli else ()
    return GuestSpec(requests=amounts({"cpu": cpu, "memory": memory * GIB}), devices=gpus)


def experiment_of(
    hosts: Sequence[Host], specs: Sequence[GuestSpec], order: Sequence[int] | None = None
) -> FillExperiment:
    indices = np.array(range(len(specs)) if order is None else order, dtype=np.int64)
    return FillExperiment("small", tuple(hosts), tuple(specs), indices, typical_mix(specs))


def random_experiment(seed: int) -> FillExperiment:
    """Return an experiment with a few hosts of three types, and twice as many guests as they can hold."""
    numbers = iter((draws(seed, 7, 1000) % 1000).tolist())
    sizes = [(2, "T4"), (4, "T4"), (8, "G2")]
    hosts = []
    for at in range(3 + next(numbers) % 4):
        gpus, model = sizes[next(numbers) % 3]
        hosts.append(host(f"host-{at}", gpus, model=model, cpu=8 + next(numbers) % 60))
    kinds = [
        pod(cpu=4000), pod(50), pod(190), pod(330), pod(500), pod(650, models=["T4"]), pod(810), pod(1000),
        pod(1000, cpu=9000), pod(1000, 2), pod(1000, 4), pod(1000, 8), pod(1000, models=["G2"]),
    ]  # fmt: skip
    order, asked, room = [], 0, 2000 * sum(len(each.devices) for each in hosts)
    while asked < room:
        order.append(next(numbers) % len(kinds))
        asked += sum(device.count * device.milli for device in kinds[order[-1]].devices)
    return experiment_of(hosts, kinds, order)
