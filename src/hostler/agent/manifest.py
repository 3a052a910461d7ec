"""The records of a host's VMs on its disk: one file each, whole or not there, and never believed when it was damaged.

A file opens with its format and a checksum; it is written beside its place, forced to the disk and renamed, so a crash
leaves the old one or the new one. One that cannot be read is set aside, and as long as one lies there the host's
inventory is unknown: the agent then does nothing and has nothing free, until a person has looked. Used by ``process``.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import msgspec

from hostler.agent.core.state import Record
from hostler.errors import HostlerError
from hostler.runtime.files import sync_folder, write_durably

__all__ = ["FileManifest", "Inventory", "Manifest", "ManifestError", "MemoryManifest"]

_FORMAT = b"hostler-record 1"
_SUFFIX = ".record"
_LONGEST_NAME = 200


class ManifestError(HostlerError):
    """The folder of records cannot be used."""

    code = "manifest"
    exit_code = 3


class Inventory(msgspec.Struct, frozen=True):
    """The records that were read, and the files that were set aside."""

    records: tuple[Record, ...]
    set_aside: tuple[str, ...] = ()


class Manifest(Protocol):
    """The records, which outlive the agent."""

    async def load(self) -> Inventory:
        """Read all records."""
        ...

    async def save(self, records: Iterable[Record], forgotten: Iterable[str]) -> None:
        """Write records durably and remove those of forgotten VMs; after this a crash loses nothing."""
        ...


class MemoryManifest:
    """Records in memory: for fleets of fake hosts, for which a disk would be too slow."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    async def load(self) -> Inventory:
        """Return all records."""
        return Inventory(tuple(self.records.values()))

    async def save(self, records: Iterable[Record], forgotten: Iterable[str]) -> None:
        """Keep records."""
        for vm in forgotten:
            self.records.pop(vm, None)
        self.records.update({record.vm: record for record in records})


class FileManifest:
    """Records as files in a private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._aside = folder / "unreadable"

    async def load(self) -> Inventory:
        """Read all records; set aside what cannot be read."""
        return await asyncio.to_thread(self.read)

    async def save(self, records: Iterable[Record], forgotten: Iterable[str]) -> None:
        """Write records and remove those of forgotten VMs."""
        await asyncio.to_thread(self._write, list(records), list(forgotten))

    def read(self) -> Inventory:
        """Read all records, in this thread."""
        try:
            self._aside.mkdir(parents=True, exist_ok=True, mode=0o700)
            for leftover in self._folder.glob("*.new"):
                leftover.unlink()  # of a crash before its rename: the old one holds
            records = [self._read_or_set_aside(path) for path in sorted(self._folder.glob("*" + _SUFFIX))]
            set_aside = tuple(sorted(path.name for path in self._aside.iterdir()))
        except OSError as error:
            raise ManifestError(
                f"cannot read the records in {self._folder}: {error.strerror}",
                hint="the agent needs a folder of its own that it may write to",
            ) from error
        return Inventory(tuple(record for record in records if record is not None), set_aside)

    def peek(self) -> tuple[Record, ...]:
        """Read what can be read without changing anything: for readers outside the agent."""
        contents = (_read_if_there(path) for path in sorted(self._folder.glob("*" + _SUFFIX)))
        records = (_decode(content) for content in contents)
        return tuple(record for record in records if record is not None)

    def _write(self, records: list[Record], forgotten: list[str]) -> None:
        try:
            for record in records:
                write_durably(self._path(record.vm), _encode(record))
            for vm in forgotten:
                self._path(vm).unlink(missing_ok=True)
            sync_folder(self._folder)
        except OSError as error:
            raise ManifestError(
                f"cannot write records to {self._folder}: {error.strerror}",
                hint="nothing is done to VMs before their records are safe; make room, or fix the disk",
            ) from error

    def _read_or_set_aside(self, path: Path) -> Record | None:
        record = _decode(path.read_bytes())
        if record is not None and self._path(record.vm) == path:
            return record
        number = 1
        while (place := self._aside / f"{path.name}.{number}").exists():
            number += 1
        path.rename(place)
        return None

    def _path(self, vm: str) -> Path:
        name = quote(vm, safe="")
        if len(name) > _LONGEST_NAME:
            name = hashlib.sha256(vm.encode()).hexdigest()
        return self._folder / (name + _SUFFIX)


def _read_if_there(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # forgotten meanwhile
        return b""


def _encode(record: Record) -> bytes:
    body = msgspec.json.encode(record)
    return b"%s %s\n%s\n" % (_FORMAT, hashlib.sha256(body).hexdigest().encode(), body)


def _decode(content: bytes) -> Record | None:
    head, _, rest = content.partition(b"\n")
    body = rest.removesuffix(b"\n")
    if head != b"%s %s" % (_FORMAT, hashlib.sha256(body).hexdigest().encode()):
        return None
    try:
        return msgspec.json.decode(body, type=Record)
    except msgspec.DecodeError:
        return None
