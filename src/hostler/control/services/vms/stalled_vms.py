"""VMs that are not as ordered while their hosts keep trying. Their state looks like that of a VM in progress.

A host that lacks an image waits for it without limit. So the dashboard lists such VMs beside failed ones, and metrics
count them.
"""

from __future__ import annotations

import msgspec

from hostler.agent.messages import Trouble
from hostler.control.store import Connection
from hostler.control.store.rows import vms
from hostler.control.store.rows.vms import VmRow

__all__ = ["count_hindered", "list_hindered"]

_KINDS = ("blocked", "transient")


class _Status(msgspec.Struct, frozen=True):
    """The only part of a VM that counts here: in a large fleet many VMs are in progress at once."""

    trouble: Trouble | None = None


_DECODER = msgspec.json.Decoder(_Status)


def list_hindered(connection: Connection) -> list[VmRow]:
    """Return VMs that their hosts could not bring to the ordered state, oldest first, without labels."""
    return [row for row, _ in _hindered(connection)]


def count_hindered(connection: Connection) -> dict[str, int]:
    """Return the number of such VMs by kind of trouble."""
    counts = dict.fromkeys(_KINDS, 0)
    for _, kind in _hindered(connection):
        counts[kind] += 1
    return counts


def _hindered(connection: Connection) -> list[tuple[VmRow, str]]:
    found = ((row, _DECODER.decode(row.status).trouble) for row in vms.under_way(connection))
    return [(row, trouble.kind) for row, trouble in found if trouble is not None and trouble.kind in _KINDS]
