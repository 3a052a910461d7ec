"""Short ways to write hosts, guests and engines, and to read an engine's books, for the tests of the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from hypothesis import HealthCheck, settings

from hostler.engine import BUILT_IN, Engine
from hostler.engine.cluster.tables import Table
from hostler.engine.kernels import devices as kernels_devices
from hostler.engine.policy.policy_columns import encode_mixes
from hostler.model import (
    Action,
    Bind,
    Defer,
    Device,
    DeviceRequest,
    Guest,
    GuestArrived,
    GuestsArrived,
    GuestSpec,
    Host,
    HostJoined,
    MixEntry,
    Policy,
    amounts,
    labels,
)
from hostler.model.reasons import ReasonKind, Wake
from tests.random_examples import count_examples

SECOND = 1_000_000_000
GIB = 1 << 30
MIB = 1 << 20

# A small mix with every kind of need, for policies that measure fragmentation.
MIX = (
    MixEntry(cpu_millis=3000, device_millis=500, device_count=1, share=0.4),
    MixEntry(cpu_millis=2000, device_millis=1000, device_count=1, share=0.3),
    MixEntry(cpu_millis=4000, device_millis=1000, device_count=2, models=("A",), share=0.2),
    MixEntry(cpu_millis=1000, share=0.1),
)

_CALM: Any = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
}
QUICK = settings(max_examples=count_examples(100), **_CALM)
LONG = settings(max_examples=600, **_CALM)


def policy(name: str, /, **changes: Any) -> Policy:
    """Return a built-in policy, with a mix where it needs one."""
    if name == "fgd":
        changes.setdefault("mix", MIX)
    return msgspec.structs.replace(BUILT_IN[name], **changes)


def host(name: str, cpu: int = 4000, memory: int = 4 * GIB, **fields: Any) -> Host:
    """Return a host; ``more`` adds resources, ``gpus`` adds so many whole gpus, ``labels`` may be a mapping."""
    more = dict(fields.pop("more", {}))
    gpus = fields.pop("gpus", 0)
    model = fields.pop("model", "")
    marks = fields.pop("labels", {})
    return Host(
        name=name,
        capacity=amounts({"cpu": cpu, "memory": memory, **more}),
        devices=fields.pop("devices", tuple(Device("gpu", model) for _ in range(gpus))),
        labels=labels(marks) if isinstance(marks, Mapping) else marks,
        **fields,
    )


def spec(cpu: int = 1000, memory: int = GIB, **fields: Any) -> GuestSpec:
    """Return a shape; ``more`` adds resources, ``gpu=(count, milli)`` a gpu request, ``selector`` may be a mapping."""
    more = dict(fields.pop("more", {}))
    gpu = fields.pop("gpu", None)
    devices = fields.pop("devices", (DeviceRequest("gpu", *gpu),) if gpu else ())
    return GuestSpec(
        requests=amounts({"cpu": cpu, "memory": memory, **more}),
        devices=devices,
        host_selector=labels(fields.pop("selector", {})),
        **fields,
    )


def guest(name: str, shape: GuestSpec | None = None, /, **fields: Any) -> Guest:
    """Return a guest whose uid is its name; fields that a Guest does not have go into its spec."""
    own = {key: fields.pop(key) for key in ("uid", "version", "host", "on_devices", "draw_key") if key in fields}
    own.setdefault("uid", name)
    return Guest(name=name, spec=shape if shape is not None else spec(**fields), **own)


def declared(plugin: str, *codes: str, cures: frozenset[Wake] = frozenset(Wake)) -> tuple[ReasonKind, ...]:
    """Declare the reasons of a filter that a test brings along."""
    return tuple(
        ReasonKind(plugin=plugin, code=code, meaning="The test says so.", is_resolvable=False, cures=cures)
        for code in codes
    )


def engine_with(hosts: Iterable[Host] = (), *policies: str | Policy, **fields: Any) -> Engine:
    """Return an engine with these hosts and policies (``spread`` when none is named)."""
    chosen = [policy(p) if isinstance(p, str) else p for p in policies or ("spread",)]
    engine = Engine(chosen, **fields)
    for each in hosts:
        engine.apply(HostJoined(host=each))
    return engine


def place(engine: Engine, *guests: Guest, now: int | None = None) -> list[str]:
    """Let guests arrive one by one, step after each, and return the hosts they go to ("" for nowhere)."""
    taken = []
    for each in guests:
        engine.apply(GuestArrived(guest=each))
        engine.step(engine.now if now is None else now)
        taken.append(engine.decision(each.uid).host)
    return taken


def arrive(engine: Engine, *guests: Guest) -> None:
    """Let guests arrive without a step."""
    for each in guests:
        engine.apply(GuestArrived(guest=each))


def step(engine: Engine, now: int, limit: int | None = None) -> list[Any]:
    """Step, and let the test say what kind of actions it expects."""
    return list(engine.step(now, limit))


def step_to_rest(engine: Engine, now: int) -> list[Any]:
    """Step until no search of a gang continues."""
    actions = step(engine, now)
    while engine.is_searching:
        actions += step(engine, now)
    return actions


def due(engine: Engine) -> int:
    """Return when a step is due, which it must be."""
    at = engine.next_due()
    assert at is not None
    return at


def batch(shapes: Sequence[GuestSpec], names: Sequence[str], **fields: Any) -> GuestsArrived:
    """Return guests as columns, the shapes dealt out in turn."""
    return GuestsArrived(
        specs=tuple(shapes), spec_of=tuple(i % len(shapes) for i in range(len(names))), names=tuple(names), **fields
    )


def used(engine: Engine, name: str) -> dict[str, int]:
    """Return what is booked on a host, by resource, without zeros."""
    cluster = engine.state.cluster
    row = cluster.row_of[name]
    resources = cluster.tables.resources.values
    width = min(len(resources), cluster.resource_capacity)
    return {resources[r]: n for r in range(width) if (n := cluster.used(row, r))}


def devices_left(engine: Engine, name: str) -> list[int]:
    """Return the free milli-units of a host's devices."""
    return engine.state.cluster.device_left(engine.state.cluster.row_of[name])


def books(engine: Engine) -> dict[str, object]:
    """Return everything that the facts determine: hosts, what is booked there, and each guest's place."""
    hosts = {h.name: (h, used(engine, h.name), devices_left(engine, h.name)) for h in engine.hosts()}
    guests = {
        uid: (record.guest, engine.state_of(record), record.host, record.devices)
        for uid, record in engine.state.guests.items()
    }
    return {"hosts": hosts, "guests": guests}


def essence(engine: Engine) -> dict[str, object]:
    """Return all that can influence a decision or be seen of one, without numbers that only name things inside."""
    state = engine.state
    return books(engine) | {
        "now": state.now,
        "counters": (state.decisions, state.asks),
        "decisions": {uid: engine.decision(uid) for uid in state.guests},
        "failures": {uid: (r.refusals, r.errors, r.deadline, r.ask, r.answer) for uid, r in state.guests.items()},
        "order": sorted(state.guests, key=lambda uid: state.guests[uid].arrival),
        "queue": {uid: (e.state, e.priority, e.until, e.flush_at) for uid, e in sorted(state.queue.entries.items())},
        "turns": {name: (t.last, t.confirmed, t.in_flight) for name, t in sorted(state.turns.by_policy.items())},
        "parked": {name: sorted(uids) for name, uids in sorted(state.parked.items())},
        "gone": (sorted(state.left_guests), dict(state.left_hosts)),
        "ready": list(state.ready),
        "due": engine.next_due(),
    }


def states(engine: Engine) -> dict[str, str]:
    """Return the state of every guest by uid."""
    return {uid: engine.decision(uid).state for uid in engine.guests()}


def binds(actions: Iterable[Action]) -> dict[str, str]:
    """Return where actions put guests, by uid."""
    return {a.uid: a.host for a in actions if isinstance(a, Bind)}


def holds(actions: Iterable[Action]) -> list[str]:
    """Return the uids of the guests that actions leave waiting."""
    return [a.uid for a in actions if isinstance(a, Defer)]


def reasons(decision: Any) -> dict[str, int]:
    """Return the reason counts of a decision or a Defer by text."""
    return {f"{c.reason.plugin}: {c.reason.text()}": c.hosts for c in decision.reasons}


def kernel_fragment(mix: tuple[MixEntry, ...], gpus: list[int], cpu: int, model: str) -> float:
    """Call the kernel that measures fragmentation, the mix standing behind another policy's."""
    models = Table(["", "A", "B", "C"])
    columns = encode_mixes([MIX, mix], models)
    left, scratch = np.array([*gpus, 77], dtype=np.int64), np.zeros((2, 9), dtype=np.int64)
    number = models.number(model) if gpus else -1
    bounds = columns.bounds[1]
    return float(kernels_devices.fragmentation(left, len(gpus), cpu, number, columns, bounds, scratch[0], scratch[1]))
