"""VMs that are not as ordered, and whose hosts try on: their state is that of a VM which is just being made.

A host that lacks an image waits for it, however long that takes. So that somebody notices, the dashboard lists such VMs
beside those that failed, and metrics count them.
"""

from __future__ import annotations

import msgspec

from hostler.agent.messages import Trouble
from hostler.control.store import Connection, vms
from hostler.control.store.vms import VmRow

__all__ = ["count_hindered", "list_hindered"]

_KINDS = ("blocked", "transient")


class _Status(msgspec.Struct, frozen=True):
    """The only part of a VM that counts here: of a large fleet many are under way at once."""

    trouble: Trouble | None = None


_DECODER = msgspec.json.Decoder(_Status)


def list_hindered(connection: Connection) -> list[VmRow]:
    """Return VMs that their hosts could not yet make what was ordered, oldest first, without their labels."""
    return [row for row, _ in _hindered(connection)]


def count_hindered(connection: Connection) -> dict[str, int]:
    """Return how many there are of each kind of trouble."""
    counts = dict.fromkeys(_KINDS, 0)
    for _, kind in _hindered(connection):
        counts[kind] += 1
    return counts


def _hindered(connection: Connection) -> list[tuple[VmRow, str]]:
    found = ((row, _DECODER.decode(row.status).trouble) for row in vms.under_way(connection))
    return [(row, trouble.kind) for row, trouble in found if trouble is not None and trouble.kind in _KINDS]
