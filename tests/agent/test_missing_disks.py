"""Disks that were made once and are not found: they are reported as missing and never made again."""

from __future__ import annotations

from hostler.agent.core.reports import gone
from hostler.agent.drivers.fake import FakeDriver, FakeWires
from hostler.agent.messages import Disk, Order, Orders
from tests.agent.stepped_host import SteppedHost

GIB = 2**30
LOCAL = (Disk(size_bytes=GIB),)


def order(generation=1, *, vm="a", power="running", disks=LOCAL, **changes):
    return Order(vm=vm, generation=generation, power=power, memory_bytes=GIB, disks=disks, **changes)


def running_site(*orders: Order) -> SteppedHost:
    host = SteppedHost(FakeDriver())
    host.take(Orders(version=1, is_full=True, orders=orders))
    host.settle()
    return host


def look_often(host: SteppedHost) -> None:
    """Let the agent work for some time: what is blocked is tried again at each look."""
    for _ in range(5):
        host.step()


def creations(host: SteppedHost) -> list[str]:
    return [vm for verb, vm in host.driver.log if verb == "create"]


def test_local_disk_that_disappears_is_reported_missing():
    """The VM is absent and blocked, and no empty disk takes the place of the one that had its data."""
    host = running_site(order())
    host.driver.vms.pop("a")
    look_often(host)
    assert creations(host) == ["a"]
    report = host.reports()["a"]
    assert (report.state, report.trouble.kind, report.trouble.code) == ("absent", "blocked", "disk_missing")
    assert report.failed_generation == 1


def test_local_disk_that_disappears_is_missing_after_agent_restart():
    host = running_site(order())
    host.driver.vms.pop("a")
    host.kill()
    host.take(Orders(version=1, is_full=True, orders=(order(),)))
    look_often(host)
    assert creations(host) == ["a"]
    assert host.reports()["a"].trouble.code == "disk_missing"


def test_diskless_vm_that_disappears_is_created_again():
    host = running_site(order(disks=()))
    host.driver.vms.pop("a")
    host.settle()
    assert creations(host) == ["a", "a"]


def test_disk_that_comes_back_ends_the_trouble():
    host = running_site(order())
    vm = host.driver.vms.pop("a")
    look_often(host)
    host.driver.vms["a"] = vm
    look_often(host)
    report = host.reports()["a"]
    assert (report.state, report.trouble) == ("running", None)
    assert creations(host) == ["a"]


def test_lost_vm_is_created_by_an_order_of_a_newer_booking():
    """The control plane chose this host again after it knew that the disk is gone: the owner wants a new one."""
    host = running_site(order(generation=3, since=2))
    host.driver.vms.pop("a")
    look_often(host)
    host.take(Orders(version=2, is_full=True, orders=(order(generation=5, since=5),)))
    look_often(host)
    assert creations(host) == ["a", "a"]
    assert host.reports()["a"].state == "running"


def test_missing_shared_disk_is_not_made_again_on_another_host():
    """The disk was made by another host; here the storage is there, but the disk is not."""
    wires = FakeWires()
    host = SteppedHost(FakeDriver(wires=wires))
    shared = (Disk(size_bytes=GIB, storage="nfs"),)
    host.take(Orders(version=1, is_full=True, orders=(order(disks=shared, has_disks=True),)))
    look_often(host)
    assert creations(host) == []
    assert host.reports()["a"].trouble.code == "disk_missing"
    wires.disks["a"] = ""
    look_often(host)
    assert host.reports()["a"].state == "running"


def test_unavailable_storage_keeps_vms_as_they_are():
    """An unmounted file system makes no VM absent; what runs is seen to run, and what is stopped stays so."""
    host = running_site(order(), order(vm="b", power="stopped"), order(vm="c"))
    host.driver.unmounted[""] = "nothing is mounted there"
    host.driver.vms["c"].power = "stopped"
    look_often(host)
    found = {vm: (report.state, report.trouble.code, report.generation) for vm, report in host.reports().items()}
    assert found == {
        "a": ("running", "storage_unavailable", 1),
        "b": ("stopped", "storage_unavailable", 1),
        "c": ("stopped", "storage_unavailable", 1),
    }
    assert creations(host) == ["a", "b", "c"]
    host.driver.unmounted.clear()
    look_often(host)
    assert {vm: (report.state, report.trouble) for vm, report in host.reports().items()} == {
        "a": ("running", None),
        "b": ("stopped", None),
        "c": ("running", None),
    }


def test_unavailable_storage_at_agent_start_makes_no_vm_absent():
    host = running_site(order(), order(vm="b", power="stopped"))
    host.driver.unmounted[""] = "nothing is mounted there"
    host.kill()
    host.look()
    assert {vm: report.state for vm, report in host.reports().items()} == {"a": "running", "b": "stopped"}
    host.take(Orders(version=1, is_full=True, orders=(order(), order(vm="b", power="absent", generation=2))))
    look_often(host)
    assert host.reports()["b"].state == "stopped"
    assert gone(host.state) == ()
    host.driver.unmounted.clear()
    host.settle()
    assert [one.vm for one in gone(host.state)] == ["b"]


def test_unavailable_storage_gets_no_new_vm():
    host = SteppedHost(FakeDriver())
    host.driver.unmounted["nfs"] = "nothing is mounted there"
    on_nfs = (Disk(size_bytes=GIB, storage="nfs"),)
    host.take(Orders(version=1, is_full=True, orders=(order(disks=on_nfs), order(vm="b"))))
    look_often(host)
    assert creations(host) == ["b"]
    assert host.reports()["a"].trouble.code == "storage_unavailable"


def test_vm_that_runs_without_its_record_is_not_started_twice():
    host = running_site(order())
    host.driver.strays.add("a")
    host.kill()
    host.take(Orders(version=2, is_full=True, orders=(order(generation=2, power="stopped"),)))
    look_often(host)
    report = host.reports()["a"]
    assert (report.state, report.trouble.code) == ("running", "record_missing")
    assert host.driver.log == [("create", "a"), ("start", "a")]


def test_stray_vm_with_local_disk_can_be_deleted():
    host = running_site(order())
    host.driver.strays.add("a")
    host.take(Orders(version=2, is_full=True, orders=(order(generation=2, power="absent"),)))
    host.settle()
    assert [one.vm for one in gone(host.state)] == ["a"]


def test_stray_vm_without_local_disk_is_restarted_on_request():
    host = running_site(order(disks=()))
    host.driver.strays.add("a")
    look_often(host)
    assert host.reports()["a"].trouble.code == "record_missing"
    host.take(Orders(version=2, is_full=True, orders=(order(generation=2, disks=(), restarts=1),)))
    host.settle()
    assert [verb for verb, _ in host.driver.log] == ["create", "start", "stop", "create", "start"]
    assert host.reports()["a"].trouble is None
