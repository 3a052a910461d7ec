"""Marks of storages: they distinguish an empty mount point from empty storage.

Each storage holds a random mark: in a file of a folder (``FolderMark``), or in the name of a volume of libvirt. The
agent's state folder, which lies elsewhere, keeps the marks that were seen. Storage without its mark is unavailable:
nothing is made there, and nothing there counts as absent, until the file system is mounted again. A mark is written
when a storage is used for the first time and never replaced.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from hostler.runtime.files import read_regular, sync_folder, write_durably

__all__ = ["FolderMark", "MarkPlace", "StorageMarks"]

_LONGEST_MARK = 128  # bytes


class MarkPlace(Protocol):
    """Where the mark of one storage is kept: in the storage itself."""

    def read(self) -> tuple[str, ...]:
        """Return the marks of the storage; several if hosts marked it at once. None if there is none to be read."""
        ...

    def write(self) -> None:
        """Mark the storage, if that is possible and it has no mark."""
        ...

    def describe(self) -> str:
        """Return what a person calls the storage."""
        ...

    def describe_absence(self) -> str:
        """Return what is wrong with a storage without a mark, as a text that continues its name."""
        ...


class FolderMark:
    """The mark of a folder; ``name`` is that of the storage, "" for the folder of VMs."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        # The folder of VMs has always had this file: it names the host in the owner files of shared storage.
        self._file = folder / (".hostler-storage" if name else "host")

    def read(self) -> tuple[str, ...]:
        """Read the file. Hosts that share the storage may put anything in its place: that is no mark."""
        try:
            mark = read_regular(self._file, _LONGEST_MARK).decode("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return ()
        return (mark,) if mark and mark.isprintable() else ()

    def write(self) -> None:
        """Write the file; of hosts that do so at once, one wins."""
        new = self._file.with_name(f"{self._file.name}.{secrets.token_hex(8)}")
        with suppress(OSError):
            write_durably(new, secrets.token_hex(16).encode())
            try:
                new.chmod(0o644)  # agents of other hosts may run as other users
                os.link(new, self._file)
            except FileExistsError:
                pass
            finally:
                new.unlink()
            sync_folder(self._folder)

    def describe(self) -> str:
        """Return the path."""
        return str(self._folder)

    def describe_absence(self) -> str:
        """Say whether the folder is there."""
        return f"has no file {self._file.name}, by which it is known" if self._folder.is_dir() else "is gone"


class StorageMarks:
    """The marks of one host's storages, by name; "" is that of local disks. ``file`` keeps those that were seen.

    Another mark than before in the storage of local disks is never accepted: it is another host's, or an older copy.
    Shared storage may be replaced by an operator, so a new mark is accepted there. One that was replaced is not
    accepted again: it may be on the directory that the storage is mounted over. Without a file, nothing is compared.

    ``has_vms``: this host has VMs. If it has no marks yet, they come from an older version, whose folder is marked.
    """

    def __init__(self, file: Path | None, places: Mapping[str, MarkPlace], *, has_vms: bool = False) -> None:
        self._file = file
        self._has_vms = has_vms
        self._places = dict(places)

    def knows(self, name: str) -> bool:
        """Say whether a storage was used before."""
        return name in self._read()

    def take_up(self) -> None:
        """Mark the storages that are used for the first time."""
        seen = self._read()
        for name, place in self._places.items():
            if name in seen or (name and self._file is None):
                continue
            marks = place.read() or self._write(name)
            if marks:
                seen[name] = [min(marks)]
        self._keep(seen)

    def unavailable(self) -> dict[str, str]:
        """Return why storages are unavailable; nothing about those that are as before."""
        if self._file is None:
            return {}
        seen = self._read()
        found = {name: self._why_not(name, seen) for name in self._places}
        self._keep(seen)
        return {name: why for name, why in found.items() if why}

    def first(self, name: str) -> str:
        """Return the mark that a storage had when it was used for the first time."""
        return (self._read().get(name) or [*self._places[name].read(), ""])[0]

    def _write(self, name: str) -> tuple[str, ...]:
        """Mark a storage that is not known yet; return its marks."""
        if name or not self._has_vms:
            self._places[name].write()
        return self._places[name].read()

    def _why_not(self, name: str, seen: dict[str, list[str]]) -> str:
        place, known = self._places[name], seen.get(name, [])
        marks = place.read() or (() if known else self._write(name))
        if not marks:
            return f"{place.describe()} {place.describe_absence()}; {self._way_out(name)}"
        if known and known[-1] in marks:
            return ""
        new = sorted(set(marks) - set(known))
        if new and (name or not known):
            seen[name] = [*known, new[0]]
            return ""
        return f"{place.describe()} is not the storage that was there before; {self._way_out(name)}"

    def _way_out(self, name: str) -> str:
        lost = "" if name else ", by which all VMs with local disks are lost"
        return f"mount its file system; if it is replaced for good, remove {self._file} and restart the agent{lost}"

    def _read(self) -> dict[str, list[str]]:
        if self._file is None or not self._file.exists():
            return {}
        return msgspec.json.decode(self._file.read_bytes(), type=dict[str, list[str]])

    def _keep(self, seen: dict[str, list[str]]) -> None:
        if self._file is not None and seen != self._read():
            write_durably(self._file, msgspec.json.encode(seen))
            sync_folder(self._file.parent)
