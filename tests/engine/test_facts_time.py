"""The time of facts: it never runs backwards."""

from __future__ import annotations

from hostler.model import BindFailed, HostJoined
from tests.engine.fleet import SECOND, due, engine_with, guest, host, place


def test_time_never_runs_backwards():
    engine = engine_with([host("a")], clock_start=50)
    engine.apply(HostJoined(host=host("b"), at=40))
    assert engine.now == 50
    engine.apply(HostJoined(host=host("c"), at=60))
    assert engine.now == 60
    engine.step(10)
    assert engine.now == 60


def test_a_backoff_begins_at_the_time_of_the_fact_that_caused_it():
    engine = engine_with([host("a")])
    place(engine, guest("g"), now=0)
    engine.apply(BindFailed(uid="g", host="a", at=100 * SECOND))
    assert due(engine) >= 101 * SECOND
