"""Bounds: what would make arrays grow without end is refused or counted together, and nothing runs out of range."""

from __future__ import annotations

import pytest

from hostler.engine import Engine, checkpoint, find_policy, typical_mix
from hostler.engine.cluster.tables import MAX_MODELS, MAX_RESOURCES, MAX_SUBJECTS
from hostler.errors import FactError, InputError
from hostler.model import (
    Defer,
    Device,
    DeviceRequest,
    Expression,
    Guest,
    GuestArrived,
    GuestLeft,
    GuestSpec,
    Host,
    HostChanged,
    HostJoined,
    HostsJoined,
    MixEntry,
    Policy,
    ScorerUse,
    Taint,
    Term,
    WeightedTerm,
    labels,
)


def arrive(engine: Engine, name: str, **spec: object) -> None:
    engine.apply(GuestArrived(guest=Guest(name=name, uid=name, spec=GuestSpec(**spec))))


def test_very_many_taints_are_counted_and_the_counts_still_add_up():
    engine = Engine([find_policy("spread")])
    many = MAX_SUBJECTS + 500
    hosts = tuple(Host(name=f"h{n}", taints=(Taint(f"taint-{n}"),)) for n in range(many))
    engine.apply(HostsJoined(hosts=hosts))
    arrive(engine, "g")
    (hold,) = engine.step(1)
    assert isinstance(hold, Defer)
    assert hold.hosts == sum(c.hosts for c in hold.reasons) == many
    assert len(hold.reasons) <= MAX_SUBJECTS + 1


def test_selector_is_rejected_with_a_reason_among_very_many():
    engine = Engine([find_policy("spread")])
    engine.apply(
        HostsJoined(hosts=tuple(Host(name=f"h{n}", taints=(Taint(f"t{n}"),)) for n in range(MAX_SUBJECTS + 9)))
    )
    arrive(engine, "first")
    engine.step(1)
    engine.apply(HostJoined(host=Host(name="open")))
    arrive(engine, "picky", host_selector=labels({"zone": "a"}))
    hold = next(a for a in engine.step(2) if isinstance(a, Defer) and a.guest == "picky")
    assert sum(c.hosts for c in hold.reasons) == MAX_SUBJECTS + 10
    assert engine.explain("picky").verdicts


def test_ten_thousand_selectors_leave_few_reasons():
    engine = Engine([find_policy("spread")])
    engine.apply(HostJoined(host=Host(name="a")))
    for number in range(10_000):
        arrive(engine, f"g{number}", host_selector=labels({"kubernetes.io/hostname": f"node-{number}"}))
    actions = engine.step(1)
    assert {count.reason.subject for a in actions for count in a.reasons} >= {"kubernetes.io/hostname=node-9999"}
    assert len(engine.state.tables.reasons) < 100


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"requests": tuple((f"r{n}", 1) for n in range(MAX_RESOURCES + 1))}, id="resources"),
        pytest.param(
            {"devices": (DeviceRequest("gpu", 1, 1, tuple(f"m{n}" for n in range(MAX_MODELS + 1))),)}, id="models"
        ),
        pytest.param({"devices": (DeviceRequest("gpu"),) * 17}, id="device requests"),
        pytest.param({"requests": (("cpu", -1),)}, id="a negative amount"),
        pytest.param({"requests": (("cpu", 2**62 + 1),)}, id="an amount beyond 2^62"),
        pytest.param({"scored_requests": (("cpu", 2**60),)}, id="a score beyond 2^44"),
        pytest.param({"devices": (DeviceRequest("gpu", 0),)}, id="no devices"),
        pytest.param({"devices": (DeviceRequest("gpu", 10**18),)}, id="devices without end"),
    ],
)
def test_a_guest_that_no_front_could_send_is_refused_without_a_trace(spec):
    engine = Engine([find_policy("spread")])
    engine.apply(HostJoined(host=Host(name="a")))
    before = engine.checkpoint()
    with pytest.raises(FactError):
        arrive(engine, "g", **spec)
    assert engine.checkpoint() == before


@pytest.mark.parametrize(
    "host",
    [
        pytest.param(Host(name="b", capacity=tuple((f"r{n}", 1) for n in range(MAX_RESOURCES + 1))), id="resources"),
        pytest.param(Host(name="b", devices=(Device("gpu"),) * 65), id="devices"),
        pytest.param(Host(name="b", devices=(Device("gpu", "", 0),)), id="a device of nothing"),
        pytest.param(Host(name="b", devices=(Device("gpu", "", 2**61),)), id="a device of everything"),
        pytest.param(Host(name="b", rank=2**63), id="a rank beyond 64 bits"),
        pytest.param(Host(name="b", draw_key=2**64), id="a draw key beyond 64 bits"),
        pytest.param(Host(name="b", draw_key=-1), id="a negative draw key"),
        pytest.param(Host(name="b", capacity=(("cpu", -5),)), id="a negative capacity"),
    ],
)
def test_a_host_that_no_front_could_send_is_refused_without_a_trace(host):
    engine = Engine([find_policy("spread")])
    engine.apply(HostJoined(host=Host(name="a")))
    before = engine.checkpoint()
    with pytest.raises(FactError):
        engine.apply(HostJoined(host=host))
    assert engine.checkpoint() == before


@pytest.mark.parametrize("count", [65, 1000, 10**6])
def test_guest_with_more_devices_than_any_host_waits_with_a_reason(count):
    engine = Engine([find_policy("pack")])
    engine.apply(HostJoined(host=Host(name="a", devices=(Device("gpu"),) * 64)))
    arrive(engine, "g", devices=(DeviceRequest("gpu", count),))
    (hold,) = engine.step(1)
    assert [c.reason.code for c in hold.reasons] == ["insufficient_devices"]
    engine.apply(
        GuestArrived(guest=Guest(name="b", uid="b", spec=GuestSpec(devices=(DeviceRequest("gpu", count),)), host="a"))
    )
    assert engine.decision("b").host == "a"


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(Policy(name="p", ties=("biggest",)), id="a tie key that does not exist"),
        pytest.param(Policy(name="p", devices="nearest"), id="a device rule that does not exist"),
        pytest.param(Policy(name="p", scorers=(ScorerUse("fgd"),), mix=(MixEntry(-1),)), id="a negative mix"),
        pytest.param(
            Policy(name="p", scorers=(ScorerUse("fgd"),), mix=(MixEntry(1, share=float("nan")),)),
            id="a NaN share",
        ),
        pytest.param(Policy(name="p", scorers=(ScorerUse("balanced", 10**9),)), id="a huge weight"),
        pytest.param(Policy(name="p", scorers=(ScorerUse("fgd"),)), id="fgd without a mix"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(policy):
    with pytest.raises(InputError):
        Engine([policy])


def test_a_mix_is_taken_from_the_guests_that_are_expected():
    specs = [GuestSpec(requests=(("cpu", 1000),))] * 3 + [GuestSpec(devices=(DeviceRequest("gpu", 1, 500),))]
    mix = typical_mix(specs)
    assert [(entry.cpu_millis, entry.device_millis, entry.share) for entry in mix] == [
        (1000, 0, 0.75),
        (100, 500, 0.25),
    ]


def test_waiting_shape_is_not_confused_with_a_former_one():
    engine = Engine([find_policy("spread")])
    engine.apply(HostJoined(host=Host(name="a", version=1, capacity=(("cpu", 1000),))))
    arrive(engine, "huge", requests=(("cpu", 10**9),))
    engine.step(1)
    engine.apply(HostChanged(host=Host(name="a", version=2, capacity=(("cpu", 1500),))))
    engine.step(2)
    engine.apply(GuestLeft(uid="huge"))
    for number in range(1100):
        arrive(engine, f"passing-{number}", requests=(("cpu", 10_000 + number),))
        engine.apply(GuestLeft(uid=f"passing-{number}"))
    for number in range(60):
        arrive(engine, f"b{number}", requests=(("cpu", 3000 + number),))
    engine.step(3)
    engine.apply(HostChanged(host=Host(name="a", version=3, capacity=(("cpu", 3000 + 59),))))
    twin = Engine.restore(engine.checkpoint())
    later = 60_000_000_000
    assert engine.step(later) == twin.step(later) != []


def test_a_preference_beyond_all_bounds_is_refused():
    engine = Engine([find_policy("spread")])
    wild = WeightedTerm(2**63, Term((Expression("x", "DoesNotExist"),)))
    with pytest.raises(FactError):
        arrive(engine, "g", preferred_hosts=(wild,))


@pytest.mark.parametrize("now", [2**70, 1.5, float("inf"), None])
def test_a_time_that_is_none_is_refused(now):
    engine = Engine([find_policy("spread")])
    with pytest.raises(FactError):
        engine.step(now)
    with pytest.raises(FactError):
        engine.apply(HostJoined(host=Host(name="a"), at=now))
    assert engine.now == 0


def test_scores_of_enormous_hosts_do_not_run_over():
    engine = Engine([Policy(name="p", scorers=(ScorerUse("dot_product"),))])
    for name, size in (("a", 2**62), ("b", 2**61)):
        engine.apply(HostJoined(host=Host(name=name, capacity=(("cpu", size),))))
    arrive(engine, "g", requests=(("cpu", 2**60),))
    (bind,) = engine.step(1)
    assert bind.host in ("a", "b")
    assert engine.decision("g").feasible == 2


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"queue": {}}, id="a pending guest that is not queued"),
        pytest.param({"hosts": [], "free_rows": []}, id="a placed guest without its host"),
        pytest.param({"shapes": []}, id="guests without shapes"),
    ],
)
def test_a_checkpoint_that_contradicts_itself_is_refused(change):
    engine = Engine([find_policy("spread")])
    engine.apply(HostJoined(host=Host(name="a", capacity=(("cpu", 1000),))))
    arrive(engine, "placed", requests=(("cpu", 1),))
    arrive(engine, "waits", requests=(("cpu", 5000),))
    engine.step(1)
    saved = checkpoint.decode(engine.checkpoint())
    for name, value in change.items():
        setattr(saved, name, value)
    with pytest.raises(InputError):
        Engine.restore(checkpoint.encode(saved))
