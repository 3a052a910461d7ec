"""Synthetic hosts and guests to measure with: equal hosts, and guests of one or of many shapes in random order.

Hosts stand in zones where that matters, and guests of an app look at each other, in one of five ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from hostler.engine import Engine, find_policy
from hostler.model import (
    Expression,
    Guest,
    GuestArrived,
    GuestsArrived,
    GuestSpec,
    GuestTerm,
    Host,
    HostsJoined,
    Labels,
    Selector,
    Spread,
    WeightedGuestTerm,
    amounts,
    labels,
    parse_amounts,
)

__all__ = [
    "HOSTNAME",
    "ZONE",
    "ZONES",
    "app_labels",
    "app_selector",
    "app_spec",
    "arrivals",
    "arrivals_as_columns",
    "choose_shapes",
    "engine_with_hosts",
    "spec",
    "specs",
]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
ZONES = 10
_MIB = 2**20
_CAPACITY = parse_amounts({"cpu": 64, "memory": "256Gi", "guests": 110})


def engine_with_hosts(hosts: int, policy: str, zones: int = 0) -> Engine:
    """Return an engine that knows so many equal, empty hosts; with zones they bear labels."""
    engine = Engine([find_policy(policy)])
    engine.apply(
        HostsJoined(
            hosts=tuple(
                Host(name=name, uid=name, capacity=_CAPACITY, labels=_labels(name, i % zones) if zones else ())
                for i, name in enumerate(f"host-{i:05d}" for i in range(hosts))
            )
        )
    )
    return engine


def _labels(host: str, zone: int) -> Labels:
    return labels({HOSTNAME: host, ZONE: f"zone-{zone}"})


def spec(number: int) -> GuestSpec:
    """Return a small guest: 100 milli-cores and 500 MiB, and with every number a little more of both."""
    return GuestSpec(requests=amounts({"cpu": 100 + 10 * number, "memory": (500 + number) * _MIB}))


def specs(shapes: int) -> list[GuestSpec]:
    """Return so many different small guests."""
    return [spec(number) for number in range(shapes)]


def app_labels(number: int) -> Labels:
    """Return what the guests of an app are known by."""
    return labels({"app": f"app-{number}"})


def app_selector(number: int) -> Selector:
    """Return a selector of the guests of an app."""
    return Selector((Expression("app", "In", (f"app-{number}",)),))


def app_spec(number: int) -> GuestSpec:
    """Return a guest of an app; the number also says how the guests of the app look at each other."""
    plain = msgspec.structs.replace(spec(number), labels=app_labels(number))
    mates = app_selector(number)
    match number % 5:
        case 0:
            return msgspec.structs.replace(plain, spread=(Spread(ZONE, 1, mates),))
        case 1:
            soft = (Spread(ZONE, 1, mates, is_hard=False), Spread(HOSTNAME, 1, mates, is_hard=False))
            return msgspec.structs.replace(plain, spread=soft)
        case 2:
            return msgspec.structs.replace(plain, anti_affinity=(GuestTerm(HOSTNAME, mates),))
        case 3:
            return msgspec.structs.replace(plain, affinity=(GuestTerm(ZONE, mates),))
        case _:
            apart = (WeightedGuestTerm(100, GuestTerm(HOSTNAME, mates)),)
            return msgspec.structs.replace(plain, preferred_anti_affinity=apart)


def choose_shapes(guests: int, shapes: int) -> list[int]:
    """Draw a shape for each guest, the same ones in every run."""
    random = Random(1)
    return [random.randrange(shapes) for _ in range(guests)]


def arrivals(known: list[GuestSpec], choice: list[int], tag: str = "guest") -> Iterator[GuestArrived]:
    """Make one event per guest."""
    for at, shape in enumerate(choice):
        uid = f"{tag}-{at}"
        yield GuestArrived(guest=Guest(name=uid, uid=uid, spec=known[shape]))


def arrivals_as_columns(known: list[GuestSpec], choice: list[int]) -> GuestsArrived:
    """Make one event for all guests."""
    names = tuple(f"guest-{at}" for at in range(len(choice)))
    return GuestsArrived(specs=tuple(known), spec_of=tuple(choice), names=names, uids=names)
