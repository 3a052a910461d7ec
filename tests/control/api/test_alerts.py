"""The alerts about the control plane: Prometheus takes them, they ask for what is served, and they ring when due."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.control.api.service_in_process import open_service
from tools.dashboards import CONTROL_RULES, metrics_in

ALERTS = [rule for group in yaml.safe_load(CONTROL_RULES.read_text())["groups"] for rule in group["rules"]]
GUIDE = (CONTROL_RULES.parents[2] / "docs" / "guides" / "running.md").read_text()
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not there (Debian package prometheus)"
)
# What makes each alert ring: series with their values minute by minute, and when it rings.
RINGING = {
    "HostlerControlAbsent": ({"up": "1x10"}, "4m"),
    "HostlerControlWithoutLeader": ({'hostler_control_leader{instance="a"}': "0x10"}, "2m"),
    "HostlerControlSeveralLeaders": (
        {'hostler_control_leader{instance="a"}': "1x10", 'hostler_control_leader{instance="b"}': "1x10"},
        "2m",
    ),
    "HostlerHostSilent": ({'hostler_control_hosts{state="silent"}': "1x10"}, "2m"),
    "HostlerVmsLost": ({'hostler_control_vms{state="lost"}': "1x10"}, "1m"),
    "HostlerVmsFailed": ({'hostler_control_vms{state="failed"}': "1x20"}, "11m"),
    "HostlerVmsHindered": ({'hostler_control_vms_hindered{kind="blocked"}': "1x20"}, "6m"),
    "HostlerVmsWaitLong": ({'hostler_control_vms{state="pending"}': "1x20"}, "16m"),
    "HostlerControlWritesFail": ({'hostler_control_database_failures_total{cause="database_full"}': "0+12x10"}, "6m"),
    "HostlerControlWriterStalled": ({"hostler_control_database_write_seconds_max": "6x10"}, "2m"),
    "HostlerControlWritesQueue": ({"hostler_control_database_waiting": "2000x10"}, "2m"),
    "HostlerControlEngineStalled": ({"hostler_control_engine_seconds_max": "6x10"}, "6m"),
    "HostlerControlLags": ({"hostler_control_books_lag": "2000x10"}, "3m"),
    "HostlerControlRebuilds": ({"hostler_control_books_rebuilds_total": "0+1x10"}, "9m"),
    "HostlerControlDiverged": ({'hostler_control_books_diverged{instance="b"}': "1x10"}, "2m"),
    "HostlerControlCheckpointUnusable": ({"hostler_control_books_unusable_checkpoints_total": "0 0 0 1x10"}, "6m"),
    "HostlerControlFactsRefused": ({"hostler_control_books_refused_total": "0 0 0 1x10"}, "6m"),
    "HostlerControlRequestsFail": ({'hostler_control_requests_total{status="503"}': "0+60x20"}, "12m"),
    "HostlerAgentsTryInVain": ({'hostler_control_agent_tries_total{outcome="blocked"}': "0+900x30"}, "20m"),
    "HostlerControlStrangersKnock": ({'hostler_control_refusals_total{code="unauthenticated"}': "0+120x20"}, "18m"),
}
QUIET = {
    'hostler_control_leader{instance="a"}': "1x20",
    'hostler_control_leader{instance="b"}': "0x20",
    'hostler_control_hosts{state="ready"}': "20x20",
    'hostler_control_vms{state="running"}': "100x20",
    'hostler_control_vms_hindered{kind="blocked"}': "0x20",
    "hostler_control_database_write_seconds_max": "0.2x20",
    'hostler_control_database_failures_total{cause="outcome_unknown"}': "0x5 1x15",
    "hostler_control_engine_seconds_max": "0.2x20",
    "hostler_control_books_rebuilds_total": "1x20",
    "hostler_control_books_refused_total": "0x20",
    "hostler_control_books_diverged": "0x20",
    "hostler_control_books_unusable_checkpoints_total": "0x20",
    'hostler_control_requests_total{status="200"}': "0+600x20",
    'hostler_control_agent_tries_total{outcome="done"}': "0+6000x20",
    'hostler_control_agent_tries_total{outcome="blocked"}': "0+60x20",
}


@pytest.fixture(scope="module")
def served() -> set[str]:
    """Return the names of all series of a service that has answered one caller and rejected another."""

    async def story() -> str:
        async with open_service() as service:
            await service.add_hosts("north")
            await service.create("web")
            await service.settle()
            assert (await service.as_key("nobody", "GET", "/v1/vms")).status_code == 401
            return (await service.ask("GET", "/metrics")).text

    text = asyncio.run(story())
    return {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_alerts_use_served_metrics_and_have_summary_and_severity(served, rule):
    assert metrics_in(rule["expr"])
    assert metrics_in(rule["expr"]) <= served
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["description"]


def test_the_guide_tells_of_each_alert():
    told = set(re.findall(r"^\| `(.+)` \| (\d+m) \|", GUIDE, re.MULTILINE))
    assert {(expression, wait) for expression, wait in told} == {
        (rule["expr"], rule.get("for", "0m")) for rule in ALERTS
    }


@needs_promtool
def test_promtool_takes_the_rules():
    done = subprocess.run(["promtool", "check", "rules", str(CONTROL_RULES)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


@needs_promtool
def test_promtool_takes_the_scrape_of_the_guide(tmp_path):
    """The guide's prometheus.yml is whole, and names the authority that certificates are checked by."""
    (text,) = re.findall(r"```yaml\n# prometheus\.yml\n(.*?)```", GUIDE, re.DOTALL)
    assert "ca_file: /etc/prometheus/" in text
    for path in set(re.findall(r"/etc/prometheus/[a-z.-]+", text)):
        (tmp_path / Path(path).name).write_text("")
    file = tmp_path / "prometheus.yml"
    file.write_text(text.replace("/etc/prometheus", str(tmp_path)))
    done = subprocess.run(["promtool", "check", "config", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_each_alert_rings_when_it_is_due_and_none_where_all_is_well(tmp_path):
    assert set(RINGING) == {rule["alert"] for rule in ALERTS}
    tests = [ringing(name, *RINGING[name]) for name in RINGING]
    tests += [quiet(name) for name in RINGING]
    judged(tmp_path, tests)


@needs_promtool
def test_an_alert_that_would_not_ring_is_noticed(tmp_path):
    with pytest.raises(AssertionError):
        judged(tmp_path, [ringing("HostlerVmsLost", {'hostler_control_vms{state="running"}': "1x10"}, "1m")])


def judged(folder: Path, tests: list[dict[str, object]]) -> None:
    file = folder / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(CONTROL_RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def ringing(name: str, series: dict[str, str], when: str) -> dict[str, object]:
    """Return a test in which an alert rings."""
    [rule] = [rule for rule in ALERTS if rule["alert"] == name]
    value = re.match(r"\d+", next(iter(series.values())))
    assert value is not None
    told = {key: text.replace("{{ $value }}", value[0]) for key, text in rule["annotations"].items()}
    expected = {"exp_labels": rule["labels"], "exp_annotations": told}
    return _test(series, name, when, [expected])


def quiet(name: str) -> dict[str, object]:
    """Return a test in which all is well."""
    return _test(QUIET, name, "18m", [])


def _test(series: dict[str, str], name: str, when: str, alerts: list[dict[str, object]]) -> dict[str, object]:
    given = [{"series": one, "values": values} for one, values in series.items()]
    wanted = [{"eval_time": when, "alertname": name, "exp_alerts": alerts}]
    return {"interval": "1m", "input_series": given, "alert_rule_test": wanted}
