"""``hostler serve``, ``dev up``, ``backup`` and ``restore`` as a user meets them: real processes on loopback."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.wait import GIVE_UP_S, wait_until


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "hostler", *words],
        capture_output=True,
        text=True,
        timeout=GIVE_UP_S,
        env={**os.environ, **environment},
        check=False,
    )


@contextmanager
def running(log: Path, *words: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command until the block ends; it must end well when it is asked to."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "hostler", *words],
            stdout=output,
            stderr=output,
            env={**os.environ, **environment},
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(GIVE_UP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status) == 200
    except OSError:
        return False


@pytest.fixture
def url_of_database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'control.db'}"


def test_the_first_key_is_shown_once_and_a_stop_is_clean(tmp_path, url_of_database):
    port, log = free_port(), tmp_path / "serve.log"
    words = ("serve", "--database-url", url_of_database, "--listen", f"127.0.0.1:{port}")
    for _ in range(2):
        with running(log, *words) as process:
            wait_until(lambda: answers(f"http://127.0.0.1:{port}/readyz"), saw=log.read_text)
        assert process.returncode == 0, log.read_text()
        text = log.read_text()
        assert "Traceback" not in text
        assert text.count("hk_") == (1 if "shown only once" in text else 0)
    assert "hk_" not in log.read_text(), "the second start says nothing of the key"


def test_a_key_file_is_for_its_owner_alone_and_the_key_opens_the_service(tmp_path, url_of_database):
    port, log, key = free_port(), tmp_path / "serve.log", tmp_path / "admin.key"
    words = ("serve", "--database-url", url_of_database, "--listen", f"127.0.0.1:{port}", "--admin-key-file", str(key))
    with running(log, *words):
        wait_until(lambda: key.is_file() and answers(f"http://127.0.0.1:{port}/readyz"), saw=log.read_text)
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert "hk_" not in log.read_text()
        listed = run("vm", "list", "--server", f"http://127.0.0.1:{port}", "--key-file", str(key), "-o", "json")
        assert (listed.returncode, listed.stderr) == (0, "")
        second = run(*words[:3], "--listen", f"127.0.0.1:{free_port()}")
        assert second.returncode == 4
        assert "error:" in second.stderr
        same_port = run(
            "serve", "--database-url", f"sqlite:///{tmp_path / 'other.db'}", "--listen", f"127.0.0.1:{port}"
        )
        assert same_port.returncode == 3
        assert "cannot listen" in same_port.stderr


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        (("--listen", "127.0.0.1:0"), {"SCHEDULING_STRATEGY": "bestfit"}, "best_fit"),
        (("--listen", "127.0.0.1:0", "--strategy", "worst"), {}, "worst"),
        (("--listen", "0.0.0.0:0"), {}, "TLS"),
        (("--listen", "127.0.0.1:0", "--tls-cert", "a.pem"), {}, "--tls-key"),
        (("--listen", "nowhere:at:all"), {}, "HOST:PORT"),
        (("--listen", "127.0.0.1:0", "--database-url", "mysql://x"), {}, "postgresql"),
    ],
    ids=["typo in the environment", "unknown strategy", "beyond loopback", "half a pair", "no address", "no database"],
)
def test_what_cannot_be_right_stops_the_start(tmp_path, words, environment, said):
    found = run("serve", "--database-url", f"sqlite:///{tmp_path / 'x.db'}", *words, **environment)
    assert found.returncode == 2, found.stderr
    assert said in found.stderr
    assert "Traceback" not in found.stderr


def test_a_town_of_ones_own_comes_up_with_hosts_and_is_found_again(tmp_path):
    port, log, place = free_port(), tmp_path / "up.log", tmp_path / "town"
    words = ("dev", "up", "--listen", f"127.0.0.1:{port}", "--hosts", "3", "--state-dir", str(place))
    reach = {"HOSTLER_SERVER": f"http://127.0.0.1:{port}", "HOSTLER_KEY_FILE": str(place / "admin.key")}

    def hosts() -> int:
        return run("host", "list", **reach).stdout.count(" ready ")

    with running(log, *words) as process:
        wait_until(lambda: "Ctrl-C ends it" in log.read_text() and hosts() == 3, saw=log.read_text)
        made = run("vm", "create", "web", "--cpu", "1", "--memory", "1Gi", "--wait", "300", **reach)
        assert made.returncode == 0, made.stderr
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/login"), saw=log.read_text)
    assert process.returncode == 0, log.read_text()
    with running(log, *words) as process:
        wait_until(lambda: "Ctrl-C ends it" in log.read_text() and hosts() == 3, saw=log.read_text)
        wait_until(lambda: " running " in run("vm", "list", **reach).stdout, saw=log.read_text)
    assert process.returncode == 0, log.read_text()


def test_backup_works_while_serving_and_restore_when_stopped(tmp_path, url_of_database):
    port, log, key = free_port(), tmp_path / "serve.log", tmp_path / "admin.key"
    words = ("serve", "--database-url", url_of_database, "--listen", f"127.0.0.1:{port}", "--admin-key-file", str(key))
    reach = {"HOSTLER_SERVER": f"http://127.0.0.1:{port}", "HOSTLER_KEY_FILE": str(key)}
    copy = tmp_path / "copy.db"
    with running(log, *words):
        wait_until(lambda: key.is_file() and answers(f"http://127.0.0.1:{port}/readyz"), saw=log.read_text)
        assert run("vm", "create", "kept", "--cpu", "1", "--memory", "1Gi", **reach).returncode == 0
        done = run("backup", str(copy), "--database-url", url_of_database)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"backed up {tmp_path / 'control.db'} to {copy} (")
        assert "1 VM," in done.stdout
        assert run("vm", "create", "later", "--cpu", "1", "--memory", "1Gi", **reach).returncode == 0
        refused = run("restore", str(copy), "--database-url", url_of_database, "--force")
        assert refused.returncode == 4, "the database is in use"
    refused = run("restore", str(copy), "--database-url", url_of_database)
    assert refused.returncode == 2, "it would replace one"
    assert "--force" in refused.stderr
    assert run("restore", str(copy), "--database-url", url_of_database, "--force").returncode == 0
    with running(log, *words):
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/readyz"), saw=log.read_text)
        listed = run("vm", "list", **reach).stdout
        assert "kept" in listed
        assert "later" not in listed
