"""``hostler kube logs``: what the parts of a local control plane write."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import BinaryIO

import click

from hostler.cli.kube.cluster_options import cluster_option
from hostler.cli.options import examples
from hostler.cli.terminal import printable, say

__all__ = ["logs"]

_TICK_S = 0.2


@click.command(
    epilog=examples("hostler kube logs", "hostler kube logs apiserver -f", "hostler kube logs scheduler --tail 100"),
    short_help="Show what the parts of a local control plane write.",
)
@click.argument("part", required=False)
@cluster_option("The cluster; the only one, or 'local', unless given.", default=None)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on, until you interrupt.")
@click.option("--tail", metavar="N", type=click.IntRange(0), default=20, show_default=True, help="Lines of each part.")
def logs(part: str | None, name: str | None, follow: bool, tail: int) -> None:
    """Show the last lines of PART: etcd, apiserver, controllers, scheduler or kwok; of all unless given."""
    from hostler.cli.kube.extras import needs_kube

    with needs_kube():
        from hostler.kube.local import LocalCluster
    from hostler.config import did_you_mean
    from hostler.errors import UnknownNameError
    from hostler.kube.local.parts import PARTS
    from hostler.kube.local.state import the_cluster

    cluster = LocalCluster.open(name or the_cluster())
    if part is not None and part not in PARTS:
        raise UnknownNameError(f"no part is called {part!r}", hint=did_you_mean(part, PARTS))
    if part is not None and part not in cluster.parts:
        raise UnknownNameError(
            f"cluster {cluster.name} has no {part}, only {', '.join(cluster.parts)}",
            hint=f"start it with 'hostler kube up --name {cluster.name} --with {part}'",
        )
    wanted = [part] if part else [one for one in PARTS if cluster.log(one).exists()]
    readers = [_Reader(cluster.log(one), f"{one}: " if part is None else "") for one in wanted]
    for reader in readers:
        reader.show_last(tail)
    while follow:
        for reader in readers:
            reader.show_news()
        time.sleep(_TICK_S)


class _Reader:
    """Reads one log, also across a new start, which begins a new file."""

    def __init__(self, path: Path, label: str) -> None:
        self._path, self._label = path, label
        self._at = 0
        self._inode = 0

    def show_last(self, count: int) -> None:
        """Write the last lines, and remember where the file ended."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            self._inode = self._path.stat().st_ino
            lines = deque(file, maxlen=count)
            self._at = file.tell() - (len(lines[-1]) if lines and not lines[-1].endswith(b"\n") else 0)
        for line in lines:
            self._write(line)

    def show_news(self) -> None:
        """Write the lines that came since."""
        if not self._path.exists():
            return
        found = self._path.stat()
        if found.st_ino != self._inode or found.st_size < self._at:
            self._inode, self._at = found.st_ino, 0
        if found.st_size > self._at:
            with self._path.open("rb") as file:
                self._show_from(file)

    def _show_from(self, file: BinaryIO) -> None:
        file.seek(self._at)
        for line in file:
            if not line.endswith(b"\n"):  # half a line: the rest comes later
                break
            self._at += len(line)
            self._write(line)

    def _write(self, line: bytes) -> None:
        say(self._label + printable(line.decode("utf-8", "replace").rstrip("\n").expandtabs()))
