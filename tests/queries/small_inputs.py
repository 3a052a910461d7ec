"""Hosts, guests and inputs of a few lines, for tests of queries."""

from __future__ import annotations

from hostler.engine import Engine, find_policy
from hostler.model import Guest, GuestSpec, Host, Policy, PreemptionRules, Tenancy, labels, parse_amounts
from hostler.queries import PlacementInput, apply_input, decide_all, open_engine

__all__ = ["EVICTING", "SPREAD", "STRICT", "decided_engine", "host", "inputs_of", "sized"]

SPREAD = find_policy("spread")
EVICTING = Policy(name="evicting", ties=("name",), preemption=PreemptionRules())
STRICT = Policy(name="strict", ties=("name",), preemption=PreemptionRules(budgets="strict"))


def host(name: str, cpu: int = 4, **marks: str) -> Host:
    """Return a host of some cpus."""
    return Host(name=name, uid=name, capacity=parse_amounts({"cpu": cpu}), labels=labels(marks))


def sized(name: str, cpu: int = 1, *, on: str = "", gang: str = "", **spec: object) -> Guest:
    """Return a guest that asks for some cpus; ``on`` is the host where it runs already."""
    made = GuestSpec(requests=parse_amounts({"cpu": cpu}), **spec)
    return Guest(name=name, uid=name, spec=made, host=on, gang=gang)


def inputs_of(*members: Host | Guest, policy: Policy = SPREAD, tenancy: Tenancy | None = None) -> PlacementInput:
    """Return an input of these hosts and guests."""
    return PlacementInput(
        hosts=tuple(one for one in members if isinstance(one, Host)),
        guests=tuple(one for one in members if isinstance(one, Guest)),
        policies=(policy,),
        tenancy=tenancy or Tenancy(),
    )


def decided_engine(inputs: PlacementInput) -> Engine:
    """Return an engine that knows an input and has decided everything."""
    engine = open_engine(inputs)
    apply_input(engine, inputs)
    decide_all(engine)
    return engine
