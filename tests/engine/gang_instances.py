"""Gangs for the tests: short ways to write them, a front that carries actions out, and seeded hard instances.

An instance is a few hosts and the members of one gang, all of which must be placed. ``solve`` is an exhaustive search
of its own: plain Python, with its own reading of the constraints, so that it can tell what the engine should find.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from hostler.engine import Engine
from hostler.model import (
    Action,
    Bind,
    Budget,
    BudgetChanged,
    Evict,
    Expression,
    Gang,
    GangChanged,
    Guest,
    GuestArrived,
    GuestBound,
    GuestLeft,
    Nominate,
    Policy,
    PreemptionRules,
    Prepare,
    Prepared,
    Selector,
    labels,
)
from tests.engine.fleet import guest, policy

# -- short ways to write things ---------------------------------------------------------------------------------------


def preempting(name: str = "first_fit", *, reclaim: bool = False, **rules: Any) -> Policy:
    """Return a policy that evicts guests of lower priority; hosts go by their names unless another one is named."""
    return policy(name, preemption=PreemptionRules(**rules), reclaim=reclaim)


def wants(name: str, cpu: int, /, priority: int = 0, **fields: Any) -> Guest:
    """Return a pending guest that asks for cpu alone; ``app`` labels it, ``gang`` makes it a member."""
    own = {key: fields.pop(key) for key in ("gang", "started") if key in fields}
    if own.get("gang"):
        own["gang"] = f"default/{own['gang']}"
    if "app" in fields:
        fields["labels"] = labels({"app": fields.pop("app")})
    made = guest(name, **{key: fields.pop(key) for key in ("uid", "version", "host") if key in fields},
                 **{"cpu": cpu, "memory": 0, "priority": priority} | fields)  # fmt: skip
    return msgspec.structs.replace(made, **own)


def runs(engine: Engine, host: str, *guests: Guest) -> None:
    """Let guests run on a host by a fact."""
    for each in guests:
        engine.apply(GuestArrived(guest=msgspec.structs.replace(each, host=host)))


def app(name: str) -> Selector:
    """Select guests by their app."""
    return Selector((Expression("app", "In", (name,)),))


def protect(engine: Engine, name: str, allowed: int, *, version: int = 0, disrupted: tuple[str, ...] = ()) -> None:
    """Put a budget over all guests of one app."""
    budget = Budget(name=name, version=version, selector=app(name), allowed=allowed, disrupted=disrupted)
    engine.apply(BudgetChanged(budget=budget))


def allowed(engine: Engine, name: str) -> int:
    """Return how many of an app may still be disrupted."""
    return engine.state.budgets[f"default/{name}"].allowed


def form(engine: Engine, name: str, min_count: int, /, **fields: Any) -> None:
    """Let a gang be there, or change."""
    engine.apply(GangChanged(gang=Gang(name=name, min_count=min_count, **fields)))


def members(gang: str, count: int, cpu: int = 1000, /, first: int = 0, **fields: Any) -> list[Guest]:
    """Return members of a gang that are all alike, named after it."""
    return [wants(f"{gang}-{i}", cpu, gang=gang, **fields) for i in range(first, first + count)]


def evicted(actions: Iterable[Action]) -> list[str]:
    """Return the uids that actions evict."""
    return [a.uid for a in actions if isinstance(a, Evict)]


def nominated(actions: Iterable[Action]) -> dict[str, str]:
    """Return the hosts that actions keep for guests, by uid."""
    return {a.uid: a.host for a in actions if isinstance(a, Nominate)}


def held_for(engine: Engine) -> dict[str, list[str]]:
    """Return what is held on hosts: host to the names of the holds."""
    cluster = engine.state.cluster
    found = {name: [hold for hold, _ in cluster.holds.on(row)] for name, row in cluster.row_of.items()}
    return {name: names for name, names in sorted(found.items()) if names}


def places(engine: Engine, *uids: str) -> list[str]:
    """Return where guests are ("" for nowhere)."""
    return [engine.decision(uid).host for uid in uids]


def leave(engine: Engine, *uids: str) -> None:
    """Let guests leave."""
    for uid in uids:
        engine.apply(GuestLeft(uid=uid))


class Front:
    """Carries out what an engine says: binds, preparations and, unless told otherwise, evictions."""

    def __init__(self, engine: Engine, *, evicts: bool = True) -> None:
        self.engine = engine
        self.evicts = evicts
        self.evictions: list[str] = []  # all that were ever asked for

    def step(self, now: int | None = None) -> list[Any]:
        """Step once and carry everything out."""
        engine = self.engine
        actions = engine.step(engine.now if now is None else now)
        for action in actions:
            if isinstance(action, Bind):
                engine.apply(GuestBound(uid=action.uid, host=action.host))
            elif isinstance(action, Prepare):
                engine.apply(Prepared(uid=action.uid, host=action.host))
            elif isinstance(action, Evict):
                self.evictions.append(action.uid)
                if self.evicts:
                    engine.apply(GuestLeft(uid=action.uid))
        return list(actions)

    def settle(self, until: int, most: int = 200) -> list[Any]:
        """Step whenever a step is due, up to a time; return all actions."""
        done: list[Any] = []
        for _ in range(most):
            due = self.engine.next_due()
            if due is None or due > until:
                return done
            done += self.step(max(due, self.engine.now))
        raise AssertionError(f"still busy after {most} steps: {done[-10:]}")
