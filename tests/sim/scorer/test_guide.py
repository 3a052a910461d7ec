"""The guide to models of your own is true: its service, commands, Python and plugin file run as they stand."""

from __future__ import annotations

import re
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cli_in_process import hostler
from tests.docs.page_output import AGES, Page
from tests.sim.scorer.services import served

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "own-model.md"
SERVICE, PYTHON, PLUGIN = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def port():
    """Start the guide's service on a free port instead of 5000."""
    names: dict[str, object] = {"__name__": "my_model"}
    exec(compile(SERVICE, "my_model.py", "exec"), names)
    with served(ThreadingHTTPServer(("127.0.0.1", 0), names["Score"])) as server:
        server.daemon_threads = True
        yield server.server_port


@pytest.mark.shown_output
def test_every_command_prints_what_the_guide_shows(port):
    page = Page("docs/guides/own-model.md", volatile=(AGES,))
    assert len(page.steps) == 2
    for step in page.steps:
        done = hostler(*step.command.replace(":5000", f":{port}").split()[1:])
        page.compare(step, done.code, done.out + done.err, {f":{port}": ":5000"})
        assert "FAILURE" not in done.out
    page.finish()


def test_the_guides_python_fills_a_fleet(port):
    names: dict[str, Any] = {}
    exec(compile(PYTHON.replace(":5000", f":{port}"), str(GUIDE), "exec"), names)
    run = names["run"]
    assert run.questions.failures == {}
    assert (run.result.events, run.result.failed) == (20, 4)


def test_the_guides_plugin_file_offers_the_policy(tmp_path):
    file = tmp_path / "mlp.py"
    file.write_text(PLUGIN)
    done = hostler("sim", "run", "openb", "--plugin", file, "--policy", "mlp", "--tune", "0.01")
    assert done.code == 0, done.err
    assert done.lines[0].startswith("default, policy mlp")
