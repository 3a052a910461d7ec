"""Waking: a waiting guest is tried again exactly when some host would now take it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine import Engine, Registry
from hostler.errors import PluginError
from hostler.model import (
    Bind,
    Event,
    Guest,
    GuestArrived,
    GuestChanged,
    GuestLeft,
    GuestSpec,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    PluginUse,
    Policy,
    PolicyChanged,
    QueueRules,
    amounts,
)
from tests.engine.fleet import (
    QUICK,
    SECOND,
    arrive,
    binds,
    declared,
    engine_with,
    guest,
    host,
    place,
    policy,
    spec,
    states,
)
from tests.engine.small_samples import NAMES, hosts, specs
from tests.engine.twin import Twin

LATER = 60 * SECOND  # beyond every backoff
RULES = QueueRules(flush_after_ns=10**6 * SECOND)
POLICIES = (
    policy("spread"),
    policy("first_fit", overcommit=(("cpu", 2_000_000),)),
    policy("pack", reserve=(("memory", 1),)),
)

# -- against the slow twin --------------------------------------------------------------------------------------------

guest_specs = st.builds(
    lambda wanted, chosen: GuestSpec(
        **{f: getattr(wanted, f) for f in wanted.__struct_fields__} | {"policy": chosen},
    ),
    specs(),
    st.sampled_from(["", *(p.name for p in POLICIES)]),
)
changes = st.one_of(
    st.tuples(st.just("host"), hosts()),
    st.tuples(st.just("host"), hosts()),
    st.tuples(st.just("gone"), st.sampled_from(NAMES)),
    st.tuples(st.just("left"), st.integers(0, 99)),
)


class WakeupPair:
    """An engine and its slow twin, told the same."""

    def __init__(self) -> None:
        self.engine = Engine(POLICIES, rules=RULES)
        self.twin = Twin(*POLICIES)

    def apply(self, what: str, detail: Any) -> None:
        event: Event
        if what == "host":
            known = self.twin.hosts.get(detail.name)
            if known is not None and known.devices != detail.devices:
                return  # then devices are booked again, which the twin does not follow
            event = HostChanged(host=detail)
            self.twin.put(detail)
        elif what == "gone":
            if detail not in self.twin.hosts or self.twin.held[detail]:
                return  # what is parked is found again on other devices
            event = HostLeft(name=detail)
            self.twin.drop(detail)
        else:
            placed = [uid for uid, state in states(self.engine).items() if state == "assumed"]
            if not placed:
                return
            event = GuestLeft(uid=placed[detail % len(placed)])
            self.twin.free(event.uid)
        self.engine.apply(event)

    def fits(self, wanted: GuestSpec) -> bool:
        chosen = self.twin.policies[wanted.policy]
        return any(self.twin.why_not(chosen, wanted, machine) is None for machine in self.twin.hosts.values())

    def step(self) -> set[str]:
        """Step well after all backoffs; return the guests that were tried."""
        actions = self.engine.step(self.engine.now + LATER)
        for action in actions:
            if isinstance(action, Bind):
                wanted = self.engine.state.guests[action.uid].guest.spec
                self.twin.place(action.uid, wanted, action.host, action.devices)
        return {action.uid for action in actions}


@given(
    fleet=st.lists(hosts(), min_size=1, max_size=3, unique_by=lambda h: h.name),
    wanted=st.lists(guest_specs, min_size=1, max_size=8),
    rounds=st.lists(st.lists(changes, max_size=3), min_size=1, max_size=4),
)
@QUICK
def test_a_waiting_guest_is_tried_exactly_when_some_host_would_take_it(fleet, wanted, rounds):
    pair = WakeupPair()
    for machine in fleet:
        pair.apply("host", machine)
    for number, each in enumerate(wanted):
        pair.engine.apply(GuestArrived(guest=guest(f"g{number}", each)))
        pair.twin.see(name for name, _ in each.requests)
    pair.step()
    for events in rounds:
        for event in events:
            pair.apply(*event)
        wants = {u: pair.engine.state.guests[u].guest.spec for u, s in states(pair.engine).items() if s == "waiting"}
        expected = {uid for uid, each in wants.items() if pair.fits(each)}
        tried = pair.step()
        assert tried <= expected
        refused = [wants[uid] for uid in tried if states(pair.engine)[uid] == "waiting"]
        assert all(refused.count(each) == 1 for each in refused), "who is refused speaks for all who want the same"
        assert all(wants[uid] in refused for uid in expected - tried)


# -- shapes and numbers -----------------------------------------------------------------------------------------------


def test_nobody_is_tried_again_while_nothing_happens():
    engine = engine_with([host("a", cpu=0)], rules=RULES)
    place(engine, guest("g"), guest("h"), now=0)
    for turn in range(1, 5):
        assert engine.step(turn * LATER) == []
    assert engine.decision("g").attempt == 1


def test_a_guest_is_woken_by_what_its_own_policy_lets_a_host_give():
    double = policy("spread", name="double", overcommit=(("cpu", 2_000_000),))
    careful = policy("spread", name="careful", reserve=(("cpu", 500),))
    engine = engine_with([host("a", cpu=0)], "spread", double, careful, rules=RULES)
    names = ("", "double", "careful")
    place(engine, *(guest(f"g{name}", cpu=1500, policy=name) for name in names), now=0)
    for cpu, woken in ((749, ""), (750, "double"), (1499, ""), (1500, "plain"), (1999, ""), (2000, "careful")):
        engine.apply(HostJoined(host=host(f"h{cpu}", cpu=cpu)))
        found = binds(engine.step(engine.now + LATER))
        assert found == ({f"g{woken.removeprefix('plain')}": f"h{cpu}"} if woken else {})


def test_one_departed_guest_does_not_keep_its_shape_from_waking():
    engine = engine_with([host("a", cpu=0)], rules=RULES)
    place(engine, guest("g"), guest("h"), guest("i"), now=0)
    engine.apply(GuestLeft(uid="g"))
    engine.apply(HostJoined(host=host("b")))
    assert set(binds(engine.step(LATER))) == {"h", "i"}


def test_a_guest_that_changed_is_woken_by_what_it_wants_now():
    engine = engine_with([host("a", cpu=100)], rules=RULES)
    place(engine, guest("g", cpu=9000, version=1), now=0)
    engine.apply(GuestChanged(guest=guest("g", cpu=500, version=2)))
    engine.step(LATER)
    assert engine.decision("g").attempt == 2
    engine.apply(HostJoined(host=host("b", cpu=400)))
    assert engine.step(2 * LATER) == []
    engine.apply(HostJoined(host=host("c", cpu=500)))
    assert binds(engine.step(3 * LATER)) == {"g": "c"}


@pytest.mark.parametrize("count", [1, 15, 16, 17, 40, 100])
def test_any_number_of_shapes_may_wait_and_each_is_woken_by_its_own_size(count):
    engine = engine_with([host("a", cpu=0)], rules=RULES)
    arrive(engine, *(guest(f"g{i:03}", cpu=1000 + i) for i in range(count)))
    engine.step(0)
    engine.apply(HostJoined(host=host("half", cpu=1000 + count // 2)))
    tried = {action.uid for action in engine.step(LATER)}
    assert tried == {f"g{i:03}" for i in range(count) if 1000 + i <= 1000 + count // 2}


def test_very_many_waiting_shapes_are_woken_by_their_amounts():
    """Beyond what the cache holds at once, room alone decides who is tried; nobody who fits is left behind."""
    engine = engine_with([host("a", cpu=0, memory=0)], "first_fit", rules=RULES)
    most = engine.state.cache.distinct_limit()
    count = most + 100
    arrive(engine, *(guest(f"g{i}", cpu=1 + i, memory=0) for i in range(count)))
    engine.step(0)
    engine.apply(HostJoined(host=host("b", cpu=most + 50, memory=0, more={"guests": 3})))
    actions = engine.step(LATER)
    assert len(actions) == most + 50
    assert binds(actions) == {"g0": "b", "g1": "b", "g2": "b"}


def test_resources_first_named_by_a_waiting_guest_count():
    engine = engine_with([host("a")], rules=RULES)
    place(engine, *(guest(f"g{i}", more={f"r{i}": 1}) for i in range(12)), now=0)
    for number in (11, 0, 5):
        engine.apply(HostJoined(host=host(f"h{number}", more={f"r{number}": 1})))
        assert binds(engine.step(engine.now + LATER)) == {f"g{number}": f"h{number}"}


def test_guest_of_a_dropped_policy_waits_for_its_policy():
    engine = engine_with([host("a")], "spread", "pack", rules=RULES)
    place(engine, guest("g", policy="pack"), now=0)
    engine.apply(PolicyChanged(policies=(policy("spread"),)))
    engine.apply(GuestChanged(guest=Guest(name="g", uid="g", version=5, spec=spec(cpu=10, policy=""))))
    assert states(engine) == {"g": "assumed"}
    arrive(engine, guest("h", cpu=9000))
    engine.step(LATER)
    engine.apply(HostJoined(host=host("big", cpu=9000)))
    engine.apply(PolicyChanged(policies=(policy("pack"), policy("spread"))))
    assert binds(engine.step(2 * LATER)) == {"h": "big"}


# -- plugins ----------------------------------------------------------------------------------------------------------


class Temperamental:
    """A filter that refuses everybody, and fails where a host is called ``bad``."""

    name = "temperamental"
    reasons = declared("temperamental", "not_today")

    def __init__(self, view: Any, args: Any) -> None:
        self.view = view

    def evaluate(self, wanted: GuestSpec, rows: Any) -> Any:
        names = [self.view.host(row).name for row in rows.tolist()]
        if "bad" in names:
            raise RuntimeError("a bad host")
        return np.array([0 if name == "good" else 1 for name in names])


def test_plugin_failing_during_wakeup_is_named_in_the_next_try():
    own = Policy(name="own", filters=(PluginUse("temperamental"),))
    engine = Engine([own], registry=Registry(extra={"temperamental": Temperamental}), rules=RULES)
    engine.apply(HostJoined(host=Host(name="a", capacity=amounts({"cpu": 1}))))
    arrive(engine, guest("g", cpu=1, memory=0))
    assert len(engine.step(0)) == 1
    engine.apply(HostJoined(host=Host(name="bad", capacity=amounts({"cpu": 1}))))
    with pytest.raises(PluginError, match="a bad host"):
        engine.step(LATER)
    assert states(engine) == {"g": "active"}, "it is not lost"
    engine.apply(HostLeft(name="bad"))
    engine.apply(HostJoined(host=Host(name="good", capacity=amounts({"cpu": 1}))))
    assert binds(engine.step(2 * LATER)) == {"g": "good"}
