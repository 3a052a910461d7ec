"""The guide to scenarios is true: its files can be played."""

from __future__ import annotations

import re
from pathlib import Path

from hostler.config import parse_documents
from hostler.engine import BUILT_IN, find_policy
from hostler.sim.scenarios import read_scenario, run_scenario

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "scenarios.md").read_text()
FILE, TRACE = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)


def test_the_guides_scenario_can_be_played():
    (document,) = parse_documents(FILE.encode(), "guide.yaml")
    scenario = read_scenario(document, BUILT_IN)
    outcome = run_scenario(scenario, find_policy(scenario.policy), scenario.seed)
    assert outcome.guests == 116
    assert outcome.began > 100


def test_the_guides_trace_brings_guests_and_hosts():
    head = (
        FILE[: FILE.index("arrivals:")]
        .replace("hosts:\n", "")
        .replace("- {name: h, count: 4, capacity: {cpu: 16, memory: 64Gi}, labels: {zone: north}}\n", "")
    )
    (document,) = parse_documents((head + TRACE).encode(), "guide.yaml")
    scenario = read_scenario(document, BUILT_IN)
    assert len(scenario.workload) == 8152
    assert len(scenario.workload.hosts) == 1213
