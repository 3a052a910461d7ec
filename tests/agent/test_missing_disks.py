"""Disks that were made once and are not found: they are reported as missing and never made again."""

from __future__ import annotations

from hostler.agent.drivers.fake import FakeDriver, FakeWires
from hostler.agent.messages import Disk, Order, Orders
from hostler.agent.reporting import gone
from tests.agent.site import Site

GIB = 2**30
LOCAL = (Disk(size_bytes=GIB),)


def order(generation=1, *, vm="a", power="running", disks=LOCAL, **changes):
    return Order(vm=vm, generation=generation, power=power, memory_bytes=GIB, disks=disks, **changes)


def running_site(*orders: Order) -> Site:
    site = Site(FakeDriver())
    site.take(Orders(version=1, is_full=True, orders=orders))
    site.settle()
    return site


def look_often(site: Site) -> None:
    """Let the agent work for some time: what is blocked is tried again at each look."""
    for _ in range(5):
        site.step()


def creations(site: Site) -> list[str]:
    return [vm for verb, vm in site.driver.log if verb == "create"]


def test_local_disk_that_disappears_is_reported_missing():
    """The VM is absent and blocked, and no empty disk takes the place of the one that had its data."""
    site = running_site(order())
    site.driver.vms.pop("a")
    look_often(site)
    assert creations(site) == ["a"]
    report = site.reports()["a"]
    assert (report.state, report.trouble.kind, report.trouble.code) == ("absent", "blocked", "disk_missing")
    assert report.failed_generation == 1


def test_local_disk_that_disappears_is_missing_after_agent_restart():
    site = running_site(order())
    site.driver.vms.pop("a")
    site.kill()
    site.take(Orders(version=1, is_full=True, orders=(order(),)))
    look_often(site)
    assert creations(site) == ["a"]
    assert site.reports()["a"].trouble.code == "disk_missing"


def test_diskless_vm_that_disappears_is_created_again():
    site = running_site(order(disks=()))
    site.driver.vms.pop("a")
    site.settle()
    assert creations(site) == ["a", "a"]


def test_disk_that_comes_back_ends_the_trouble():
    site = running_site(order())
    vm = site.driver.vms.pop("a")
    look_often(site)
    site.driver.vms["a"] = vm
    look_often(site)
    report = site.reports()["a"]
    assert (report.state, report.trouble) == ("running", None)
    assert creations(site) == ["a"]


def test_lost_vm_is_created_by_an_order_of_a_newer_booking():
    """The control plane chose this host again after it knew that the disk is gone: the owner wants a new one."""
    site = running_site(order(generation=3, since=2))
    site.driver.vms.pop("a")
    look_often(site)
    site.take(Orders(version=2, is_full=True, orders=(order(generation=5, since=5),)))
    look_often(site)
    assert creations(site) == ["a", "a"]
    assert site.reports()["a"].state == "running"


def test_missing_shared_disk_is_not_made_again_on_another_host():
    """The disk was made by another host; here the storage is there, but the disk is not."""
    wires = FakeWires()
    site = Site(FakeDriver(wires=wires))
    shared = (Disk(size_bytes=GIB, storage="nfs"),)
    site.take(Orders(version=1, is_full=True, orders=(order(disks=shared, has_disks=True),)))
    look_often(site)
    assert creations(site) == []
    assert site.reports()["a"].trouble.code == "disk_missing"
    wires.disks["a"] = ""
    look_often(site)
    assert site.reports()["a"].state == "running"


def test_unavailable_storage_keeps_vms_as_they_are():
    """An unmounted file system makes no VM absent; what runs is seen to run, and what is stopped stays so."""
    site = running_site(order(), order(vm="b", power="stopped"), order(vm="c"))
    site.driver.unmounted[""] = "nothing is mounted there"
    site.driver.vms["c"].power = "stopped"
    look_often(site)
    found = {vm: (report.state, report.trouble.code, report.generation) for vm, report in site.reports().items()}
    assert found == {
        "a": ("running", "storage_unavailable", 1),
        "b": ("stopped", "storage_unavailable", 1),
        "c": ("stopped", "storage_unavailable", 1),
    }
    assert creations(site) == ["a", "b", "c"]
    site.driver.unmounted.clear()
    look_often(site)
    assert {vm: (report.state, report.trouble) for vm, report in site.reports().items()} == {
        "a": ("running", None),
        "b": ("stopped", None),
        "c": ("running", None),
    }


def test_unavailable_storage_at_agent_start_makes_no_vm_absent():
    site = running_site(order(), order(vm="b", power="stopped"))
    site.driver.unmounted[""] = "nothing is mounted there"
    site.kill()
    site.look()
    assert {vm: report.state for vm, report in site.reports().items()} == {"a": "running", "b": "stopped"}
    site.take(Orders(version=1, is_full=True, orders=(order(), order(vm="b", power="absent", generation=2))))
    look_often(site)
    assert site.reports()["b"].state == "stopped"
    assert gone(site.state) == ()
    site.driver.unmounted.clear()
    site.settle()
    assert [one.vm for one in gone(site.state)] == ["b"]


def test_unavailable_storage_gets_no_new_vm():
    site = Site(FakeDriver())
    site.driver.unmounted["nfs"] = "nothing is mounted there"
    on_nfs = (Disk(size_bytes=GIB, storage="nfs"),)
    site.take(Orders(version=1, is_full=True, orders=(order(disks=on_nfs), order(vm="b"))))
    look_often(site)
    assert creations(site) == ["b"]
    assert site.reports()["a"].trouble.code == "storage_unavailable"


def test_vm_that_runs_without_its_record_is_not_started_twice():
    site = running_site(order())
    site.driver.strays.add("a")
    site.kill()
    site.take(Orders(version=2, is_full=True, orders=(order(generation=2, power="stopped"),)))
    look_often(site)
    report = site.reports()["a"]
    assert (report.state, report.trouble.code) == ("running", "record_missing")
    assert site.driver.log == [("create", "a"), ("start", "a")]


def test_stray_vm_with_local_disk_can_be_deleted():
    site = running_site(order())
    site.driver.strays.add("a")
    site.take(Orders(version=2, is_full=True, orders=(order(generation=2, power="absent"),)))
    site.settle()
    assert [one.vm for one in gone(site.state)] == ["a"]


def test_stray_vm_without_local_disk_is_restarted_on_request():
    site = running_site(order(disks=()))
    site.driver.strays.add("a")
    look_often(site)
    assert site.reports()["a"].trouble.code == "record_missing"
    site.take(Orders(version=2, is_full=True, orders=(order(generation=2, disks=(), restarts=1),)))
    site.settle()
    assert [verb for verb, _ in site.driver.log] == ["create", "start", "stop", "create", "start"]
    assert site.reports()["a"].trouble is None
