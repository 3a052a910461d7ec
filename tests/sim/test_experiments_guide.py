"""The guide to experiments is true: its commands run as they stand, and print what it shows.

All of them take a minute or more, so the default run takes two short ones.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_commands_in_docs import commands_of

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "experiments.md").read_text()
DAY, GRID = re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
SHOWN = re.findall(r"^```text\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def reader(tmp_path):
    """Return a function that runs a command of the guide, by a word of it, in a folder with the guide's files."""
    (tmp_path / "day.yaml").write_text(DAY)
    (tmp_path / "grid.yaml").write_text(GRID)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(word: str) -> str:
        command = next(command for command in commands_of(GUIDE) if word in command)
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run


def test_the_guide_shows_the_bounds_that_are_printed(reader):
    assert reader("sim bound") == SHOWN[1]


def test_the_guides_scenario_is_compared_by_waiting_times(reader):
    assert "wait_mean_s" in reader("day.yaml")


@pytest.mark.long
def test_the_guide_shows_the_comparison_that_is_printed(reader):
    assert reader("gpu_packing").startswith(SHOWN[0])


@pytest.mark.long
def test_the_second_sweep_runs_only_what_the_first_did_not(reader):
    assert reader("--seeds 42-42") == "4 cells: 0 were there, 4 ran, 0 failed\n"
    assert reader("--seeds 42-43") == "8 cells: 4 were there, 4 ran, 0 failed\n"


@pytest.mark.long
def test_every_command_of_the_guide_runs(reader):
    for command in commands_of(GUIDE):
        reader(command)
