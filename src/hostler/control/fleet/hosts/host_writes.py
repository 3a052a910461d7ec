"""Writes a host and its VMs: rows, facts for the engine, and notices, in one transaction.

Write the host before its VMs: their changes raise the number of its orders, and an older row lacks that.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostler.control.books import ledger
from hostler.control.books.ledger import NEWS, Actors, ChangeNotice, StoredVm
from hostler.control.fleet.errors import HostDeletedError
from hostler.control.fleet.hosts.host_body import HostBody, host_of, read_body, with_body
from hostler.control.store import Connection
from hostler.control.store.history import log
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import HostRow
from hostler.control.vms.start_times import lacks_start_time
from hostler.control.vms.state import VmChange
from hostler.model import Event, HostChanged, HostJoined

__all__ = ["agent_of", "announce", "get_live_host", "note", "write_changes"]

_ENCODER = msgspec.json.Encoder()
_replace = msgspec.structs.replace


def agent_of(host: str) -> str:
    """Return how the audit log names the agent of a host."""
    return f"agent:{host}"


def get_live_host(connection: Connection, host: str) -> HostRow:
    """Return a host that is not deleted; HostDeletedError, NotFoundError."""
    row = hosts.get(connection, host)
    if row.deleted_ns is not None:
        raise HostDeletedError(f"host {row.name} was deleted", hint="join again with a new token")
    return row


def announce(
    connection: Connection,
    before: HostRow,
    row: HostRow,
    body: HostBody,
    *,
    actor: str,
    now_ns: int,
    text: str = "",
    is_news: bool = False,
) -> HostRow:
    """Write a host, and its fact for the engine if the engine can see the change; ``text`` is for people.

    The engine does not know a host that never registered. ``is_news``: notify other replicas in any case.
    """
    saved = hosts.save(connection, with_body(_replace(row, updated_ns=now_ns), body))
    entries: list[log.NewEntry] = []
    if saved.state != "joined":
        host = host_of(saved, body)
        is_first = before.state == "joined"
        known = host_of(before, read_body(before))
        if is_first or _replace(known, version=0) != _replace(host, version=0):
            fact: Event = HostJoined(host=host) if is_first else HostChanged(host=host)
            body_bytes = _ENCODER.encode(fact)
            entries.append(log.NewEntry(at_ns=now_ns, kind="fact", body=body_bytes, actor=actor, subject=saved.id))
    if text:
        entries.append(note(saved, text, actor=actor, now_ns=now_ns))
    if entries or is_news or saved.generation != before.generation:
        news = _ENCODER.encode(ChangeNotice(hosts=(saved.id,)))
        entries.append(log.NewEntry(at_ns=now_ns, kind="note", body=news, subject=NEWS))
    log.append(connection, entries)
    return saved


def note(row: HostRow, text: str, *, actor: str, now_ns: int) -> log.NewEntry:
    """Return a log entry for people about a host."""
    body = _ENCODER.encode({"text": text, "host": row.name})
    return log.NewEntry(at_ns=now_ns, kind="note", body=body, actor=actor, subject=row.id)


def write_changes(
    connection: Connection, changes: Iterable[tuple[StoredVm, VmChange]], *, actor: Actors, now_ns: int
) -> int:
    """Write those changes that have an effect; return their number.

    VMs that ran before start times were recorded get theirs here.
    """
    real = [
        (stored, change)
        for stored, change in changes
        if change != VmChange(vm=stored.vm) or lacks_start_time(change.vm)
    ]
    if real:
        ledger.write_many(connection, real, actor=actor, now_ns=now_ns)
    return len(real)
