"""Scenarios: fleets in time, with arrivals, departures, queues, gangs, preemption, failures and maintenance."""

from hostler.sim.scenarios.outcome import ScenarioOutcome
from hostler.sim.scenarios.reader import load_scenario, read_scenario
from hostler.sim.scenarios.scenario import Scenario, scenario_of_trace
from hostler.sim.scenarios.simulation import run_scenario

__all__ = ["Scenario", "ScenarioOutcome", "load_scenario", "read_scenario", "run_scenario"]
__all__ += ["scenario_of_trace"]
