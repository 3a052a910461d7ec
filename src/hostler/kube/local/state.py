"""What is remembered of a local cluster: its name and folder, ports, parts and options; one JSON file each.

Names become folders, so they are checked before anything is touched. Used by ``cluster`` and the commands.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from hostler.config import state_folder
from hostler.errors import InputError, UnknownNameError

__all__ = ["DEFAULT_NAME", "Ports", "State", "check_name", "cluster_folder", "known_clusters", "read_state"]
__all__ += ["the_cluster", "unknown_cluster", "write_private", "write_state"]

DEFAULT_NAME = "local"
FORMAT = 1

_FILE = "cluster.json"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


class Ports(msgspec.Struct, frozen=True):
    """Where the parts listen, all on 127.0.0.1."""

    etcd: int
    etcd_peers: int
    apiserver: int
    controllers: int
    scheduler: int
    kwok: int


class State(msgspec.Struct, frozen=True, kw_only=True):
    """A local cluster as its files say. ``parts`` are those beside etcd and the API server."""

    name: str
    ports: Ports
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
    """Return the name of a cluster, which is a folder's name too; raise where it cannot be one."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a cluster",
            hint="up to 40 small letters, digits and hyphens, with a letter or digit at both ends; for example 'local'",
        )
    return name


def cluster_folder(name: str) -> Path:
    """Return the folder of a cluster by name."""
    return _root() / check_name(name)


def known_clusters() -> list[str]:
    """Return the names of the user's clusters, running or not."""
    return sorted(path.parent.name for path in _root().glob(f"*/{_FILE}"))


def the_cluster() -> str:
    """Return the cluster that is meant where none is named: the default one, or the only one that there is."""
    names = known_clusters()
    return names[0] if len(names) == 1 else DEFAULT_NAME


def read_state(folder: Path) -> State | None:
    """Read the state of the cluster in this folder; None where there is none."""
    path = folder / _FILE
    try:
        state = msgspec.json.decode(path.read_bytes(), type=State)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(
            f"{path}: cannot be read: {error}", hint="see which processes use the folder, end them, and remove it"
        ) from None
    if state.format != FORMAT:
        raise InputError(f"{path}: is of format {state.format}, not {FORMAT}", hint="end it with the Hostler it is of")
    return state


def unknown_cluster(name: str) -> UnknownNameError:
    """Return the error for a cluster that does not exist."""
    names = known_clusters()
    known = f"there are {', '.join(names)}" if names else "start one with 'hostler kube up'"
    return UnknownNameError(f"there is no local cluster {name!r}", hint=known)


def write_state(folder: Path, state: State) -> None:
    """Write the state; whoever reads meanwhile sees the old or the new one."""
    write_private(folder / _FILE, msgspec.json.format(msgspec.json.encode(state), indent=2))


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, all of it or nothing."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    new.replace(path)


def _root() -> Path:
    return state_folder() / "kube"
