"""``--plugin FILE`` in every command that decides, and errors in such a file with file and line."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler, write
from tests.sim.scorer.services import our_service
from tests.sim.simon.files import cluster_config, node, pod
from tests.sim.simon.files import write as write_objects

COLDEST = """\
import numpy as np


class Coldest:
    name = "coldest"
    normalizer = "none"

    def __init__(self, view, args):
        self.view = view

    def evaluate(self, spec, rows):
        return np.array([int(text or 0) for text in self.view.labels("cold", rows)], dtype=np.int64)
"""
FLEET = """\
hosts: [{name: a, labels: {cold: "1"}}, {name: b, labels: {cold: "5"}}]
guests: [{name: g}]
"""


@pytest.fixture
def plugin(tmp_path):
    """Return a function that writes a plugin file with one line replaced."""

    def make(old: str = "", new: str = ""):
        file = tmp_path / "coldest.py"
        assert old in COLDEST
        file.write_text(COLDEST.replace(old, new))
        return file

    return make


@pytest.fixture
def fleet(tmp_path):
    return write(tmp_path / "fleet.yaml", FLEET)


def test_place_takes_a_policy_of_a_file(fleet, plugin):
    found = hostler("place", "-f", fleet, "--plugin", plugin(), "--policy", "coldest")
    assert (found.code, found.err) == (0, "")
    assert found.row("g") == ["g", "b"]


def test_output_of_a_policy_of_a_file_is_input_again(fleet, plugin, tmp_path):
    words = ("--plugin", plugin(), "--policy", "coldest", "-o", "json")
    placed = tmp_path / "placed.json"
    placed.write_text(hostler("place", "-f", fleet, *words).out)
    assert hostler("place", "-f", placed, *words).code == 0


def test_explain_and_capacity_take_a_policy_of_a_file(fleet, plugin):
    words = ("-f", fleet, "--plugin", plugin(), "--policy", "coldest")
    assert hostler("explain", *words, "g").out.startswith("g (no requests) goes to b, score 5")
    assert hostler("capacity", *words, "--guest", fleet, "--max", "3").code == 0


def test_recorded_run_of_a_policy_of_a_file_is_replayed_with_that_file(fleet, plugin, tmp_path):
    journal, file = tmp_path / "run.journal", plugin()
    hostler("place", "-f", fleet, "--plugin", file, "--policy", "coldest", "--journal", journal)
    assert hostler("journal", "replay", journal, "--plugin", file).code == 0
    assert "goes to b" in hostler("explain", "--journal", journal, "--plugin", file, "g").out


def test_plugin_of_a_live_cluster_is_a_usage_error(plugin, tmp_path):
    found = hostler("explain", "g", "--plugin", plugin(), "--kubeconfig", tmp_path / "none")
    assert found.code == 2
    assert found.error == "--plugin is for -f and --journal"


def test_sim_apply_takes_a_policy_of_a_file(plugin, tmp_path):
    write_objects(tmp_path / "data/nodes.yaml", node("a"), node("b", cold="5"))
    write_objects(tmp_path / "data/pods.yaml", pod("p", cpu="1"))
    words = ("sim", "apply", "-f", cluster_config(tmp_path), "--plugin", plugin(), "--policy", "coldest")
    found = hostler(*words, "-o", "json")
    assert found.code == 0, found.err
    assert found.json["policy"] == "coldest"


def test_sim_scorer_run_falls_back_to_a_policy_of_a_file(plugin):
    with our_service() as service:
        words = ("sim", "scorer", "run", "--tune", "0.01", "--endpoint", service.endpoint + "s")
        fall_back = ("--on-failure", "fall_back", "--fall-back", "coldest")
        found = hostler(*words, *fall_back, "--plugin", plugin())
    assert found.code == 3
    assert "fell back" in found.out


def test_sim_scorer_run_needs_a_use_for_the_file(plugin):
    found = hostler("sim", "scorer", "run", "--plugin", plugin())
    assert found.code == 2
    assert found.error == "--plugin brings policies for --fall-back: name one of them there"


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("import numpy as np\n", "import numpyy as np\n", 1, "cannot be imported: ModuleNotFoundError: No module"),
        ("    def __init__(self, view, args):", "   def __init__(self, view, args):", 8, "cannot be imported: "),
        ("self.view = view", "self.view = args.thing", 9, "plugin 'coldest' failed: AttributeError: "),
        ("int(text or 0)", "int('x')", 12, "plugin 'coldest' failed: ValueError: "),
        ("dtype=np.int64", "dtype=float", 11, "plugin 'coldest' returned float64 of shape (2,) for 2 hosts"),
        ("dtype=np.int64)", "dtype=np.int64) + 2**40", 11, "scorer 'coldest' returned a score beyond 2^36"),
    ],
)
def test_error_in_a_plugin_file_names_file_and_line(fleet, plugin, old, new, line, problem):
    file = plugin(old, new)
    found = hostler("place", "-f", fleet, "--plugin", file, "--policy", "coldest")
    assert found.code == 2
    assert found.error.startswith(f"{file}:{line}: {problem}")


def test_error_in_a_plugin_file_of_a_sweep_names_file_and_line(plugin):
    file = plugin("int(text or 0)", "int('x')")
    found = hostler("sim", "compare", "openb", "--plugin", file, "--policies", "coldest,fgd", "--runs", "2")
    assert f"{file}:12: plugin 'coldest' failed: ValueError" in found.err


def test_error_in_a_plugin_file_below_the_working_folder_has_a_short_path(fleet, plugin, tmp_path, monkeypatch):
    plugin("int(text or 0)", "int('x')")
    monkeypatch.chdir(tmp_path)
    found = hostler("place", "-f", fleet, "--plugin", "coldest.py", "--policy", "coldest")
    assert found.error.startswith("coldest.py:12: plugin 'coldest' failed")
