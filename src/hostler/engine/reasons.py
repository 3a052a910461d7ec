"""From the kernel's numbers to reasons and totals."""

from __future__ import annotations

import numpy as np

from hostler.engine.kernels_layout import Int32s, Int64s
from hostler.engine.plugins.host_affinity import HostAffinity, about
from hostler.engine.tables import Tables
from hostler.model import Guest, GuestSpec, Reason, ReasonCount

__all__ = ["counted", "float_totals", "full_name", "named_reason", "reason_counts"]

_FLIP = np.int64(0x7FFFFFFFFFFFFFFF)


def counted(counts: Int32s) -> list[tuple[int, tuple[tuple[int, int], ...]]]:
    """Return for each row of counts the feasible hosts and (code, hosts) of the refused ones; equal rows share one."""
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


def float_totals(totals: Int64s) -> list[float]:
    """Turn totals that sort like floats back into floats."""
    bits = np.where(totals >= 0, totals, totals ^ _FLIP)
    floats: list[float] = bits.view(np.float64).tolist()
    return floats


def named_reason(tables: Tables, code: int, spec: GuestSpec) -> Reason:
    """Return the reason behind a code, as it concerns one guest."""
    reason = tables.reasons.values[code]
    return about(reason, spec) if reason.plugin == HostAffinity.name else reason


def reason_counts(tables: Tables, counts: tuple[tuple[int, int], ...], spec: GuestSpec) -> tuple[ReasonCount, ...]:
    """Return the reasons by name, most hosts first."""
    named = [ReasonCount(named_reason(tables, code, spec), hosts) for code, hosts in counts]
    return tuple(sorted(named, key=lambda c: (-c.hosts, c.reason.plugin, c.reason.code, c.reason.subject)))


def full_name(guest: Guest) -> str:
    """Return a guest's name as people write it: with its namespace unless that is the default one."""
    return guest.name if guest.spec.namespace == "default" else f"{guest.spec.namespace}/{guest.name}"
