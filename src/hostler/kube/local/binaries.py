"""Find the programs of a control plane: those that the user has, otherwise those that we built.

``KUBEBUILDER_ASSETS`` (the convention of setup-envtest) comes first, then PATH. Each program tells its version,
and one that is too old is skipped with a note. Missing programs are built (``build``). Used by ``cluster``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from hostler.kube.local.build import TESTS, build, build_folder, recipe_for

__all__ = ["ASSETS_VARIABLE", "Binary", "find_binaries", "missing_binaries", "version_of"]

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"

_KUBERNETES = (1, 34)  # the first version with the gang API and current scheduling
_OLDEST = {
    "etcd": (3, 5),  # progress requests on watches, which current API servers send
    "kube-apiserver": _KUBERNETES,
    "kube-scheduler": _KUBERNETES,
    "kube-controller-manager": _KUBERNETES,
    "kubectl": _KUBERNETES,
    "kwok": (0, 7),
}
_SERVERS = ("kube-apiserver", "kube-scheduler", "kube-controller-manager")
_PATIENCE_S = 30.0
_VERSION = re.compile(r"\bv?(\d+)\.(\d+)\.(\d+)")


class Binary(msgspec.Struct, frozen=True):
    """A program that was found: its version as numbers, and where it was found (the variable, PATH, or built)."""

    name: str
    path: Path
    version: tuple[int, int, int]
    origin: str

    @property
    def version_text(self) -> str:
        """Return the version as text."""
        return ".".join(map(str, self.version))


def find_binaries(names: Iterable[str], report: Callable[[str], None]) -> dict[str, Binary]:
    """Find these programs and build the missing ones; ``report`` takes notes and progress."""
    wanted = list(dict.fromkeys(names))
    found, built = _locate(wanted, report)
    if built:
        build(built, report)
    missing = [name for name in wanted if name not in found]
    found |= {name: Binary(name, build_folder() / name, _pinned_version(name), "built") for name in missing}
    return {name: found[name] for name in wanted}


def missing_binaries(names: Iterable[str], report: Callable[[str], None]) -> list[str]:
    """Return the programs that ``find_binaries`` would have to build."""
    return _locate(list(dict.fromkeys(names)), report)[1]


def _locate(wanted: list[str], report: Callable[[str], None]) -> tuple[dict[str, Binary], list[str]]:
    """Return the usable programs of the user, and those of the others that are not built yet."""
    found = {name: binary for name in wanted if (binary := _first_usable(name, report)) is not None}
    # A server newer than its API server requests features that the latter lacks.
    servers = [name for name in wanted if name in _SERVERS]
    minors = {found[name].version[:2] if name in found else _pinned_version(name)[:2] for name in servers}
    if len(minors) > 1:
        report("the servers found have different versions; all of them are replaced by our own build")
        found = {name: binary for name, binary in found.items() if name not in _SERVERS or binary.origin == "built"}
    return found, [name for name in wanted if name not in found and not (build_folder() / name).exists()]


def version_of(path: Path) -> tuple[int, int, int] | None:
    """Ask a program for its version; None if it gives none."""
    words = ["version", "--client"] if path.name == "kubectl" else ["--version"]
    try:
        ended = subprocess.run([str(path), *words], capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    match = _VERSION.search(ended.stdout) or _VERSION.search(ended.stderr)
    return (int(match[1]), int(match[2]), int(match[3])) if match and ended.returncode == 0 else None


def _first_usable(name: str, report: Callable[[str], None]) -> Binary | None:
    for path, origin in _places(name):
        version = version_of(path)
        oldest = ".".join(map(str, _OLDEST[name]))
        if version is None:
            report(f"{path} ({origin}) does not report its version: skipped")
        elif version[:2] < _OLDEST[name]:
            report(f"{path} ({origin}) is {'.'.join(map(str, version))}, older than {oldest}: skipped")
        else:
            return Binary(name, path, version, origin)
    return None


def _places(name: str) -> Iterator[tuple[Path, str]]:
    if name == TESTS:
        return  # it reports no version and must match the server's, so it always comes from our own build
    assets = os.environ.get(ASSETS_VARIABLE, "")
    if assets and (Path(assets) / name).is_file():
        yield Path(assets) / name, ASSETS_VARIABLE
    if on_path := shutil.which(name):
        yield Path(on_path), "PATH"


def _pinned_version(name: str) -> tuple[int, int, int]:
    match = _VERSION.search(recipe_for(name).version)
    assert match is not None
    return int(match[1]), int(match[2]), int(match[3])
