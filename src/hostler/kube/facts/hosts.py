"""Nodes as hosts. A fact is sent only if something relevant changed, not at every heartbeat.

The number of attachable volumes of a node is in another object, the CSINode. It becomes an amount of a resource. A node
that gives no limit for a driver, while other nodes do, gets a practically unlimited amount. Used by
``watched_cluster``.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from hostler.errors import InputError
from hostler.kube.api.client import UndecodableObject
from hostler.kube.facts.bounds import NameShares, check_host
from hostler.kube.facts.problems import CONVERSION_ERRORS, ObjectProblems, text_of
from hostler.kube.facts.volumes import ATTACHABLE
from hostler.manifests.nodes import node_to_host
from hostler.manifests.objects.core import Node
from hostler.manifests.objects.volumes import CSINode
from hostler.manifests.places import check_keys, check_name, node_place, object_place
from hostler.model import DeviceRequest, Event, Host, HostChanged, HostJoined, HostLeft

__all__ = ["HostBook"]

_NO_LIMIT = 2**31  # attachable volumes of a driver for which a node gives no limit
_CSI = "CSINode/"  # prefix of a node's name: the owner of its drivers' names


class HostBook:
    """The hosts that the engine knows."""

    def __init__(self, problems: ObjectProblems, names: NameShares) -> None:
        self._problems = problems
        self._names = names
        self._nodes: dict[str, Node] = {}
        self._plain: dict[str, Host] = {}  # without the limits of CSINodes
        self._limits: dict[str, dict[str, int]] = {}
        self.drivers: Counter[str] = Counter()  # drivers that nodes limit, with the number of such nodes
        self.told: dict[str, Host] = {}
        self._cut: dict[str, None] = {}  # nodes with some names left out

    def take_node(self, name: str, new: Node | UndecodableObject | None, now: int) -> list[Event]:
        """Store or delete a node."""
        old = self._nodes.pop(name, None)
        place = node_place(name)
        if isinstance(new, Node):
            self._nodes[name] = new
            if old is not None and name in self._plain and name not in self._cut and _is_same(old, new):
                return []
        self._cut.pop(name, None)
        try:
            plain, problem = self._read(new, name)
        except CONVERSION_ERRORS as error:
            plain, problem = None, text_of(error).removeprefix(f"{place}: ")
        else:
            if problem:
                self._cut[name] = None
        self._problems.note(place, problem)
        if plain is None:
            self._plain.pop(name, None)
        else:
            self._plain[name] = plain
        if not isinstance(new, Node):
            self._names.forget_node(name)
        return self._tell(name, now)

    def late(self) -> list[tuple[str, Node]]:
        """Return nodes that were rejected because others had too many names, and fit now."""
        return [(name, self._nodes[name]) for name in self._names.late_nodes() if name in self._nodes]

    def take_csi_node(self, name: str, new: CSINode | UndecodableObject | None, now: int) -> tuple[list[Event], bool]:
        """Store the limits of a node; also return whether the set of limited drivers changed."""
        before, limits = set(self.drivers), {}
        place = object_place("CSINode", "", name)
        self._problems.note(place, text_of(InputError(new.error)) if isinstance(new, UndecodableObject) else "")
        for driver in new.spec.drivers if isinstance(new, CSINode) else ():
            count = driver.allocatable.count if driver.allocatable is not None else None
            if count is not None and driver.name:
                limits[driver.name] = min(max(count, 0), _NO_LIMIT)
        problem = self._names.why_not_node(_CSI + name, (ATTACHABLE + driver for driver in limits))
        if problem:
            limits = {}
            self._problems.note(place, problem)
        self.drivers.subtract(self._limits.pop(name, {}).keys())
        self.drivers.update(limits.keys())
        for unused in [driver for driver, users in self.drivers.items() if not users]:
            del self.drivers[unused]
        if limits:
            self._limits[name] = limits
        has_moved = before != set(self.drivers)
        names = list(self._plain) if has_moved else [name]
        return [event for one in names for event in self._tell(one, now)], has_moved

    def has_devices(self, host: str, wanted: tuple[DeviceRequest, ...], devices: tuple[int, ...]) -> bool:
        """Return whether a host has these devices of the requested kinds; an unknown host may have them."""
        known = self.told.get(host)
        if known is None:
            return True
        kinds = [device.kind for device in wanted for _ in range(device.count)]
        return len(kinds) == len(devices) and all(
            at < len(known.devices) and known.devices[at].kind == kind for at, kind in zip(devices, kinds, strict=True)
        )

    def _read(self, new: Node | UndecodableObject | None, name: str) -> tuple[Host | None, str]:
        """Return a node as a host, and what is left out of it."""
        if new is None:
            return None, ""
        if isinstance(new, UndecodableObject):
            raise InputError(new.error)
        check_name(name, "metadata.name")
        check_keys(new.metadata.labels, "metadata.labels")
        host, _ = node_to_host(new)
        return check_host(msgspec.structs.replace(host, version=0), self._names, self._plain.get(name))

    def _tell(self, name: str, now: int) -> list[Event]:
        plain, told = self._plain.get(name), self.told.get(name)
        if plain is None:
            if told is None:
                return []
            del self.told[name]
            return [HostLeft(name=name, uid=told.uid, at=now)]
        host = self._with_limits(plain)
        if host == told:
            return []
        self.told[name] = host
        return [HostJoined(host=host, at=now) if told is None else HostChanged(host=host, at=now)]

    def _with_limits(self, plain: Host) -> Host:
        if not self.drivers:
            return plain
        own = self._limits.get(plain.name, {})
        limits = {ATTACHABLE + driver: own.get(driver, _NO_LIMIT) for driver in self.drivers}
        # A limit of zero is kept: a missing amount would be zero too, but less explicit.
        capacity = {**dict(plain.capacity), **limits}
        return msgspec.structs.replace(plain, capacity=tuple(sorted(capacity.items())))


def _is_same(old: Node, new: Node) -> bool:
    """Return whether nothing relevant changed: most updates of a node are heartbeats."""
    return (
        old.metadata.uid == new.metadata.uid
        and old.metadata.labels == new.metadata.labels
        and old.spec == new.spec
        and old.status == new.status
    )
