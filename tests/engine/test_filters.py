"""Hand-computed tables for every filter, and what a host may give."""

from __future__ import annotations

import pytest

from hostler.model import Device, DeviceRequest, Expression, Taint, Term, Toleration
from tests.engine.fleet import GIB, arrive, binds, engine_with, guest, host, place, policy, reasons

FILTERS = [
    pytest.param(host("a", taints=(Taint("t", "1"),)), {}, "taints: untolerated taint: t=1:NoSchedule", id="taint"),
    pytest.param(
        host("a", taints=(Taint("t", "", "NoExecute"),)), {}, "taints: untolerated taint: t:NoExecute", id="no execute"
    ),
    pytest.param(host("a", taints=(Taint("t", "", "PreferNoSchedule"),)), {}, None, id="a soft taint refuses nobody"),
    pytest.param(
        host("a", taints=(Taint("t", "1"),)), {"tolerations": (Toleration("t", "Equal", "1"),)}, None, id="tolerated"
    ),
    pytest.param(
        host("a", taints=(Taint("t", "1"), Taint("u"))), {"tolerations": (Toleration("t", "Equal", "1"),)},
        "taints: untolerated taint: u:NoSchedule", id="the first untolerated taint is named",
    ),
    pytest.param(
        host("a", cordoned=True),
        {"tolerations": (Toleration("node.kubernetes.io/unschedulable", "Exists"),)}, None, id="a daemon on a cordon",
    ),
    pytest.param(host("a", cordoned=True), {}, "cordon: cordoned", id="cordon"),
    pytest.param(host("a"), {"host_name": "b"}, "host_name: not the named host", id="another host is named"),
    pytest.param(host("a"), {"host_name": "a"}, None, id="it is the named host"),
    pytest.param(host("a"), {"selector": {"k": "v"}}, "host_affinity: selector mismatch: k=v", id="selector"),
    pytest.param(
        host("a", labels={"k": "w"}), {"host_affinity": (Term((Expression("k", "In", ("v",)),)),)},
        "host_affinity: affinity mismatch: k=v", id="affinity",
    ),
    pytest.param(
        host("a", labels={"k": "7"}),
        {"host_affinity": (Term((Expression("k", "Gt", ("9",)),)), Term((Expression("k", "Lt", ("9",)),)))}, None,
        id="one of two terms is enough",
    ),
    pytest.param(host("a"), {"host_affinity": (Term(),)}, "host_affinity: affinity mismatch: nothing", id="empty term"),
    pytest.param(
        host("a"), {"host_affinity": (Term(names=(Expression("metadata.name", "In", ("a", "b")),)),)}, None,
        id="a term on the name",
    ),
    pytest.param(host("a", 999), {}, "resources: insufficient: cpu", id="cpu"),
    pytest.param(host("a", 999, 0), {}, "resources: insufficient: cpu", id="the first resource in order is named"),
    pytest.param(host("a", more={"guests": 0}, reserve=(("guests", 1),)), {}, None, id="no limit on guests"),
    pytest.param(host("a", cordoned=True, cpu=0), {}, "cordon: cordoned", id="the first filter in order is named"),
    pytest.param(host("a", overcommit=(("cpu", 250_000),)), {}, None, id="exactly what overcommit leaves"),
    pytest.param(
        host("a", overcommit=(("cpu", 249_999),)), {}, "resources: insufficient: cpu", id="the floor of the ratio"
    ),
    pytest.param(host("a", reserve=(("cpu", 3001),)), {}, "resources: insufficient: cpu", id="a reserve is kept"),
    pytest.param(host("a"), {"gpu": (1, 1)}, "devices: no device: gpu", id="no device"),
    pytest.param(
        host("a", gpus=1, model="A"), {"devices": (DeviceRequest("gpu", 1, 1, ("B",)),)},
        "devices: wrong device model: gpu", id="wrong model",
    ),
    pytest.param(host("a", gpus=1), {"gpu": (2, 1)}, "devices: insufficient devices: gpu", id="too few devices"),
    pytest.param(
        host("a", devices=(Device("gpu", "", 999),)), {"gpu": (1, 1000)}, "devices: insufficient devices: gpu",
        id="no whole device",
    ),
    pytest.param(
        host("a", devices=(Device("gpu", "A"), Device("gpu", "B"))), {"devices": (DeviceRequest("gpu", 2, 1, ("A",)),)},
        "devices: insufficient devices: gpu", id="too few of the model",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("machine", "wanted", "expected"), FILTERS)
def test_filters(machine, wanted, expected):
    engine = engine_with([machine])
    arrive(engine, guest("g", **wanted))
    (action,) = engine.step(0)
    if expected is None:
        assert binds([action]) == {"g": "a"}
    else:
        assert reasons(action) == {expected: 1}


def test_a_host_s_overcommit_and_reserve_beat_the_policy_s():
    rich = policy("spread", overcommit=(("cpu", 2_000_000),), reserve=(("memory", GIB),))
    hosts = [host("a", 1000, GIB), host("b", 1000, GIB, overcommit=(("cpu", 1_000_000),), reserve=(("memory", 0),))]
    engine = engine_with(hosts, rich)
    assert place(engine, guest("g", cpu=1500, memory=0), guest("h", cpu=500, memory=GIB)) == ["a", "b"]


def test_guests_count_against_a_limit_on_guests():
    engine = engine_with([host("a", more={"guests": 2})])
    assert place(engine, *(guest(f"g{i}", cpu=0, memory=0) for i in range(3))) == ["a", "a", ""]
    assert reasons(engine.decision("g2")) == {"resources: insufficient: guests": 1}
