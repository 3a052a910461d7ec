"""What a user may ask for: every field out of range, hostile text, and amounts in one form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hostler.control.vms import desired_state
from hostler.control.vms.spec import DiskSpec, ImageSpec, NetworkSpec, Size, VmSpec, check_vm_spec, size_of
from hostler.errors import InputError, QuantityError

SHA = "0123456789abcdef" * 4
PLAIN = VmSpec(cpu="1", memory="1Gi")


def asked(**fields) -> VmSpec:
    return msgspec.convert({"cpu": "1", "memory": "1Gi", **fields}, VmSpec)


def disk(**fields) -> dict:
    return {"disks": [{"size": "1Gi", **fields}]}


def image(**fields) -> dict:
    return disk(image=fields)


def many(count: int) -> dict[str, str]:
    return {f"key{number}": "" for number in range(count)}


TERM = {"expressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
NEAR = {"topology": "zone", "selector": {"app": "web"}}

AMOUNTS = [
    ("cpu", {"cpu": "0"}),
    ("cpu", {"cpu": "-1"}),
    ("cpu", {"cpu": "1001"}),
    ("cpu", {"cpu": "1e30"}),
    ("cpu", {"cpu": "nan"}),
    ("cpu", {"cpu": ""}),
    ("cpu", {"cpu": "two"}),
    ("cpu", {"cpu": "1\n2"}),
    ("cpu", {"cpu": float("inf")}),
    ("memory", {"memory": "0"}),
    ("memory", {"memory": "1023Ki"}),
    ("memory", {"memory": "1025Ti"}),
    ("memory", {"memory": "-4Gi"}),
    ("memory", {"memory": "4 GB"}),
    ("disks[0].size", disk(size="0")),
    ("disks[0].size", disk(size="1023Ki")),
    ("disks[0].size", disk(size="2Pi")),
    ("disks[0].size", disk(size="x")),
]


@pytest.mark.parametrize(("field", "fields"), AMOUNTS)
def test_an_amount_that_cannot_be_is_refused_by_the_name_of_its_field(field, fields):
    with pytest.raises(QuantityError) as caught:
        check_vm_spec(asked(**fields))
    assert caught.value.message.startswith(f"{field}: ")
    assert caught.value.hint
    assert caught.value.code == "invalid_quantity"


WRONG = [
    ("spec", {"host_affinity": [{"names": [f"host-{number}" for number in range(10_000)]}]}),
    ("spec", {"host_affinity": [{"expressions": [{"key": f"key-{number}"} for number in range(5_000)]}]}),
    ("spec", {"anti_affinity": [{"topology": "zone", "selector": many(10_000)}]}),
    ("disks", {"disks": [{"size": "1Gi"}] * 17}),
    ("disks", {"disks": [{"size": "600Ti"}] * 2}),
    ("disks[0].storage", disk(storage="../etc")),
    ("disks[0].storage", disk(storage="-x")),
    ("disks[0].storage", disk(storage="a b")),
    ("disks[0].storage", disk(storage="ä")),
    ("disks[0].storage", disk(storage="x" * 64)),
    ("disks[0].image", image()),
    ("disks[0].image", image(path="/a", url="https://a/b", sha256=SHA)),
    ("disks[0].image.path", image(path="a.qcow2")),
    ("disks[0].image.path", image(path="/images/../etc/shadow")),
    ("disks[0].image.path", image(path="/images/a\x00b")),
    ("disks[0].image.path", image(path="/images/a\nb")),
    ("disks[0].image.sha256", image(path="/a", sha256=SHA)),
    ("disks[0].image.url", image(url="file:///etc/passwd", sha256=SHA)),
    ("disks[0].image.url", image(url="https://a/b c", sha256=SHA)),
    ("disks[0].image.url", image(url="https://a/b\r\nHost: x", sha256=SHA)),
    ("disks[0].image.sha256", image(url="https://a/b")),
    ("disks[0].image.sha256", image(url="https://a/b", sha256="abc")),
    ("disks[0].image.sha256", image(url="https://a/b", sha256=SHA.upper())),
    ("kernel", {"kernel": "vmlinuz"}),
    ("kernel", {"kernel": "/boot/../x"}),
    ("initrd", {"kernel": "/k", "initrd": "i"}),
    ("initrd", {"initrd": "/i"}),
    ("kernel_arguments", {"kernel_arguments": "quiet"}),
    ("kernel_arguments", {"kernel": "/k", "kernel_arguments": "a\nb"}),
    ("kernel_arguments", {"kernel": "/k", "kernel_arguments": "a\x7fb"}),
    ("network", {"network": {"kind": "bridge"}}),
    ("network", {"network": {"kind": "user", "bridge": "br0"}}),
    ("network.bridge", {"network": {"kind": "bridge", "bridge": "br0,ifname=x"}}),
    ("labels", {"labels": {"": "x"}}),
    ("labels", {"labels": {"a b": "x"}}),
    ("labels", {"labels": {"a": "x\n"}}),
    ("labels", {"labels": {"a": "x" * 254}}),
    ("labels", {"labels": {"x" * 254: ""}}),
    ("labels", {"labels": many(65)}),
    ("host_selector", {"host_selector": {"": "x"}}),
    ("host_selector", {"host_selector": {"zone": "a\x00"}}),
    ("host_selector", {"host_selector": many(65)}),
    ("strategy", {"strategy": "best fit"}),
    ("strategy", {"strategy": "x" * 64}),
    ("gang", {"gang": "other/gang"}),
    ("gang", {"gang": "a\n"}),
    ("host_name", {"host_name": "a b"}),
    ("host_name", {"host_name": "x" * 254}),
    ("when_lost", {"when_lost": "restart", **disk()}),
    ("devices", {"devices": [{"kind": "gpu"}] * 65}),
    ("devices[0].kind", {"devices": [{"kind": ""}]}),
    ("host_affinity", {"host_affinity": [TERM] * 65}),
    ("host_affinity[0]", {"host_affinity": [{}]}),
    ("host_affinity[0].expressions[0]", {"host_affinity": [{"expressions": [{"key": "a", "operator": "In"}]}]}),
    ("preferred_hosts", {"preferred_hosts": [{"weight": 1, "term": TERM}] * 65}),
    ("tolerations", {"tolerations": [{"key": "a"}] * 65}),
    ("tolerations[0]", {"tolerations": [{"operator": "Exists", "value": "x"}]}),
    ("affinity", {"affinity": [NEAR] * 65}),
    ("affinity[0].topology", {"affinity": [{"topology": ""}]}),
    ("anti_affinity", {"anti_affinity": [NEAR] * 65}),
    ("anti_affinity[0].topology", {"anti_affinity": [{"topology": ""}]}),
    ("preferred_affinity", {"preferred_affinity": [{"weight": 1, "term": NEAR}] * 65}),
    ("preferred_anti_affinity", {"preferred_anti_affinity": [{"weight": 1, "term": NEAR}] * 65}),
    ("spread", {"spread": [{"topology": "zone", "max_skew": 1}] * 65}),
    ("spread[0].topology", {"spread": [{"topology": "", "max_skew": 1}]}),
]


@pytest.mark.parametrize(("field", "fields"), WRONG)
def test_what_can_never_be_right_is_refused_by_the_name_of_its_field(field, fields):
    with pytest.raises(InputError) as caught:
        desired_state.create("id", "project", "name", asked(**fields))
    words = caught.value.message.removeprefix("the request: ")
    assert words.startswith((f"{field}:", f"{field} ")), caught.value.message
    assert caught.value.hint
    assert len(caught.value.message) < 300, "hostile text is not echoed at length"
    assert caught.value.message.isprintable()


UNREADABLE = [
    ("cpu", {"cpu": True}),
    ("cpu", {"cpu": None}),
    ("priority", {"priority": 2**31}),
    ("priority", {"priority": -(2**31) - 1}),
    ("devices[0].count", {"devices": [{"kind": "gpu", "count": 0}]}),
    ("devices[0].milli", {"devices": [{"kind": "gpu", "milli": 1001}]}),
    ("network.kind", {"network": {"kind": "tap"}}),
    ("when_lost", {"when_lost": "panic"}),
    ("preferred_hosts[0].weight", {"preferred_hosts": [{"weight": 0, "term": TERM}]}),
    ("spread[0].max_skew", {"spread": [{"topology": "zone", "max_skew": 0}]}),
    ("kernel", {"kernel": "/" + "x" * 1024}),
    ("kernel_arguments", {"kernel": "/k", "kernel_arguments": "x" * 2049}),
    ("disks[0].image.url", image(url="https://" + "x" * 1024)),
    ("command_line", {"command_line": "-device x"}),
]


@pytest.mark.parametrize(("field", "fields"), UNREADABLE)
def test_what_has_the_wrong_form_is_not_read(field, fields):
    with pytest.raises(msgspec.ValidationError, match=rf"{field.split('[')[0].split('.')[0]}"):
        asked(**fields)


SAME = [
    ({"cpu": "2000m"}, {"cpu": "2"}),
    ({"cpu": 2}, {"cpu": "2"}),
    ({"cpu": 0.5}, {"cpu": "500m"}),
    ({"cpu": "0.0001"}, {"cpu": "1m"}),
    ({"memory": "4096Mi"}, {"memory": "4Gi"}),
    ({"memory": 2**32}, {"memory": "4Gi"}),
    (disk(size="20480Mi"), disk(size="20Gi")),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_amounts_become_equal_bytes(one, other):
    first, second = check_vm_spec(asked(**one)), asked(**other)
    assert first == second
    assert msgspec.json.encode(first) == msgspec.json.encode(second)
    assert check_vm_spec(first) == first


def test_a_disk_is_rounded_up_to_whole_sectors():
    spec = check_vm_spec(asked(**disk(size="1500001k")))
    size = size_of(spec).disk_bytes
    assert size % 512 == 0
    assert 0 <= size - 1_500_001_000 < 512
    assert check_vm_spec(spec) == spec


LIMITS = [
    {"cpu": "1m"},
    {"cpu": "1000"},
    {"memory": "1Mi"},
    {"memory": "1Pi"},
    disk(size="1Mi"),
    disk(size="1Pi"),
    {"disks": [{"size": "1Gi"}] * 16},
    {"labels": many(64)},
    {"labels": {"x" * 253: "y" * 253}},
    {"gang": "x" * 63, "strategy": "least_loaded", "host_name": "node-1.example.org"},
    {"kernel": "/boot/vmlinuz", "initrd": "/boot/initrd", "kernel_arguments": "quiet ro"},
    {"tolerations": [{"key": f"k{number}"} for number in range(64)]},
    image(url="https://images.example.org/a.qcow2", sha256=SHA),
    image(path="/images/a..b/c.qcow2"),
]


@pytest.mark.parametrize("fields", LIMITS)
def test_what_is_just_within_the_limits_is_taken(fields):
    vm = desired_state.create("id", "project", "name", asked(**fields)).vm
    assert msgspec.json.decode(msgspec.json.encode(vm.spec), type=VmSpec) == vm.spec


def test_local_disks_take_room_and_shared_ones_do_not():
    spec = VmSpec(cpu="1", memory="1Gi", disks=[DiskSpec(size="5Gi"), DiskSpec(size="7Gi", storage="nfs")])
    assert size_of(spec) == Size(cpu_millis=1000, memory_bytes=2**30, disk_bytes=5 * 2**30)
    assert not spec.is_movable
    assert VmSpec(cpu="1", memory="1Gi", disks=[DiskSpec(size="7Gi", storage="nfs")]).is_movable
    assert PLAIN.is_movable


def test_sizes_compare_resource_by_resource():
    one, two = Size(cpu_millis=3, memory_bytes=1, disk_bytes=9), Size(cpu_millis=1, memory_bytes=5, disk_bytes=9)
    assert one.at_most(two) == Size(cpu_millis=1, memory_bytes=1, disk_bytes=9)
    assert one.beyond(two) == Size(cpu_millis=2)
    assert two.beyond(one) == Size(memory_bytes=4)
    assert one.disk_only == Size(disk_bytes=9)


def test_what_is_fixed_cannot_be_changed_by_a_resize():
    vm = desired_state.create("id", "project", "name", asked(**disk(), kernel="/k")).vm
    others = {
        "disks": [DiskSpec(size="2Gi")],
        "kernel": "/other",
        "initrd": "/i",
        "kernel_arguments": "quiet",
        "network": NetworkSpec(kind="none"),
        "devices": asked(devices=[{"kind": "gpu"}]).devices,
        "gang": "crew",
    }
    for name, value in others.items():
        with pytest.raises(InputError, match=f"^{name}: ") as caught:
            desired_state.resize(vm, msgspec.structs.replace(vm.spec, **{name: value}))
        assert caught.value.hint


def test_images_have_the_form_that_agents_know():
    spec = asked(**image(path="/images/a.qcow2"))
    assert spec.disks[0].image == ImageSpec(path="/images/a.qcow2")


@pytest.mark.parametrize("name", ["affinity", "anti_affinity"])
def test_a_long_text_in_a_constraint_is_refused_and_not_repeated(name: str):
    term = {"topology": "x" * 254, "selector": {}}
    with pytest.raises(InputError, match=rf"{name}\[0\]\.topology: 'x+'… is too long") as found:
        check_vm_spec(asked(**{name: [term]}))
    assert len(found.value.message) < 100


@pytest.mark.parametrize("hidden", ["a\0b", "\x1b[2Jzone", "zone\u202e", "two\nlines"], ids=ascii)
@pytest.mark.parametrize(
    "constraint",
    [
        lambda text: {"host_affinity": [{"expressions": [{"key": text, "operator": "Exists"}]}]},
        lambda text: {"host_affinity": [{"expressions": [{"key": "zone", "operator": "In", "values": [text]}]}]},
        lambda text: {"anti_affinity": [{"topology": text, "selector": {}}]},
        lambda text: {"affinity": [{"topology": "zone", "selector": {text: text}}]},
        lambda text: {"host_name": text},
    ],
    ids=["key", "value", "topology", "label", "host"],
)
def test_a_constraint_hides_nothing_from_who_reads_why(constraint: Callable[[str], dict[str, Any]], hidden: str):
    with pytest.raises(InputError) as caught:
        check_vm_spec(asked(**constraint(hidden)))
    assert caught.value.message.isprintable()


def test_a_spec_with_much_of_everything_is_taken():
    names = [f"host-{number}" for number in range(1000)]
    spec = asked(labels=many(64), host_selector=many(64), host_affinity=[{"names": names}])
    assert check_vm_spec(spec).host_affinity == spec.host_affinity
