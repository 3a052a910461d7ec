"""Scenarios: fleets in time, with arrivals, departures, queues, gangs, preemption, failures and maintenance."""

from hostler.sim.scenarios.outcome import Outcome
from hostler.sim.scenarios.reading import load_scenario, read_scenario
from hostler.sim.scenarios.running import run_scenario
from hostler.sim.scenarios.scenario import Scenario

__all__ = ["Outcome", "Scenario", "load_scenario", "read_scenario", "run_scenario"]
