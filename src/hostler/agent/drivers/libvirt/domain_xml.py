"""VMs as XML for libvirt, and which domains and volumes are ours. Pure; ``xml.etree`` escapes every text.

A domain of ours has the VM's own UUID and an element of our namespace in its metadata that names the VM. A domain
that lacks either is not ours.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Literal
from xml.etree import ElementTree

import msgspec

from hostler.agent.driver import PermanentError
from hostler.agent.messages import Order, VmNetwork

__all__ = ["NAMESPACE", "Volume", "domain_kind", "domain_name", "domain_uuid", "domain_xml", "marked_vm"]
__all__ += ["pools_of", "volume_name", "volume_xml", "volumes_of"]

NAMESPACE = "https://hostler.dev/xml/libvirt/1"

_UUIDS = uuid.UUID("0e5b7f0a-6a6c-5d2c-9a8e-6f2f8a4c1d37")  # for VMs whose name is no UUID
_KIB = 1024
_PERIOD_US = 100_000
_LEAST_QUOTA_US = 1000  # libvirt takes no less
_LAST_DISK = 26
_DISK = f"{{{NAMESPACE}}}disk"


class Volume(msgspec.Struct, frozen=True):
    """A disk's place: a volume of a storage pool.

    ``base`` is the path of the image under it: empty for none, None if an older version made it and did not note that.
    """

    pool: str
    name: str
    base: str | None = ""


def domain_uuid(vm: str) -> str:
    """Return the UUID of a VM's domain: its own name where that is one."""
    try:
        return str(uuid.UUID(vm))
    except ValueError:
        return str(uuid.uuid5(_UUIDS, vm))


def domain_name(vm: str) -> str:
    """Return the name of a VM's domain, for those who list domains: no text of a stranger goes in here."""
    return f"hostler-{domain_uuid(vm)}"


def volume_name(vm: str, number: int) -> str:
    """Return the name of one of a VM's volumes."""
    return f"{domain_name(vm)}-{number}.qcow2"


def marked_vm(metadata: str) -> str:
    """Return the VM that our element in a domain's metadata names; empty where it names none."""
    try:
        return ElementTree.fromstring(metadata).get("id", "")
    except ElementTree.ParseError:
        return ""


def domain_kind(capabilities: str, acceleration: Literal["auto", "kvm", "tcg"]) -> str:
    """Return the type that domains get, of those that libvirt says it has for full machines; kvm where that is one."""
    kinds = [
        domain.get("type", "")
        for guest in ElementTree.fromstring(capabilities).iterfind("guest")
        if guest.findtext("os_type") == "hvm"
        for domain in guest.iterfind("arch/domain")
    ]
    can_kvm, others = "kvm" in kinds, [kind for kind in kinds if kind != "kvm"]
    if can_kvm and acceleration != "tcg":
        return "kvm"
    if not others or acceleration == "kvm":
        raise PermanentError(
            f"libvirt offers no hypervisor of the kind {acceleration!r} for full machines",
            hint="'virsh capabilities' lists those that it has; install QEMU, or choose another --acceleration",
        )
    return others[0]


def domain_xml(order: Order, *, kind: str, volumes: Sequence[Volume] = (), has_limits: bool = True) -> str:
    """Describe a VM to libvirt; ``kind`` is the hypervisor (kvm, qemu, test), ``has_limits`` where it has such."""
    domain = ElementTree.Element("domain", type=kind)
    _add(domain, "name", domain_name(order.vm))
    _add(domain, "uuid", domain_uuid(order.vm))
    _add(domain, "title", order.name or order.vm)
    mark = ElementTree.SubElement(_add(domain, "metadata"), f"{{{NAMESPACE}}}vm", id=order.vm)
    for volume in volumes:  # what a header may say is known from here, not from the header
        ElementTree.SubElement(mark, _DISK, pool=volume.pool, volume=volume.name, base=volume.base or "")
    _add(domain, "memory", str(-(-order.memory_bytes // _KIB)), unit="KiB")
    _add(domain, "vcpu", str(order.cpu_count))
    if has_limits:
        _add_limit(domain, order)
    _add_boot(domain, order, has_disk=bool(volumes))
    _add(_add(domain, "features"), "acpi")  # without it a guest cannot be asked to end
    _add(domain, "clock", offset="utc")
    for event, then in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        _add(domain, f"on_{event}", then)
    devices = _add(domain, "devices")
    for number, volume in enumerate(volumes):
        _add_disk(devices, number, volume)
    _add_network(devices, order.vm, order.network)
    _add(devices, "serial", type="pty")
    return ElementTree.tostring(domain, encoding="unicode")


def pools_of(description: str) -> set[str]:
    """Return the storage pools that a domain's disks lie in."""
    sources = ElementTree.fromstring(description).iterfind("devices/disk/source")
    return {source.get("pool", "") for source in sources} - {""}


def volumes_of(description: str) -> list[Volume]:
    """Return the volumes of a domain of ours, with the images that were ordered under them."""
    domain = ElementTree.fromstring(description)
    noted = {
        (disk.get("pool", ""), disk.get("volume", "")): disk.get("base", "")
        for disk in domain.iterfind(f"metadata/{{{NAMESPACE}}}vm/{_DISK}")
    }
    places = [(source.get("pool", ""), source.get("volume", "")) for source in domain.iterfind("devices/disk/source")]
    return [Volume(pool, name, noted.get((pool, name))) for pool, name in places]


def volume_xml(name: str, size_bytes: int, backing: str = "") -> str:
    """Describe a volume; ``backing`` is the path of the image under it.

    An image is what its name says: its content decides nothing, since a guest may have written it.
    """
    volume = ElementTree.Element("volume")
    _add(volume, "name", name)
    _add(volume, "capacity", str(size_bytes), unit="bytes")
    _add(volume, "allocation", "0", unit="bytes")
    target = _add(volume, "target")
    _add(target, "format", type="qcow2")
    _add(target, "compat", "1.1")  # version 3, whatever libvirt's default is
    if backing:
        under = _add(volume, "backingStore")
        _add(under, "path", backing)
        _add(under, "format", type="qcow2" if backing.endswith(".qcow2") else "raw")
    return ElementTree.tostring(volume, encoding="unicode")


def _add(parent: ElementTree.Element, tag: str, text: str = "", **attributes: str) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, tag, attributes)
    element.text = text or None
    return element


def _add_limit(domain: ElementTree.Element, order: Order) -> None:
    """Hold processors below their full speed where the VM was given less than that."""
    if order.cpu_millis >= order.cpu_count * 1000:
        return
    tune = _add(domain, "cputune")
    quota_us = order.cpu_millis * _PERIOD_US // (1000 * order.cpu_count)
    _add(tune, "period", str(_PERIOD_US))
    _add(tune, "quota", str(max(quota_us, _LEAST_QUOTA_US)))


def _add_boot(domain: ElementTree.Element, order: Order, *, has_disk: bool) -> None:
    boot = _add(domain, "os")
    _add(boot, "type", "hvm")
    for tag, text in (("kernel", order.kernel), ("initrd", order.initrd), ("cmdline", order.kernel_arguments)):
        if order.kernel and text:
            _add(boot, tag, text)
    if has_disk and not order.kernel:
        _add(boot, "boot", dev="hd")


def _add_disk(devices: ElementTree.Element, number: int, volume: Volume) -> None:
    disk = _add(devices, "disk", type="volume", device="disk")
    _add(disk, "driver", name="qemu", type="qcow2")
    _add(disk, "source", pool=volume.pool, volume=volume.name)
    _add(disk, "target", dev=f"vd{chr(ord('a') + number % _LAST_DISK)}", bus="virtio")


def _add_network(devices: ElementTree.Element, vm: str, network: VmNetwork) -> None:
    if network.kind == "none":
        return
    interface = _add(devices, "interface", type=network.kind)
    # The same whenever the domain is described again, so that a resized guest knows its card again.
    _add(interface, "mac", address="52:" + ":".join(f"{byte:02x}" for byte in uuid.UUID(domain_uuid(vm)).bytes[-5:]))
    if network.kind == "bridge":
        _add(interface, "source", bridge=network.bridge)
    _add(interface, "model", type="virtio")
    if network.kind == "user":
        # Libvirt cannot restrict this network, which leads to the host's loopback and out: the cable stays unplugged.
        _add(interface, "link", state="down")
