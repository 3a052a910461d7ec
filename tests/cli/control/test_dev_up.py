"""``hostler dev up`` as a process: its first start says what it is waiting for."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from hostler.config import prepare_kernel_cache
from tests.cli.cli_in_process import hostler
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


def test_dev_up_reports_compilation_first_and_only_once(tmp_path):
    log, kernels = tmp_path / "up.log", unmarked_kernels(tmp_path / "kernels")
    words = ("dev", "up", "--listen", "127.0.0.1:0", "--hosts", "0", "--state-dir", str(tmp_path / "town"))
    for is_first in (True, False):
        with running(log, *words, NUMBA_CACHE_DIR=str(kernels)) as process:
            wait_until(lambda: "Ctrl-C ends it" in log.read_text(), saw=log.read_text)
        assert process.returncode == 0, log.read_text()
        lines = log.read_text().splitlines()
        assert [at for at, line in enumerate(lines) if line == COMPILING] == ([0] if is_first else [])


def test_dev_up_logs_in_by_an_address_once_and_kills_a_host(tmp_path):
    log, folder = tmp_path / "up.log", tmp_path / "dev"
    words = ("dev", "up", "--listen", "127.0.0.1:0", "--hosts", "2", "--silent-after", "1", "--state-dir", str(folder))
    with running(log, *words):
        wait_until(lambda: "Ctrl-C ends it" in log.read_text(), saw=log.read_text)
        found = re.search(r"http://\S+/login/once/\S+", log.read_text())
        assert found is not None, log.read_text()
        assert "which works once, within 15 minutes:" in log.read_text()
        with httpx.Client() as browser:
            first = browser.get(found[0])
            assert (first.status_code, first.headers["location"]) == (303, "/")
            assert browser.get(found[0].partition("/login/")[0] + "/").status_code == 200
        second = httpx.get(found[0])
        assert second.status_code == 400
        assert "set-cookie" not in second.headers
        assert "was used already or has expired" in second.text
        server = found[0].partition("/login/")[0]
        reach = ("--server", server, "--key-file", str(folder / "admin.key"))

        def states() -> dict[str, str]:
            items = hostler("host", "list", "-o", "json", *reach).json["items"]
            return {one["name"]: one["state"] for one in items}

        wait_until(lambda: states() == {"host-01": "ready", "host-02": "ready"})
        killed = hostler("dev", "kill", "host-02", "--state-dir", str(folder))
        assert killed.code == 0, killed.err
        assert killed.out.startswith("host-02 is stopped, with its VMs.")
        wait_until(lambda: states() == {"host-01": "ready", "host-02": "silent"})
        unknown = hostler("dev", "kill", "host-07", "--state-dir", str(folder))
        assert (unknown.code, unknown.error) == (2, "no host host-07 runs here")
    gone = hostler("dev", "kill", "host-01", "--state-dir", str(folder))
    assert (gone.code, "no 'hostler dev up'" in gone.error) == (3, True)
