"""Explanations: counts that add up, all failing filters with amounts, near misses first, and the smallest cure."""

from __future__ import annotations

import pytest

from hostler.engine import Engine, find_policy
from hostler.model import (
    Device,
    DeviceRequest,
    Guest,
    GuestArrived,
    GuestSpec,
    Host,
    HostJoined,
    HostsJoined,
    Taint,
    Toleration,
    labels,
    parse_amounts,
)


def engine_with(*hosts: Host, policy: str = "spread") -> Engine:
    engine = Engine([find_policy(policy)])
    engine.apply(HostsJoined(hosts=hosts))
    return engine


def host(name: str, cpu: object = 8, memory: object = "16Gi", **more: object) -> Host:
    return Host(name=name, uid=name, capacity=parse_amounts({"cpu": cpu, "memory": memory}), **more)


def arrive(engine: Engine, name: str, cpu: object = 1, memory: object = "1Gi", on: str = "", **more: object) -> None:
    spec = GuestSpec(requests=parse_amounts({"cpu": cpu, "memory": memory}), **more)
    engine.apply(GuestArrived(guest=Guest(name=name, uid=name, spec=spec, host=on)))


def test_counts_per_reason_and_feasible_hosts_add_up_to_all_hosts():
    engine = engine_with(
        host("fits"),
        host("small", cpu=1),
        host("closed", cordoned=True),
        host("tainted", taints=(Taint("gpu"),)),
        host("elsewhere-and-small", cpu=1, cordoned=True),
    )
    arrive(engine, "g", cpu=4)
    decision = engine.explain("g").decision
    assert decision.hosts == 5
    assert decision.feasible == 1
    assert sorted((c.reason.text(), c.hosts) for c in decision.reasons) == [
        ("cordoned", 2),
        ("insufficient: cpu", 1),
        ("untolerated taint: gpu:NoSchedule", 1),
    ]


def test_the_first_failure_of_a_verdict_is_the_reason_that_is_counted():
    engine = engine_with(
        host("a", cpu=1, memory="1Gi", cordoned=True, taints=(Taint("x"), Taint("y", "1", "NoExecute"))),
    )
    arrive(engine, "g", cpu=4, memory="4Gi", host_selector=labels({"zone": "n"}))
    explanation = engine.explain("g")
    failures = [f.reason.text() for f in explanation.verdicts[0].failures]
    assert failures == [
        "cordoned",
        "untolerated taint: x:NoSchedule",
        "untolerated taint: y=1:NoExecute",
        "selector mismatch: zone=n",
        "insufficient: cpu",
        "insufficient: memory",
    ]
    assert [c.reason.text() for c in explanation.decision.reasons] == failures[:1]


def test_a_verdict_has_the_missing_amount():
    engine = engine_with(host("a", cpu=8))
    arrive(engine, "there", cpu=6, on="a")
    arrive(engine, "g", cpu="3500m")
    (failure,) = engine.explain("g").verdicts[0].failures
    assert (failure.needed, failure.free, failure.missing) == (3500, 2000, 1500)


def test_near_misses_are_ordered_by_failures_then_missing_amount():
    engine = engine_with(
        host("two-reasons", cpu=3, memory="1Gi"),
        host("far", cpu=1),
        host("near", cpu=3),
        host("nearer", cpu="3500m"),
    )
    arrive(engine, "g", cpu=4, memory="4Gi")
    assert engine.explain("g").near_misses == ("nearer", "near", "far", "two-reasons")


def test_scores_of_fitting_hosts_are_shown_best_first_and_match_the_choice():
    engine = engine_with(host("a"), host("b", cpu=16), host("c"))
    arrive(engine, "g", cpu=2)
    explanation = engine.explain("g")
    (bind,) = engine.step(1)
    assert explanation.feasible[0] == bind.host == "b"
    assert [s.plugin for s in explanation.verdicts[0].scores] == ["least_allocated", "balanced"]
    assert explanation.verdicts[0].total == engine.decision("g").total


def test_a_placed_guest_is_explained_with_its_own_booking_set_aside():
    engine = engine_with(host("only", cpu=4))
    arrive(engine, "g", cpu=4)
    engine.step(1)
    explanation = engine.explain("g")
    assert explanation.feasible == ("only",)
    assert "set aside" in explanation.as_of
    assert engine.decision("g").host == "only"


def test_explaining_changes_nothing():
    engine = engine_with(host("a"), host("b", cpu=1), host("c", taints=(Taint("t"),)))
    arrive(engine, "placed", cpu=2)
    arrive(engine, "stuck", cpu=64, memory="1Ti")
    engine.step(1)
    before = engine.checkpoint()
    engine.explain("placed")
    engine.explain("stuck")
    assert engine.checkpoint() == before


CURES = [
    pytest.param(
        (host("a", cpu=3), host("b", cpu="3500m")), {"cpu": 4}, ("b", ["reduce_request"], ["cpu"]), id="least-amount"
    ),
    pytest.param(
        (host("a", taints=(Taint("gpu"),)),), {"cpu": 4}, ("a", ["tolerate"], ["gpu:NoSchedule"]), id="toleration"
    ),
    pytest.param(
        (host("a", taints=(Taint("gpu"),)), host("b", cpu=3)),
        {"cpu": 4},
        ("b", ["reduce_request"], ["cpu"]),
        id="a-quarter-less-cpu-beats-a-whole-toleration",
    ),
    pytest.param(
        (host("a"),),
        {"host_selector": labels({"zone": "n"})},
        ("a", ["relax_selector"], ["zone=n"]),
        id="selector",
    ),
    pytest.param((host("a", cordoned=True),), {}, ("a", ["uncordon"], ["a"]), id="cordon"),
    pytest.param((host("a"),), {"host_name": "b"}, ("a", ["relax_selector"], ["a"]), id="host-name"),
    pytest.param(
        (host("a", cpu=3, cordoned=True, taints=(Taint("t"),)),),
        {"cpu": 4},
        ("a", ["uncordon", "tolerate", "reduce_request"], ["a", "t:NoSchedule", "cpu"]),
        id="three-changes-when-fewer-do-not-help",
    ),
    pytest.param(
        (host("a", cpu=3, memory="1Gi"),),
        {"cpu": 4, "memory": "2Gi"},
        ("a", ["reduce_request", "reduce_request"], ["cpu", "memory"]),
        id="two-amounts",
    ),
]


@pytest.mark.parametrize(("hosts", "asks", "cure"), CURES)
def test_the_cure_is_the_smallest_change(hosts, asks, cure):
    engine = engine_with(*hosts)
    arrive(engine, "g", **asks)
    found = engine.explain("g").cure
    assert found is not None
    assert (found.host, [c.kind for c in found.changes], [c.subject for c in found.changes]) == cure


def test_one_victim_beats_two_smaller_amounts():
    engine = engine_with(host("a", cpu=8, memory="8Gi"))
    arrive(engine, "big", cpu=6, memory="6Gi", on="a")
    arrive(engine, "tiny", cpu=1, memory="1Gi", on="a")
    arrive(engine, "g", cpu=4, memory="4Gi")
    cure = engine.explain("g").cure
    assert cure is not None
    assert [(c.kind, c.subject) for c in cure.changes] == [("evict", "big")]


def test_a_guest_of_higher_priority_is_no_victim():
    engine = engine_with(host("a", cpu=8, memory="8Gi"))
    arrive(engine, "king", cpu=8, memory="8Gi", on="a", priority=10)
    arrive(engine, "g", cpu=4, memory="4Gi")
    assert engine.explain("g").cure is None


def test_more_than_three_changes_are_no_cure():
    taints = (Taint("a"), Taint("b"), Taint("c"), Taint("d"))
    engine = engine_with(host("h", taints=taints))
    arrive(engine, "g")
    assert engine.explain("g").cure is None


def test_after_the_cure_the_guest_fits():
    engine = engine_with(host("a", taints=(Taint("gpu"),)))
    arrive(engine, "g")
    assert [c.kind for c in engine.explain("g").cure.changes] == ["tolerate"]
    arrive(engine, "cured", tolerations=(Toleration("gpu", "Exists"),))
    assert engine.explain("cured").feasible == ("a",)


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        pytest.param(DeviceRequest("tpu"), "no_device", id="no-such-kind"),
        pytest.param(DeviceRequest("gpu", 1, 1000, ("H100",)), "wrong_device_model", id="no-such-model"),
        pytest.param(DeviceRequest("gpu", 3), "insufficient_devices", id="too-many"),
    ],
)
def test_devices_are_refused_with_their_own_reasons(ask, code):
    engine = engine_with(host("a", devices=(Device("gpu", "A100"), Device("gpu", "A100"))))
    arrive(engine, "g", devices=(ask,))
    (hold,) = engine.step(1)
    assert [c.reason.code for c in hold.reasons] == [code]
    assert engine.explain("g").verdicts[0].failures[0].reason.code == code


def test_the_events_that_would_wake_a_guest_are_named():
    engine = engine_with(host("a", cpu=1))
    arrive(engine, "g", cpu=4)
    engine.step(1)
    wakes = engine.explain("g").wakes
    assert "a guest leaves or shrinks, or a bind fails" in wakes
    assert "a host's labels, taints or cordon change" not in wakes


def test_without_hosts_there_is_nothing_to_blame():
    engine = Engine([find_policy("spread")])
    arrive(engine, "g")
    (hold,) = engine.step(1)
    assert (hold.hosts, hold.reasons) == (0, ())
    explanation = engine.explain("g")
    assert (explanation.verdicts, explanation.cure) == ((), None)
    engine.apply(HostJoined(host=host("late")))
    assert [a.host for a in engine.step(60_000_000_000)] == ["late"]
