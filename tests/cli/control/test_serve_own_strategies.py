"""Strategies of one's own in ``hostler serve``: by a configuration, by a plugin file; the process is real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.control.test_serve_command import answers, run, running
from tests.cli.control.test_serve_options import set_by
from tests.ports import free_port
from tests.wait import wait_until

PLUGIN = """
import numpy as np
from hostler.model import Policy, ScorerUse

class Even:
    name = "even"
    normalizer = "none"

    def __init__(self, view, args):
        self.by = args.get("by", 1)

    def evaluate(self, spec, rows):
        return np.full(len(rows), self.by, dtype=np.int64)

PLAIN = Policy(name="plain", scorers=(ScorerUse("even"),))
"""
CONFIG = """
apiVersion: hostler/v1
kind: Config
default_policy: steady
policies:
  - name: steady
    scorers: [{name: even, args: {by: 3}}, preferred_hosts]
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "even.py").write_text(PLUGIN)
    (tmp_path / "config.yaml").write_text(CONFIG)
    return "--plugin", str(tmp_path / "even.py"), "--config", str(tmp_path / "config.yaml")


def test_serve_offers_strategies_of_both_files(files, tmp_path):
    port, log_file, key = free_port(), tmp_path / "serve.log", tmp_path / "admin.key"
    url = f"http://127.0.0.1:{port}"
    reach = {"HOSTLER_SERVER": url, "HOSTLER_KEY_FILE": str(key)}
    place = ("--database-url", f"sqlite:///{tmp_path / 'control.db'}", "--listen", f"127.0.0.1:{port}")
    size = ("--cpu", "1", "--memory", "1Gi")
    with running(log_file, "serve", *place, "--admin-key-file", str(key), *files, "--log-format", "json"):
        wait_until(lambda: key.is_file() and answers(f"{url}/readyz"), saw=log_file.read_text)
        wait_until(lambda: run("vm", "create", "one", *size, "--strategy", "plain", **reach).returncode == 0)
        assert run("vm", "create", "two", *size, **reach).returncode == 0
        wrong = run("vm", "create", "three", *size, "--strategy", "stedy", **reach)
        assert wrong.returncode == 2
        assert "did you mean 'steady'?" in wrong.stderr
        wish = {"spread": [{"topology": "zone", "is_hard": False, "selector": {"app": "web"}}]}
        file = tmp_path / "vm.yaml"
        file.write_text(json.dumps({"name": "four", "spec": {"cpu": 1, "memory": "1Gi", "strategy": "plain", **wish}}))
        made = run("vm", "create", "-f", str(file), **reach)
        assert made.returncode == 0, made.stderr
        assert "VM four: strategy plain does not count its spread (soft)" in made.stderr
        wait_until(lambda: log_file.read_text().count("VM not placed") >= 3, saw=log_file.read_text)
    lines = [json.loads(line) for line in log_file.read_text().splitlines()]
    named = {line["vm"]: line["strategy"] for line in lines if line["message"] == "VM not placed"}
    assert named == {"default/one": "plain", "default/two": "steady", "default/four": "plain"}


def test_flag_and_variable_beat_the_default_of_the_file(files):
    assert set_by(*files).strategy == "steady"
    assert set_by(*files, "--strategy", "plain").strategy == "plain"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("even.py", 'name = "even"', "name = 3 +"), "cannot be imported: SyntaxError"),
        (("even.py", "np.full", "np.full"), ""),
        (("config.yaml", "default_policy: steady", "default_policy: odd"), "policy 'odd' is not known"),
        (("config.yaml", "name: even", "name: evn"), "did you mean 'even'?"),
        (("config.yaml", "policies:", "queue: {backoff_max: 1m}\npolicies:"), "queue rules of its own"),
        (("config.yaml", "name: steady", "name: best_fit"), "already known"),
    ],
    ids=["syntax error", "sound", "unknown default", "unknown plugin", "queue", "name of a built-in one"],
)
def test_mistakes_in_own_strategies_end_the_start(files, tmp_path, change, said):
    name, old, new = change
    path = tmp_path / name
    path.write_text(path.read_text().replace(old, new, 1))
    place = ("--database-url", f"sqlite:///{tmp_path / 'x.db'}", "--listen", "127.0.0.1:0")
    if not said:  # it would serve; another mistake ends it
        place, said = (*place[:3], "nowhere:at:all"), "HOST:PORT"
    found = run("serve", *place, *files)
    assert found.returncode == 2, found.stderr
    assert said in found.stderr
    assert "Traceback" not in found.stderr
