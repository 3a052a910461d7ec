"""The fake driver's own tricks: faults on purpose, delays, and VMs that outlive the process."""

from __future__ import annotations

import asyncio

import pytest

from hostler.agent.driver import BlockedError, DriverError, PermanentError
from hostler.agent.drivers.fake import FakeDriver, Fault
from hostler.agent.messages import HostSize, Order


def order(vm="a"):
    return Order(vm=vm, generation=1, power="running", memory_bytes=2**28)


@pytest.mark.parametrize(
    ("kind", "error"), [("transient", DriverError), ("permanent", PermanentError), ("blocked", BlockedError)]
)
def test_a_fault_is_of_the_kind_that_was_asked_for(kind, error):
    driver = FakeDriver(faults=[Fault(kind=kind)])
    with pytest.raises(error) as caught:
        asyncio.run(driver.create(order()))
    assert type(caught.value) is error
    assert driver.vms == {}


def test_a_fault_can_come_after_the_deed():
    driver = FakeDriver(faults=[Fault(is_after=True)])
    with pytest.raises(DriverError):
        asyncio.run(driver.create(order()))
    assert "a" in driver.vms


def test_a_fault_concerns_its_verb_and_its_vm_so_many_times():
    driver = FakeDriver(faults=[Fault(verb="create", vm="a", times=2)])
    asyncio.run(driver.create(order("b")))
    for _ in range(2):
        with pytest.raises(DriverError):
            asyncio.run(driver.create(order("a")))
    asyncio.run(driver.create(order("a")))


def failures_of(seed):
    driver = FakeDriver(faults=[Fault(chance=0.5)], seed=seed)
    failed = []
    for number in range(50):
        try:
            asyncio.run(driver.create(order(str(number))))
        except DriverError:
            failed.append(number)
    return failed


def test_chance_is_the_same_for_the_same_seed():
    assert failures_of(1) == failures_of(1)
    assert failures_of(1) != failures_of(2)
    assert 10 < len(failures_of(1)) < 40


def test_its_size_is_what_it_was_given():
    size = HostSize(cpu_millis=1, memory_bytes=2)
    assert asyncio.run(FakeDriver(size=size).size()) == size


async def test_the_state_file_holds_the_vms_for_the_next_process(tmp_path):
    first = FakeDriver(state_file=tmp_path / "state.json")
    await first.open()
    await first.create(order())
    await first.start("a")
    second = FakeDriver(state_file=tmp_path / "state.json")
    await second.open()
    assert second.vms == first.vms
