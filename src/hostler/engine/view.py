"""A read-only view of the cluster, for plugins in plain Python."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hostler.engine.cluster.cluster import Cluster
from hostler.engine.cluster.tables import ReasonTable
from hostler.engine.kernels.layout import Int64s
from hostler.model import GuestSpec, Host

__all__ = ["ClusterView"]


class ClusterView:
    """What a plugin may read. All methods take host rows as an integer array and answer in its order."""

    def __init__(self, cluster: Cluster, limit_set: int = 0) -> None:
        self._cluster = cluster
        self._limit_set = limit_set

    @property
    def cluster(self) -> Cluster:
        """Return the cluster (built-in plugins only)."""
        return self._cluster

    @property
    def reasons(self) -> ReasonTable:
        """Return the table of reason codes (built-in plugins only)."""
        return self._cluster.tables.reasons

    def host(self, row: int) -> Host:
        """Return the host in a row."""
        return self._cluster.host(row)

    def limit(self, resource: str, rows: Int64s) -> Int64s:
        """Return how much of a resource each host may give."""
        number = self._cluster.tables.resources.find(resource)
        if number < 0 or number >= self._cluster.resource_capacity:
            return rows * 0
        limits: Int64s = self._cluster.columns().limit[self._limit_set, rows, number]
        return limits

    def used(self, resource: str, rows: Int64s) -> Int64s:
        """Return how much of a resource is booked on each host; ``guests`` counts guests."""
        number = self._cluster.tables.resources.find(resource)
        if number < 0 or number >= self._cluster.resource_capacity:
            return rows * 0
        used: Int64s = self._cluster.columns().used[rows, number]
        return used

    def free(self, resource: str, rows: Int64s) -> Int64s:
        """Return limit minus used; negative if facts from outside exceed the limit."""
        return self.limit(resource, rows) - self.used(resource, rows)

    def device_left(self, rows: Int64s) -> Int64s:
        """Return the free milli-units of each device of each host: (rows, widest), -1 for no device."""
        columns = self._cluster.columns()
        left: Int64s = np.where(columns.device_kind[rows] >= 0, columns.device_left[rows], -1)
        return left

    def labels(self, key: str, rows: Int64s) -> list[str | None]:
        """Return the value of a label on each host, None if it is absent."""
        return [dict(self._cluster.host(row).labels).get(key) for row in rows.tolist()]

    def guests(self, row: int) -> Mapping[str, GuestSpec]:
        """Return the shapes of the guests on a host by uid, so that a plugin can derive its own counts."""
        return {uid: shape.spec for uid, shape in self._cluster.guests_on[row].items()}
