"""Dashboard and alerts use only metrics that the scheduler has."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
import yaml

from hostler.kube.scheduler.meters import METRICS
from tools import dashboards

RULES = yaml.safe_load(dashboards.RULES.read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]


def declared():
    """Return every name under which the scheduler shows a value."""
    return {sample for spec in METRICS for sample in _samples(METRICS.prefix + spec.name, spec.kind)}


def _samples(name, kind):
    endings = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(kind, [""])
    return [name + ending for ending in endings]


def expressions():
    shown = json.loads(dashboards.DASHBOARD.read_text())["panels"]
    found = [(panel["title"], target["expr"]) for panel in shown for target in panel.get("targets", ())]
    return found + [(rule["alert"], rule["expr"]) for rule in ALERTS]


@pytest.mark.parametrize(("where", "expression"), expressions())
def test_an_expression_names_only_metrics_that_exist(where, expression):
    assert dashboards.metrics_in(expression)
    assert dashboards.metrics_in(expression) <= declared()


def test_a_metric_that_does_not_exist_would_be_noticed():
    assert "hostler_schedule_attempts" not in declared()
    assert dashboards.metrics_in("rate(hostler_nothing_total[5m])") - declared() == {"hostler_nothing_total"}


def test_the_files_are_those_that_the_tool_writes():
    for path, text in dashboards.texts().items():
        assert path.read_text() == text, f"{path.name}: run python -m tools.dashboards"


def test_the_dashboard_has_a_fixed_uid_and_asks_the_source_that_is_chosen():
    board = json.loads(dashboards.DASHBOARD.read_text())
    assert board["uid"] == "hostler-scheduler"
    assert "hostler" in board["tags"]
    assert [variable["name"] for variable in board["templating"]["list"]] == ["datasource"]
    pictures = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert {panel["datasource"]["uid"] for panel in pictures} == {"${datasource}"}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    cells = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]}
    assert len(cells) == len(board["panels"])


def test_every_alert_says_what_is_wrong_what_it_means_and_how_bad_it_is():
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["description"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not there (Debian package prometheus)")
def test_promtool_takes_the_rules():
    done = subprocess.run(
        ["promtool", "check", "rules", str(dashboards.RULES)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout
