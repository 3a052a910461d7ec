"""Where Hostler keeps files of its own: the XDG folders, and the cache of compiled kernels.

numba notices an edited kernel only in the file that is edited, not in those that call it, so the cache
folder is named after a hash over all kernel sources and the versions that matter. The commands call
:func:`prepare_kernel_cache` before they import the engine. Nothing here fails: a cache is a convenience.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs

__all__ = ["KernelCache", "cache_folder", "config_folder", "data_folder", "prepare_kernel_cache", "state_folder"]

NUMBA_VARIABLE = "NUMBA_CACHE_DIR"

_APP = "hostler"
_PREFIX = "kernels-"
_MARKER = "complete"
_KEPT = 3  # cache folders: this one, and those of two other versions


def cache_folder() -> Path:
    """Return the folder for files that can be recreated, usually ``~/.cache/hostler``."""
    return platformdirs.user_cache_path(_APP, appauthor=False)


def config_folder() -> Path:
    """Return the folder of the user's configuration, usually ``~/.config/hostler``."""
    return platformdirs.user_config_path(_APP, appauthor=False)


def data_folder() -> Path:
    """Return the folder for data to keep, usually ``~/.local/share/hostler``."""
    return platformdirs.user_data_path(_APP, appauthor=False)


def state_folder() -> Path:
    """Return the folder for histories and journals, usually ``~/.local/state/hostler``."""
    return platformdirs.user_state_path(_APP, appauthor=False)


class KernelCache(msgspec.Struct, frozen=True):
    """Where compiled kernels are kept; ``folder`` is None when there is no place at all."""

    folder: Path | None
    key: str
    is_warm: bool
    note: str = ""  # what a user should know, for example that nothing can be kept
    use: str = ""  # whose kernels are meant: each use compiles some that others do without

    def mark_complete(self) -> None:
        """Note that the kernels are compiled, and remove the folders of older versions; never fails."""
        if self.folder is None:
            return
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            for use in {"", self.use}:
                _marker(self.folder, use).write_text(self.key)
        if self.folder.name == f"{_PREFIX}{self.key}":
            _remove_old(self.folder)


def prepare_kernel_cache(use: str = "") -> KernelCache:
    """Point numba at the cache folder for these very kernels, unless the user chose one; never fails.

    With a ``use`` it is warm only when that use has compiled all that it needs, whatever others have.
    """
    key = _kernel_key()
    chosen = os.environ.get(NUMBA_VARIABLE, "")
    root = cache_folder()
    # A parent process of ours may have set it, for other kernels than these.
    is_ours = bool(chosen) and Path(chosen).name.startswith(_PREFIX) and Path(chosen).parent == root
    if chosen and not is_ours:
        return KernelCache(Path(chosen), key, _is_warm(Path(chosen), key, use), use=use)
    folder, note = _usable_folder(root, f"{_PREFIX}{key}")
    if folder is None:
        return KernelCache(None, key, is_warm=False, note=note)
    os.environ[NUMBA_VARIABLE] = str(folder)
    return KernelCache(folder, key, _is_warm(folder, key, use), note, use)


def _kernel_key() -> str:
    """Hash the kernel sources and the versions of numba, numpy and Python, without importing any of them."""
    digest = hashlib.sha256(f"{sys.implementation.cache_tag} {sys.version_info[:3]}".encode())
    for package in ("numba", "llvmlite", "numpy"):
        digest.update(f"\n{package} {_version_of(package)}".encode())
    with suppress(OSError, ValueError, ImportError):
        for path in _kernel_sources():
            digest.update(f"\n{path.name}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _version_of(package: str) -> str:
    """Return an installed package's version from its folder's name (importlib.metadata would take 20 ms)."""
    with suppress(OSError, ValueError, ImportError):
        found = importlib.util.find_spec(package)
        if found is not None and found.origin is not None:
            installed = Path(found.origin).parent.parent.glob(f"{package}-*.dist-info")
            return " ".join(sorted(path.name for path in installed))
    return "absent"


def _kernel_sources() -> list[Path]:
    """Return the modules of ``engine/kernels``, and ``engine/kernels*.py``."""
    found = importlib.util.find_spec(_APP)
    if found is None or not found.submodule_search_locations:
        return []
    engine = Path(next(iter(found.submodule_search_locations))) / "engine"
    return sorted([*engine.glob("kernels*.py"), *engine.glob("kernels*/**/*.py")])


def _marker(folder: Path, use: str) -> Path:
    return folder / (f"{_MARKER}-{use}" if use else _MARKER)


def _is_warm(folder: Path, key: str, use: str) -> bool:
    try:
        return _marker(folder, use).read_text() == key
    except (OSError, ValueError):
        return False


def _usable_folder(root: Path, name: str) -> tuple[Path | None, str]:
    """Make the folder, else one that only we can write to in the temporary folder; return it with a note."""
    folder = root / name
    if _is_writable(folder):
        return folder, ""
    note = f"the cache folder {root} cannot be written to; compiled kernels are kept in "
    with suppress(OSError):
        private = Path(tempfile.gettempdir()) / f"{_APP}-{os.getuid()}"
        private.mkdir(mode=0o700, exist_ok=True)
        if _is_private(private) and _is_writable(private / name):
            return private / name, f"{note}{private / name}"
        folder = Path(tempfile.mkdtemp(prefix=f"{_APP}-"))
        return folder, f"{note}{folder} for this run"
    return None, f"the cache folder {root} cannot be written to; kernels are compiled again in every run"


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _is_private(folder: Path) -> bool:
    """Say whether only we can write there: numba's cache holds code, and others use this place too."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _remove_old(current: Path) -> None:
    """Remove all but the newest cache folders; another process may do the same."""
    with suppress(OSError):
        others = [path for path in current.parent.glob(f"{_PREFIX}*") if path != current and path.is_dir()]
        others.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for path in others[_KEPT - 1 :]:
            shutil.rmtree(path, ignore_errors=True)
