"""``hostler dev up`` as a process: whoever waits for its first start learns what it does."""

from __future__ import annotations

from pathlib import Path

from hostler.config import prepare_kernel_cache
from tests.cli.control.test_serve_command import running
from tests.wait import wait_until

COMPILING = "compiling kernels (once, this may take a minute or two) …"


def unmarked_kernels(folder: Path) -> Path:
    """Return a folder with the kernels of this run, without the word that they are complete."""
    warm = prepare_kernel_cache().folder
    assert warm is not None
    folder.mkdir()
    for path in warm.iterdir():
        if path.is_dir():
            (folder / path.name).symlink_to(path)
    return folder


def test_a_town_that_must_compile_says_so_before_anything_else_and_the_next_one_does_not(tmp_path):
    log, kernels = tmp_path / "up.log", unmarked_kernels(tmp_path / "kernels")
    words = ("dev", "up", "--listen", "127.0.0.1:0", "--hosts", "0", "--state-dir", str(tmp_path / "town"))
    for is_first in (True, False):
        with running(log, *words, NUMBA_CACHE_DIR=str(kernels)) as process:
            wait_until(lambda: "Ctrl-C ends it" in log.read_text(), saw=log.read_text)
        assert process.returncode == 0, log.read_text()
        lines = log.read_text().splitlines()
        assert [at for at, line in enumerate(lines) if line == COMPILING] == ([0] if is_first else [])
