"""The commands of the guide to experiments run as they stand, and print what it shows.

All of them take a minute or more, so the default run takes two short ones.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page_output import Page

ROOT = Path(__file__).parents[2]
NAME = "docs/guides/experiments.md"
GUIDE = (ROOT / NAME).read_text()
DAY, GRID = re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def reader(tmp_path):
    """Return a function that runs commands of the guide, by a word of them, in a folder with the guide's files.

    It compares what they print with the guide, and returns it.
    """
    (tmp_path / "day.yaml").write_text(DAY)
    (tmp_path / "grid.yaml").write_text(GRID)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(word: str) -> str:
        page = Page(NAME)
        steps = [step for step in page.steps if word in step.command]
        printed = ""
        for step in steps:
            done = subprocess.run(
                ["bash", "-c", step.command], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
            )
            page.compare(step, done.returncode, done.stderr + done.stdout)
            printed += done.stdout
        page.finish(steps)
        return printed

    return run


@pytest.mark.shown_output
def test_guide_shows_the_bounds_that_are_printed(reader):
    assert "ASKED FOR" in reader("sim bound")


def test_the_guides_scenario_is_compared_by_waiting_times(reader):
    assert "wait_mean_s" in reader("day.yaml")


@pytest.mark.long
def test_the_second_sweep_runs_only_what_the_first_did_not(reader):
    assert reader("--seeds 42-42") == "4 cells: 0 were there, 4 ran, 0 failed\n"
    assert reader("--seeds 42-43") == "8 cells: 4 were there, 4 ran, 0 failed\n"


@pytest.mark.long
@pytest.mark.shown_output
def test_every_command_prints_what_the_guide_shows(reader):
    assert "gpu_packing" in reader("")
