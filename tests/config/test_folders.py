"""Folders of our own, and the cache of compiled kernels that never gets in the way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import hostler
from hostler.config import cache_folder, config_folder, data_folder, prepare_kernel_cache, state_folder


@pytest.fixture
def home(tmp_path, monkeypatch):
    for kind in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return tmp_path


def test_folders_follow_the_xdg_variables(home):
    assert cache_folder() == home / "cache" / "hostler"
    assert config_folder() == home / "config" / "hostler"
    assert data_folder() == home / "data" / "hostler"
    assert state_folder() == home / "state" / "hostler"


def test_first_run_is_cold_and_the_next_is_warm(home):
    first = prepare_kernel_cache()
    assert not first.is_warm
    assert first.note == ""
    assert first.folder == home / "cache" / "hostler" / f"kernels-{first.key}"
    assert os.environ["NUMBA_CACHE_DIR"] == str(first.folder)
    first.mark_complete()
    assert prepare_kernel_cache().is_warm


def test_folder_that_the_user_chose_is_kept(home, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(home / "mine"))
    cache = prepare_kernel_cache()
    assert cache.folder == home / "mine"
    assert os.environ["NUMBA_CACHE_DIR"] == str(home / "mine")
    assert not cache.is_warm
    cache.mark_complete()
    assert prepare_kernel_cache().is_warm
    assert not (home / "cache").exists()


def test_folder_that_a_parent_process_set_for_other_kernels_is_not_taken(home, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(home / "cache" / "hostler" / "kernels-0123456789abcdef"))
    cache = prepare_kernel_cache()
    assert cache.folder == home / "cache" / "hostler" / f"kernels-{cache.key}"


def test_marker_of_other_kernels_does_not_count_as_warm(home, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(home))
    (home / "complete").write_text("another key")
    assert not prepare_kernel_cache().is_warm
    (home / "complete").write_bytes(b"\xff")
    assert not prepare_kernel_cache().is_warm


def test_unusable_cache_folder_falls_back_to_a_private_one_with_a_note(home):
    (home / "cache").write_text("a file where the folder should be")
    cache = prepare_kernel_cache()
    assert cache.folder is not None
    assert cache.folder.is_relative_to(home / "tmp")
    assert cache.folder.parent.stat().st_mode & 0o077 == 0
    assert "cannot be written to" in cache.note
    cache.mark_complete()
    assert prepare_kernel_cache().is_warm


def test_private_folder_that_others_can_write_to_is_not_trusted(home):
    (home / "cache").write_text("")
    shared = home / "tmp" / f"hostler-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    cache = prepare_kernel_cache()
    assert cache.folder is not None
    assert not cache.folder.is_relative_to(shared)


def test_link_in_the_temporary_folder_is_not_trusted(home):
    (home / "cache").write_text("")
    (home / "elsewhere").mkdir(mode=0o700)
    link = home / "tmp" / f"hostler-{os.getuid()}"
    link.symlink_to(home / "elsewhere")
    cache = prepare_kernel_cache()
    assert cache.folder is not None
    assert not cache.folder.is_relative_to(link)


def test_without_any_place_to_write_nothing_fails(home, monkeypatch):
    (home / "cache").write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(home / "absent"))
    cache = prepare_kernel_cache()
    assert (cache.folder, cache.is_warm) == (None, False)
    assert "compiled again" in cache.note
    cache.mark_complete()


def test_only_the_newest_three_folders_stay(home):
    root = home / "cache" / "hostler"
    for age, name in enumerate(["kernels-a", "kernels-b", "kernels-c", "kernels-d"]):
        (root / name).mkdir(parents=True)
        os.utime(root / name, (1000 - age, 1000 - age))
    (root / "other").mkdir()
    cache = prepare_kernel_cache()
    cache.mark_complete()
    assert sorted(path.name for path in root.iterdir()) == sorted(
        ["kernels-a", "kernels-b", f"kernels-{cache.key}", "other"]
    )


def _key_of(package: Path) -> str:
    code = "from hostler.config.folders import prepare_kernel_cache as p; print(p().key)"
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": "/nowhere"}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True
    ).stdout.decode()


def test_key_changes_with_any_kernel_source_and_with_nothing_else(tmp_path):
    source = Path(hostler.__file__).parent
    package = tmp_path / "hostler"
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__", "kernels*"))
    engine = package / "engine"
    engine.mkdir(exist_ok=True)
    (engine / "kernels_a.py").write_text("A = 1\n")
    first = _key_of(package)
    (engine / "queue_of_another_test.py").write_text("x = 1\n")
    assert _key_of(package) == first
    (engine / "kernels_b.py").write_text("B = 1\n")
    second = _key_of(package)
    (engine / "kernels_a.py").write_text("A = 2\n")
    third = _key_of(package)
    assert len({first, second, third}) == 3


def test_preparing_imports_neither_the_engine_nor_numba(home):
    code = (
        "import sys; from hostler.config import prepare_kernel_cache; prepare_kernel_cache(); "
        "sys.exit(any(name in sys.modules for name in ('hostler.engine', 'numba', 'numpy')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_kernels_of_one_use_do_not_pass_for_those_of_another(home):
    prepare_kernel_cache().mark_complete()
    service = prepare_kernel_cache("control")
    assert not service.is_warm
    service.mark_complete()
    assert prepare_kernel_cache("control").is_warm
    assert prepare_kernel_cache().is_warm
