"""A policy from a file outside the package: the guide is correct, and errors are reported."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from hostler.cli.main import main
from hostler.engine import Engine, Registry, find_policy
from hostler.errors import DuplicateNameError, PluginError
from hostler.model import Device, DeviceRequest, Guest, GuestArrived, GuestSpec, Host, HostJoined, amounts
from hostler.runtime.plugin_files import load_plugin_files
from tests.docs.page_commands import Shell
from tests.docs.page_output import Page

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "own-policy.md").read_text()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_policy.py"
    path.write_text("\n".join(re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)))
    return path


def test_the_guides_file_offers_its_policy_and_its_scorer(file):
    own = load_plugin_files([file])
    assert set(own.factories) == {"fewest_idle"}
    assert set(own.policies) == {"tidy"}


def test_the_guides_scorer_keeps_idle_hosts_idle(file):
    own = load_plugin_files([file])
    engine = Engine([own.policies["tidy"]], registry=Registry(own.factories))
    size = amounts({"cpu": 8000})
    for name, gpus in (("a", 4), ("b", 1)):
        engine.apply(HostJoined(host=Host(name=name, capacity=size, devices=(Device("gpu", "T4"),) * gpus)))
    spec = GuestSpec(requests=amounts({"cpu": 1000}), devices=(DeviceRequest("gpu", 1, 500),))
    engine.apply(GuestArrived(guest=Guest(name="g", uid="g", spec=spec)))
    assert engine.step(1)[0].host == "b"


@pytest.mark.shown_output
def test_every_command_prints_what_the_guide_shows(file):
    page = Page("docs/guides/own-policy.md")
    with Shell(file.parent, sys.executable) as shell:
        for step in page.steps:
            code, lines = shell.type(step.command)
            page.compare(step, code, "\n".join(lines))
    page.finish()


def test_the_guides_command_runs_it_on_openb(file, capsys):
    words = re.findall(r"^\$ hostler (sim run .*)$", GUIDE, re.MULTILINE)[0].split()
    words = [str(file) if word == "my_policy.py" else word for word in words]
    assert main([*words, "-o", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["policy"], result["events"]) == ("tidy", 10_866)
    assert result["gpu_milli_allocated"] > 0.85 * result["gpu_milli_total"]


def test_a_scorer_without_a_policy_decides_alone(tmp_path):
    path = tmp_path / "alone.py"
    path.write_text(
        "class One:\n    name = 'one'\n    normalizer = 'none'\n    def __init__(self, view, args): pass\n"
        "    def evaluate(self, spec, rows): return rows * 0\n"
    )
    own = load_plugin_files([path])
    assert [use.name for use in own.policies["one"].scorers] == ["one"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no plugin and no policy"),
        ("import nothing_of_that_name", "cannot be imported: ModuleNotFoundError"),
        ("def broken(:", "cannot be imported: SyntaxError"),
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
        ("raise SystemExit(0)", "cannot be imported: SystemExit"),
    ],
)
def test_a_file_that_is_no_use_is_refused_by_name(tmp_path, text, problem):
    path = tmp_path / "wrong.py"
    path.write_text(text)
    with pytest.raises(PluginError, match=problem):
        load_plugin_files([path])


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(PluginError, match="there is no such file"):
        load_plugin_files([tmp_path / "none.py"])


def test_one_plugin_in_two_files_is_refused(file):
    with pytest.raises(DuplicateNameError):
        load_plugin_files([file, file])


def test_an_unknown_policy_is_reported_with_those_of_the_file(file, capsys):
    assert main(["sim", "run", "openb", "--plugin", str(file), "--policy", "tidyy"]) == 2
    assert "tidy" in capsys.readouterr().err
    assert find_policy("fgd").name == "fgd"


def test_a_scorer_that_fails_in_the_middle_of_a_run_fails_the_run(tmp_path, capsys):
    path = tmp_path / "late.py"
    path.write_text(
        "class Late:\n    name = 'late'\n    normalizer = 'none'\n    calls = 0\n"
        "    def __init__(self, view, args): pass\n"
        "    def evaluate(self, spec, rows):\n        Late.calls += 1\n"
        "        if Late.calls > 40: raise RuntimeError('too late')\n        return rows * 0\n"
    )
    assert main(["sim", "run", "openb", "--plugin", str(path), "--policy", "late"]) != 0
    assert "too late" in capsys.readouterr().err


def test_a_scorer_that_leaves_the_program_does_not_end_it(tmp_path, capsys):
    path = tmp_path / "leaves.py"
    path.write_text(
        "class Leaves:\n    name = 'leaves'\n    normalizer = 'none'\n    def __init__(self, view, args): pass\n"
        "    def evaluate(self, spec, rows): raise SystemExit(0)\n"
    )
    assert main(["sim", "run", "openb", "--plugin", str(path), "--policy", "leaves"]) == 2
    assert "SystemExit" in capsys.readouterr().err
