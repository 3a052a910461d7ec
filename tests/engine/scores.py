"""What scorers say about a pending guest, as explanations show it."""

from __future__ import annotations

from hostler.engine import Engine
from hostler.model import Guest
from tests.engine.fleet import arrive


def raw_scores(engine: Engine, wanted: Guest, plugin: str) -> dict[str, int | float]:
    """Return what a scorer says about a pending guest, by host."""
    arrive(engine, wanted)
    return {v.host: s.raw for v in engine.explain(wanted.uid).verdicts for s in v.scores if s.plugin == plugin}


def weighted_scores(engine: Engine, wanted: Guest, plugin: str) -> dict[str, int | float]:
    """Return what a scorer counts after normalising and weighting, by host."""
    arrive(engine, wanted)
    return {v.host: s.weighted for v in engine.explain(wanted.uid).verdicts for s in v.scores if s.plugin == plugin}
