"""Options of ``hostler serve``: the limits that can be set, and what is said while kernels are compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from hostler.cli.control.local.serve import ServeOptions, read_limits, serve, settings_of
from hostler.cli.main import cli, main
from hostler.config import prepare_kernel_cache
from hostler.control.access.limits import Rate, RateLimits
from hostler.control.settings import ControlSettings
from hostler.errors import InputError
from tests.cli.control.test_serve_command import answers, run, running
from tests.ports import free_port
from tests.wait import wait_until

# How fast replicas take turns and streams are looked after: others than these were never tried.
PACE = ("lease_ttl_s", "renew_s", "checkpoint_every", "decide_at_once", "verdict_s", "alive_s", "stream_look_s")
# 'hostler host edit' says it of each host. In the engine it would be the same for all replicas from the first start on.
SAID_OF_HOSTS = ("overcommit", "reserve")


def default(name: str) -> Any:
    return next(option.default for option in serve.params if option.name == name)


def test_the_defaults_in_help_are_those_of_the_service():
    names = ("reads", "changes", "project_reads", "project_changes", "failures")
    assert read_limits(**{name: default(f"{name.removesuffix('s')}_limit") for name in names}) == RateLimits()
    settings = ControlSettings()
    assert (default("streams"), default("streams_per_key")) == (settings.streams, settings.streams_each)
    assert default("vms_per_project") == settings.vms_each
    assert (default("head_s"), default("read_s")) == (settings.head_s, settings.read_s)


def test_missing_package_of_a_server_is_named(monkeypatch, capsys):
    """A machine that has the packages of an agent only."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert main(["serve"]) == 3
    told = capsys.readouterr().err
    assert "'hostler serve' needs the package uvloop" in told
    assert "pip install 'hostler[server]'" in told


def set_by(*words: str) -> ControlSettings:
    """Return what a service that is started with these options would be told."""
    root = click.Context(cli, **cli.context_settings)  # click keeps the help option it makes
    return settings_of({}, ServeOptions(**serve.make_context("serve", list(words), parent=root).params))


def test_every_setting_has_an_option_or_is_known_to_have_none(tmp_path):
    own = tmp_path / "own.py"
    own.write_text("from hostler.model import Policy\nOWN = Policy(name='own')\n")
    options = (
        "--plugin", str(own), "--plugin-deadline", "7",
        "--listen", "127.0.0.1:1", "--name", "db.example.com", "--strategy", "best_fit", "--heartbeat", "1",
        "--silent-after", "60", "--keep-events", "1h", "--keep-operations", "1h", "--keep-idempotency-keys", "1h",
        "--fence-command", "fence now", "--streams", "7", "--streams-per-key", "7", "--head-timeout", "7",
        "--body-timeout", "7", "--vms-per-project", "7", "--stop-victims",
    )  # fmt: skip
    found, usual = set_by(*options), ControlSettings()
    assert set_by() == usual
    unset = {name for name in usual.__struct_fields__ if getattr(found, name) == getattr(usual, name)}
    assert unset == {*PACE, *SAID_OF_HOSTS}


@pytest.mark.parametrize("name", ["a b", "\x1b[2J", "", "host:1/path"], ids=ascii)
def test_a_name_that_no_client_could_call_is_refused_at_once(name):
    with pytest.raises(InputError, match="is not a host name"):
        set_by("--name", name)


def test_rates_are_read_and_can_be_switched_off_one_by_one():
    found = read_limits(reads="5/1", changes="off", project_reads="6/1", project_changes="off", failures="7")
    assert (found.reads, found.changes, found.failures) == (Rate(5, 1), None, Rate(7, 60))
    assert (found.project_reads, found.project_changes) == (Rate(6, 1), None)


@pytest.mark.parametrize("text", ["", "0/60", "many", "5/0", "-1"])
def test_what_is_no_rate_is_refused_by_the_name_of_its_option(text):
    with pytest.raises(InputError, match="--change-limit"):
        read_limits(reads="off", changes=text, project_reads="off", project_changes="off", failures="off")


def started(tmp_path: Path, *words: str, **environment: str) -> tuple[str, list[int]]:
    """Let a service start, read something twice, and end; return its log and how it answered."""
    port, log, key = free_port(), tmp_path / "serve.log", tmp_path / "admin.key"
    url = f"http://127.0.0.1:{port}"
    place = ("--database-url", f"sqlite:///{tmp_path / 'control.db'}", "--listen", f"127.0.0.1:{port}")
    with running(log, "serve", *place, "--admin-key-file", str(key), *words, **environment):
        wait_until(lambda: key.is_file() and answers(f"{url}/readyz"), saw=log.read_text)
        done: list[subprocess.CompletedProcess[str]] = [
            run("key", "whoami", "--server", url, "--key-file", str(key)) for _ in range(2)
        ]
    return log.read_text(), [one.returncode for one in done]


def test_a_rate_that_is_set_is_kept_to(tmp_path):
    _, codes = started(tmp_path, "--read-limit", "1/3600")
    assert codes == [0, 3]


def test_service_reports_compilation_before_serving_and_only_once(tmp_path):
    warm = prepare_kernel_cache().folder
    assert warm is not None
    copy = tmp_path / "kernels"  # the same kernels, without the word that they are complete
    copy.mkdir()
    for path in warm.iterdir():
        if path.is_dir():
            (copy / path.name).symlink_to(path)
    log, _ = started(tmp_path, NUMBA_CACHE_DIR=str(copy))
    lines = log.splitlines()
    [said] = [at for at, line in enumerate(lines) if "compiling kernels (once" in line]
    [serves] = [at for at, line in enumerate(lines) if "serving on" in line]
    assert said < serves
    log, _ = started(tmp_path, NUMBA_CACHE_DIR=str(copy))
    assert "compiling" not in log
    assert "serving on" in log
