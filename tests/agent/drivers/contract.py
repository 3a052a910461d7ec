"""What every driver must do, as checks that run on any of them. ``test_contract.py`` lists the drivers.

A driver comes as a ``DriverSetup``: it makes drivers of hosts, and orders that this driver can carry out. To check your
own driver, write a ``DriverSetup`` and run all checks on it in a test file of yours, or add it to ``SETUPS`` there::

    @pytest.mark.parametrize("check", CHECKS, ids=names)
    def test_my_driver_keeps_the_contract(check, tmp_path):
        run_check(check, MySetup(tmp_path))

Each declared capability is checked; for the rest ``UnsupportedError`` is expected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec
import pytest

from hostler.agent.driver import DiskMissingError, Driver, DriverError, Landing, UnsupportedError
from hostler.agent.messages import Disk, Order, VmNetwork
from tests.wait import GIVE_UP_S, until


class DriverSetup(Protocol):
    """An environment to check a driver in."""

    def driver(self, host: str = "one") -> Driver:
        """Return a new driver, not opened yet; with the same host name it finds what an earlier one left."""
        ...

    def order(self, vm: str, generation: int = 1) -> Order:
        """Return a small diskless order that this driver can carry out, power running."""
        ...

    def shared_disk(self) -> Disk:
        """Return a small disk on storage that all hosts share."""
        ...

    def has_shared(self, vm: str) -> bool:
        """Say whether that disk of a VM is there."""
        ...

    def given(self, vm: str) -> tuple[str, tuple[str, ...]]:
        """Return the bridge and the devices that a VM of the host "one" has, by its hypervisor and not its driver."""
        ...

    async def clean(self) -> None:
        """Leave nothing running."""
        ...


Check = Callable[[DriverSetup], Awaitable[None]]
CHECKS: list[Check] = []


def names(check: Check) -> str:
    return check.__name__


def run_check(check: Check, setup: DriverSetup) -> None:
    async def run() -> None:
        try:
            await check(setup)
        finally:
            await setup.clean()

    asyncio.run(run())


def contract(check: Check) -> Check:
    CHECKS.append(check)
    return check


@asynccontextmanager
async def opened(setup: DriverSetup, host: str = "one"):
    driver = setup.driver(host)
    await driver.open()
    try:
        yield driver
    finally:
        await driver.close()


async def power_of(driver: Driver, vm: str) -> str:
    """Return how a VM is found, once its hypervisor has the time to say so: one that is busy is asked again."""
    async with asyncio.timeout(GIVE_UP_S):
        while True:
            found = {found.vm: found for found in await driver.find()}.get(vm)
            if found is None or "does not answer" not in found.detail:
                return "absent" if found is None else found.power
            await asyncio.sleep(0.1)


def sizes(order: Order) -> list[Order]:
    """Return an order with more processors, with more memory too, and as it was."""
    more = {"cpu_count": order.cpu_count + 1, "cpu_millis": order.cpu_millis + 1000}
    larger = msgspec.structs.replace(order, generation=2, **more)
    largest = msgspec.structs.replace(larger, generation=3, memory_bytes=order.memory_bytes * 2)
    return [larger, largest, msgspec.structs.replace(order, generation=4)]


async def size_of(driver: Driver, vm: str) -> tuple[int, int]:
    """Return the processors and the memory with which a VM is found."""
    (found,) = [found for found in await driver.find() if found.vm == vm]
    return found.cpu_count, found.memory_bytes


@contract
async def an_empty_host_has_a_size_and_no_vms(setup: DriverSetup) -> None:
    async with opened(setup) as driver:
        size = await driver.size()
        assert size.cpu_millis > 0
        assert size.memory_bytes > 0
        assert not [found for found in await driver.find() if found.is_ours]


@contract
async def a_vm_lives_from_create_to_delete(setup: DriverSetup) -> None:
    async with opened(setup) as driver:
        await driver.create(setup.order("a"))
        assert await power_of(driver, "a") == "stopped"
        await driver.start("a")
        assert await power_of(driver, "a") == "running"
        await driver.stop("a", grace_s=0)
        assert await power_of(driver, "a") == "stopped"
        await driver.start("a")
        assert await power_of(driver, "a") == "running"
        await driver.delete("a")
        assert await power_of(driver, "a") == "absent"


@contract
async def what_was_made_is_found_as_ours_and_in_its_size(setup: DriverSetup) -> None:
    order = setup.order("a")
    async with opened(setup) as driver:
        await driver.create(order)
        (found,) = [found for found in await driver.find() if found.vm == "a"]
        assert found.is_ours
        assert (found.cpu_count, found.memory_bytes) == (order.cpu_count, order.memory_bytes)


@contract
async def every_verb_may_be_repeated(setup: DriverSetup) -> None:
    async with opened(setup) as driver:
        for _ in range(2):
            await driver.create(setup.order("a"))
        assert [found.vm for found in await driver.find() if found.is_ours] == ["a"]
        for _ in range(2):
            await driver.start("a")
        assert await power_of(driver, "a") == "running"
        await driver.create(setup.order("a"))
        assert await power_of(driver, "a") == "running", "creating what runs leaves it alone"
        for _ in range(2):
            await driver.stop("a", grace_s=0)
        assert await power_of(driver, "a") == "stopped"
        for _ in range(2):
            await driver.resize("a", setup.order("a"))
        assert await power_of(driver, "a") == "stopped"
        for _ in range(2):
            await driver.delete("a")
        assert await power_of(driver, "a") == "absent"


@contract
async def deleting_what_is_not_there_is_no_error(setup: DriverSetup) -> None:
    async with opened(setup) as driver:
        await driver.delete("never-made")


@contract
async def verbs_on_a_vm_that_is_not_there_fail_as_driver_errors(setup: DriverSetup) -> None:
    async with opened(setup) as driver:
        with pytest.raises(DriverError):
            await driver.start("never-made")
        with pytest.raises(DriverError):
            await driver.resize("never-made", setup.order("never-made"))
        assert await power_of(driver, "never-made") == "absent"


@contract
async def vms_run_on_when_the_driver_closes_and_are_found_by_the_next(setup: DriverSetup) -> None:
    async with opened(setup) as driver:
        await driver.create(setup.order("runs"))
        await driver.create(setup.order("stands"))
        await driver.start("runs")
    async with opened(setup) as driver:
        assert await power_of(driver, "runs") == "running"
        assert await power_of(driver, "stands") == "stopped"
        await driver.stop("runs", grace_s=0)
        assert await power_of(driver, "runs") == "stopped"


@contract
async def a_running_vm_can_be_deleted(setup: DriverSetup) -> None:
    async with opened(setup) as driver:
        await driver.create(setup.order("a"))
        await driver.start("a")
        await driver.delete("a")
        await driver.create(setup.order("a"))
        assert await power_of(driver, "a") == "stopped", "its name can be used again"


@contract
async def vms_are_halted_together_and_others_run_on(setup: DriverSetup) -> None:
    async with opened(setup) as driver:
        for vm in ("a", "b", "c"):
            await driver.create(setup.order(vm))
            await driver.start(vm)
        found = {one.vm: one.power for one in await driver.find_running() if one.is_ours}
        assert found == dict.fromkeys("abc", "running")
        rehearsal = await driver.rehearse_halt(["a", "b"])
        assert rehearsal.most_at_once > 1
        assert set(rehearsal.failed) <= {"a", "b"}
        assert [await power_of(driver, vm) for vm in "abc"] == ["running"] * 3, "a rehearsal changes nothing"
        assert await driver.halt(["a", "b"], polite_s=1.0, reap_s=60.0) == {}

        async def are_halted() -> bool:
            return [await power_of(driver, vm) for vm in "abc"] == ["stopped", "stopped", "running"]

        await until(are_halted)  # libvirt notices the end of a process a moment later
        assert await driver.halt(["a", "b"], polite_s=1.0, reap_s=60.0) == {}, "and once more"


@contract
async def vms_do_not_disturb_each_other(setup: DriverSetup) -> None:
    async with opened(setup) as driver:
        await asyncio.gather(driver.create(setup.order("a")), driver.create(setup.order("b")))
        await asyncio.gather(driver.start("a"), driver.start("b"))
        await asyncio.gather(driver.stop("a", grace_s=0), driver.find())
        assert await power_of(driver, "a") == "stopped"
        assert await power_of(driver, "b") == "running"


@contract
async def pause_and_resume_or_a_refusal(setup: DriverSetup) -> None:
    async with opened(setup) as driver:
        await driver.create(setup.order("a"))
        await driver.start("a")
        if not driver.capabilities.pause:
            with pytest.raises(UnsupportedError):
                await driver.pause("a")
            with pytest.raises(UnsupportedError):
                await driver.resume("a")
            return
        for _ in range(2):
            await driver.pause("a")
            assert await power_of(driver, "a") == "paused"
        for _ in range(2):
            await driver.resume("a")
            assert await power_of(driver, "a") == "running"
        await driver.pause("a")
        await driver.stop("a", grace_s=0)
        assert await power_of(driver, "a") == "stopped"


@contract
async def a_stopped_vm_can_be_resized(setup: DriverSetup) -> None:
    async with opened(setup) as driver:
        order = setup.order("a")
        await driver.create(order)
        for sized in sizes(order):
            await driver.resize("a", sized)
            assert await size_of(driver, "a") == (sized.cpu_count, sized.memory_bytes)
            await driver.start("a")
            assert await power_of(driver, "a") == "running"
            assert await size_of(driver, "a") == (sized.cpu_count, sized.memory_bytes)
            await driver.stop("a", grace_s=0)


@contract
async def a_running_vm_is_resized_or_refused(setup: DriverSetup) -> None:
    async with opened(setup) as driver:
        order = setup.order("a")
        await driver.create(order)
        await driver.start("a")
        has = order
        for sized in sizes(order):
            if driver.capabilities.resize_running:
                await driver.resize("a", sized)
                has = sized
            elif sized.cpu_count != order.cpu_count:
                with pytest.raises(UnsupportedError):
                    await driver.resize("a", sized)
            assert await power_of(driver, "a") == "running"
            assert await size_of(driver, "a") == (has.cpu_count, has.memory_bytes)
    async with opened(setup) as driver:
        assert await size_of(driver, "a") == (has.cpu_count, has.memory_bytes), "and so the next driver finds it"


@contract
async def what_is_not_declared_is_refused_before_anything_is_made(setup: DriverSetup) -> None:
    order = setup.order("a")
    wants = {
        "disks": msgspec.structs.replace(order, disks=(Disk(size_bytes=2**20),)),
        "bridges": msgspec.structs.replace(order, network=VmNetwork(kind="bridge", bridge="br0")),
        "devices": msgspec.structs.replace(order, devices=("gpu/0",)),
    }
    async with opened(setup) as driver:
        for capability, wanting in wants.items():
            if not getattr(driver.capabilities, capability):
                with pytest.raises(UnsupportedError):
                    await driver.create(wanting)
                assert await power_of(driver, "a") == "absent"


@contract
async def a_vm_is_on_the_bridge_that_it_was_ordered(setup: DriverSetup) -> None:
    order = msgspec.structs.replace(setup.order("a"), network=VmNetwork(kind="bridge", bridge="br0"))
    async with opened(setup) as driver:
        if driver.capabilities.bridges:
            await check_given(setup, driver, order)


@contract
async def a_vm_has_the_devices_that_it_was_ordered(setup: DriverSetup) -> None:
    order = msgspec.structs.replace(setup.order("a"), devices=("gpu/0", "gpu/1"))
    async with opened(setup) as driver:
        if driver.capabilities.devices:
            await check_given(setup, driver, order)


async def check_given(setup: DriverSetup, driver: Driver, order: Order) -> None:
    """Let a VM live, and see that it has what it was ordered also after a restart and in another size."""
    given = order.network.bridge, order.devices
    await driver.create(setup.order("other"))
    await driver.create(order)
    for sized in sizes(order):
        await driver.start("a")
        assert await power_of(driver, "a") == "running"
        assert setup.given("a") == given
        await driver.stop("a", grace_s=0)
        await driver.resize("a", sized)
        assert setup.given("a") == given
    assert setup.given("other") == ("", ()), "what is one VM's is no other's"
    await driver.delete("a")
    assert await power_of(driver, "a") == "absent"


@contract
async def disks_are_made_and_go_with_the_vm(setup: DriverSetup) -> None:
    order = msgspec.structs.replace(setup.order("a"), disks=(Disk(size_bytes=2**20),))
    async with opened(setup) as driver:
        if not driver.capabilities.disks:
            return
        for _ in range(2):
            await driver.create(order)
            assert await power_of(driver, "a") == "stopped"
            await driver.delete("a")
            assert await power_of(driver, "a") == "absent"


@contract
async def a_disk_that_was_made_before_is_not_made_again(setup: DriverSetup) -> None:
    """The order says that disks were made; the host has none of them, and makes none."""
    async with opened(setup) as driver:
        if not driver.capabilities.disks:
            return
        assert await driver.unavailable() == {}
        for disk in (Disk(size_bytes=2**20), setup.shared_disk()):
            with pytest.raises(DiskMissingError):
                await driver.create(msgspec.structs.replace(setup.order("a"), disks=(disk,), has_disks=True))
            assert await power_of(driver, "a") == "absent"
        assert not setup.has_shared("a")


@contract
async def a_shared_disk_that_was_made_before_is_used_again(setup: DriverSetup) -> None:
    async with opened(setup) as driver:
        if not driver.capabilities.disks:
            return
        order = msgspec.structs.replace(setup.order("a"), disks=(setup.shared_disk(),))
        await driver.create(order)
        await driver.delete("a", keeps_shared=True)
        await driver.create(msgspec.structs.replace(order, has_disks=True))
        assert await power_of(driver, "a") == "stopped"


@contract
async def a_disk_on_shared_storage_goes_with_the_vm_unless_it_is_to_be_kept(setup: DriverSetup) -> None:
    order = msgspec.structs.replace(setup.order("a"), disks=(setup.shared_disk(),))
    async with opened(setup) as driver:
        if not driver.capabilities.disks:
            return
        await driver.create(order)
        for _ in range(2):
            await driver.delete("a", keeps_shared=True)
            assert await power_of(driver, "a") == "absent"
            assert setup.has_shared("a"), "the VM is elsewhere, and uses it"
        await driver.create(order)
        await driver.start("a")
        await driver.delete("a", keeps_shared=True)
        assert setup.has_shared("a")
        await driver.create(order)
        await driver.delete("a")
        assert not setup.has_shared("a")


@contract
async def a_local_disk_goes_although_shared_ones_are_kept(setup: DriverSetup) -> None:
    order = msgspec.structs.replace(setup.order("a"), disks=(Disk(size_bytes=2**20), setup.shared_disk()))
    async with opened(setup) as driver:
        if not driver.capabilities.disks:
            return
        await driver.create(order)
        await driver.delete("a", keeps_shared=True)
        assert setup.has_shared("a")
        smaller = msgspec.structs.replace(order, disks=(Disk(size_bytes=2**19), setup.shared_disk()))
        await driver.create(smaller)  # a disk that had stayed would have to shrink, which is refused
        await driver.delete("a")
        assert not setup.has_shared("a")


@contract
async def a_vm_that_landed_is_let_go_without_the_disks_that_its_source_has(setup: DriverSetup) -> None:
    order = msgspec.structs.replace(setup.order("a"), disks=(setup.shared_disk(),))
    async with opened(setup, "one") as source, opened(setup, "two") as target:
        if not (source.capabilities.live_migration and source.capabilities.disks):
            return
        await source.create(order)
        await source.start("a")
        landing = await target.await_landing(order)
        await source.send("a", landing)
        assert await power_of(target, "a") == "running"
        await target.delete("a", keeps_shared=True)
        assert setup.has_shared("a")
        await source.start("a")
        assert await power_of(source, "a") == "running"
        await source.delete("a")
        assert not setup.has_shared("a")


@contract
async def what_was_sent_away_and_let_go_there_leaves_no_disk_behind(setup: DriverSetup) -> None:
    order = msgspec.structs.replace(setup.order("a"), disks=(setup.shared_disk(),))
    async with opened(setup, "one") as source, opened(setup, "two") as target:
        if not (source.capabilities.live_migration and source.capabilities.disks):
            return
        await source.create(order)
        await source.start("a")
        await source.send("a", await target.await_landing(order))
        await target.delete("a", keeps_shared=True)
        await source.delete("a")
        assert not setup.has_shared("a")


@contract
async def a_vm_migrates_or_the_driver_says_that_it_cannot(setup: DriverSetup) -> None:
    async with opened(setup, "one") as source, opened(setup, "two") as target:
        await source.create(setup.order("a"))
        await source.start("a")
        if not source.capabilities.live_migration:
            with pytest.raises(UnsupportedError):
                await target.await_landing(setup.order("a", 2))
            with pytest.raises(UnsupportedError):
                await source.send("a", Landing(address="nowhere", secret=""))
            assert await power_of(source, "a") == "running"
            return
        landing = await target.await_landing(setup.order("a", 2))
        assert landing.secret, "the address alone must not let anyone in"
        assert await target.await_landing(setup.order("a", 2)) == landing
        assert await power_of(target, "a") == "landing"
        await source.send("a", landing)
        assert await power_of(target, "a") == "running"
        assert await power_of(source, "a") == "left"
        await source.delete("a")
        assert await power_of(source, "a") == "absent"
        assert await power_of(target, "a") == "running"


@contract
async def a_landing_can_be_given_up_and_the_source_keeps_its_vm(setup: DriverSetup) -> None:
    async with opened(setup, "one") as source, opened(setup, "two") as target:
        if not source.capabilities.live_migration:
            return
        await source.create(setup.order("a"))
        await source.start("a")
        landing = await target.await_landing(setup.order("a", 2))
        await target.delete("a")
        assert await power_of(target, "a") == "absent"
        with pytest.raises(DriverError):
            await source.send("a", landing)
        assert await power_of(source, "a") == "running"


@contract
async def a_landing_opens_to_its_secret_only(setup: DriverSetup) -> None:
    async with opened(setup, "one") as source, opened(setup, "two") as target:
        if not source.capabilities.live_migration:
            return
        await source.create(setup.order("a"))
        await source.start("a")
        landing = await target.await_landing(setup.order("a", 2))
        with pytest.raises(DriverError):
            await source.send("a", msgspec.structs.replace(landing, secret="0" * len(landing.secret)))
        assert await power_of(source, "a") == "running"
        assert await power_of(target, "a") != "running"
