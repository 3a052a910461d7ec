"""``hostler kube demo``: a local cluster, a scheduler on it, four examples, and no trace of them afterwards.

All files are in one temporary folder, and all processes end with this one, also if it is killed. ``hostler.kube.local``
does the work. Its dependencies are imported when the command runs.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import click

from hostler.cli.kube.options import needs_kube, tell
from hostler.cli.options import examples
from hostler.cli.output.terminal import print_table, say
from hostler.errors import UnavailableError

if TYPE_CHECKING:
    from hostler.kube.local import LocalCluster
    from hostler.kube.local.demonstration import PodRow
    from hostler.kube.local.processes import ProcessNote

__all__ = ["demo"]

_EXIT_NO = 1
_NAME = "demo"
_PARTS = ("kwok",)
_PATIENCE_S = 300.0  # the scheduler may have to compile its kernels first
_LAST_LINES = 10
_COLUMNS = [("POD", "left"), ("PRIORITY", "right"), ("NODE", "left"), ("WHY IT WAITS", "left")]


@click.command(
    epilog=examples("hostler kube demo", "hostler kube demo --no-build"),
    short_help="Show the scheduler on a local cluster, and remove it.",
)
@click.option("--no-build", is_flag=True, help="Do nothing, with exit code 1, if a program would have to be built.")
def demo(no_build: bool) -> int:
    """Start a local control plane with five nodes, schedule four examples on it, show what happens, and remove it.

    The examples: priority, one pod per node, a gang, and preemption. Nothing else on this machine is used or changed.
    Ctrl-C ends the demo at once and removes its cluster too.
    """
    with needs_kube():
        from hostler.kube.local.binaries import missing_binaries
        from hostler.kube.local.state import ALWAYS, PROGRAMS

    programs = [PROGRAMS[part] for part in (*ALWAYS, *_PARTS)]
    if no_build and (missing := missing_binaries(programs, tell)):
        say(f"The demo on a local Kubernetes cluster is left out: {', '.join(missing)} would have to be built first.")
        say("'hostler kube binaries' builds the programs, once; it takes minutes.")
        return _EXIT_NO
    folder = Path(mkdtemp(prefix="hostler-demo-"))
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        _play(folder)
    finally:
        with _uninterrupted():
            _remove(folder)
        signal.signal(signal.SIGTERM, before)
    say("the demo's cluster and its files are removed")
    return 0


def _play(folder: Path) -> None:
    from hostler.kube.local import LocalCluster
    from hostler.kube.local.demonstration import DEMO_NODES, Demonstration

    cluster = LocalCluster.start(
        _NAME, folder / "cluster", nodes=DEMO_NODES, parts=_PARTS, dies_with_us=True, report=tell
    )
    log = folder / "scheduler.log"
    scheduler = _start_scheduler(cluster, folder, log)
    with cluster.api() as api:
        Demonstration(api, say=say, show=_show, check=lambda: _check(scheduler, log), patience_s=_PATIENCE_S).play()


def _start_scheduler(cluster: LocalCluster, folder: Path, log: Path) -> ProcessNote:
    """Start ``hostler kube schedule`` on the cluster; it ends with this process."""
    from hostler.config import write_yaml
    from hostler.kube.local import processes
    from hostler.kube.local.demonstration import DEMO_SETTINGS

    file, note = folder / "scheduler.yaml", folder / "scheduler.json"
    file.write_text(write_yaml(DEMO_SETTINGS))
    words = ["--kubeconfig", str(cluster.kubeconfig("hostler")), "--config", str(file)]
    lock = os.open(os.devnull, os.O_RDONLY)
    try:
        processes.start(
            [sys.executable, "-m", "hostler", "kube", "schedule", *words],
            note=note,
            log=log,
            lock=lock,
            environment=os.environ,
            dies_with_us=True,
        )
    finally:
        os.close(lock)
    found = processes.note_of(note)
    if found is None:
        raise _scheduler_ended(log)
    return found


def _check(scheduler: ProcessNote, log: Path) -> None:
    from hostler.kube.local import processes

    if not processes.is_alive(scheduler):
        raise _scheduler_ended(log)


def _scheduler_ended(log: Path) -> UnavailableError:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    last = " | ".join(lines[-_LAST_LINES:]) or "it wrote no log"
    return UnavailableError(f"the scheduler of the demo ended: {last}", hint="try again; report it if it stays")


def _show(rows: list[PodRow]) -> None:
    print_table(_COLUMNS, [[row.name, str(row.priority), row.node or "-", row.why] for row in rows])


def _remove(folder: Path) -> None:
    """End all processes of the demo, and remove its files."""
    from hostler.kube.local import processes
    from hostler.kube.local.state import PARTS
    from hostler.kube.local.supervision import end_parts

    note = processes.find(folder / "scheduler.json")
    if note is not None:
        processes.end(note, patience_s=10.0)
    end_parts(folder / "cluster", PARTS)
    shutil.rmtree(folder, ignore_errors=True)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore signals that would interrupt the removal."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
