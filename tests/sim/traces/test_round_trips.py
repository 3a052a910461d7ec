"""What is written can be read again: tables keep everything, pods their times, fleets what has no time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.model import Gang, GuestSpec, Host, Taint, Toleration, amounts, labels
from hostler.model.guests import DeviceRequest
from hostler.model.hosts import Device
from hostler.sim.traces.output import fleet_bytes, kubernetes_bytes, table_bytes
from hostler.sim.workload import FOREVER, Workload
from tests.sim.traces.workloads import gangs, read, same, sample

TRACES = [
    "huawei-east-1-like.csv", "azure-packing-like.csv", "azure-vm-like/v1.tiny.txt", "huawei-topology/VM_data_C1.csv",
    "jobs.csv", "cluster.json",
]  # fmt: skip


def odd() -> Workload:
    """Return a workload with all that has no column of its own, and times to the nanosecond."""
    specs = (
        GuestSpec(),
        GuestSpec(requests=amounts({"cpu": 1, "memory": 3, "example.com/nic": 2}), policy="fgd", namespace="x"),
        GuestSpec(devices=(DeviceRequest("gpu", 1, 250, ("A|B",)), DeviceRequest("nic"))),
        GuestSpec(devices=(DeviceRequest("gpu", 2, 500, ("A", "B")),), priority=-5, labels=(("a", 'b,"c"\n'),)),
        GuestSpec(tolerations=(Toleration("k", "Exists"),), may_preempt=False, tenant="t, u"),
    )
    hosts = (
        Host(name="plain", uid="plain", capacity=amounts({"cpu": 1500, "memory": 2**40})),
        Host(name="none", uid="other", capacity=(("guests", 0),), taints=(Taint("k"),), cordoned=True, rank=7),
        Host(name="gpus", uid="gpus", devices=(Device("gpu", "A"), Device("gpu", "B"))),
    )
    return Workload(
        name="odd",
        hosts=hosts,
        specs=specs,
        spec_of=np.array([0, 1, 2, 3, 4, 0], dtype=np.int64),
        names=["a", "b", "c", "d", "007", "f,g"],
        arrives_ns=np.array([0, 1, 1, 10**9 + 1, 2**61, 2**61], dtype=np.int64),
        runs_ns=np.array([0, 1, FOREVER, 2**61 + 1, 10**9, FOREVER], dtype=np.int64),
        gangs=(Gang(name="g", min_count=1), Gang(name="h", namespace="y", min_count=2, topology="rack", priority=3)),
        gang_of=np.array([0, 0, -1, 1, 1, -1], dtype=np.int64),
    )


def through_table(workload: Workload, folder, *, is_parquet: bool) -> Workload:
    suffix = "parquet" if is_parquet else "csv"
    guests, hosts = table_bytes(workload, is_parquet=is_parquet)
    (folder / f"t.{suffix}").write_bytes(guests)
    (folder / f"t.hosts.{suffix}").write_bytes(hosts)
    return read(folder / f"t.{suffix}", "table")


@pytest.mark.parametrize("is_parquet", [False, True], ids=["csv", "parquet"])
@pytest.mark.parametrize("trace", TRACES)
def test_a_table_keeps_every_trace(tmp_path, trace, is_parquet):
    workload = sample(trace)
    same(through_table(workload, tmp_path, is_parquet=is_parquet), workload)


@pytest.mark.parametrize("is_parquet", [False, True], ids=["csv", "parquet"])
def test_a_table_keeps_openb(tmp_path, is_parquet):
    workload = read("openb/gpuspec33")
    same(through_table(workload, tmp_path, is_parquet=is_parquet), workload)


@pytest.mark.parametrize("is_parquet", [False, True], ids=["csv", "parquet"])
def test_a_table_keeps_what_has_no_column_of_its_own(tmp_path, is_parquet):
    same(through_table(odd(), tmp_path, is_parquet=is_parquet), odd())


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
SPECS = st.builds(
    lambda requests, devices, **rest: GuestSpec(requests=amounts(requests), devices=tuple(devices), **rest),
    st.dictionaries(st.sampled_from(["cpu", "memory", "storage", "nic"]), st.integers(0, 2**62)),
    st.lists(
        st.builds(
            DeviceRequest,
            st.sampled_from(["gpu", "fpga"]),
            st.integers(1, 64),
            st.integers(1, 1000),
            st.lists(TEXTS, max_size=2).map(tuple),
        ),
        max_size=2,
    ),
    priority=st.integers(-(2**31) + 1, 2**31 - 1),
    tenant=TEXTS,
    namespace=NAMES,
    labels=st.dictionaries(TEXTS, TEXTS, max_size=2).map(labels),
)
TIMES = st.integers(0, 2**62)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(SPECS, TIMES, TIMES | st.just(FOREVER)), min_size=1, max_size=5), st.data())
def test_a_table_keeps_whatever_there_can_be(tmp_path_factory, guests, data):
    guests.sort(key=lambda guest: guest[1])
    specs = tuple(dict.fromkeys(spec for spec, _, _ in guests))
    workload = Workload(
        name="any",
        hosts=(Host(name="h", uid="h", capacity=amounts({"cpu": 1000})),),
        specs=specs,
        spec_of=np.array([specs.index(spec) for spec, _, _ in guests], dtype=np.int64),
        names=data.draw(st.lists(NAMES, min_size=len(guests), max_size=len(guests), unique=True)),
        arrives_ns=np.array([arrives for _, arrives, _ in guests], dtype=np.int64),
        runs_ns=np.array([runs for _, _, runs in guests], dtype=np.int64),
    )
    for is_parquet in (False, True):
        same(through_table(workload, tmp_path_factory.mktemp("any"), is_parquet=is_parquet), workload)


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_pods_keep_openb_with_its_times(tmp_path, suffix):
    workload = read("openb").select_guests(np.arange(400, dtype=np.int64))
    (tmp_path / f"k.{suffix}").write_bytes(kubernetes_bytes(workload, is_json=suffix == "json"))
    again = read(tmp_path / f"k.{suffix}", "kubernetes")
    assert list(again.names) == list(workload.names)
    assert again.arrives_ns.tolist() == workload.arrives_ns.tolist()
    assert again.runs_ns.tolist() == workload.runs_ns.tolist()
    for guest in range(len(workload)):
        assert again.spec(guest).requests == workload.spec(guest).requests
        assert again.spec(guest).devices == workload.spec(guest).devices
    assert [host.capacity for host in again.hosts] == [host.capacity for host in workload.hosts]
    assert [host.devices for host in again.hosts] == [host.devices for host in workload.hosts]


def test_pods_keep_gangs(tmp_path):
    workload = sample("jobs.csv")
    (tmp_path / "k.yaml").write_bytes(kubernetes_bytes(workload, is_json=False))
    again = read(tmp_path / "k.yaml")
    assert gangs(again) == gangs(workload)
    assert again.runs_ns.tolist() == workload.runs_ns.tolist()


@pytest.mark.parametrize("suffix", ["yaml", "json"])
@pytest.mark.parametrize("trace", ["jobs.csv", "huawei-topology/VM_data_C1.csv", "azure-packing-like.csv"])
def test_a_fleet_keeps_all_but_times(tmp_path, trace, suffix):
    workload = sample(trace)
    (tmp_path / f"f.{suffix}").write_bytes(fleet_bytes(workload, is_json=suffix == "json"))
    again = read(tmp_path / f"f.{suffix}")
    assert again.arrives_ns.tolist() == [0] * len(workload)
    assert [again.spec(guest) for guest in range(len(again))] == [workload.spec(g) for g in range(len(workload))]
    assert gangs(again) == gangs(workload)
    assert again.hosts == workload.hosts
