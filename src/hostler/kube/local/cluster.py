"""A real control plane on this machine, without containers: etcd, API server, and optional parts.

Used by the commands ``hostler kube up`` and so on, by tests and by benchmarks. All files of a cluster are in one
folder, through which any later process finds the running parts. etcd listens on the loopback interface without a
password: such a cluster is for experiments, not for secrets.

Ports are free ports of the loopback interface, below the range that the kernel uses for outgoing connections.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import yaml

from hostler.config import write_yaml
from hostler.errors import InputError, UnavailableError
from hostler.kube.local import processes
from hostler.kube.local.binaries import Binary, find_binaries
from hostler.kube.local.credentials import kubeconfig_path, make_credentials, token_of, write_kubeconfigs
from hostler.kube.local.locks import hold_lock
from hostler.kube.local.nodes import create_nodes, wait_until_usable
from hostler.kube.local.setup import Api, grant_access, wait_for_account
from hostler.kube.local.state import (
    ALWAYS,
    DEFAULT_NAME,
    PARTS,
    PROGRAMS,
    ClusterPorts,
    LocalClusterState,
    check_name,
    check_parts,
    cluster_folder,
    read_state,
    unknown_cluster,
    write_state,
)
from hostler.kube.local.supervision import PortTakenError, Supervision, end_parts, log_of, note_path
from hostler.model.vocabulary import plural
from hostler.runtime.files import write_private

__all__ = ["LocalCluster", "free_ports", "is_free", "scheduler_file"]

_LOCK_PATIENCE_S = 300.0
_NODES_PATIENCE_S = 60.0
_ACCOUNT_PATIENCE_S = 60.0
_PORT_TRIES = 3
_PORT_PATIENCE_S = 3.0
_LOCK = "cluster.lock"

Report = Callable[[str], None]
# The kernel uses 32768 and above for outgoing connections, from an API server to its etcd for example: one may be
# taken again before we listen on it.
_FIRST, _LAST = 20_000, 32_000
_TRIES = 2_000


def _quietly(line: str) -> None:
    """Ignore a line of progress."""


class LocalCluster:
    """A cluster that runs or ran; made by :meth:`start` or :meth:`open`."""

    def __init__(self, folder: Path, state: LocalClusterState, report: Report = _quietly) -> None:
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
        """Start a cluster, or bring an existing one to the requested state: missing parts, changed options.

        ``parts``: those beside etcd and the API server, of scheduler, controllers and kwok; they are added to the parts
        of the cluster. ``bare``: without the admission plugins that only cost time in a benchmark. ``dies_with_us``:
        the kernel ends the processes with the thread that starts them, for tests. Options that are not given stay
        unchanged.
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
                scheduler_config=_write_scheduler_file(folder, scheduler_config) or state.scheduler_config,
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
        """Return an existing cluster, whether it runs or not; raise if there is none."""
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
        """Return all parts of the cluster, in start order."""
        return tuple(part for part in PARTS if part in (*ALWAYS, *self.state.parts))

    @property
    def processes(self) -> dict[str, int]:
        """Return the pid of each part that runs."""
        found = {part: processes.find(note_path(self.folder, part)) for part in PARTS}
        return {part: note.pid for part, note in found.items() if note is not None}

    def kubeconfig(self, user: str = "admin") -> Path:
        """Return the kubeconfig of a user, one of ``credentials.USERS``."""
        return kubeconfig_path(self.folder, user)

    def token(self, user: str = "admin") -> str:
        """Return the token of a user."""
        return token_of(self.folder, user)

    def log(self, part: str) -> Path:
        """Return the log of a part."""
        return log_of(self.folder, part)

    def api(self, user: str = "admin") -> Api:
        """Return a plain connection to the API server, for setup."""
        return Api(self.url, self.ca_file, self.token(user))

    def kill(self, part: str) -> None:
        """End a part at once, without a chance to clean up (SIGKILL)."""
        self._end(part, patience_s=0.0)

    def restart(self, part: str) -> None:
        """Stop a part if it runs, start it, and wait until it is healthy."""
        self._end(part, patience_s=10.0)
        binaries = find_binaries((PROGRAMS[one] for one in self.parts), self._report)
        with _lock(self.folder, self._report) as lock:
            Supervision(self.folder, self.state, binaries, lock, self._report).ensure([part])

    def stop(self, *, keep_data: bool = False) -> list[str]:
        """Stop all parts and remove the folder, unless its data are kept; return the parts that were running."""
        if not self.folder.exists():
            return []
        with _lock(self.folder, self._report):
            ended = end_parts(self.folder, PARTS)
            if not keep_data:
                shutil.rmtree(self.folder, ignore_errors=True)
        return ended

    def _end(self, part: str, *, patience_s: float) -> None:
        # The note is kept: a part with a note that does not run was not stopped on purpose.
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
        """Choose other ports if another program took ours; running parts must restart then."""
        running = self.processes
        idle = [part for part in self.parts if part not in running]
        deadline = time.monotonic() + _PORT_PATIENCE_S
        while not all(is_free(getattr(self.state.ports, part)) for part in idle):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)  # a part that was just killed may still hold it
        else:
            return
        self._report("another program uses one of our ports: all parts get new ones")
        end_parts(self.folder, PARTS)
        self.state = msgspec.structs.replace(self.state, ports=free_ports())

    def _add_nodes(self, count: int) -> None:
        made = create_nodes(self.api, count)
        with self.api() as api:
            there = wait_until_usable(api, count, _NODES_PATIENCE_S)
        more = f"; the cluster has {there}, and none is removed" if there > count else ""
        self._report(f"{plural(count, 'node')} {'is' if count == 1 else 'are'} Ready ({made} new){more}")


def _make_folder(folder: Path) -> None:
    """Make the folder of a cluster; one with other content is rejected, because it is deleted with the cluster."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        is_strange = not (folder / _LOCK).exists() and any(folder.iterdir())
    except OSError as error:
        raise UnavailableError(f"{folder}: cannot be used: {error.strerror}", hint="name another folder") from None
    if is_strange:
        raise InputError(
            f"{folder}: is not empty, and not the folder of a cluster", hint="name one that is new or empty"
        )


def _new_cluster(folder: Path, name: str) -> LocalClusterState:
    """Fill the folder of a new cluster."""
    for sub in ("run", "logs"):
        (folder / sub).mkdir(exist_ok=True)
    make_credentials(folder)
    return LocalClusterState(name=check_name(name), ports=free_ports())


def _write_scheduler_file(folder: Path, config: Path | Mapping[str, object] | None) -> str:
    """Write kube-scheduler's configuration under a content-based name, so that a change changes the command line."""
    if config is None:
        return ""
    content = scheduler_file(config, kubeconfig_path(folder, "kube-scheduler"))
    name = f"scheduler-{hashlib.sha256(content).hexdigest()[:8]}.yaml"
    write_private(folder / name, content)
    return name


def _lock(folder: Path, report: Report) -> AbstractContextManager[int]:
    busy = "another command works on this cluster; waiting for it"
    return hold_lock(folder / _LOCK, patience_s=_LOCK_PATIENCE_S, busy=busy, report=report)


def free_ports() -> ClusterPorts:
    """Choose a random free port for each part, so that clusters that start together seldom choose the same."""
    found: list[int] = []
    wanted = len(ClusterPorts.__struct_fields__)
    for _ in range(_TRIES):
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        if port not in found and is_free(port):
            found.append(port)
        if len(found) == wanted:
            return ClusterPorts(*found)
    raise UnavailableError(f"no {wanted} free ports between {_FIRST} and {_LAST}", hint="see who listens: ss -ltn")


def is_free(port: int) -> bool:
    """Return whether this port could be listened on now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def scheduler_file(config: Path | Mapping[str, object], kubeconfig: Path) -> bytes:
    """Return the file; with ``--config`` kube-scheduler ignores its flags for kubeconfig and election."""
    content: dict[str, Any] = _read(config) if isinstance(config, Path) else dict(config)
    content.setdefault("apiVersion", "kubescheduler.config.k8s.io/v1")
    content.setdefault("kind", "KubeSchedulerConfiguration")
    content["clientConnection"] = {**(content.get("clientConnection") or {}), "kubeconfig": str(kubeconfig)}
    content["leaderElection"] = {"leaderElect": False}
    return write_yaml(content).encode()


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: cannot be read: {reason}", hint="give a KubeSchedulerConfiguration") from None
    if (
        not isinstance(content, dict)
        or content.get("kind", "KubeSchedulerConfiguration") != "KubeSchedulerConfiguration"
    ):
        raise InputError(
            f"{path}: is not a KubeSchedulerConfiguration", hint="it has 'kind: KubeSchedulerConfiguration'"
        )
    return content
