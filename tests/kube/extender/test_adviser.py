"""What a policy says about one pod and some nodes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.engine import BUILT_IN, Engine
from hostler.errors import InputError
from hostler.kube.extender.adviser import Adviser
from hostler.model import (
    Bind,
    Device,
    DeviceRequest,
    Guest,
    GuestArrived,
    GuestSpec,
    Host,
    HostJoined,
    HostLeft,
    Taint,
    amounts,
    labels,
)
from hostler.queries import with_mixes
from tests.kube.extender.clusters import engine_with, sharing


def test_the_best_node_comes_first_and_the_others_say_why_not():
    engine = engine_with(a=2, b=0)
    taint = (Taint("k", "v", "NoSchedule"),)
    engine.apply(HostJoined(host=Host(name="c", capacity=amounts({"cpu": 32_000, "guests": 9}), taints=taint)))
    ranking = Adviser(engine).rank("u", sharing(500), ["b", "a", "c", "new"])
    assert [name for name, _ in ranking.order] == ["a"]
    assert ranking.refused["new"] == "the node is not known yet"
    assert "untolerated taint" in ranking.refused["c"]
    assert set(ranking.refused) == {"b", "c", "new"}
    assert ranking.unresolvable == {"b", "c"}


def test_too_little_cpu_is_something_that_an_eviction_may_cure():
    engine = engine_with("spread", a=0)
    full = GuestSpec(requests=amounts({"cpu": 32_000}))
    engine.apply(GuestArrived(guest=Guest(name="x", uid="x", host="a", spec=full)))
    ranking = Adviser(engine).rank("u", GuestSpec(requests=amounts({"cpu": 1000})), ["a"])
    assert (ranking.order, ranking.unresolvable) == ((), frozenset())


def test_an_assumed_pod_takes_its_device_until_it_is_forgotten():
    adviser = Adviser(engine_with(a=2))
    spec = sharing(1000)
    for uid, gpu in (("u1", 0), ("u2", 1)):
        devices = adviser.devices(uid, spec, "a")
        assert devices == (gpu,)
        adviser.assume(uid, spec, "a", devices, until=100)
    assert adviser.rank("u3", spec, ["a"]).order == ()
    assert adviser.rank("u2", spec, ["a"]).order != ()  # what it holds itself is not in its way
    assert adviser.rank("u3", spec, ["a"]).order == ()  # and still counts for the others
    assert adviser.devices("u2", spec, "a") == (1,)
    adviser.forget("u1")
    assert adviser.devices("u3", spec, "a") == (0,)
    with pytest.raises(InputError, match="does not have the devices"):
        adviser.devices("u4", sharing(1000, 2), "a")
    adviser.expire(99)
    assert adviser.assumed_count == 1
    adviser.expire(100)
    assert adviser.assumed_count == 0
    assert adviser.devices("u4", sharing(1000, 2), "a") == (0, 1)


def test_asking_leaves_nothing_behind():
    engine = engine_with(a=2)
    adviser = Adviser(engine)
    for number in range(50):
        adviser.rank(f"u{number}", sharing(100 + number), ["a"])
    assert list(engine.guests()) == []
    assert engine.step(0) == []


def test_names_that_no_node_has_are_refused_and_fill_nothing_up():
    engine = engine_with("spread", a=1)
    adviser = Adviser(engine)
    for number in range(2000):
        odd = GuestSpec(requests=amounts({"cpu": 1, f"odd/{number}": 1}))
        assert adviser.rank("u", odd, ["a", "new"]).refused == {
            "a": f"insufficient: odd/{number}",
            "new": "the node is not known yet",
        }
        model = GuestSpec(devices=(DeviceRequest("gpu", models=(f"odd-{number}",)),))
        assert adviser.rank("u", model, ["a"]).order == ()
        either = GuestSpec(devices=(DeviceRequest("gpu", models=(f"odd-{number}", "T4")),))
        assert adviser.devices("u", either, "a") == (0,)
    assert engine.view.resource_count < 10
    assert engine.view.device_model_count < 10


def test_scores_are_normalised_among_the_nodes_in_question():
    engine = Engine([BUILT_IN["kubernetes"]])
    for number, name in enumerate("abc"):
        capacity = amounts({"cpu": 1000 * (number + 1), "memory": 2**30, "guests": 9})
        engine.apply(HostJoined(host=Host(name=name, capacity=capacity, labels=labels({"n": name}))))
    spec = GuestSpec(requests=amounts({"cpu": 500}))
    adviser = Adviser(engine)
    everywhere = dict(adviser.rank("u", spec, ["a", "b", "c"]).order)
    assert dict(adviser.rank("u", spec, ["a", "b"]).order) == {name: everywhere[name] for name in "ab"}
    assert [name for name, _ in adviser.rank("u", spec, ["b", "a"]).order] == ["b", "a"]


_POLICIES = st.sampled_from(["fgd", "spread", "pack", "best_fit", "gpu_packing", "first_fit", "dot_product"])
_HOSTS = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 4)), min_size=1, max_size=6)
_PODS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0, 200, 500, 1000]), st.integers(1, 2)), max_size=8)


@settings(max_examples=60)
@given(_POLICIES, _HOSTS, _PODS)
def test_the_first_node_and_its_devices_are_what_the_engine_itself_decides(policy, hosts, pods):
    (chosen,) = with_mixes([BUILT_IN[policy]])
    engine, advised = Engine([chosen]), Engine([chosen])
    for number, (cpu, gpus) in enumerate(hosts):
        capacity = amounts({"cpu": cpu * 1000, "memory": 2**34, "guests": 5})
        host = Host(name=f"h{number}", capacity=capacity, devices=(Device("gpu", "T4"),) * gpus)
        engine.apply(HostJoined(host=host))
        advised.apply(HostJoined(host=host))
    adviser = Adviser(advised)
    names = [f"h{number}" for number in range(len(hosts))]
    for number, (cpu, milli, count) in enumerate(pods):
        uid = f"p{number}"
        spec = sharing(milli, count, cpu * 1000) if milli else GuestSpec(requests=amounts({"cpu": cpu * 1000}))
        engine.apply(GuestArrived(guest=Guest(name=uid, uid=uid, spec=spec)))
        binds = [action for action in engine.step(0) if isinstance(action, Bind)]
        order = adviser.rank(uid, spec, names).order
        assert [name for name, _ in order[:1]] == [bind.host for bind in binds]
        for bind in binds:
            assert adviser.devices(uid, spec, bind.host) == bind.devices
            adviser.assume(uid, spec, bind.host, bind.devices, until=1)


def test_nobody_is_advised_to_go_to_a_node_that_left():
    engine = engine_with(a=0, b=1)
    adviser, spec = Adviser(engine), sharing(500)
    assert [name for name, _ in adviser.rank("u", spec, ["a", "b"]).order] == ["b"]
    engine.apply(HostLeft(name="b"))
    ranking = adviser.rank("u", spec, ["a", "b"])
    assert ranking.order == ()
    assert ranking.refused["b"] == "the node is not known yet"
    with pytest.raises(InputError):
        adviser.devices("u", spec, "b")
    devices = (Device("gpu", "T4"),)
    capacity = amounts({"cpu": 32_000, "memory": 2**36, "guests": 20})
    engine.apply(HostJoined(host=Host(name="c", capacity=capacity, devices=devices)))  # takes the row of b
    ranking = adviser.rank("u", spec, ["a", "b", "c"])
    assert [name for name, _ in ranking.order] == ["c"]
    assert ranking.refused["b"] == "the node is not known yet"
