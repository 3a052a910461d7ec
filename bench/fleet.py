"""Synthetic hosts and guests to measure with: equal hosts, and guests of one or of many shapes in random order."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from hostler.engine import Engine, find_policy
from hostler.model import Guest, GuestArrived, GuestsArrived, GuestSpec, Host, HostsJoined, amounts, parse_amounts

__all__ = ["arrivals", "arrivals_as_columns", "choose_shapes", "engine_with_hosts", "spec", "specs"]

_MIB = 2**20
_CAPACITY = parse_amounts({"cpu": 64, "memory": "256Gi", "guests": 110})


def engine_with_hosts(hosts: int, policy: str) -> Engine:
    """Return an engine that knows so many equal, empty hosts."""
    engine = Engine([find_policy(policy)])
    engine.apply(
        HostsJoined(
            hosts=tuple(Host(name=f"host-{i:05d}", uid=f"host-{i:05d}", capacity=_CAPACITY) for i in range(hosts))
        )
    )
    return engine


def spec(number: int) -> GuestSpec:
    """Return a small guest: 100 milli-cores and 500 MiB, and with every number a little more of both."""
    return GuestSpec(requests=amounts({"cpu": 100 + 10 * number, "memory": (500 + number) * _MIB}))


def specs(shapes: int) -> list[GuestSpec]:
    """Return so many different small guests."""
    return [spec(number) for number in range(shapes)]


def choose_shapes(guests: int, shapes: int) -> list[int]:
    """Draw a shape for each guest, the same ones in every run."""
    random = Random(1)
    return [random.randrange(shapes) for _ in range(guests)]


def arrivals(known: list[GuestSpec], choice: list[int]) -> Iterator[GuestArrived]:
    """Make one event per guest."""
    for at, shape in enumerate(choice):
        uid = f"guest-{at}"
        yield GuestArrived(guest=Guest(name=uid, uid=uid, spec=known[shape]))


def arrivals_as_columns(known: list[GuestSpec], choice: list[int]) -> GuestsArrived:
    """Make one event for all guests."""
    names = tuple(f"guest-{at}" for at in range(len(choice)))
    return GuestsArrived(specs=tuple(known), spec_of=tuple(choice), names=names, uids=names)
