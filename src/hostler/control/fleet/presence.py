"""When each host was last heard: in memory for our own agents, through the database for other replicas.

Replicas exchange ages, never times, and each reader counts from its own reading. So clocks that differ do no harm: a
reported age is late by the time that it took, which makes a host look younger, never older.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

import msgspec

from hostler.control.store import Connection
from hostler.control.store.rows import documents
from hostler.control.store.rows.documents import DocumentRow

__all__ = ["Presence", "forget_hearsay", "publish", "read_hearsay"]

_PRESENCE = "presence"  # the project under which replicas tell whom they hear
_MILLISECOND = 1_000_000
_AGES = msgspec.json.Decoder(dict[str, int])


class Presence:
    """When hosts were last heard, in our own steady nanoseconds."""

    def __init__(self, steady: Callable[[], int]) -> None:
        self._steady = steady
        self._own: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._versions: dict[str, int] = {}

    def note(self, host: str) -> None:
        """Note that a host was heard now."""
        self._own[host] = self._steady()

    def keep(self, hosts: Container[str]) -> None:
        """Forget all other hosts: they were deleted."""
        self._own = {host: at for host, at in self._own.items() if host in hosts}
        self._told = {host: at for host, at in self._told.items() if host in hosts}

    def heard_at(self, host: str) -> int | None:
        """Return when any replica last heard a host, as far as we know."""
        times = [at for at in (self._own.get(host), self._told.get(host)) if at is not None]
        return max(times, default=None)

    def ages(self) -> dict[str, int]:
        """Return how long ago our own hosts were heard, in milliseconds."""
        now = self._steady()
        return {host: (now - at) // _MILLISECOND for host, at in self._own.items()}

    def take_hearsay(self, told: Iterable[DocumentRow], replica: str) -> None:
        """Take in which hosts other replicas heard, if that is new."""
        now = self._steady()
        for document in told:
            if document.name == replica or self._versions.get(document.name) == document.version:
                continue
            self._versions[document.name] = document.version
            for host, age in _AGES.decode(document.body).items():
                self._told[host] = max(self._told.get(host, 0), now - age * _MILLISECOND)


def publish(connection: Connection, replica: str, ages: dict[str, int], now_ns: int) -> None:
    """Publish which hosts this replica heard."""
    body = msgspec.json.encode(ages)
    known = documents.find(connection, "setting", _PRESENCE, replica)
    if known is None:
        row = DocumentRow(project=_PRESENCE, name=replica, created_ns=now_ns, updated_ns=now_ns, body=body)
        documents.insert(connection, "setting", row)
        return
    documents.save(connection, "setting", msgspec.structs.replace(known, body=body, updated_ns=now_ns))


def read_hearsay(connection: Connection) -> list[DocumentRow]:
    """Return what all replicas published."""
    return documents.list_all(connection, "setting", _PRESENCE)


def forget_hearsay(connection: Connection, before_ns: int) -> int:
    """Remove what replicas published that are long gone; return how many there were."""
    old = [row for row in read_hearsay(connection) if row.updated_ns < before_ns]
    for row in old:
        documents.drop(connection, "setting", row)
    return len(old)
