"""What the log of ``hostler serve`` says of decisions, as text and as JSON; the process is real."""

from __future__ import annotations

import json
from functools import partial

from tests.cli.control.test_serve_command import answers, run, running
from tests.ports import free_port
from tests.wait import wait_until

WHY = "there is no host"


def is_told(text: str, *words: str, **environment: str) -> bool:
    return text in run(*words, **environment).stdout


def log_of_creates(tmp_path, *words: str) -> list[str]:
    """Return the lines of a service without hosts that was asked for two VMs, one after the other."""
    port, log, key = free_port(), tmp_path / "serve.log", tmp_path / "admin.key"
    url = f"http://127.0.0.1:{port}"
    reach = {"HOSTLER_SERVER": url, "HOSTLER_KEY_FILE": str(key)}
    place = ("--database-url", f"sqlite:///{tmp_path / 'control.db'}", "--listen", f"127.0.0.1:{port}")
    with running(log, "serve", *place, "--admin-key-file", str(key), *words):
        wait_until(lambda: key.is_file() and answers(f"{url}/readyz"), saw=log.read_text)
        for name in ("web", "big"):
            made = run("vm", "create", name, "--cpu", "1", "--memory", "1Gi", **reach)
            assert made.returncode == 0, made.stderr
            wait_until(partial(is_told, WHY, "vm", "get", name, "-o", "json", **reach), saw=log.read_text)
    return log.read_text().splitlines()


def test_serve_logs_each_decision_as_text(tmp_path):
    lines = [line for line in log_of_creates(tmp_path) if "VM not placed" in line]
    assert " INFO  VM not placed vm=default/web id=" in lines[0]
    assert lines[0].endswith(f'strategy=least_loaded candidates=0 hosts=0 attempt=1 why="{WHY}"')
    assert any("vm=default/big " in line for line in lines)


def test_serve_logs_decisions_as_json_and_counts_the_rest_at_its_end(tmp_path):
    lines = [json.loads(line) for line in log_of_creates(tmp_path, "--log-format", "json", "--log-decisions", "1")]
    said, left_out = [line for line in lines if line["message"].startswith("VM not placed")]
    assert (said["level"], said["vm"], said["strategy"]) == ("info", "default/web", "least_loaded")
    assert (said["candidates"], said["hosts"], said["why"]) == (0, 0, WHY)
    assert left_out["message"] == "VM not placed: so many more lines were left out"
    assert left_out["lines"] >= 1
