"""Audits a running service: plain SQL on its database, and the log read without the service's help."""

from __future__ import annotations

import sqlite3
from itertools import groupby
from typing import Any

import msgspec
import psycopg

from hostler.control.books.follower import Follower
from hostler.control.store.history.log import StoredCheckpoint, StoredEntry
from hostler.model import Event, GuestArrived, GuestBound, GuestChanged, GuestLeft, HostChanged, HostJoined, HostLeft

__all__ = ["DatabaseReader", "audit", "twin_of"]

_EVENT = msgspec.json.Decoder(Event)
_USE = "SELECT host, SUM(cpu_millis), SUM(memory_bytes), SUM(disk_bytes) FROM placements GROUP BY host"
_LOG = f"SELECT {', '.join(StoredEntry.__struct_fields__)} FROM log ORDER BY seq"
_CHECKPOINT = f"SELECT {', '.join(StoredCheckpoint.__struct_fields__)} FROM checkpoints ORDER BY seq DESC LIMIT 1"


class DatabaseReader:
    """Reads one database; each question sees one snapshot."""

    def __init__(self, url: str) -> None:
        self._connection: Any
        if url.startswith("sqlite:///"):
            self._connection = sqlite3.connect(f"file:{url.removeprefix('sqlite:///')}?mode=ro", uri=True, timeout=60)
        else:
            self._connection = psycopg.connect(url, autocommit=True)

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def __enter__(self) -> DatabaseReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return what a statement finds."""
        return self._connection.execute(statement).fetchall()

    def use(self) -> dict[str, tuple[int, int, int]]:
        """Return what is kept on each host: cpu, memory and disk."""
        return {host: (int(cpu), int(memory), int(disk)) for host, cpu, memory, disk in self.rows(_USE)}

    def entries(self) -> list[StoredEntry]:
        """Return the whole log."""
        return [StoredEntry(**dict(zip(StoredEntry.__struct_fields__, row, strict=True))) for row in self.rows(_LOG)]

    def checkpoint(self) -> StoredCheckpoint | None:
        """Return the newest decision state that the service saved."""
        found = self.rows(_CHECKPOINT)
        return (
            StoredCheckpoint(**dict(zip(StoredCheckpoint.__struct_fields__, found[0], strict=True))) if found else None
        )

    def everything(self) -> list[list[tuple[Any, ...]]]:
        """Return all that an agent's message could change."""
        tables = ("vms", "hosts", "placements", "operations", "log_head")
        return [sorted(self.rows(f"SELECT * FROM {table}"), key=repr) for table in tables]


def twin_of(entries: list[StoredEntry], upto: int | None = None) -> Follower:
    """Return an engine that lived through the log from its beginning and never stopped."""
    twin = Follower.begin()
    twin.read([entry for entry in entries if upto is None or entry.seq <= upto])
    twin.catch_up(max((entry.at_ns for entry in entries), default=0))
    return twin


def audit(entries: list[StoredEntry]) -> int:
    """Count for each moment of the log what is promised of each host; return how many placements there were.

    AssertionError for the first moment after which a host has promised more than it has. What was written at once is
    one moment: a VM that grew is reported in its new size before the claim by which it grew is gone. Knows nothing
    of the engine.
    """
    books = _Promises()
    facts = [entry for entry in entries if entry.kind == "fact"]
    for _, moment in groupby(facts, lambda entry: entry.at_ns):
        touched: dict[str, int] = {}
        for entry in moment:
            touched[books.take(_EVENT.decode(entry.body))] = entry.seq
        for host, seq in touched.items():
            books.check(seq, host)
    return books.bound


class _Promises:
    """What is promised of each host, by the facts so far."""

    def __init__(self) -> None:
        self.bound = 0
        self._capacity: dict[str, dict[str, int]] = {}
        self._size: dict[str, dict[str, int]] = {}
        self._where: dict[str, str] = {}

    def take(self, fact: Event) -> str:
        """Note a fact; return the host whose promises may grow by it."""
        match fact:
            case HostJoined(host=host) | HostChanged(host=host):
                self._capacity[host.name] = dict(host.capacity)
            case HostLeft():
                self._capacity.pop(fact.name, None)
            case GuestArrived(guest=guest) | GuestChanged(guest=guest):
                self._size[guest.uid] = dict(guest.spec.requests)
                if guest.host:
                    self._where[guest.uid] = guest.host
                return self._where.get(guest.uid, "")
            case GuestBound():
                self.bound += 1
                self._where[fact.uid] = fact.host
                return fact.host
            case GuestLeft():
                self._where.pop(fact.uid, None)
                self._size.pop(fact.uid, None)
        return ""

    def check(self, seq: int, host: str) -> None:
        """Compare all that is promised of a host with what it has."""
        guests = [self._size[uid] for uid, at in self._where.items() if at == host]
        assert not guests or host in self._capacity, f"entry {seq}: there is no {host}"
        for resource in sorted({resource for guest in guests for resource in guest}):
            has, promised = self._capacity[host].get(resource, 0), sum(guest.get(resource, 0) for guest in guests)
            assert promised <= has, f"entry {seq}: {host} has {has} of {resource} and promised {promised}"
