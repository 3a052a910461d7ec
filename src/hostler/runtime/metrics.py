"""Metrics: each declared once, as data; counted or read ones are made from that, and so is the reference page.

A process has one ``MetricTable``. What happens is counted by objects that stay (``counter``, ``gauge``, ``histogram``).
What is, such as the length of a queue, is read at each scrape (``one``, ``by``). Used by the scheduler of
Kubernetes and by the control plane; agents report to the control plane instead.

Invariant: a name that the table does not have cannot be shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

__all__ = ["METRICS_TYPE", "MetricSpec", "MetricTable"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]


class MetricSpec(msgspec.Struct, frozen=True):
    """One metric: its kind, its name without the prefix and without ``_total``, what it says, and its labels."""

    kind: Kind
    name: str
    text: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


class MetricTable:
    """The metrics of one kind of process; names are shown with its prefix."""

    def __init__(self, prefix: str, *specs: MetricSpec) -> None:
        self.prefix = prefix
        self._specs = {spec.name: spec for spec in specs}
        assert len(self._specs) == len(specs), "a metric is declared twice"

    def __iter__(self) -> Iterator[MetricSpec]:
        """Iterate over what is declared, in the order in which it was."""
        return iter(self._specs.values())

    def shown_name(self, spec: MetricSpec) -> str:
        """Return the name as it is shown and queried."""
        return f"{self.prefix}{spec.name}" + ("_total" if spec.kind == "counter" else "")

    def counter(self, name: str, registry: CollectorRegistry) -> Counter:
        """Make a counter."""
        spec = self._spec(name, "counter")
        return Counter(self.prefix + name, spec.text, spec.labels, registry=registry)

    def gauge(self, name: str, registry: CollectorRegistry) -> Gauge:
        """Make a gauge that is set."""
        spec = self._spec(name, "gauge")
        return Gauge(self.prefix + name, spec.text, spec.labels, registry=registry)

    def histogram(self, name: str, registry: CollectorRegistry) -> Histogram:
        """Make a histogram."""
        spec = self._spec(name, "histogram")
        return Histogram(self.prefix + name, spec.text, spec.labels, buckets=spec.buckets, registry=registry)

    def one(self, name: str, value: float) -> Metric:
        """Return a metric without labels, as it is now."""
        return self._family(name, {(): value})

    def by(self, name: str, values: Mapping[str, float]) -> Metric:
        """Return a metric with one label, as it is now, by the label's value."""
        return self._family(name, {(key,): value for key, value in values.items()})

    def _family(self, name: str, values: Mapping[tuple[str, ...], float]) -> Metric:
        spec = self._specs[name]
        make = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
        family = make(self.prefix + name, spec.text, labels=spec.labels)
        for labels, value in values.items():
            family.add_metric(list(labels), value)
        return family

    def _spec(self, name: str, kind: Kind) -> MetricSpec:
        spec = self._specs[name]
        assert spec.kind == kind, f"{name} is declared as a {spec.kind}"
        return spec
