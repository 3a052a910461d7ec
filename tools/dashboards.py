"""Writes the Grafana dashboard and the operator's copy of the alert rules; with --check says whether they are current.

The panels are a table here, and every metric in it must be one that the scheduler has: a dashboard that is drawn by
hand goes stale without anybody noticing.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[1]
DASHBOARD = ROOT / "deploy" / "grafana" / "hostler-scheduler.json"
RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"
CONTROL_RULES = RULES.with_name("control-rules.yaml")  # of the VM control plane, which runs in no cluster
OPERATOR_RULE = ROOT / "deploy" / "kustomize" / "components" / "prometheus" / "rule.yaml"

_NAME = re.compile(r"\bhostler_[a-z0-9_]+")
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3


class Panel(NamedTuple):
    """One picture: what it is called, in which unit, and its lines as (expression, legend)."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    about: str = ""


def _quantiles(metric: str, more: str = "") -> tuple[tuple[str, str], ...]:
    text = "histogram_quantile({q}, sum by (le) (rate({metric}_bucket{{{more}}}[$__rate_interval])))"
    return tuple(
        (text.format(q=q, metric=metric, more=more), name) for q, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
    )


def _rate(metric: str, by: str) -> tuple[tuple[str, str], ...]:
    return ((f"sum by ({by}) (rate({metric}[$__rate_interval]))", f"{{{{{by}}}}}"),)


ROWS: dict[str, tuple[Panel, ...]] = {
    "Is it well": (
        Panel("Leaders", "short", (("sum(hostler_leader)", "leaders"),), "One, always."),
        Panel(
            "Age of what it knows", "s", (("max by (resource) (hostler_view_age_seconds)", "{{resource}}"),),
            "More than two minutes: a watch is broken.",
        ),
        Panel("API server away", "short", (("max(hostler_breaker_open)", "breaker"),)),
    ),
    "Pods": (
        Panel("Tries", "ops", _rate("hostler_schedule_attempts_total", "result")),
        Panel("Pending pods", "short", (("sum by (queue) (hostler_pending_pods)", "{{queue}}"),)),
        Panel("Longest wait", "s", (("max by (priority) (hostler_oldest_pending_pod_seconds)", "{{priority}}"),)),
        Panel("From arrival to bind", "s", _quantiles("hostler_pod_scheduling_sli_duration_seconds")),
        Panel(
            "One attempt, to the answer", "s",
            _quantiles("hostler_scheduling_attempt_duration_seconds", 'result="scheduled"'),
        ),
        Panel("Refused by", "short", (("sum by (plugin) (hostler_unschedulable_pods)", "{{plugin}}"),)),
        Panel("Tries per pod", "short", _quantiles("hostler_pod_scheduling_attempts")),
    ),
    "Nodes": (
        Panel(
            "Requested of allocatable", "percentunit",
            (("max by (resource) (hostler_node_utilization)", "{{resource}}"),),
            "Of all nodes together.",
        ),
        Panel(
            "Requested on the fullest node", "percentunit",
            (("max by (resource) (hostler_fullest_node_utilization)", "{{resource}}"),),
        ),
    ),
    "Gangs and preemption": (
        Panel("Tries of gangs", "ops", _rate("hostler_podgroup_schedule_attempts_total", "result")),
        Panel(
            "Evictions", "ops",
            (
                ("sum(rate(hostler_preemption_attempts_total[$__rate_interval]))", "decided"),
                ("sum(rate(hostler_evictions_total[$__rate_interval]))", "pods"),
            ),
        ),
        Panel("Victims of one eviction", "short", _quantiles("hostler_preemption_victims")),
    ),
    "Inside": (
        Panel("One turn of the engine", "s", _quantiles("hostler_scheduling_algorithm_duration_seconds")),
        Panel(
            "Binds", "short",
            (
                ("sum(hostler_binds_in_flight)", "in flight"),
                ("sum(hostler_bind_window)", "window"),
                ("sum(hostler_binds_waiting)", "waiting"),
            ),
            "The window shrinks while the API server is slow.",
        ),
        Panel("Outcomes of binds", "ops", _rate("hostler_binds_total", "outcome")),
        Panel(
            "Unwritten", "short",
            (("sum(hostler_trail_backlog)", "events, conditions"), ("sum(hostler_facts_waiting)", "facts")),
        ),
        Panel("Watches that failed", "ops", _rate("hostler_watch_failures_total", "resource")),
        Panel("Objects known", "short", (("max by (type) (hostler_cache_size)", "{{type}}"),)),
    ),
}  # fmt: skip


def metrics_in(expression: str) -> set[str]:
    """Return the metrics of ours that an expression names."""
    return set(_NAME.findall(expression))


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana reads it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append({"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": _place(0, y, 24, 1)})
        y += 1
        for number, panel in enumerate(row):
            column, line = number % _COLUMNS, number // _COLUMNS
            panels.append(_picture(panel, _place(column * _WIDTH, y + line * _HEIGHT, _WIDTH, _HEIGHT)))
        y += _HEIGHT * -(-len(row) // _COLUMNS)
    for number, one in enumerate(panels, 1):
        one["id"] = number
    return {
        "uid": "hostler-scheduler",
        "title": "Hostler scheduler",
        "tags": ["hostler", "kubernetes", "scheduler"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "templating": {
            "list": [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}]
        },
        "panels": panels,
    }


def operator_rule() -> dict[str, Any]:
    """Return the alert rules as the Prometheus operator takes them."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "hostler-scheduler", "namespace": "hostler-system"},
        "spec": yaml.safe_load(RULES.read_text()),
    }


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _picture(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend, "datasource": _SOURCE}
        for number, (expression, legend) in enumerate(panel.lines)
    ]
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }


def texts() -> dict[Path, str]:
    """Return what each file should hold."""
    rule = yaml.safe_dump(operator_rule(), sort_keys=False, width=1000, allow_unicode=True)
    return {
        DASHBOARD: json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n",
        OPERATOR_RULE: f"# Made by 'python -m tools.dashboards' from deploy/prometheus/rules.yaml.\n{rule}",
    }


def main() -> int:
    """Write the files, or with --check say which are not current."""
    stale = [path for path, text in texts().items() if not path.is_file() or path.read_text() != text]
    for path in stale:
        if "--check" in sys.argv[1:]:
            print(f"{path.relative_to(ROOT)} is not current: run python -m tools.dashboards")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts()[path])
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
