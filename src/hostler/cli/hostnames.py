"""Hosts of fleet files as domains of their own: under the label by which Kubernetes nodes are told apart.

A node of Kubernetes bears its name as a label, and guests keep apart or spread over servers by it. Hosts of our own
format get the label when some guest of the input asks for it, so that nobody has to label each of many equal hosts.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostler.config import Fleet
from hostler.model import GuestSpec, Host

__all__ = ["HOSTNAME", "with_hostnames"]

HOSTNAME = "kubernetes.io/hostname"


def with_hostnames(fleet: Fleet, specs: Iterable[GuestSpec]) -> Fleet:
    """Label the hosts that come from fleet files, unless they have the label or nobody asks for it."""
    if not any(map(_asks, specs)) and not any(gang.topology == HOSTNAME for gang in fleet.tenancy.gangs):
        return fleet
    hosts = tuple(
        host if place[0].data is None else _labelled(host)
        for host, place in zip(fleet.hosts, fleet.host_places, strict=True)
    )
    return msgspec.structs.replace(fleet, hosts=hosts)


def _asks(spec: GuestSpec) -> bool:
    topologies = (
        *(term.topology for term in (*spec.affinity, *spec.anti_affinity)),
        *(one.term.topology for one in (*spec.preferred_affinity, *spec.preferred_anti_affinity)),
        *(spread.topology for spread in spec.spread),
    )
    return HOSTNAME in topologies or spec.siblings is not None


def _labelled(host: Host) -> Host:
    if any(key == HOSTNAME for key, _ in host.labels):
        return host
    return msgspec.structs.replace(host, labels=tuple(sorted((*host.labels, (HOSTNAME, host.name)))))
