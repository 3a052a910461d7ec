"""Translates the kernel's reason codes into reasons and counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from hostler.engine.cluster.shapes import Shape
from hostler.engine.cluster.tables import ASKED, UNKNOWN_KIND, ReasonTable
from hostler.engine.kernels.layout import Int32s
from hostler.engine.plugins.host_affinity import HostAffinity, about
from hostler.engine.plugins.room import Devices, Resources
from hostler.engine.plugins.unsupported import Unsupported
from hostler.model import Guest, Reason, ReasonCount

__all__ = ["NamedCounts", "full_name", "reason_counts", "shape_reason", "split_counts"]

NamedCounts: TypeAlias = tuple[tuple[Reason, int], ...]  # reasons with how many hosts gave them


def split_counts(counts: Int32s) -> list[tuple[int, tuple[tuple[int, int], ...]]]:
    """Return for each row of counts the feasible hosts and (code, hosts) of the rest; equal rows share one result."""
    seen: dict[bytes, tuple[int, tuple[tuple[int, int], ...]]] = {}
    result = []
    for row in counts:
        key = row.tobytes()
        known = seen.get(key)
        if known is None:
            refused = tuple((int(code), int(row[code])) for code in np.flatnonzero(row[1:]) + 1)
            known = seen[key] = (int(row[0]), refused)
        result.append(known)
    return result


def shape_reason(reasons: ReasonTable, code: int, shape: Shape, asked: Sequence[Reason] = ()) -> Reason:
    """Return the reason behind a code for one shape. ``asked`` has the reasons of its peer rules."""
    reason = reasons.values[code]
    if code not in reasons.varying:
        return reason
    if reason.code == ASKED:
        return asked[int(reason.subject)]
    if reason.plugin == HostAffinity.name:
        return about(reason, shape.spec)
    subject = reason.subject
    if reason.plugin == Unsupported.name:
        subject = shape.spec.unsupported[0]
    elif reason.plugin == Resources.name and not subject and shape.unknown:
        subject = shape.unknown[0]
    elif reason.plugin == Devices.name and not subject:
        asks = zip(shape.asks, shape.spec.devices, strict=True)
        subject = next((device.kind for ask, device in asks if ask.kind == UNKNOWN_KIND), "")
    return Reason(reason.plugin, reason.code, subject)


def reason_counts(counts: NamedCounts) -> tuple[ReasonCount, ...]:
    """Return the reasons by name, most hosts first."""
    named = [ReasonCount(reason, hosts) for reason, hosts in counts]
    return tuple(sorted(named, key=lambda c: (-c.hosts, c.reason.plugin, c.reason.code, c.reason.subject)))


def full_name(guest: Guest) -> str:
    """Return a guest's name as people write it: with its namespace unless that is the default one."""
    return guest.name if guest.spec.namespace == "default" else f"{guest.spec.namespace}/{guest.name}"
