"""The XML that libvirt gets, and which domains count as ours; needs no libvirt."""

from __future__ import annotations

import asyncio
import sys
from xml.etree import ElementTree

import msgspec
import pytest

from hostler.agent.driver import PermanentError
from hostler.agent.drivers.libvirt.connection import LibvirtMissingError
from hostler.agent.drivers.libvirt.domain_xml import (
    NAMESPACE,
    Volume,
    domain_kind,
    domain_uuid,
    domain_xml,
    marked_vm,
    volume_xml,
)
from hostler.agent.drivers.libvirt.driver import LibvirtDriver
from hostler.agent.messages import Order, VmNetwork

VM = "5f1c2a36-3f43-4c2f-9a3b-0d7a5b1c9e42"
ORDER = Order(vm=VM, generation=1, power="running", name="web-1", memory_bytes=2**28)


def described(order=ORDER, **options):
    return ElementTree.fromstring(domain_xml(order, kind="kvm", **options))


def changed(**changes):
    return msgspec.structs.replace(ORDER, **changes)


def test_a_domain_has_the_vms_uuid_and_our_mark():
    domain = described()
    assert domain.findtext("uuid") == VM
    (mark,) = domain.find("metadata")
    assert mark.tag == f"{{{NAMESPACE}}}vm"
    assert marked_vm(ElementTree.tostring(mark, encoding="unicode")) == VM


def test_a_vm_whose_name_is_no_uuid_gets_always_the_same_one():
    assert domain_uuid("web") == domain_uuid("web")
    assert domain_uuid("web") != domain_uuid("db")


HOSTILE = "</name><devices><disk/></devices>&\"'<!--"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"name": HOSTILE}, "title"),
        ({"kernel": "/k", "kernel_arguments": HOSTILE}, "os/cmdline"),
        ({"kernel": HOSTILE}, "os/kernel"),
    ],
)
def test_a_text_stays_a_text_whatever_is_in_it(changes, path):
    domain = described(changed(**changes))
    assert domain.findtext(path) == HOSTILE
    assert [element.tag for element in domain.find("devices")] == ["interface", "serial"]


def test_a_bridge_and_a_vms_name_stay_texts_too():
    domain = described(changed(vm=HOSTILE, network=VmNetwork(kind="bridge", bridge=HOSTILE)))
    assert domain.find("devices/interface/source").get("bridge") == HOSTILE
    assert domain.find("metadata")[0].get("id") == HOSTILE
    assert HOSTILE not in domain.findtext("name")
    assert HOSTILE not in volume_xml(HOSTILE, 1, HOSTILE)


def test_memory_is_never_less_than_ordered():
    assert described(changed(memory_bytes=2**28 + 1)).findtext("memory") == str(2**18 + 1)


@pytest.mark.parametrize(
    ("count", "millis", "quota"),
    [(1, 1000, None), (2, 2000, None), (2, 3000, None), (2, 1000, "50000"), (8, 1, "1000")],
)
def test_processors_are_held_back_where_less_than_all_was_given(count, millis, quota):
    assert described(changed(cpu_count=count, cpu_millis=millis)).findtext("cputune/quota") == quota


def test_nothing_is_held_back_where_the_hypervisor_cannot():
    assert described(changed(cpu_count=2, cpu_millis=1000), has_limits=False).find("cputune") is None


@pytest.mark.parametrize(("kind", "cards"), [("none", 0), ("user", 1), ("bridge", 1)])
def test_a_vm_has_the_network_that_was_ordered(kind, cards):
    found = described(changed(network=VmNetwork(kind=kind, bridge="br0"))).findall("devices/interface")
    assert [card.get("type") for card in found] == [kind] * cards


def test_a_card_keeps_its_address_when_the_vm_is_described_again():
    address = described().find("devices/interface/mac").get("address")
    assert described(changed(memory_bytes=2**30)).find("devices/interface/mac").get("address") == address
    assert int(address[:2], 16) & 3 == 2, "of one receiver, and locally administered"


def test_disks_come_in_order_and_are_booted_from_unless_there_is_a_kernel():
    volumes = [Volume("pool", "one"), Volume("pool", "two")]
    domain = described(volumes=volumes)
    assert [disk.find("source").get("volume") for disk in domain.findall("devices/disk")] == ["one", "two"]
    assert [disk.find("target").get("dev") for disk in domain.findall("devices/disk")] == ["vda", "vdb"]
    assert domain.find("os/boot").get("dev") == "hd"
    assert described(changed(kernel="/k"), volumes=volumes).find("os/boot") is None


@pytest.mark.parametrize(("image", "kind"), [("/i/a.qcow2", "qcow2"), ("/i/a.img", "raw"), ("/i/a", "raw")])
def test_an_image_is_what_its_name_says(image, kind):
    volume = ElementTree.fromstring(volume_xml("v", 2**20, image))
    assert volume.findtext("backingStore/path") == image
    assert volume.find("backingStore/format").get("type") == kind


def test_a_volume_without_an_image_is_empty():
    assert ElementTree.fromstring(volume_xml("v", 2**20)).find("backingStore") is None


@pytest.mark.parametrize("metadata", ["", "<vm/>", "no xml"])
def test_what_names_no_vm_marks_none(metadata):
    assert marked_vm(metadata) == ""


def capabilities(*kinds, os_type="hvm"):
    domains = "".join(f"<domain type='{kind}'/>" for kind in kinds)
    return (
        f"<capabilities><guest><os_type>{os_type}</os_type><arch name='x86_64'>{domains}</arch></guest></capabilities>"
    )


@pytest.mark.parametrize(
    ("kinds", "acceleration", "kind"),
    [
        (("qemu", "kvm"), "auto", "kvm"),
        (("qemu", "kvm"), "kvm", "kvm"),
        (("qemu", "kvm"), "tcg", "qemu"),
        (("qemu",), "auto", "qemu"),
        (("test",), "auto", "test"),
    ],
)
def test_domains_have_the_best_kind_unless_another_is_set(kinds, acceleration, kind):
    assert domain_kind(capabilities(*kinds), acceleration) == kind


@pytest.mark.parametrize(
    ("text", "acceleration"),
    [
        (capabilities(), "auto"),
        (capabilities("qemu"), "kvm"),
        (capabilities("kvm"), "tcg"),
        (capabilities("lxc", os_type="exe"), "auto"),
    ],
)
def test_a_kind_that_is_not_there_is_refused(text, acceleration):
    with pytest.raises(PermanentError, match="hypervisor"):
        domain_kind(text, acceleration)


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "libvirt", None)
    with pytest.raises(LibvirtMissingError) as caught:
        asyncio.run(LibvirtDriver("test:///default").open())
    assert "hostler[libvirt]" in caught.value.hint
    assert caught.value.exit_code == 3
