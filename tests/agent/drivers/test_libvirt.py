"""The driver on libvirt's own test hypervisor: the contract, strangers' domains, disks, and what libvirt refuses."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import asynccontextmanager

import msgspec
import pytest

from hostler.agent.driver import BlockedError, DriverError, PermanentError, UnsupportedError
from hostler.agent.drivers.libvirt.connection import LibvirtThread
from hostler.agent.drivers.libvirt.domain_xml import domain_name, domain_uuid, volume_name
from hostler.agent.drivers.libvirt.driver import LibvirtDriver
from hostler.agent.drivers.libvirt.storage import find_pool
from hostler.agent.drivers.machine.capacity import memory_offered
from hostler.agent.messages import Capabilities, Disk, Image, VmNetwork
from tests.agent.drivers.contract import CHECKS, names, power_of, run_check
from tests.agent.drivers.libvirt_setup import POOL, URI, LibvirtSetup

VM = "5f1c2a36-3f43-4c2f-9a3b-0d7a5b1c9e42"
GIB = 2**30


libvirt = pytest.importorskip("libvirt")


@pytest.mark.parametrize("check", CHECKS, ids=names)
def test_the_driver_keeps_the_contract(check, tmp_path):
    run_check(check, LibvirtSetup(tmp_path))


@pytest.mark.parametrize("check", CHECKS, ids=names)
def test_the_driver_keeps_the_contract_without_a_pool(check, tmp_path):
    run_check(check, LibvirtSetup(tmp_path, pool="nowhere"))


@asynccontextmanager
async def opened(setup):
    driver = setup.driver()
    await driver.open()
    try:
        yield driver
    finally:
        await driver.close()


@asynccontextmanager
async def open_driver(setup):
    """Yield an open driver, and leave nothing of the test hypervisor behind."""
    try:
        async with opened(setup) as driver:
            yield driver
    finally:
        await setup.clean()


async def test_its_capabilities_are_those_of_the_place(tmp_path):
    async with open_driver(LibvirtSetup(tmp_path)) as driver:
        assert driver.capabilities == Capabilities(pause=True, disks=True, bridges=True)


async def test_vms_are_put_on_allowed_bridges_only(tmp_path):
    setup = LibvirtSetup(tmp_path, bridges=("br0", "br1"))

    async with open_driver(setup) as driver:
        order = msgspec.structs.replace(setup.order(VM), network=VmNetwork(kind="bridge", bridge="br1"))
        bad = msgspec.structs.replace(order, network=VmNetwork(kind="bridge", bridge="br-management"))
        with pytest.raises(PermanentError, match="br-management") as caught:
            await driver.create(bad)
        assert "br0, br1" in caught.value.hint
        assert await power_of(driver, VM) == "absent"
        await driver.create(order)
        with pytest.raises(PermanentError):
            await driver.resize(VM, bad)


async def test_where_no_bridge_is_allowed_there_is_none(tmp_path):
    setup = LibvirtSetup(tmp_path, bridges=())

    async with open_driver(setup) as driver:
        assert not driver.capabilities.bridges
        with pytest.raises(UnsupportedError):
            await driver.create(
                msgspec.structs.replace(setup.order(VM), network=VmNetwork(kind="bridge", bridge="br0"))
            )


async def test_libvirt_leaves_a_user_mode_card_unplugged(tmp_path):
    setup = LibvirtSetup(tmp_path)

    async with open_driver(setup) as driver:
        await driver.create(msgspec.structs.replace(setup.order(VM), network=VmNetwork(kind="user")))
        await driver.start(VM)
        assert "<link state='down'/>" in setup.connection.lookupByUUIDString(VM).XMLDesc(0)


async def test_the_size_is_what_host_and_pool_can_spare(tmp_path):
    setup = LibvirtSetup(tmp_path)

    async with open_driver(setup) as driver:
        _, memory_mib, cpus, *_ = setup.connection.getInfo()
        size = await driver.size()
        assert (size.cpu_millis, size.memory_bytes) == (cpus * 1000, memory_offered(memory_mib * 2**20))
        pool = setup.connection.storagePoolLookupByName(POOL)
        assert size.disk_bytes == pool.info()[3] > 0
        size_text = f"<capacity>{2**30}</capacity><allocation>{2**30}</allocation>"
        pool.createXML(f"<volume><name>{volume_name(VM, 0)}</name>{size_text}</volume>", 0)
        assert pool.info()[3] == size.disk_bytes - 2**30
        assert (await driver.size()).disk_bytes == size.disk_bytes, "what VMs have is booked for them"


async def test_a_strangers_domain_is_reported_and_not_ours(tmp_path):
    setup = LibvirtSetup(tmp_path)

    async with open_driver(setup) as driver:
        (stranger,) = await driver.find()
        there = setup.connection.lookupByName("test")
        assert (stranger.vm, stranger.is_ours, stranger.detail) == (there.UUIDString(), False, "test")
        assert stranger.power == "running"


VERBS = {
    "create": lambda driver, order: driver.create(order),
    "start": lambda driver, order: driver.start(order.vm),
    "stop": lambda driver, order: driver.stop(order.vm, grace_s=0),
    "stop-gently": lambda driver, order: driver.stop(order.vm, grace_s=5),
    "pause": lambda driver, order: driver.pause(order.vm),
    "resume": lambda driver, order: driver.resume(order.vm),
    "resize": lambda driver, order: driver.resize(order.vm, order),
    "delete": lambda driver, order: driver.delete(order.vm),
}
STRANGER = """<domain type='test'><name>theirs</name><uuid>{uuid}</uuid>{metadata}<memory>1048576</memory>
<vcpu>1</vcpu><os><type>hvm</type></os></domain>"""
MARKS = {
    "without-a-mark": "",
    "with-anothers-mark": "<metadata><x:vm xmlns:x='https://example.org/' id='{vm}'/></metadata>",
    "marked-for-another-vm": "<metadata><x:vm xmlns:x='https://hostler.dev/xml/libvirt/1' id='other'/></metadata>",
}


@pytest.mark.parametrize("metadata", MARKS.values(), ids=MARKS)
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
async def test_no_verb_touches_a_domain_that_only_has_the_uuid_of_a_vm(verb, metadata, tmp_path):
    setup = LibvirtSetup(tmp_path)

    async with open_driver(setup) as driver:
        theirs = setup.connection.defineXML(STRANGER.format(uuid=VM, metadata=metadata.format(vm=VM)))
        theirs.create()
        before = theirs.XMLDesc()
        with pytest.raises(BlockedError, match="theirs"):
            await verb(driver, setup.order(VM))
        assert theirs.isActive()
        assert theirs.XMLDesc() == before
        (found,) = [found for found in await driver.find() if found.vm == VM]
        assert not found.is_ours


async def test_a_domain_of_ours_bears_the_vms_uuid_and_a_name_that_tells_it(tmp_path):
    setup = LibvirtSetup(tmp_path)

    async with open_driver(setup) as driver:
        await driver.create(msgspec.structs.replace(setup.order(VM), name="web <1>"))
        domain = setup.connection.lookupByUUIDString(VM)
        assert domain.name() == domain_name(VM)
        assert domain.isPersistent()
        assert "web &lt;1&gt;" in domain.XMLDesc()


async def test_name_of_another_domain_blocks_and_breaks_nothing(tmp_path):
    setup = LibvirtSetup(tmp_path)

    async with open_driver(setup) as driver:
        uuid = domain_uuid("another")
        theirs = STRANGER.format(uuid=uuid, metadata="").replace("theirs", domain_name(VM))
        setup.connection.defineXML(theirs)
        with pytest.raises(DriverError, match=uuid):
            await driver.create(setup.order(VM))
        assert setup.connection.lookupByUUIDString(uuid).name() == domain_name(VM)
        assert await power_of(driver, VM) == "absent"


async def test_a_guest_that_ends_when_asked_is_not_killed(tmp_path):
    setup = LibvirtSetup(tmp_path)

    async with open_driver(setup) as driver:
        await driver.create(setup.order(VM))
        await driver.start(VM)
        await driver.stop(VM, grace_s=30)
        state, reason = setup.connection.lookupByUUIDString(VM).state()
        assert (state, reason) == (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN)
        await driver.start(VM)
        await driver.stop(VM, grace_s=0)
        _, reason = setup.connection.lookupByUUIDString(VM).state()
        assert reason == libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED


async def test_a_paused_guest_cannot_be_asked_and_is_ended(tmp_path):
    setup = LibvirtSetup(tmp_path)

    async with open_driver(setup) as driver:
        await driver.create(setup.order(VM))
        await driver.start(VM)
        await driver.pause(VM)
        await driver.stop(VM, grace_s=600)
        state, reason = setup.connection.lookupByUUIDString(VM).state()
        assert (state, reason) == (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED)


async def test_pausing_what_is_stopped_is_refused(tmp_path):
    setup = LibvirtSetup(tmp_path)

    async with open_driver(setup) as driver:
        await driver.create(setup.order(VM))
        with pytest.raises(PermanentError, match="stopped"):
            await driver.pause(VM)


async def test_a_running_vm_that_has_its_size_is_not_refused_that_size(tmp_path):
    setup = LibvirtSetup(tmp_path)

    async with open_driver(setup) as driver:
        await driver.create(setup.order(VM))
        await driver.start(VM)
        await driver.resize(VM, setup.order(VM, 2))
        assert await power_of(driver, VM) == "running"


def with_disk(setup, size_bytes=GIB, **changes):
    return msgspec.structs.replace(setup.order(VM), disks=(Disk(size_bytes=size_bytes, **changes),))


async def test_disks_lie_in_their_pools_and_go_with_the_vm(tmp_path):
    setup = LibvirtSetup(tmp_path, storages={"shared": "second"})
    setup.connection.storagePoolDefineXML(
        "<pool type='dir'><name>second</name><target><path>/second</path></target></pool>", 0
    ).create(0)

    async with open_driver(setup) as driver:
        strangers = setup.volumes()
        disks = (Disk(size_bytes=GIB), Disk(size_bytes=GIB, storage="shared"))
        await driver.create(msgspec.structs.replace(setup.order(VM), disks=disks))
        assert setup.volumes() == sorted([*strangers, f"hostler-{VM}-0.qcow2"])
        assert setup.volumes("second") == [f"hostler-{VM}-1.qcow2"]
        assert setup.connection.lookupByUUIDString(VM).XMLDesc().count("<disk ") == 2
        await driver.start(VM)
        await driver.delete(VM)
        assert setup.volumes() == strangers
        assert setup.volumes("second") == []


async def test_a_vm_is_not_forgotten_while_its_disks_cannot_be_removed(tmp_path):
    setup = LibvirtSetup(tmp_path)
    pool = setup.connection.storagePoolLookupByName(POOL)

    async with open_driver(setup) as driver:
        await driver.create(with_disk(setup))
        await driver.start(VM)
        pool.destroy()
        try:
            with pytest.raises(BlockedError, match=POOL):
                await driver.delete(VM)
            assert await power_of(driver, VM) == "running"
        finally:
            pool.create(0)
        await driver.delete(VM)
        assert await power_of(driver, VM) == "absent"


async def test_volume_left_by_crash_is_used_by_create_removed_by_delete(tmp_path):
    setup = LibvirtSetup(tmp_path)

    async with open_driver(setup) as driver:
        await driver.create(with_disk(setup))
        setup.connection.lookupByUUIDString(VM).undefine()
        await driver.create(with_disk(setup))
        assert await power_of(driver, VM) == "stopped"
        setup.connection.lookupByUUIDString(VM).undefine()
        await driver.delete(VM)
        assert f"hostler-{VM}-0.qcow2" not in setup.volumes()


async def test_a_disk_never_shrinks(tmp_path):
    setup = LibvirtSetup(tmp_path)

    async with open_driver(setup) as driver:
        await driver.create(with_disk(setup))
        with pytest.raises(PermanentError, match="shrink"):
            await driver.resize(VM, with_disk(setup, GIB // 2))


async def test_a_storage_that_the_host_does_not_have_blocks(tmp_path):
    setup = LibvirtSetup(tmp_path)

    async with open_driver(setup) as driver:
        with pytest.raises(BlockedError, match="elsewhere"):
            await driver.create(with_disk(setup, storage="elsewhere"))
        assert await power_of(driver, VM) == "absent"


async def test_an_image_below_the_roots_is_the_ground_of_a_disk(tmp_path):
    setup = LibvirtSetup(tmp_path)
    (tmp_path / "base.qcow2").write_bytes(b"")

    async with open_driver(setup) as driver:
        await driver.create(with_disk(setup, image=Image(path=str(tmp_path / "base.qcow2"))))
        volume = setup.connection.storagePoolLookupByName(POOL).storageVolLookupByName(f"hostler-{VM}-0.qcow2")
        assert str(tmp_path / "base.qcow2") in volume.XMLDesc(0)


def refused_paths(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "secret").write_text("")
    (tmp_path / "images" / "link").symlink_to(tmp_path / "secret")
    return {
        "outside": (str(tmp_path / "secret"), PermanentError),
        "by-dots": (str(tmp_path / "images" / ".." / "secret"), PermanentError),
        "by-a-link": (str(tmp_path / "images" / "link"), PermanentError),
        "not-there": (str(tmp_path / "images" / "missing"), BlockedError),
    }


@pytest.mark.parametrize("case", ["outside", "by-dots", "by-a-link", "not-there"])
async def test_images_and_kernels_come_from_below_the_roots_only(case, tmp_path):
    path, error = refused_paths(tmp_path)[case]
    setup = LibvirtSetup(tmp_path / "images")

    async with open_driver(setup) as driver:
        strangers = setup.volumes()
        for order in (
            with_disk(setup, image=Image(path=path)),
            msgspec.structs.replace(setup.order(VM), kernel=path),
        ):
            with pytest.raises(error):
                await driver.create(order)
        assert await power_of(driver, VM) == "absent"
        assert setup.volumes() == strangers


async def test_a_kernel_below_the_roots_is_booted(tmp_path):
    setup = LibvirtSetup(tmp_path)
    for name in ("kernel", "initrd"):
        (tmp_path / name).write_bytes(b"")

    async with open_driver(setup) as driver:
        order = msgspec.structs.replace(
            setup.order(VM),
            kernel=str(tmp_path / "kernel"),
            initrd=str(tmp_path / "initrd"),
            kernel_arguments="console=ttyS0 a=<&>",
        )
        await driver.create(order)
        await driver.start(VM)
        described = setup.connection.lookupByUUIDString(VM).XMLDesc()
        assert f"<kernel>{tmp_path / 'kernel'}</kernel>" in described
        assert "<cmdline>console=ttyS0 a=&lt;&amp;&gt;</cmdline>" in described


@pytest.mark.parametrize("changes", [{"memory_bytes": 0}, {"cpu_count": 0}, {"kernel_arguments": "\x01"}])
async def test_what_libvirt_never_takes_is_refused_for_good(changes, tmp_path):
    setup = LibvirtSetup(tmp_path)
    (tmp_path / "kernel").write_bytes(b"")

    async with open_driver(setup) as driver:
        order = msgspec.structs.replace(setup.order(VM), kernel=str(tmp_path / "kernel"), **changes)
        with pytest.raises(PermanentError):
            await driver.create(order)
        assert await power_of(driver, VM) == "absent"


async def test_unreachable_address_is_a_driver_error_without_thread_leak(capfd):
    driver = LibvirtDriver("qemu+unix:///system?socket=/nowhere/at-all")
    with pytest.raises(DriverError, match="libvirt"):
        await driver.open()
    await driver.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("libvirt")]
    assert capfd.readouterr().err == "", "libvirt itself writes nothing"


async def test_a_lost_connection_is_recreated():
    thread = LibvirtThread(URI)
    await thread.open()
    try:
        await thread.call(lambda connection: connection.close())
        assert await thread.call(lambda connection: connection.getHostname())
    finally:
        await thread.close()


async def test_calls_run_one_after_the_other_in_a_thread_that_is_not_the_loops():
    at_once, most = 0, 0

    def work(connection):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        time.sleep(0.01)
        at_once -= 1
        return threading.get_ident()

    thread = LibvirtThread(URI)
    await thread.open()
    try:
        seen = await asyncio.gather(*(thread.call(work) for _ in range(5)))
    finally:
        await thread.close()
    assert most == 1
    assert threading.get_ident() not in seen


def test_a_driver_that_is_not_open_says_so(tmp_path):
    with pytest.raises(DriverError, match="not open"):
        asyncio.run(LibvirtDriver(URI).find())


async def test_migration_is_refused_as_unsupported(tmp_path):
    setup = LibvirtSetup(tmp_path)

    async with open_driver(setup) as driver:
        with pytest.raises(UnsupportedError):
            await driver.await_landing(setup.order(VM))


class DomainsOnly:
    """A connection to a daemon that knows no storage, as libvirt's own modular ones are."""

    def listAllStoragePools(self, flags):
        error = libvirt.libvirtError("not supported")
        error.err = (libvirt.VIR_ERR_NO_SUPPORT, 0, "not supported", 2, None, None, None, -1, -1)
        raise error


def test_a_daemon_without_storage_has_no_pools():
    assert find_pool(DomainsOnly(), POOL) is None
