"""The seam between cells and scenarios: how a cell's document becomes a scenario, and who plays it."""

from __future__ import annotations

from collections.abc import Mapping

from hostler.config import Document
from hostler.model import Policy
from hostler.sim.scenarios import Scenario, read_scenario, run_scenario

__all__ = ["read_cell_scenario", "run_scenario"]


def read_cell_scenario(document: Document, known: Mapping[str, Policy], seed: int, data_dir: str = "") -> Scenario:
    """Read a scenario with the arrivals and failures of a seed."""
    return read_scenario(document, known, seed=seed)
