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
    host_gpus: int | None = None  # None: 8 for a trace with GPUs, or as many as its largest guest asks for
    hosts_file: Path | None = None  # a table of hosts; it beats all of the above and the hosts of the trace
    columns: Mapping[str, str] = field(default_factory=dict)  # our name of a column to the one in the file
    censored: Literal["end", "forever"] = "end"  # guests without a recorded end run to the end of the trace, or forever
    tenants: bool = True  # False: guests of all tenants are alike, which gives far fewer distinct specs
    workload: str = "default"  # of openb, by name
    data_dir: Path | None = None
    note: Callable[[str], None] = _ignore  # receives a line for each part of a trace that is ignored

    @property
    def has_hosts(self) -> bool:
        """Say whether the hosts are named here, so that those of the trace do not count."""
        is_sized = bool(self.host_cpu or self.host_memory) or self.host_gpus is not None
        return self.hosts is not None or is_sized or self.hosts_file is not None
