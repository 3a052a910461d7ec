"""An auditor's eyes: plain SQL on the database of a running service, and the log read without the service's help."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec
import psycopg

from hostler.control.books.follower import Follower
from hostler.control.settings import ControlSettings, policies_for
from hostler.control.store.log import Checkpoint, Entry
from hostler.engine import Engine
from hostler.model import Event, GuestArrived, GuestBound, GuestChanged, GuestLeft, HostChanged, HostJoined, HostLeft

__all__ = ["Eyes", "audit", "twin_of"]

_EVENT = msgspec.json.Decoder(Event)
_USE = "SELECT host, SUM(cpu_millis), SUM(memory_bytes) FROM placements GROUP BY host"
_LOG = f"SELECT {', '.join(Entry.__struct_fields__)} FROM log ORDER BY seq"
_CHECKPOINT = f"SELECT {', '.join(Checkpoint.__struct_fields__)} FROM checkpoints ORDER BY seq DESC LIMIT 1"


class Eyes:
    """Reads one database; each question sees one snapshot."""

    def __init__(self, url: str) -> None:
        self._connection: Any
        if url.startswith("sqlite:///"):
            self._connection = sqlite3.connect(f"file:{url.removeprefix('sqlite:///')}?mode=ro", uri=True, timeout=60)
        else:
            self._connection = psycopg.connect(url, autocommit=True)

    def close(self) -> None:
        """Look no more."""
        self._connection.close()

    def __enter__(self) -> Eyes:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return what a statement finds."""
        return self._connection.execute(statement).fetchall()

    def use(self) -> dict[str, tuple[int, int]]:
        """Return what is kept on each host: cpu and memory."""
        return {host: (int(cpu), int(memory)) for host, cpu, memory in self.rows(_USE)}

    def entries(self) -> list[Entry]:
        """Return the whole log."""
        return [Entry(**dict(zip(Entry.__struct_fields__, row, strict=True))) for row in self.rows(_LOG)]

    def checkpoint(self) -> Checkpoint | None:
        """Return the newest decision state that the service saved."""
        found = self.rows(_CHECKPOINT)
        return Checkpoint(**dict(zip(Checkpoint.__struct_fields__, found[0], strict=True))) if found else None

    def everything(self) -> list[list[tuple[Any, ...]]]:
        """Return all that an agent's message could change."""
        tables = ("vms", "hosts", "placements", "operations", "log_head")
        return [sorted(self.rows(f"SELECT * FROM {table}"), key=repr) for table in tables]


def twin_of(entries: list[Entry], upto: int | None = None) -> Follower:
    """Return an engine that lived through the log from its beginning and never stopped."""
    settings = ControlSettings()
    twin = Follower(Engine(policies_for(settings), seed=settings.seed))
    twin.read([entry for entry in entries if upto is None or entry.seq <= upto])
    twin.catch_up(max((entry.at_ns for entry in entries), default=0))
    return twin


def audit(entries: list[Entry]) -> int:
    """Count for each moment of the log what is promised of each host; return how many placements there were.

    AssertionError for the first entry after which a host has promised more than it has. Knows nothing of the engine.
    """
    capacity: dict[str, dict[str, int]] = {}
    size: dict[str, dict[str, int]] = {}
    where: dict[str, str] = {}
    bound = 0
    for entry in entries:
        if entry.kind != "fact":
            continue
        fact = _EVENT.decode(entry.body)
        touched = ""
        match fact:
            case HostJoined(host=host) | HostChanged(host=host):
                capacity[host.name] = dict(host.capacity)
            case HostLeft():
                capacity.pop(fact.name, None)
            case GuestArrived(guest=guest) | GuestChanged(guest=guest):
                size[guest.uid] = dict(guest.spec.requests)
                if guest.host:
                    where[guest.uid] = touched = guest.host
            case GuestBound():
                bound += 1
                where[fact.uid] = touched = fact.host
            case GuestLeft():
                where.pop(fact.uid, None)
                size.pop(fact.uid, None)
        if touched:
            _check_host(entry.seq, touched, capacity, [size[uid] for uid, at in where.items() if at == touched])
    return bound


def _check_host(seq: int, host: str, capacity: dict[str, dict[str, int]], guests: list[dict[str, int]]) -> None:
    assert host in capacity, f"entry {seq}: there is no {host}"
    for resource in ("cpu", "memory"):
        has, promised = capacity[host][resource], sum(guest.get(resource, 0) for guest in guests)
        assert promised <= has, f"entry {seq}: {host} has {has} of {resource} and promised {promised}"
