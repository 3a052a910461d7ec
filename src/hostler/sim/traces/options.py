"""What a reader of traces may be told: hosts for a trace that has none, names of columns, what to leave out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

__all__ = ["MAX_HOSTS", "TraceOptions"]

MAX_HOSTS = 1_000_000


def _ignore(text: str) -> None:
    """Leave a note unread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """Options of all formats; a format leaves those alone that mean nothing to it."""

    hosts: int | None = None  # how many equal hosts; None: the format's usual number, or as many as the trace needs
    host_cpu: str = ""  # their size, as people write amounts; empty: the format's usual size
    host_memory: str = ""
    hosts_file: Path | None = None  # a table of hosts; it beats all of the above and the hosts of the trace
    columns: Mapping[str, str] = field(default_factory=dict)  # our name of a column to the one in the file
    censored: Literal["end", "forever"] = "end"  # guests whose end nobody saw: run to the trace's end, or for good
    tenants: bool = True  # False: guests of all tenants are alike, which gives far fewer distinct specs
    workload: str = "default"  # of openb, by name
    data_dir: Path | None = None
    note: Callable[[str], None] = _ignore  # is told what of a trace does not count

    @property
    def has_hosts(self) -> bool:
        """Say whether the hosts are named here, so that those of the trace do not count."""
        return self.hosts is not None or bool(self.host_cpu or self.host_memory) or self.hosts_file is not None
