"""What follows for a host when its agent is locked out: a work of the store, for services.

The credential itself is ``access.tokens``' to revoke, in the same transaction.
"""

from __future__ import annotations

import msgspec

from hostler.control.fleet.announcing import alive, announce
from hostler.control.fleet.hosts import read_body
from hostler.control.fleet.silence import silence
from hostler.control.store import Connection
from hostler.control.store.hosts import HostRow

__all__ = ["lock_out"]

_TEXT = "its agent's credential is revoked"


def lock_out(connection: Connection, host: str, *, actor: str, now_ns: int) -> HostRow:
    """Hear a host no longer: it gets no VMs, how those that it has are is unknown, and its registration is over.

    It becomes ``offline`` and not ``silent``: of a silent host everybody knows that nobody answered it for long, and
    how soon its watchdog counts as done follows from that.
    """
    row = alive(connection, host)
    body = msgspec.structs.replace(read_body(row), is_locked_out=True)
    if row.state == "ready":
        return silence(connection, row, state="offline", body=body, actor=actor, text=_TEXT, now_ns=now_ns)
    changed = msgspec.structs.replace(row, epoch=row.epoch + 1)
    return announce(connection, row, changed, body, actor=actor, now_ns=now_ns, text=_TEXT)
