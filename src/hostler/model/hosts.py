"""Hosts: their capacity, what they may give, and their labels, taints and devices."""

from __future__ import annotations

import msgspec

from hostler.errors import InputError
from hostler.model.quantities import MAX_AMOUNT
from hostler.model.resources import Amounts, Labels, amount_of
from hostler.model.selectors import Taint

__all__ = ["HOSTNAME", "MAX_DEVICES", "WHOLE_DEVICE", "Device", "Host", "may_give", "with_hostname"]

HOSTNAME = "kubernetes.io/hostname"  # the label with a host's own name: each host is a domain of its own by it
WHOLE_DEVICE = 1000  # milli-units of one device
MAX_DEVICES = 64  # of one host: kernels keep sets of devices as the bits of one word


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    """One device of a host; its position in the host's list is its index."""

    kind: str
    model: str = ""
    milli: int = WHOLE_DEVICE


class Host(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A machine that can run guests: a hypervisor, a Kubernetes node, a simulated machine.

    ``uid`` and ``version`` identify the fact: a host that comes back under its name with another uid is another host.
    ``overcommit`` and ``reserve`` override the policy's values for the resources they name. ``taken`` is what others
    than our guests use; it is subtracted beside the reserve. ``rank`` is a tie key.
    """

    name: str
    uid: str = ""
    version: int = 0
    capacity: Amounts = ()
    devices: tuple[Device, ...] = ()
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    images: tuple[tuple[str, int], ...] = ()  # image names that are there already, with their size in bytes
    overcommit: Amounts = ()  # resource to ratio, in millionths
    reserve: Amounts = ()
    taken: Amounts = ()
    rank: int = 0
    draw_key: int | None = None


def may_give(host: Host, resource: str, overcommit: Amounts = (), reserve: Amounts = ()) -> int:
    """Return floor(capacity x ratio) - reserve - taken, at least zero; the host's values override the policy's."""
    own_ratio = amount_of(host.overcommit, resource)
    ratio = own_ratio or amount_of(overcommit, resource) or 1_000_000
    own_reserve = any(name == resource for name, _ in host.reserve)
    kept = amount_of(host.reserve if own_reserve else reserve, resource) + amount_of(host.taken, resource)
    limit = amount_of(host.capacity, resource) * ratio // 1_000_000 - kept
    if limit > MAX_AMOUNT:
        raise InputError(
            f"host {host.name!r} may give more than 2^62 of {resource} after overcommit",
            hint="lower the overcommit ratio or the capacity",
        )
    return max(limit, 0)


def with_hostname(host: Host) -> Host:
    """Return a host with its name as a label, unless it has that label."""
    if any(key == HOSTNAME for key, _ in host.labels):
        return host
    return msgspec.structs.replace(host, labels=tuple(sorted((*host.labels, (HOSTNAME, host.name)))))
