"""The verdict cache: bounded, and what it says does not depend on what it still remembers."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine import Engine
from hostler.engine.cluster.shapes import Shape
from hostler.model import (
    Expression,
    Guest,
    GuestArrived,
    GuestLeft,
    GuestSpec,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    HostsJoined,
    PolicyChanged,
    Taint,
    Term,
    WeightedTerm,
    amounts,
    labels,
)
from tests.engine.fleet import QUICK, SECOND, arrive, binds, engine_with, guest, host, place, policy, spec
from tests.engine.small_samples import fleets, hosts, separate_devices, specs

LATER = 60 * SECOND


def wide_fleet(count: int, **fields) -> Engine:
    """Return an engine with many hosts, each with a label of its own."""
    size = amounts({"cpu": 10**6, "memory": 10**6})
    engine = engine_with((), **fields)
    fleet = (Host(name=f"h{n:04}", capacity=size, labels=labels({"host": str(n)})) for n in range(count))
    engine.apply(HostsJoined(hosts=tuple(fleet)))
    return engine


def wishing(number: int) -> GuestSpec:
    """A shape that prefers one host; its raw scores need room of their own."""
    wish = WeightedTerm(1, Term((Expression("host", "In", (str(number),)),)))
    return GuestSpec(requests=amounts({"cpu": 1}), preferred_hosts=(wish,))


def shape_of(engine: Engine, wanted: GuestSpec) -> Shape:
    return engine.state.shapes.shapes[engine.state.shapes.number(wanted)]


def check_alike(engine: Engine, twin: Engine, wanted: Guest) -> str:
    """Let both decide about a guest, and compare; return where it went."""
    for each in (engine, twin):
        each.apply(GuestArrived(guest=wanted))
    assert engine.step(engine.now) == twin.step(twin.now)
    assert engine.decision(wanted.uid) == twin.decision(wanted.uid)
    return engine.decision(wanted.uid).host


# -- what is cached is what is fresh ----------------------------------------------------------------------------------

changes = st.one_of(
    st.tuples(st.just("host"), hosts()), st.tuples(st.just("gone"), hosts()), st.tuples(st.just("guest"), specs())
)


@given(
    fleet=fleets,
    shapes=st.lists(specs(separate_devices), min_size=1, max_size=4),
    steps=st.lists(st.lists(changes, max_size=3), max_size=4),
)
@QUICK
def test_a_cached_verdict_is_what_a_fresh_look_would_find(fleet, shapes, steps):
    """Look at some shapes again and again while hosts and guests come and go; a fork evaluates everything again."""
    engine = engine_with(fleet)
    arrive(engine, *(guest(f"watched-{i}", each) for i, each in enumerate(shapes)))
    number = 0
    for events in [[], *steps]:
        for what, detail in events:
            known = {machine.name for machine in engine.hosts()}
            if what == "host":
                engine.apply(HostChanged(host=detail))
            elif what == "gone":
                engine.apply(HostLeft(name=detail.name))
            elif known:
                number += 1
                engine.apply(GuestArrived(guest=guest(f"t{number}", detail, host=min(known))))
        fresh = engine.fork()
        for uid in (f"watched-{i}" for i in range(len(shapes))):
            assert engine.explain(uid) == fresh.explain(uid)
        assert engine.step(engine.now) == fresh.step(fresh.now)
        for each in shapes:
            number += 1
            check_alike(engine, engine.fork(), guest(f"t{number}", each))


def test_more_shapes_than_the_cache_holds_are_decided_as_a_ledger_would():
    names = ("b", "a", "c")  # by rank
    engine = engine_with([host(name, cpu=10**6, rank=rank) for rank, name in enumerate(names)], "first_fit")
    most = engine.state.cache.slots
    sizes = [40 + 40 * ((7 * i) % (most + 300)) for i in range(most + 300)]
    arrive(engine, *(guest(f"g{i}", cpu=size, memory=0) for i, size in enumerate(sizes)))
    expected, left = {}, dict.fromkeys(names, 10**6)
    for number, size in enumerate(sizes):
        name = next((name for name, free in left.items() if free >= size), None)
        if name is not None:
            left[name] -= size
            expected[f"g{number}"] = name
    assert binds(engine.step(0)) == expected


def test_a_shape_that_lost_its_place_is_looked_at_afresh():
    engine = engine_with([host("a", cpu=1000)])
    first = spec(cpu=1000, memory=0)
    arrive(engine, guest("g", first))
    assert engine.explain("g").feasible == ("a",)
    for number in range(engine.state.cache.slots + 1):
        engine.state.cache.slot(shape_of(engine, spec(cpu=2 + number, memory=0)), 0)
    arrive(engine, guest("t", cpu=1, memory=0, host="a"))
    assert engine.explain("g").feasible == ()


def test_the_shape_that_was_not_used_for_longest_loses_its_place():
    engine = engine_with([host("a")])
    cache, most = engine.state.cache, engine.state.cache.slots
    shapes = [shape_of(engine, spec(cpu=1 + number)) for number in range(most + 1)]
    kept = cache.slot(shapes[0], 0)
    second = cache.slot(shapes[1], 0)
    for shape in shapes[2:most]:
        cache.slot(shape, 0)
    assert cache.slot(shapes[0], 0) == kept
    assert cache.slot(shapes[most], 0) == second, "the second is the oldest now"
    assert cache.shape_in(kept) == shapes[0]


def test_one_shape_under_two_policies_has_two_places():
    engine = engine_with([host("a")], "spread", policy("spread", name="half", overcommit=(("cpu", 500_000),)))
    shape = shape_of(engine, spec(cpu=3000))
    verdicts = [engine.state.cache.refusals(engine.state.cache.slot(shape, number))[0] for number in (0, 1)]
    assert verdicts == [True, False]


# -- room for raw scores ----------------------------------------------------------------------------------------------


def test_more_preferring_shapes_than_there_is_room_for_are_all_heard():
    engine = wide_fleet(3000)
    most = engine.state.cache.distinct_limit()
    assert most < engine.state.cache.slots, "here the room for raw scores is what is short"
    chosen = [(37 * i) % 3000 for i in range(most + 60)]
    arrive(engine, *(guest(f"g{i}", wishing(number)) for i, number in enumerate(chosen)))
    assert binds(engine.step(0)) == {f"g{i}": f"h{number:04}" for i, number in enumerate(chosen)}
    again = [guest(f"again-{number}", wishing(number)) for number in chosen[:5]]
    assert place(engine, *again) == [f"h{number:04}" for number in chosen[:5]]


def test_preferring_and_plain_shapes_do_not_take_each_other_s_scores():
    engine = wide_fleet(40)
    arrive(engine, *(guest(f"g{i:03}", wishing(i) if i % 2 else spec(cpu=100 + i, memory=0)) for i in range(80)))
    found = binds(engine.step(0))
    assert all(found[f"g{i:03}"] == f"h{i:04}" for i in range(1, 40, 2))
    assert len(found) == 80


def test_soft_taint_that_comes_and_goes_changes_scores():
    engine = engine_with([host("a"), host("b", cpu=3900), host("c", cpu=3000)])
    shape = spec(cpu=1, memory=1)
    soft = HostChanged(host=host("a", taints=(Taint("s", "", "PreferNoSchedule"),)))
    taken = []
    for number, event in enumerate((HostChanged(host=host("a")), soft, HostChanged(host=host("a")), soft)):
        engine.apply(event)
        taken.append(check_alike(engine, engine.fork(), guest(f"g{number}", shape)))
        engine.apply(GuestLeft(uid=f"g{number}"))
    assert taken == ["a", "b", "a", "b"]


# -- growth -----------------------------------------------------------------------------------------------------------


def test_late_hosts_and_policies_reach_shapes_cached_before():
    engine = engine_with([host("a", cpu=0)])
    arrive(engine, guest("g"), guest("wide", more={f"r{i}": 1 for i in range(20)}), guest("gpu", gpu=(2, 400)))
    engine.step(0)
    for number in range(70):
        engine.apply(HostJoined(host=host(f"small-{number:02}", cpu=1)))
    assert engine.step(LATER) == []
    engine.apply(HostJoined(host=host("roomy", cpu=2000)))
    engine.apply(HostJoined(host=host("wide", more={f"r{i}": 1 for i in range(20)}, cpu=1000)))
    engine.apply(HostJoined(host=host("gpus", gpus=8, cpu=1000)))
    assert set(binds(engine.step(2 * LATER))) == {"g", "wide", "gpu"}
    engine.apply(PolicyChanged(policies=(policy("pack"), policy("fgd"))))
    arrive(engine, *(guest(f"late-{i}", cpu=1, memory=1, policy="fgd" if i % 2 else "") for i in range(6)))
    assert len(binds(engine.step(3 * LATER))) == 6


def test_counts_by_reason_add_up_however_many_reasons_come_late():
    engine = engine_with([host("a", taints=(Taint("t0"),))])
    arrive(engine, guest("g"))
    assert engine.explain("g").decision.hosts == 1
    for number in range(1, 90):
        engine.apply(HostJoined(host=host(f"h{number}", taints=(Taint(f"t{number}"),))))
        decision = engine.explain("g").decision
        assert decision.hosts == number + 1
    assert Counter(c.hosts for c in decision.reasons) == Counter({1: 90})


def test_a_fork_is_not_disturbed_by_what_its_original_caches():
    engine = engine_with([host("a"), host("b")])
    place(engine, guest("x"))
    twin = engine.fork()
    place(engine, *(guest(f"g{i}", cpu=10 + i) for i in range(30)))
    shape = shape_of(twin, spec())
    codes, counts = twin.state.cache.codes(twin.state.cache.slot(shape, 0))
    assert np.flatnonzero(codes == 0).tolist() == [0, 1]
    assert counts[0] == 2
    assert place(twin, guest("y")) == ["b"]
