"""Every panel of the dashboard can show data: queries parse, and /metrics serves the metrics that they use."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.kube.service.service_in_process import has_decided, node, pod, scheduling, server_with
from tests.wait import until
from tools import dashboards

BOARD = json.loads(dashboards.DASHBOARD.read_text())
PICTURES = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
TARGETS = [(panel["title"], target) for panel in PICTURES for target in panel["targets"]]
ALERTS = [rule for group in yaml.safe_load(dashboards.RULES.read_text())["groups"] for rule in group["rules"]]
QUERIES = [(title, target["expr"]) for title, target in TARGETS] + [(rule["alert"], rule["expr"]) for rule in ALERTS]
UNITS = {"short", "s", "ops", "percentunit"}


@pytest.fixture(scope="module")
def served():
    """Return the labels of every series of a scheduler that has placed, rejected and gathered pods."""
    gang = {"kind": "PodGroup", "metadata": {"name": "crew"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    crew = [pod(name, schedulingGroup={"podGroupName": "crew"}) for name in ("one", "two")]
    server = server_with(node("n", "4"), gang, *crew, pod("fits"), pod("huge", "10"))

    async def main():
        async with scheduling(server) as pages:
            await until(lambda: pages.scheduler.binder.counts.bound == 3 and has_decided(pages.scheduler))
            return (await pages.get("/metrics"))[1]

    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(asyncio.run(main())):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def words_of(text):
    return {word.strip() for word in text.split(",") if word.strip()}


def labels_by(expression):
    """Return the labels that an expression groups by."""
    return {word for group in re.findall(r"\bby \(([^)]*)\)", expression) for word in words_of(group)}


def selections(expression):
    """Return each metric of ours with the labels that it is grouped and selected by."""
    found: list[tuple[str, set[str]]] = []
    grouped: set[str] = set()
    for group, name, inside in re.findall(r"\bby \(([^)]*)\)|\b(hostler_[a-z0-9_]+)(?:\{([^}]*)\})?", expression):
        if name:
            found.append((name, grouped | set(re.findall(r"([a-z_]+)\s*(?:=|!)", inside))))
            grouped = set()
        else:
            grouped = words_of(group)  # of the metric that comes next
    return found


@pytest.mark.parametrize(("where", "expression"), QUERIES)
def test_what_is_asked_for_is_served_with_the_labels_that_are_used(served, where, expression):
    asked = selections(expression)
    assert asked
    for name, labels in asked:
        assert name in served, f"{where}: /metrics does not serve {name}"
        assert labels <= served[name], f"{where}: {name} has only {served[name]}"


def test_a_label_or_a_metric_that_is_not_served_would_be_noticed(served):
    assert "hostler_nothing" not in served
    ((name, labels),) = selections('sum by (queue, node) (hostler_pending_pods{priority="1"})')
    assert labels == {"queue", "node", "priority"}
    assert labels - served[name] == {"node", "priority"}


@pytest.mark.parametrize(("title", "target"), TARGETS)
def test_the_legend_of_a_line_names_what_tells_it_apart(title, target):
    legend = target["legendFormat"]
    assert legend
    grouped = labels_by(target["expr"]) - {"le"}
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) == grouped, title


def test_each_panel_has_data_title_unit_and_distinct_lines():
    assert PICTURES
    for panel in PICTURES:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        targets = panel["targets"]
        assert targets
        assert len({target["refId"] for target in targets}) == len(targets)
        assert len({target["legendFormat"] for target in targets}) == len(targets)


def test_times_are_shown_as_seconds_and_rates_per_second():
    for panel in PICTURES:
        text = " ".join(target["expr"] for target in panel["targets"])
        is_time, is_rate = "_seconds" in text, "rate(" in text and "histogram_quantile" not in text
        other = "percentunit" if "_utilization" in text else "short"
        assert panel["fieldConfig"]["defaults"]["unit"] == ("s" if is_time else "ops" if is_rate else other)


def test_pictures_do_not_overlap_and_none_is_wider_than_the_page():
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not there (Debian package prometheus)")
def test_prometheus_can_read_every_query_of_the_dashboard(tmp_path):
    # promtool of most releases parses queries only where they stand in rules; Grafana fills in its own variable.
    rules = [
        {"record": f"dashboard:query:{number}", "expr": target["expr"].replace("$__rate_interval", "5m")}
        for number, (_, target) in enumerate(TARGETS)
    ]
    assert not any("$" in rule["expr"] for rule in rules)
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout
