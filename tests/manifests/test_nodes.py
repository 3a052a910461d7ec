"""Nodes become hosts, and hosts become nodes again."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.errors import InputError
from hostler.manifests import Node, host_to_node, node_to_host, read_node
from hostler.model import Device, Host, Taint, amount_of
from tests.manifests.samples import host_of, lines, node

GI = 2**30
COUNT = "alibabacloud.com/gpu-count"
MILLI = "alibabacloud.com/gpu-milli"
MODEL = "alibabacloud.com/gpu-card-model"


def test_a_node_becomes_a_host():
    data = node(
        "n1",
        metadata={"uid": "u-1", "resourceVersion": "42", "labels": {"zone": "b", "disk": "ssd"}},
        spec={
            "unschedulable": True,
            "taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}],
        },
        allocatable={
            "cpu": "3920m",
            "memory": "8Gi",
            "pods": "110",
            "ephemeral-storage": "100Gi",
            "nvidia.com/gpu": "4",
        },
    )
    assert host_of(data) == Host(
        name="n1",
        uid="u-1",
        version=42,
        capacity=(
            ("cpu", 3920),
            ("ephemeral-storage", 100 * GI),
            ("guests", 110),
            ("memory", 8 * GI),
            ("nvidia.com/gpu", 4),
        ),
        labels=(("disk", "ssd"), ("zone", "b")),
        taints=(Taint("dedicated", "db", "NoSchedule"),),
        cordoned=True,
    )


def test_a_node_without_a_uid_is_known_by_its_name():
    assert host_of(node("n7")).uid == "n7"


@pytest.mark.parametrize(
    ("given_version", "version"),
    [("17", 17), (17, 17), ("", 0), ("abc", 0), ("-3", 0), ("²", 0), ("9" * 5000, 0)],
    ids=["number", "yaml number", "absent", "word", "negative", "not a digit", "far too long"],
)
def test_a_resource_version_counts_when_it_is_a_number(given_version, version):
    assert host_of(node(metadata={"resourceVersion": given_version})).version == version


def test_allocatable_counts_not_capacity():
    data = node(allocatable={"cpu": "3", "pods": 5})
    data["status"]["capacity"] = {"cpu": "4", "memory": "1Gi", "pods": 5}
    assert host_of(data).capacity == (("cpu", 3000), ("guests", 5))


def test_capacity_counts_where_nothing_is_allocatable():
    data = node(allocatable={})
    data["status"]["capacity"] = {"cpu": "4", "pods": 5}
    assert host_of(data).capacity == (("cpu", 4000), ("guests", 5))


def test_room_for_no_pods_at_all_is_kept_as_a_limit():
    assert ("guests", 0) in host_of(node(allocatable={"cpu": "1", "pods": "0"})).capacity


def test_a_missing_number_of_pods_is_noted():
    _, notes = node_to_host(read_node(node("n1", allocatable={"cpu": "1"})))
    assert lines(notes) == ["node n1: status.allocatable.pods is missing: the number of pods is not limited"]


def test_gpus_of_the_openb_form_become_devices_and_not_resources():
    data = node(
        metadata={"labels": {MODEL: "V100M16"}},
        allocatable={"cpu": "64", "pods": "1001", COUNT: "2", MILLI: "2000"},
    )
    host = host_of(data)
    assert host.devices == (Device("gpu", "V100M16", 1000), Device("gpu", "V100M16", 1000))
    assert host.capacity == (("cpu", 64000), ("guests", 1001))


@pytest.mark.parametrize(
    ("resources", "count"),
    [({COUNT: 3}, 3), ({MILLI: 3000}, 3), ({COUNT: 0, MILLI: 0}, 0), ({}, 0)],
    ids=["count alone", "milli alone", "none", "not named"],
)
def test_count_and_milli_each_tell_the_number_of_gpus(resources, count):
    assert len(host_of(node(allocatable={"pods": 1, **resources})).devices) == count


BROKEN = {
    "count and milli disagree": (
        {"allocatable": {COUNT: 2, MILLI: 1000}},
        f"node n1: status.allocatable[{MILLI}]: 1000 is not 1000 for each of 2 GPUs",
    ),
    "part of a GPU": (
        {"allocatable": {MILLI: 1500}},
        f"node n1: status.allocatable[{MILLI}]: 1500 is not 1000 for each of 1 GPUs",
    ),
    "a million GPUs": (
        {"allocatable": {COUNT: "1M"}},
        f"node n1: status.allocatable[{COUNT}]: 1000000 GPUs are more than the 64 that a node may have",
    ),
    "our own word for pods": (
        {"allocatable": {"guests": 3}},
        "node n1: status.allocatable.guests: not a resource of Kubernetes",
    ),
    "an unknown effect": (
        {"spec": {"taints": [{"key": "k", "effect": "Nope"}]}},
        "node n1: spec.taints[0].effect: 'Nope' is not an effect of a taint",
    ),
    "a taint without effect": (
        {"spec": {"taints": [{"key": "k"}]}},
        "node n1: spec.taints[0]: missing required field effect",
    ),
    "no quantity": (
        {"allocatable": {"cpu": "4 cores"}},
        "node n1: status.allocatable.cpu: amount '4 cores' is not a quantity",
    ),
    "a label that is a number": (
        {"metadata": {"labels": {"a": "b", "gen": 8}}},
        "node n1: metadata.labels.gen: expected str, got int",
    ),
}


@pytest.mark.parametrize(("fields", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_node_is_refused_with_name_and_path(fields, message):
    with pytest.raises(InputError) as caught:
        host_of(node("n1", **fields))
    assert caught.value.message == message


def test_a_node_needs_a_name():
    with pytest.raises(InputError, match=r"a node without a name: metadata\.name is missing"):
        host_of(node(""))


# ------------------------------------------------------------------------------------------ and back

words = st.text("abcxyz0", min_size=1, max_size=5)
quantities = st.one_of(
    st.integers(0, 2**40),
    st.integers(0, 10**6).map(lambda n: f"{n}m"),
    st.integers(0, 4096).map(lambda n: f"{n}Gi"),
    st.integers(0, 4096).map(lambda n: f"{n}.5Mi"),
)


@st.composite
def nodes(draw):
    allocatable = draw(
        st.dictionaries(
            st.sampled_from(["cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi", "ex.com/a"]),
            quantities,
        )
    )
    labels = draw(st.dictionaries(words, words, max_size=3))
    gpus = draw(st.integers(0, 8))
    if gpus:
        allocatable |= {COUNT: gpus, MILLI: str(gpus * 1000)}
        labels |= draw(st.sampled_from([{}, {MODEL: "T4"}]))
    effects = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
    taint = st.builds(lambda k, v, e: {"key": k, "value": v, "effect": e}, words, words | st.just(""), effects)
    data = node(
        draw(words),
        metadata={
            "labels": labels,
            "uid": draw(words | st.just("")),
            "resourceVersion": draw(st.integers(0, 2**40).map(str) | st.just("")),
        },
        spec={"unschedulable": draw(st.booleans()), "taints": draw(st.lists(taint, max_size=3))},
        allocatable=allocatable,
    )
    image = st.builds(lambda names, size: {"names": names, "sizeBytes": size}, st.lists(words), st.integers(0, 2**40))
    data["status"]["images"] = draw(st.lists(image, max_size=3))
    return data


@given(nodes())
def test_node_to_host_to_node_to_host_gives_the_same_host(data):
    host = host_of(data)
    written = msgspec.json.encode(host_to_node(host))
    again, _ = node_to_host(msgspec.json.decode(written, type=Node))
    assert again == host


def test_what_a_host_may_give_is_what_its_node_lets_pods_use():
    host = Host(
        name="h",
        uid="h",
        capacity=(("cpu", 4000), ("memory", 8 * GI)),
        overcommit=(("cpu", 1_500_000),),
        reserve=(("memory", GI),),
    )
    written = host_to_node(host)
    assert written["status"] == {
        "capacity": {"cpu": "4", "memory": "8Gi"},
        "allocatable": {"cpu": "6", "memory": "7Gi"},
    }
    assert amount_of(host_of(written).capacity, "cpu") == 6000


INEXPRESSIBLE = {
    "another kind of device": Host(name="h", devices=(Device("fpga"),)),
    "two models": Host(name="h", devices=(Device("gpu", "A"), Device("gpu", "B"))),
    "part of a device": Host(name="h", devices=(Device("gpu", "A", 500),)),
    "a label that names another model": Host(name="h", devices=(Device("gpu", "A"),), labels=((MODEL, "B"),)),
    "a resource that Kubernetes keeps for itself": Host(name="h", capacity=(("pods", 3),)),
}


@pytest.mark.parametrize("host", INEXPRESSIBLE.values(), ids=INEXPRESSIBLE.keys())
def test_what_a_node_cannot_express_is_refused(host):
    with pytest.raises(InputError, match="cannot be written as a Node"):
        host_to_node(host)


def test_the_model_of_a_hosts_gpus_becomes_a_label():
    host = Host(name="h", uid="h", devices=(Device("gpu", "T4"),) * 2)
    assert host_of(host_to_node(host)).devices == host.devices
