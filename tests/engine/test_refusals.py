"""Hosts counted by all that they say to a guest: the same as the explanation says host by host."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.engine import Engine, find_policy
from hostler.errors import UnknownNameError
from hostler.model import (
    Guest,
    GuestArrived,
    GuestSpec,
    Host,
    HostJoined,
    HostLeft,
    HostPort,
    PreemptionRules,
    Taint,
    amounts,
)
from tests.random_examples import count_examples

sizes = st.integers(1, 8)
hosts = st.lists(st.tuples(sizes, sizes, st.integers(1, 3), st.booleans(), st.booleans()), min_size=1, max_size=8)
running = st.lists(st.tuples(st.integers(0, 7), sizes, sizes, st.sampled_from([0, 5])), max_size=8)


@settings(max_examples=count_examples(200), deadline=None)
@given(hosts=hosts, running=running, cpu=sizes, memory=sizes, has_port=st.booleans())
def test_counts_are_those_of_the_explanation(hosts, running, cpu, memory, has_port):
    engine = Engine([msgspec.structs.replace(find_policy("kubernetes"), preemption=PreemptionRules())])
    for number, (cores, ram, slots, is_tainted, is_cordoned) in enumerate(hosts):
        size = amounts({"cpu": 1000 * cores, "memory": ram * 2**30, "guests": slots})
        taints = (Taint("gpu", "", "NoSchedule"),) if is_tainted else ()
        engine.apply(HostJoined(host=Host(name=f"h{number}", capacity=size, taints=taints, cordoned=is_cordoned)))
    port = (HostPort(80),) if has_port else ()
    for number, (at, cores, ram, priority) in enumerate(running):
        spec = GuestSpec(requests=amounts({"cpu": 1000 * cores, "memory": ram * 2**30}), priority=priority, ports=port)
        guest = Guest(name=f"r{number}", uid=f"r{number}", spec=spec, host=f"h{at % len(hosts)}")
        engine.apply(GuestArrived(guest=guest))
    spec = GuestSpec(requests=amounts({"cpu": 1000 * cpu, "memory": memory * 2**30}), priority=3, ports=port)
    engine.apply(GuestArrived(guest=Guest(name="g", uid="g", spec=spec)))
    before = engine.fork().explain("g")
    engine.step(0)  # it may be nominated now; what is held for it does not count against it
    if engine.decision("g").host:
        return
    told: Counter = Counter()
    for reasons, count in engine.refusals("g"):
        told.update({_said(reasons): count})
    assert told == Counter(
        _said([f.reason for f in verdict.failures]) for verdict in before.verdicts if not verdict.fits
    )


def _said(reasons):
    """What counts: of a host refused for its room every resource, of others the first reason, as the kernel has it."""
    room = frozenset(reason for reason in reasons if reason.plugin == "resources")
    first = reasons[0]
    return room if first.plugin == "resources" else frozenset({first})


def test_only_some_hosts_can_be_asked_about():
    engine = Engine([find_policy("kubernetes")])
    for name in ("a", "b", "c"):
        engine.apply(HostJoined(host=Host(name=name, capacity=amounts({"cpu": 1000, "guests": 5}))))
    spec = GuestSpec(requests=amounts({"cpu": 2000}))
    engine.apply(GuestArrived(guest=Guest(name="g", uid="g", spec=spec)))
    engine.step(0)
    assert sum(count for _, count in engine.refusals("g", {"a", "c", "nowhere"})) == 2


def test_hosts_that_left_are_not_counted():
    engine = Engine([find_policy("kubernetes")])
    for name in ("a", "b"):
        taints = (Taint("gpu", "", "NoSchedule"),) if name == "b" else ()
        engine.apply(HostJoined(host=Host(name=name, capacity=amounts({"cpu": 1000, "guests": 5}), taints=taints)))
    engine.apply(GuestArrived(guest=Guest(name="g", uid="g", spec=GuestSpec(requests=amounts({"cpu": 2000})))))
    engine.step(0)
    engine.apply(HostLeft(name="b"))
    assert [count for _, count in engine.refusals("g")] == [1]


def test_a_guest_that_nobody_knows_has_no_refusals():
    with pytest.raises(UnknownNameError):
        Engine([find_policy("kubernetes")]).refusals("nobody")
