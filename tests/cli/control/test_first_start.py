"""A first start, which compiles kernels for up to a minute, ends as soon as it gets a signal: real processes."""

from __future__ import annotations

import signal
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.cli.control.test_serve_command import answers, run, running
from tests.ports import free_port
from tests.wait import GIVE_UP_S, wait_until


def compiles(log: Path, kernels: Path) -> bool:
    """Say whether kernels are being compiled: the first are there, and nobody is served yet."""
    return any(kernels.rglob("*.nbi")) and "serving on" not in log.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_first_start_that_compiles_kernels_is_broken_off_at_once(tmp_path, number):
    log, kernels, database = tmp_path / "serve.log", tmp_path / "kernels", f"sqlite:///{tmp_path / 'control.db'}"
    words = ("serve", "--database-url", database, "--listen", "127.0.0.1:0")
    with running(log, *words, NUMBA_CACHE_DIR=str(kernels)) as process:
        wait_until(lambda: compiles(log, kernels), saw=log.read_text)
        process.send_signal(number)
        process.wait(GIVE_UP_S)
    text = log.read_text()
    assert process.returncode == 0, text
    assert "stopped" in text
    assert "serving on" not in text, "it has not waited for the compiler"
    assert "Traceback" not in text
    again = run("backup", str(tmp_path / "copy.db"), "--database-url", database)
    assert (again.returncode, again.stderr) == (0, ""), "the database was closed well"


def test_a_first_start_answers_probes_while_it_compiles_kernels(tmp_path):
    log, kernels, port = tmp_path / "serve.log", tmp_path / "kernels", free_port()
    url = f"http://127.0.0.1:{port}"
    words = ("serve", "--database-url", f"sqlite:///{tmp_path / 'control.db'}", "--listen", f"127.0.0.1:{port}")
    with running(log, *words, NUMBA_CACHE_DIR=str(kernels)):
        wait_until(lambda: compiles(log, kernels), saw=log.read_text)
        assert answers(f"{url}/livez")
        with pytest.raises(HTTPError) as caught:
            urlopen(f"{url}/readyz", timeout=GIVE_UP_S)
        assert caught.value.code == 503
        assert b"kernels are being compiled" in caught.value.read()


def test_a_town_that_compiles_kernels_is_broken_off_at_once_too(tmp_path):
    log, kernels, place = tmp_path / "up.log", tmp_path / "kernels", tmp_path / "town"
    words = ("dev", "up", "--listen", "127.0.0.1:0", "--hosts", "3", "--state-dir", str(place))
    with running(log, *words, NUMBA_CACHE_DIR=str(kernels)) as process:
        wait_until(lambda: compiles(log, kernels), saw=log.read_text)
    assert process.returncode == 0, log.read_text()
    assert "Ctrl-C ends it" not in log.read_text()
