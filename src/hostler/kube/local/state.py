"""The stored state of a local cluster: its name and folder, ports, parts and options; one JSON file each.

Each part has a name, a program, and a position in the start and stop order. Names become folders, so they are checked
first. Used by ``cluster`` and the commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from hostler.config import did_you_mean, state_folder
from hostler.errors import InputError, UnknownNameError
from hostler.runtime.files import write_private

__all__ = [
    "ALWAYS", "DEFAULT_NAME", "OPTIONAL", "PARTS", "PROGRAMS", "STOP_ORDER", "ClusterPorts", "LocalClusterState",
    "check_name", "check_parts", "cluster_folder", "known_clusters", "read_state", "the_cluster", "unknown_cluster",
    "write_state",
]  # fmt: skip

# part: its program, in start order
PROGRAMS = {
    "etcd": "etcd",
    "apiserver": "kube-apiserver",
    "controllers": "kube-controller-manager",
    "scheduler": "kube-scheduler",
    "kwok": "kwok",
}
PARTS = tuple(PROGRAMS)
ALWAYS = ("etcd", "apiserver")
OPTIONAL = ("scheduler", "controllers", "kwok")

# Clients stop before servers: an API server whose etcd is gone lingers.
STOP_ORDER = ("kwok", "scheduler", "controllers", "apiserver", "etcd")


def check_parts(parts: Iterable[str]) -> tuple[str, ...]:
    """Return the optional parts in their order, each once; raise if one does not exist."""
    wanted = set(parts) - set(ALWAYS)
    for part in sorted(wanted - set(OPTIONAL)):
        raise UnknownNameError(
            f"no part of a local control plane is named {part!r}",
            hint=did_you_mean(part, OPTIONAL),
        )
    return tuple(part for part in PARTS if part in wanted)


DEFAULT_NAME = "local"
FORMAT = 1

_FILE = "cluster.json"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


class ClusterPorts(msgspec.Struct, frozen=True):
    """The ports of the parts, all on 127.0.0.1."""

    etcd: int
    etcd_peers: int
    apiserver: int
    controllers: int
    scheduler: int
    kwok: int


class LocalClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """The stored state. ``parts`` are those beside etcd and the API server."""

    name: str
    ports: ClusterPorts
    format: int = FORMAT
    parts: tuple[str, ...] = ()
    feature_gates: dict[str, bool] = {}
    api_flags: tuple[str, ...] = ()
    etcd_flags: tuple[str, ...] = ()
    has_gangs_api: bool = True
    is_bare: bool = False
    scheduler_config: str = ""  # a file in the folder; empty: kube-scheduler's defaults
    dies_with_us: bool = False
    versions: dict[str, str] = {}  # of each part, as started


def check_name(name: str) -> str:
    """Return the name of a cluster, which is also a folder name; raise if it is not valid."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a cluster",
            hint="up to 40 lowercase letters, digits and hyphens; the first and last are no hyphens, as in 'local'",
        )
    return name


def cluster_folder(name: str) -> Path:
    """Return the folder of a cluster by name."""
    return _root() / check_name(name)


def known_clusters() -> list[str]:
    """Return the names of the user's clusters, running or not."""
    return sorted(path.parent.name for path in _root().glob(f"*/{_FILE}"))


def the_cluster() -> str:
    """Return the default cluster, or the only existing one, if none is named."""
    names = known_clusters()
    return names[0] if len(names) == 1 else DEFAULT_NAME


def read_state(folder: Path) -> LocalClusterState | None:
    """Read the state of the cluster in this folder; None if there is none."""
    path = folder / _FILE
    try:
        state = msgspec.json.decode(path.read_bytes(), type=LocalClusterState)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(
            f"{path}: cannot be read: {error}", hint="find the processes that use the folder, stop them, and remove it"
        ) from None
    if state.format != FORMAT:
        raise InputError(
            f"{path}: is of format {state.format}, not {FORMAT}",
            hint="stop it with the version of Hostler that started it",
        )
    return state


def unknown_cluster(name: str) -> UnknownNameError:
    """Return the error for a cluster that does not exist."""
    names = known_clusters()
    known = f"there are {', '.join(names)}" if names else "start one with 'hostler kube up'"
    return UnknownNameError(f"there is no local cluster {name!r}", hint=known)


def write_state(folder: Path, state: LocalClusterState) -> None:
    """Write the state atomically: readers see the old or the new one."""
    write_private(folder / _FILE, msgspec.json.format(msgspec.json.encode(state), indent=2))


def _root() -> Path:
    return state_folder() / "kube"
