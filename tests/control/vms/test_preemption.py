"""VMs that make way for others: they keep their disks, wait, and start again; without disks they go elsewhere."""

from __future__ import annotations

import msgspec
import pytest

from hostler.control.vms import placing, wishes
from hostler.control.vms.errors import NotMovableError, WrongStateError
from hostler.control.vms.spec import DiskSpec, VmSpec
from hostler.control.vms.state import state_of
from hostler.model import EvictFailed
from tests.control.vms.world import GIB, SMALL, World

LOW = VmSpec(cpu="3", memory="1Gi")
HIGH = VmSpec(cpu="3", memory="1Gi", priority=10, host_name="h0")
LOCAL, SHARED = [DiskSpec(size="5Gi")], [DiskSpec(size="5Gi", storage="shared")]


def crowded(**changes) -> World:
    """Return a world in which ``low`` runs on the only host, and ``high`` just made the engine evict it."""
    world = World([SMALL])
    world.create("low", msgspec.structs.replace(LOW, **changes))
    world.run(4)
    assert state_of(world.vms["low"]) == "running"
    world.create("high", HIGH)
    world.decide()
    assert world.vms["low"].is_evicted
    assert state_of(world.vms["low"]) == "stopping"
    return world


@pytest.mark.parametrize("disks", [LOCAL, SHARED], ids=["local", "shared"])
def test_a_victim_keeps_its_disk_waits_and_starts_again_when_room_appears(disks):
    world = crowded(disks=disks)
    world.come_to_rest()
    world.check_rest()
    low, high, driver = world.vms["low"], world.vms["high"], world.hosts["id-h0"].site.driver
    assert state_of(high) == "running"
    assert state_of(low) == "pending"
    assert low.why
    assert low.home.name == "h0"
    assert driver.vms["low"].power == "stopped"
    assert low.booked.disk_bytes == (5 * GIB if disks is LOCAL else 0)
    world.wish("high", wishes.delete)
    world.come_to_rest()
    world.check_rest()
    assert state_of(world.vms["low"]) == "running"
    assert driver.vms["low"].runs == 2
    assert ("delete", "low") not in driver.log
    assert driver.log.count(("create", "low")) == 1


def test_a_victim_without_disks_starts_on_another_host():
    world = crowded()
    world.join("h1")
    world.come_to_rest()
    world.check_rest()
    assert world.running_on("low") == ["h1"]
    assert world.running_on("high") == ["h0"]


def test_a_victim_without_disks_waits_where_there_is_no_other_host_and_starts_when_one_joins():
    world = crowded()
    world.come_to_rest()
    world.check_rest()
    low = world.vms["low"]
    assert (low.home, state_of(low)) == (None, "pending")
    assert low.why
    world.join("h1")
    world.come_to_rest()
    world.check_rest()
    assert world.running_on("low") == ["h1"]


@pytest.mark.parametrize("disks", [[], LOCAL], ids=["diskless", "local"])
def test_a_victim_that_is_stopped_on_its_way_out_stays_stopped(disks):
    world = crowded(disks=disks)
    world.wish("low", wishes.stop)
    world.come_to_rest()
    world.check_rest()
    assert state_of(world.vms["low"]) == "stopped"
    world.wish("high", wishes.delete)
    world.come_to_rest()
    assert state_of(world.vms["low"]) == "stopped"
    world.wish("low", wishes.start)
    world.come_to_rest()
    world.check_rest()
    assert state_of(world.vms["low"]) == "running"


@pytest.mark.parametrize("disks", [[], LOCAL], ids=["diskless", "local"])
def test_a_victim_that_is_deleted_on_its_way_out_is_gone(disks):
    world = crowded(disks=disks)
    world.wish("low", wishes.delete)
    world.come_to_rest()
    world.check_rest()
    assert world.vms["low"].is_gone
    assert state_of(world.vms["high"]) == "running"


def test_a_victim_that_is_resized_on_its_way_out_waits_in_its_new_size():
    world = crowded(disks=LOCAL)
    world.wish("low", wishes.resize, msgspec.structs.replace(LOW, cpu="4", disks=LOCAL))
    world.come_to_rest()
    world.check_rest()
    world.wish("high", wishes.delete)
    world.come_to_rest()
    world.check_rest()
    assert world.vms["low"].booked.cpu_millis == 4000
    assert world.hosts["id-h0"].site.driver.vms["low"].order.cpu_millis == 4000


def test_a_paused_victim_is_paused_again():
    world = World([SMALL])
    world.create("low", msgspec.structs.replace(LOW, disks=LOCAL))
    world.run(4)
    world.wish("low", wishes.pause)
    world.run(2)
    world.create("high", HIGH)
    world.come_to_rest()
    assert state_of(world.vms["low"]) == "pending"
    world.wish("high", wishes.delete)
    world.come_to_rest()
    world.check_rest()
    assert state_of(world.vms["low"]) == "paused"


def test_a_stopped_vm_loses_what_it_reserved_to_one_that_needs_it_more():
    world = World([SMALL])
    world.create("low", msgspec.structs.replace(LOW, disks=LOCAL, reserve=True))
    world.run(4)
    world.wish("low", wishes.stop)
    world.come_to_rest()
    assert world.vms["low"].booked.cpu_millis == 3000
    world.create("high", HIGH)
    world.come_to_rest()
    world.check_rest()
    assert state_of(world.vms["high"]) == "running"
    assert state_of(world.vms["low"]) == "stopped"
    assert world.vms["low"].booked == world.vms["low"].wanted.disk_only


def test_an_eviction_ends_what_the_victim_wanted_to_grow_by():
    world = World([SMALL])
    world.create("low", msgspec.structs.replace(LOW, cpu="2"))
    world.create("peer", msgspec.structs.replace(LOW, cpu="2"))
    world.run(4)
    world.wish("low", wishes.resize, msgspec.structs.replace(LOW, cpu="3"))
    world.decide()
    assert world.vms["low"].grow is not None
    world.become(placing.evicted(world.vms["low"], "low", "it must"))
    assert world.vms["low"].grow is None
    world.come_to_rest()
    world.check_rest()


def test_a_vm_that_moves_is_not_evicted():
    world = World([SMALL])
    world.create("low", LOW)
    world.run(4)
    world.join("h1")
    world.wish("low", wishes.migrate)
    world.decide()
    assert world.vms["low"].moving.phase == "preparing"
    vm = world.vms["low"]
    for uid, why in (("low", "it is moving to another host"), (vm.move.uid, "it is not there")):
        change = placing.evicted(vm, uid, "it must")
        assert change.facts == (EvictFailed(uid=uid, reason=why),)
        assert change.vm == vm


def test_a_vm_on_its_way_out_is_not_evicted_twice():
    world = crowded()
    vm = world.vms["low"]
    assert placing.evicted(vm, "low", "again").vm == vm
    assert placing.evicted(vm, "low", "again").facts == ()


def test_a_vm_that_was_placed_at_once_or_not_at_all_waits_when_it_is_evicted_later():
    world = World([SMALL])
    world.create("low", LOW, fails_unplaced=True)
    world.run(4)
    world.create("high", HIGH)
    world.come_to_rest()
    world.check_rest()
    assert state_of(world.vms["low"]) == "pending"
    assert not world.vms["low"].is_gone


def promised() -> World:
    """Return a world in which ``low`` is to make way for ``high``, which is to be placed at once or not at all."""
    world = World([SMALL])
    world.create("low", LOW)
    world.run(4)
    world.create("high", HIGH, fails_unplaced=True)
    world.decide()
    assert world.vms["low"].is_evicted
    assert state_of(world.vms["high"]) == "pending"
    return world


def test_a_vm_to_be_placed_at_once_or_not_at_all_waits_for_room_that_is_made_for_it():
    world = promised()
    world.come_to_rest()
    world.check_rest()
    assert world.running_on("high") == ["h0"]


def test_it_goes_where_the_room_that_was_promised_does_not_come():
    world = promised()
    world.silence(world.hosts["id-h0"])
    world.run(2)
    assert world.vms["high"].is_gone
    assert "not placed" in world.met
    world.come_to_rest()
    world.check_rest()
    assert world.running_on("low") == ["h0"]


def test_one_that_its_owner_stops_meanwhile_waits_when_it_is_started_again():
    world = promised()
    world.wish("high", wishes.stop)
    world.silence(world.hosts["id-h0"])
    world.wish("high", wishes.start)
    world.run(2)
    assert state_of(world.vms["high"]) == "pending"


MOVABLE = pytest.mark.parametrize("disks", [[], SHARED], ids=["diskless", "shared disk"])


def resting(disks: list[DiskSpec]) -> World:
    """Return a world in which ``low`` is stopped on the only host."""
    world = World([SMALL])
    world.create("low", msgspec.structs.replace(LOW, disks=disks))
    world.run(4)
    world.wish("low", wishes.stop)
    world.come_to_rest()
    return world


@MOVABLE
def test_a_stopped_vm_leaves_a_host_that_is_to_be_empty_and_starts_elsewhere(disks):
    world = resting(disks)
    world.wish("low", wishes.vacate)
    world.come_to_rest()
    world.check_rest()
    assert world.vms["low"].home is None
    assert state_of(world.vms["low"]) == "stopped"
    world.silence(world.hosts["id-h0"])
    world.join("h1")
    world.wish("low", wishes.start)
    world.run(4)
    assert world.running_on("low") == ["h1"]
    world.come_to_rest()
    world.check_rest()
    assert world.hosts["id-h0"].site.power("low") == "absent", "what remained there has gone, its disks have not"


@MOVABLE
def test_a_vm_that_left_its_host_and_is_deleted_leaves_nothing_behind(disks):
    world = resting(disks)
    world.wish("low", wishes.vacate)
    world.wish("low", wishes.delete)
    world.come_to_rest()
    world.check_rest()
    assert world.vms["low"].is_gone
    assert world.wires.disks == {}


@MOVABLE
@pytest.mark.parametrize("is_bound_first", [False, True])
def test_a_vm_that_starts_while_it_leaves_its_host_is_placed_anew(is_bound_first, disks):
    world = resting(disks)
    world.wish("low", wishes.vacate)
    world.wish("low", wishes.start)
    if is_bound_first:
        world.decide()
    world.come_to_rest()
    world.check_rest()
    assert state_of(world.vms["low"]) == "running"


@MOVABLE
def test_a_vm_that_waits_for_room_at_home_may_go_elsewhere_when_its_host_is_to_be_empty(disks):
    world = resting(disks)
    world.create("high", HIGH)
    world.come_to_rest()
    world.wish("low", wishes.start)
    world.come_to_rest()
    assert state_of(world.vms["low"]) == "pending"
    world.join("h1")
    world.wish("low", wishes.vacate)
    world.come_to_rest()
    world.check_rest()
    assert world.running_on("low") == ["h1"]


def test_a_vm_that_runs_or_has_a_local_disk_does_not_leave_its_host_like_that():
    world = World([SMALL])
    world.create("low", LOW)
    world.run(4)
    with pytest.raises(WrongStateError):
        wishes.vacate(world.vms["low"])
    with pytest.raises(WrongStateError):
        wishes.vacate(world.wish("low", wishes.stop).vm)  # its host has not said yet that it stopped
    with pytest.raises(NotMovableError):
        wishes.vacate(resting(LOCAL).vms["low"])
