"""The guide for those who come from simon says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hostler.sim.simon import read_scheduler_config
from tests.cli.cli_in_process import hostler
from tests.sim.simon.files import scheduler_config

GUIDE = (Path(__file__).resolve().parents[3] / "docs/guides/simon-apply.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in GUIDE.splitlines() if line.startswith("| `")]
PLUGINS = {row[0].strip("`"): row[1] for row in ROWS if row[0].endswith("Score`")}


def test_guide_names_every_score_plugin():
    assert len(PLUGINS) == 7


@pytest.mark.parametrize("plugin", PLUGINS)
def test_score_plugin_becomes_what_the_guide_says(tmp_path, plugin):
    file = scheduler_config(tmp_path, (plugin, 1), pre_score=[plugin])
    policy = read_scheduler_config(str(file), lambda _: None).policy
    scorers = [f"`{scorer.name}`" for scorer in policy.scorers]
    assert scorers == ([PLUGINS[plugin]] if PLUGINS[plugin].startswith("`") else [])
    assert (policy.ask is not None) == (plugin == "RLSchedulerScore")


def test_the_guides_files_give_the_published_run(tmp_path, monkeypatch):
    cluster, scheduler = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)[:2]
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("cluster-config.yaml").write_text(cluster)
    Path("scheduler-config.yaml").write_text(scheduler)
    words = re.search(r"`hostler (sim trace convert .*?)`", GUIDE).group(1).split()
    assert hostler(*words).code == 0
    apply = re.search(r"^hostler (sim apply .*)$", GUIDE, re.MULTILINE).group(1).split()
    assert "10,866 events, 2,532 failed" in hostler(*apply).out
