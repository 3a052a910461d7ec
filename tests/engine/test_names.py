"""Names of devices and resources: guests bring none, hosts give theirs back, and no decision shows their numbers."""

from __future__ import annotations

import random

import pytest

from hostler.engine import BUILT_IN, Engine, find_policy
from hostler.engine.wakeups import WatchIndex
from hostler.errors import InputError, NamesFullError
from hostler.model import (
    Bind,
    Defer,
    Device,
    DeviceRequest,
    Event,
    Expression,
    Guest,
    GuestArrived,
    GuestLeft,
    GuestSpec,
    GuestTerm,
    Host,
    HostJoined,
    HostLeft,
    MixEntry,
    Policy,
    PolicyChanged,
    Reason,
    ScorerUse,
    Selector,
    amounts,
    labels,
)
from hostler.queries import with_mixes


def arrive(engine: Engine, name: str, **spec: object) -> None:
    engine.apply(GuestArrived(guest=Guest(name=name, uid=name, spec=GuestSpec(**spec))))


def gpu(*models: str) -> tuple[DeviceRequest, ...]:
    return (DeviceRequest("gpu", 1, 1000, models),)


def join(engine: Engine, name: str, model: str = "", kind: str = "gpu", **capacity: int) -> None:
    devices = (Device(kind, model, 1000),) if model else ()
    host = Host(name=name, capacity=amounts({"cpu": 8000, **capacity}), devices=devices)
    engine.apply(HostJoined(host=host))


def test_guest_with_thousands_of_models_leaves_room_for_others():
    """One tenant names 5,000 models and leaves; another tenant's guest and a host with a new model still work."""
    engine = Engine([find_policy("spread")])
    arrive(engine, "greedy", devices=gpu(*(f"invented-{n}" for n in range(4000))))
    arrive(engine, "greedier", devices=gpu(*(f"more-{n}" for n in range(4000))))
    engine.apply(GuestLeft(uid="greedy"))
    engine.apply(GuestLeft(uid="greedier"))
    join(engine, "h", "real")
    arrive(engine, "honest", devices=gpu("real"))
    assert [type(action) for action in engine.step(1)] == [Bind]


def test_hosts_with_invented_models_leave_room_after_they_go():
    """A host registers another invented model again and again; a name that no host has any more is released."""
    engine = Engine([find_policy("spread")])
    for n in range(1500):
        join(engine, "rogue", f"invented-{n}", **{f"resource-{n}": 1})
    engine.apply(HostLeft(name="rogue"))
    join(engine, "h", "real", licenses=3)
    arrive(engine, "honest", devices=gpu("real"), requests=amounts({"licenses": 2}))
    assert [type(action) for action in engine.step(1)] == [Bind]
    assert len(engine.state.tables.models) < 10


def test_waiting_guest_keeps_its_reason_however_many_names_others_bring():
    engine = Engine([find_policy("spread")])
    join(engine, "h", "real")
    for n in range(700):
        arrive(engine, f"greedy-{n}", requests=amounts({f"invented-{n}": 1}))
    engine.step(1)
    arrive(engine, "honest", requests=amounts({"licenses": 1}))
    (hold,) = [action for action in engine.step(2) if isinstance(action, Defer) and action.uid == "honest"]
    assert [count.reason for count in hold.reasons] == [Reason("resources", "insufficient", "licenses")]


def test_waiting_guest_is_placed_when_a_host_brings_what_nobody_had():
    engine = Engine([find_policy("spread")])
    join(engine, "plain")
    arrive(engine, "g", devices=(DeviceRequest("fpga", 1, 1000, ("a", "b")),), requests=amounts({"licenses": 2}))
    (hold,) = engine.step(1)
    assert [count.reason for count in hold.reasons] == [Reason("resources", "insufficient", "licenses")]
    assert [failure.reason for failure in engine.explain("g").verdicts[0].failures] == [
        Reason("resources", "insufficient", "licenses"),
        Reason("devices", "no_device", "fpga"),
    ]
    join(engine, "special", "b", "fpga", licenses=2)
    assert [action.host for action in engine.step(2)] == ["special"]


def test_guest_bound_from_outside_takes_what_its_host_has_later():
    """A guest runs with a resource that nobody has; a host that brings it later has that much less to give."""
    engine = Engine([find_policy("spread")])
    join(engine, "h")
    spec = GuestSpec(requests=amounts({"licenses": 2}))
    engine.apply(GuestArrived(guest=Guest(name="runs", uid="runs", spec=spec, host="h")))
    join(engine, "h", licenses=3)
    arrive(engine, "late", requests=amounts({"licenses": 2}))
    assert [type(action) for action in engine.step(1)] == [Defer]
    engine.apply(GuestLeft(uid="runs"))
    assert [type(action) for action in engine.step(2)] == [Bind]
    engine.apply(HostLeft(name="h"))
    join(engine, "h", licenses=2)
    arrive(engine, "last", requests=amounts({"licenses": 1}))
    assert [type(action) for action in engine.step(3)] == [Defer]


class NameChurn:
    """Hosts and guests of one tenant come and go with fresh names, beside guests of another tenant."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.fresh = 0
        self.hosts: list[str] = []
        self.guests: list[str] = []

    def name(self) -> str:
        self.fresh += 1
        return f"n{self.fresh}" if self.random.random() < 0.7 else f"n{self.random.randrange(self.fresh)}"

    def events(self) -> list[Event]:
        """Return the next facts: names are new, or of the past."""
        chosen = self.random.randrange(6)
        if chosen == 0 and len(self.hosts) > 3:
            return [HostLeft(name=self.hosts.pop(self.random.randrange(len(self.hosts))))]
        if chosen <= 1:
            name = self.random.choice([*self.hosts, self.name()])
            self.hosts.append(name) if name not in self.hosts else None
            devices = tuple(Device(self.random.choice(["gpu", self.name()]), self.name()) for _ in range(2))
            capacity = amounts({"cpu": 8000, self.name(): 2, self.name(): 2})
            return [HostJoined(host=Host(name=name, capacity=capacity, devices=devices))]
        if chosen == 2 and self.guests:
            return [GuestLeft(uid=self.guests.pop(self.random.randrange(len(self.guests))))]
        self.fresh += 1
        uid = f"g{self.fresh}"
        self.guests.append(uid)
        spec = GuestSpec(
            requests=amounts({"cpu": 500, self.name(): 1}),
            devices=(DeviceRequest("gpu", 1, 500, (self.name(), self.name())),) if self.random.random() < 0.5 else (),
            anti_affinity=(GuestTerm("zone", Selector((Expression("app", "In", (self.name(),)),))),),
            labels=labels({"app": self.name()}),
            priority=self.random.randrange(3),
        )
        host = self.random.choice(self.hosts) if self.hosts and self.random.random() < 0.3 else ""
        return [GuestArrived(guest=Guest(name=uid, uid=uid, spec=spec, host=host))]


@pytest.mark.parametrize("seed", range(4))
def test_twins_agree_while_names_come_and_go(seed):
    """After every step a restored engine and a fork join the warm one; all decide alike while numbers are reused."""
    churn, warm = NameChurn(seed), Engine([find_policy("kubernetes")])
    twins: list[Engine] = []
    for step in range(120):
        events = churn.events()
        digests = []
        for engine in (warm, *twins):
            for event in events:
                engine.apply(event)
            actions = engine.step(step * 10**9)
            digests.append((actions, engine.checkpoint()))
        assert all(digest == digests[0] for digest in digests), f"step {step}"
        twins = [*twins[-4:], Engine.restore(warm.checkpoint()), warm.fork()]


def test_endless_names_fill_no_table_and_change_no_decision():
    """One tenant's hosts and guests churn; tables stay small, and another tenant is decided as if it were alone."""
    churn, crowded, alone = NameChurn(7), Engine([find_policy("pack")]), Engine([find_policy("pack")])
    pool = amounts({"cpu": 0, "tokens": 50})
    for engine in (crowded, alone):
        engine.apply(HostJoined(host=Host(name="own", capacity=pool, devices=(Device("tpu", "v4"),) * 8)))
    for step in range(600):
        for event in churn.events():
            crowded.apply(event)
        uid = f"own{step}"
        spec = GuestSpec(requests=amounts({"tokens": 3}), devices=(DeviceRequest("tpu", 1, 500, ("v4", "v5")),))
        outcomes = []
        for engine in (crowded, alone):
            engine.apply(GuestArrived(guest=Guest(name=uid, uid=uid, spec=spec)))
            actions = engine.step(step)
            outcomes.append([action for action in actions if isinstance(action, Bind) and action.uid.startswith("own")])
            if step % 3:
                engine.apply(GuestLeft(uid=f"own{step - step % 3}"))
        assert [(bind.uid, bind.host, bind.devices) for bind in outcomes[0]] == [
            (bind.uid, bind.host, bind.devices) for bind in outcomes[1]
        ]
    tables = crowded.state.tables
    most = sum(len(host.capacity) + 2 * len(host.devices) for host in crowded.hosts()) + 20
    assert tables.resources.used + tables.kinds.used + tables.models.used < most
    assert len(tables.reasons) < 2000


def test_guests_placed_before_their_names_came_are_counted_after():
    """A guest runs with a resource that nobody has; after a host brings it, others still keep away from that guest."""
    engine = Engine([find_policy("kubernetes")])
    zone = labels({"zone": "z"})
    engine.apply(HostJoined(host=Host(name="h", capacity=amounts({"cpu": 8000}), labels=zone)))
    spec = GuestSpec(requests=amounts({"licenses": 1}), labels=labels({"app": "a"}))
    engine.apply(GuestArrived(guest=Guest(name="runs", uid="runs", spec=spec, host="h")))
    engine.apply(HostJoined(host=Host(name="h", capacity=amounts({"cpu": 8000, "licenses": 3}), labels=zone)))
    apart = (GuestTerm("zone", Selector((Expression("app", "In", ("a",)),))),)
    arrive(engine, "g", anti_affinity=apart)
    assert [type(action) for action in engine.step(1)] == [Defer]


def test_mix_of_guests_without_end_is_cut_to_the_most_common_needs():
    """Tenants invent any number of needs; the policy that is made of them is still one that an engine takes."""
    specs = [GuestSpec(requests=amounts({"cpu": 100 + n}), devices=gpu(f"m{n}")) for n in range(12_000)]
    common = [GuestSpec(requests=amounts({"cpu": 50}), devices=gpu("t4"))] * 3
    (policy,) = with_mixes([BUILT_IN["fgd"]], [*specs, *common])
    assert (len(policy.mix), policy.mix[0].cpu_millis) == (512, 50)
    assert sum(entry.share for entry in policy.mix) == pytest.approx(1.0)
    Engine([policy])


def scored(count: int, start: int = 0) -> tuple[ScorerUse, ...]:
    """Return scorers that look at so many resources, eight each."""
    names = [f"r{n}" for n in range(start, start + count)]
    chunks = [names[at : at + 8] for at in range(0, count, 8)]
    encoded = ['{"resources": {' + ", ".join(f'"{name}": 1' for name in chunk) + "}}" for chunk in chunks]
    return tuple(ScorerUse("least_allocated", args=text) for text in encoded)


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        pytest.param([Policy(name=f"p{n}") for n in range(257)], "257 policies", id="policies"),
        pytest.param([Policy(name="p", scorers=scored(650))], "more than 64", id="scorers"),
        pytest.param([Policy(name="p", scorers=scored(57))], "57 resources", id="resources"),
        pytest.param(
            [Policy(name="p", scorers=(ScorerUse("least_allocated", args=" " * 65_537),))], "65537", id="arguments"
        ),
        pytest.param([Policy(name="p", mix=(MixEntry(1, 1, 1, ("m",) * 4097, 1.0),))], "impossible", id="mix"),
    ],
)
def test_policies_over_their_bounds_are_rejected_with_the_number(policies, words):
    with pytest.raises(InputError, match=words):
        Engine(policies)


def test_policies_find_no_room_for_names_that_hosts_use_up():
    engine = Engine([find_policy("spread")])
    for n in range(1000):
        join(engine, f"h{n}", **{f"resource-{n}": 1})
    with pytest.raises(NamesFullError, match="1024 different resources"):
        engine.apply(PolicyChanged(policies=(Policy(name="p", scorers=scored(50)),)))
    arrive(engine, "g", requests=amounts({"resource-7": 1}))
    assert [action.host for action in engine.step(1)] == ["h7"]


def test_terms_of_guests_that_come_and_go_are_not_kept_for_ever():
    """A guest waits and looks at others; 200 guests with 128 invented terms each move meanwhile."""
    engine = Engine([find_policy("kubernetes")])
    state, watchers = engine.state, WatchIndex()
    for n in range(200):
        terms = tuple(GuestTerm("zone", Selector((Expression("app", "In", (f"{n}.{k}",)),))) for k in range(128))
        number = state.shapes.number(GuestSpec(anti_affinity=terms))
        watchers.pairs_concerned([state.shapes.shapes[number]], state.cluster.counters)
    assert len(watchers._meant) <= 10_000 + 128
