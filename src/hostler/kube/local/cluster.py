"""A real control plane on this machine, without containers: etcd, API server, and what one wants beside them.

Used by the commands ``hostler kube up`` and so on, by tests and by benchmarks. All files of a cluster are in one
folder; its processes are found again through it, by whoever opens it next. etcd listens on the loopback interface
without a password: such a cluster is for trying things, not for secrets.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

import msgspec

from hostler.errors import InputError, UnavailableError
from hostler.kube.local import processes
from hostler.kube.local.access import grant_access, wait_for_account
from hostler.kube.local.binaries import Binary, find_binaries
from hostler.kube.local.credentials import make_credentials, token_of
from hostler.kube.local.kubeconfigs import kubeconfig_path, write_kubeconfigs
from hostler.kube.local.locks import locked
from hostler.kube.local.nodes import create_nodes, wait_until_usable
from hostler.kube.local.parts import ALWAYS, PARTS, PROGRAMS, check_parts
from hostler.kube.local.ports import free_ports, is_free
from hostler.kube.local.scheduler_file import scheduler_file
from hostler.kube.local.setup import Api
from hostler.kube.local.state import (
    DEFAULT_NAME,
    State,
    check_name,
    cluster_folder,
    read_state,
    unknown_cluster,
    write_private,
    write_state,
)
from hostler.kube.local.supervision import PortTakenError, Supervision, end_parts, log_of, note_path

__all__ = ["LocalCluster"]

_LOCK_PATIENCE_S = 300.0
_NODES_PATIENCE_S = 60.0
_ACCOUNT_PATIENCE_S = 60.0
_PORT_TRIES = 3
_PORT_PATIENCE_S = 3.0
_LOCK = "cluster.lock"

Report = Callable[[str], None]


def _quietly(line: str) -> None:
    """Take a line of progress, and say nothing."""


class LocalCluster:
    """A cluster that runs, or did; made by :meth:`start` or :meth:`open`."""

    def __init__(self, folder: Path, state: State, report: Report = _quietly) -> None:
        self.folder = folder
        self.state = state
        self._report = report

    @classmethod
    def start(
        cls,
        name: str = DEFAULT_NAME,
        folder: Path | None = None,
        *,
        nodes: int = 0,
        parts: Iterable[str] = (),
        feature_gates: Mapping[str, bool] | None = None,
        api_flags: Iterable[str] = (),
        etcd_flags: Iterable[str] = (),
        scheduler_config: Path | Mapping[str, object] | None = None,
        gangs_api: bool | None = None,
        bare: bool | None = None,
        dies_with_us: bool | None = None,
        report: Report = _quietly,
    ) -> LocalCluster:
        """Start a cluster, or bring one that exists to what is asked: parts that are missing, options that differ.

        ``parts``: those beside etcd and the API server, of scheduler, controllers and kwok; they are added to what the
        cluster has. ``bare``: without the admission plugins that only cost time in a benchmark. ``dies_with_us``: the
        kernel ends the processes with the thread that starts them, for tests. What is not given stays as it was.
        """
        folder = (folder or cluster_folder(check_name(name))).absolute()
        wanted = check_parts(parts)
        before = read_state(folder)
        wanted = check_parts((*wanted, *(before.parts if before is not None else ())))
        binaries = find_binaries((PROGRAMS[part] for part in (*ALWAYS, *wanted)), report)
        _make_folder(folder)
        with _lock(folder, report) as lock:
            state = read_state(folder) or _new_cluster(folder, name)
            state = msgspec.structs.replace(
                state,
                parts=check_parts((*wanted, *state.parts)),
                feature_gates=dict(feature_gates if feature_gates is not None else state.feature_gates),
                api_flags=tuple(api_flags) or state.api_flags,
                etcd_flags=tuple(etcd_flags) or state.etcd_flags,
                scheduler_config=_written(folder, scheduler_config) or state.scheduler_config,
                has_gangs_api=state.has_gangs_api if gangs_api is None else gangs_api,
                is_bare=state.is_bare if bare is None else bare,
                dies_with_us=state.dies_with_us if dies_with_us is None else dies_with_us,
                versions={name: binary.version_text for name, binary in binaries.items()},
            )
            cluster = cls(folder, state, report)
            cluster._bring_up(binaries, lock)
            if nodes:
                cluster._add_nodes(nodes)
        return cluster

    @classmethod
    def open(cls, name: str = DEFAULT_NAME, folder: Path | None = None, *, report: Report = _quietly) -> LocalCluster:
        """Return a cluster that exists, whether it runs or not; raise where there is none."""
        folder = (folder or cluster_folder(check_name(name))).absolute()
        state = read_state(folder)
        if state is None:
            raise unknown_cluster(name)
        return cls(folder, state, report)

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def name(self) -> str:
        """Return the name of the cluster."""
        return self.state.name

    @property
    def url(self) -> str:
        """Return the address of the API server."""
        return f"https://127.0.0.1:{self.state.ports.apiserver}"

    @property
    def ca_file(self) -> Path:
        """Return the certificate of the authority that signed the API server's."""
        return self.folder / "ca.crt"

    @property
    def parts(self) -> tuple[str, ...]:
        """Return all parts that belong to the cluster, in the order of starting."""
        return tuple(part for part in PARTS if part in (*ALWAYS, *self.state.parts))

    @property
    def processes(self) -> dict[str, int]:
        """Return the pid of each part that runs."""
        found = {part: processes.find(note_path(self.folder, part)) for part in PARTS}
        return {part: note.pid for part, note in found.items() if note is not None}

    def kubeconfig(self, user: str = "admin") -> Path:
        """Return the kubeconfig of a user: admin, certificate, hostler, kube-scheduler, controllers, kwok, nobody."""
        return kubeconfig_path(self.folder, user)

    def token(self, user: str = "admin") -> str:
        """Return the token of a user."""
        return token_of(self.folder, user)

    def log(self, part: str) -> Path:
        """Return the log of a part."""
        return log_of(self.folder, part)

    def api(self, user: str = "admin") -> Api:
        """Return a plain connection to the API server, for setting things up."""
        return Api(self.url, self.ca_file, self.token(user))

    def kill(self, part: str) -> None:
        """End a part at once, without a chance to clean up (SIGKILL)."""
        self._end(part, patience_s=0.0)

    def restart(self, part: str) -> None:
        """End a part properly if it runs, start it, and wait until it is well."""
        self._end(part, patience_s=10.0)
        binaries = find_binaries((PROGRAMS[one] for one in self.parts), self._report)
        with _lock(self.folder, self._report) as lock:
            Supervision(self.folder, self.state, binaries, lock, self._report).ensure([part])

    def stop(self, *, keep_data: bool = False) -> list[str]:
        """End all parts and remove the folder, unless its data are to be kept; return the parts that were running."""
        if not self.folder.exists():
            return []
        with _lock(self.folder, self._report):
            ended = end_parts(self.folder, PARTS)
            if not keep_data:
                shutil.rmtree(self.folder, ignore_errors=True)
        return ended

    def _end(self, part: str, *, patience_s: float) -> None:
        # The note stays: a part that has one and does not run was not stopped by anybody who meant it.
        note = processes.find(note_path(self.folder, part))
        if note is not None:
            processes.end(note, patience_s=patience_s)

    def _bring_up(self, binaries: dict[str, Binary], lock: int) -> None:
        for attempt in range(1, _PORT_TRIES + 1):
            self._settle_ports()
            write_kubeconfigs(self.folder, self.name, self.url)
            write_state(self.folder, self.state)
            round_ = Supervision(self.folder, self.state, binaries, lock, self._report)
            try:
                round_.ensure(["etcd"])
                round_.ensure(["apiserver"])
                with self.api() as api:
                    grant_access(api)
                round_.ensure([part for part in self.parts if part not in ALWAYS])
                if "controllers" in self.state.parts:
                    with self.api() as api:
                        wait_for_account(api, _ACCOUNT_PATIENCE_S)
            except PortTakenError:
                round_.take_back()
                if attempt == _PORT_TRIES:
                    raise
            except BaseException:
                round_.take_back()
                raise
            else:
                if not round_.started:
                    self._report("all parts are running already")
                return

    def _settle_ports(self) -> None:
        """Take other ports where somebody else has ours by now; the parts that run must follow."""
        running = self.processes
        idle = [part for part in self.parts if part not in running]
        deadline = time.monotonic() + _PORT_PATIENCE_S
        while not all(is_free(getattr(self.state.ports, part)) for part in idle):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)  # a part that was just killed may still hold it
        else:
            return
        self._report("somebody else has a port of ours: all parts get new ones")
        end_parts(self.folder, PARTS)
        self.state = msgspec.structs.replace(self.state, ports=free_ports())

    def _add_nodes(self, count: int) -> None:
        made = create_nodes(self.api, count)
        with self.api() as api:
            there = wait_until_usable(api, count, _NODES_PATIENCE_S)
        more = f"; the cluster has {there}, and none is removed" if there > count else ""
        self._report(f"{count} nodes are Ready ({made} new){more}")


def _make_folder(folder: Path) -> None:
    """Make the folder of a cluster; one that has other things in it is not taken, because it goes with the cluster."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        is_strange = not (folder / _LOCK).exists() and any(folder.iterdir())
    except OSError as error:
        raise UnavailableError(f"{folder}: cannot be used: {error.strerror}", hint="name another folder") from None
    if is_strange:
        raise InputError(f"{folder}: is not empty, and no cluster's folder", hint="name one that is new or empty")


def _new_cluster(folder: Path, name: str) -> State:
    """Fill the folder of a cluster that is started for the first time."""
    for sub in ("run", "logs"):
        (folder / sub).mkdir(exist_ok=True)
    make_credentials(folder)
    return State(name=check_name(name), ports=free_ports())


def _written(folder: Path, config: Path | Mapping[str, object] | None) -> str:
    """Write kube-scheduler's configuration under a name of its own, so that another one is another command line."""
    if config is None:
        return ""
    content = scheduler_file(config, kubeconfig_path(folder, "kube-scheduler"))
    name = f"scheduler-{hashlib.sha256(content).hexdigest()[:8]}.yaml"
    write_private(folder / name, content)
    return name


def _lock(folder: Path, report: Report) -> AbstractContextManager[int]:
    busy = "another command works on this cluster; waiting for it"
    return locked(folder / _LOCK, patience_s=_LOCK_PATIENCE_S, busy=busy, report=report)
