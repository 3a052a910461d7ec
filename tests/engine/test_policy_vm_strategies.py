"""Hand-computed tables for the VM strategies least_loaded and best_fit: vm-service.md, section 3."""

from __future__ import annotations

import pytest

from hostler.engine import Engine
from hostler.model import Guest, GuestLeft, GuestSpec, Host, amounts
from tests.engine.fleet import GIB, MIB, SECOND, arrive, binds, engine_with, guest, host, place, reasons
from tests.engine.scores import raw_scores


class VmHost:
    """The default agent of those tests: 8 cores, 16000 memory, 100000 disk; 6, 12000, 80000 of them are available."""

    def __init__(self, name: str, cpu=6, memory=12000, disk=80000, *, total=(8, 16000, 100_000), **fields) -> None:
        self.host = Host(
            name=name,
            capacity=amounts({"cpu": total[0] * 1000, "memory": total[1] * MIB, "storage": total[2] * GIB}),
            **fields,
        )
        used = {"cpu": 1000 * (total[0] - cpu), "memory": (total[1] - memory) * MIB, "storage": (total[2] - disk) * GIB}
        self.tenant = Guest(name=f"on {name}", uid=f"on {name}", host=name, spec=GuestSpec(requests=amounts(used)))


def vm(name: str = "vm", cpu: int = 2, memory: int = 2048, disk: int = 20000, **fields) -> Guest:
    requests = amounts({"cpu": cpu * 1000, "memory": memory * MIB, "storage": disk * GIB})
    return Guest(name=name, uid=name, spec=GuestSpec(requests=requests, **fields))


def agents(*fleet: VmHost, policies: tuple[str, ...] = ("least_loaded",)) -> Engine:
    engine = engine_with([a.host for a in fleet], *policies)
    arrive(engine, *(a.tenant for a in fleet))
    return engine


NOTHING = {"total": (0, 0, 0), "cpu": 0, "memory": 0, "disk": 0}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"total": (8, 0, 0), "cpu": 6, "memory": 0, "disk": 0}, 0.4 * 0.25, id="cpu 8/6 is a quarter"),
        pytest.param({"total": (8, 0, 0), "cpu": 0, "memory": 0, "disk": 0}, 0.4 * 1.0, id="cpu 8/0 is full"),
        pytest.param({"total": (8, 0, 0), "cpu": 8, "memory": 0, "disk": 0}, 0.0, id="cpu 8/8 is idle"),
        pytest.param({"total": (0, 16000, 0), "cpu": 0, "memory": 12000, "disk": 0}, 0.4 * 0.25, id="memory"),
        pytest.param({"total": (0, 0, 100_000), "cpu": 0, "memory": 0, "disk": 80_000}, 0.2 * 0.2, id="disk"),
        pytest.param({}, 0.4 * 0.25 + 0.4 * 0.25 + 0.2 * 0.2, id="overall 0.24"),
        pytest.param(NOTHING, 0.0, id="zero totals"),
    ],
)
def test_utilisation(fields, expected):
    engine = agents(VmHost("a", **fields))
    assert raw_scores(engine, vm(cpu=0, memory=0, disk=0), "utilization") == {"a": expected}


STRATEGIES = [
    pytest.param(
        "least_loaded", [VmHost("1", cpu=2), VmHost("2", cpu=6), VmHost("3", cpu=4)],
        vm(cpu=2, memory=2000, disk=10000), "2",
        id="least loaded takes the idlest cpu",
    ),
    pytest.param(
        "least_loaded", [VmHost("1", memory=4000), VmHost("2", memory=14000)], vm(cpu=1, memory=2000, disk=10000), "2",
        id="least loaded takes the idlest memory",
    ),
    pytest.param(
        "best_fit", [VmHost("1"), VmHost("2", 2, 4000, 20000), VmHost("3", 4, 8000, 50000)],
        vm(cpu=1, memory=2000, disk=10000), "2", id="best fit takes the least that is enough",
    ),
    pytest.param(
        "least_loaded", [VmHost("1", cordoned=True), VmHost("2")], vm(), "2", id="an offline agent is left out",
    ),
    pytest.param("least_loaded", [VmHost("1", cpu=1), VmHost("2")], vm(), "2", id="too little cpu"),
    pytest.param("least_loaded", [VmHost("1", memory=2047), VmHost("2")], vm(), "2", id="too little memory"),
    pytest.param("least_loaded", [VmHost("1", disk=19999), VmHost("2")], vm(), "2", id="too little disk"),
    pytest.param("least_loaded", [VmHost("1", 2, 2048, 20000)], vm(), "1", id="an exact fit is accepted"),
    pytest.param("least_loaded", [VmHost("1", **NOTHING), VmHost("2")], vm(), "2", id="zero totals take nothing"),
    pytest.param(
        "best_fit", [VmHost("1", **NOTHING), VmHost("2")], vm(), "2", id="zero totals take nothing by best fit",
    ),
    pytest.param("least_loaded", [], vm(), "", id="no agents"),
    pytest.param("least_loaded", [VmHost("1", cpu=1)], vm(), "", id="one too small"),
    pytest.param("least_loaded", [VmHost("1", cordoned=True), VmHost("2", cordoned=True)], vm(), "", id="all offline"),
    pytest.param(
        "least_loaded", [VmHost("1"), VmHost("2", cpu=5, labels=(("arch", "arm64"),))],
        vm(host_selector=(("arch", "arm64"),)), "2", id="a capability beats a roomy host",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("strategy", "fleet", "wanted", "expected"), STRATEGIES)
def test_the_vm_strategies_choose_as_their_table_says(strategy, fleet, wanted, expected):
    assert place(agents(*fleet, policies=(strategy,)), wanted) == [expected]


def test_best_fit_counts_milli_cores_and_mebibytes_and_gibibytes():
    engine = agents(VmHost("a"), VmHost("b", 2, 4000, 20000), policies=("best_fit",))
    assert raw_scores(engine, vm(), "free_capacity") == {"a": 6000 + 12000 + 80000, "b": 2000 + 4000 + 20000}


def test_best_fit_is_blind_to_the_size_of_the_request():
    engine = agents(VmHost("a"), policies=("best_fit",))
    small = raw_scores(engine, vm("small", cpu=0, memory=0, disk=0), "free_capacity")
    assert small == raw_scores(engine, vm("large", cpu=6), "free_capacity")


def test_a_guest_may_override_the_default_strategy():
    fleet = [VmHost("1", cpu=2), VmHost("2", cpu=6)]
    assert place(agents(*fleet, policies=("least_loaded", "best_fit")), vm()) == ["2"]
    assert place(agents(*fleet, policies=("least_loaded", "best_fit")), vm(policy="best_fit")) == ["1"]


def test_a_capable_but_starved_agent_is_reported_as_starved():
    engine = agents(VmHost("capable", cpu=0, labels=(("kvm", "1"),)), VmHost("roomy"))
    arrive(engine, vm(host_selector=(("kvm", "1"),)))
    (hold,) = engine.step(0)
    assert reasons(hold) == {
        "resources: insufficient: cpu": 1,
        "host_affinity: selector mismatch: kvm=1": 1,
    }


def test_two_guests_that_each_fill_a_host_use_both_and_a_third_waits():
    engine = agents(VmHost("1", 4, 8192, 50000), VmHost("2", 4, 8192, 50000))
    whole = {"cpu": 4, "memory": 8192, "disk": 50000}
    assert place(engine, vm("x", **whole), vm("y", **whole), vm("z", **whole)) == ["1", "2", ""]
    engine.apply(GuestLeft(uid="x"))
    assert binds(engine.step(60 * SECOND)) == {"z": "1"}


@pytest.mark.parametrize("strategy", ["least_loaded", "best_fit"])
def test_ties_go_to_fewer_guests_then_to_the_name(strategy):
    engine = engine_with([host("b"), host("c"), host("a")], strategy)
    free = {"cpu": 0, "memory": 0}
    assert place(engine, *(guest(f"g{i}", **free) for i in range(4))) == ["a", "b", "c", "a"]
    engine.apply(GuestLeft(uid="g1"))
    assert place(engine, guest("h", **free)) == ["b"]
