"""Metrics that are declared once: what is made of a declaration."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from hostler.control.api.requests.meters import METRICS as CONTROL_METRICS
from hostler.kube.scheduler.meters import METRICS as SCHEDULER_METRICS
from hostler.runtime.metrics import MetricSpec, MetricTable

TABLE = MetricTable(
    "test_",
    MetricSpec("counter", "tries", "Tries.", ("outcome",)),
    MetricSpec("gauge", "queue_length", "What waits.", ("queue",)),
    MetricSpec("gauge", "leader", "1 while it leads."),
    MetricSpec("histogram", "step_seconds", "One step.", buckets=(0.1, 1.0)),
)


class Now(Collector):
    def collect(self):
        yield TABLE.one("leader", 1)
        yield TABLE.by("queue_length", {"active": 2, "backoff": 0})


def test_counted_metrics_bear_what_was_declared():
    registry = CollectorRegistry()
    TABLE.counter("tries", registry).labels("done").inc()
    TABLE.histogram("step_seconds", registry).observe(0.5)
    text = generate_latest(registry).decode()
    assert "# HELP test_tries_total Tries." in text
    assert 'test_tries_total{outcome="done"} 1.0' in text
    assert 'test_step_seconds_bucket{le="1.0"} 1.0' in text


def test_read_metrics_bear_what_was_declared():
    registry = CollectorRegistry()
    registry.register(Now())
    text = generate_latest(registry).decode()
    assert "# HELP test_leader 1 while it leads." in text
    assert "test_leader 1.0" in text
    assert 'test_queue_length{queue="active"} 2.0' in text
    assert 'test_queue_length{queue="backoff"} 0.0' in text


def test_metric_that_nobody_declared_cannot_be_shown():
    with pytest.raises(KeyError):
        TABLE.one("nothing", 1)
    with pytest.raises(KeyError):
        TABLE.counter("nothing", CollectorRegistry())


def test_counters_are_shown_with_their_ending():
    assert [TABLE.shown_name(spec) for spec in TABLE][:2] == ["test_tries_total", "test_queue_length"]


@pytest.mark.parametrize("table", [SCHEDULER_METRICS, CONTROL_METRICS], ids=["scheduler", "control plane"])
def test_each_metric_of_ours_has_a_text_and_a_name_without_ending(table):
    for spec in table:
        assert spec.text.endswith(".")
        assert not spec.name.endswith("_total")
        assert bool(spec.buckets) == (spec.kind == "histogram")
