"""VMs that make way for others: they keep their disks, wait, and start again; without disks they go elsewhere."""

from __future__ import annotations

import msgspec
import pytest

from hostler.control.vms import desired_state, placement
from hostler.control.vms.errors import NotMovableError, WrongStateError
from hostler.control.vms.spec import DiskSpec, VmSpec
from hostler.control.vms.state import state_of
from hostler.model import EvictFailed
from tests.control.vms.fleet_model import GIB, SMALL, FleetModel

LOW = VmSpec(cpu="3", memory="1Gi")
HIGH = VmSpec(cpu="3", memory="1Gi", priority=10, host_name="h0")
LOCAL, SHARED = [DiskSpec(size="5Gi")], [DiskSpec(size="5Gi", storage="shared")]


def crowded(**changes) -> FleetModel:
    """Return a world in which ``low`` runs on the only host, and ``high`` just made the engine evict it."""
    fleet = FleetModel([SMALL])
    fleet.create("low", msgspec.structs.replace(LOW, **changes))
    fleet.run(4)
    assert state_of(fleet.vms["low"]) == "running"
    fleet.create("high", HIGH)
    fleet.decide()
    assert fleet.vms["low"].is_evicted
    assert state_of(fleet.vms["low"]) == "stopping"
    return fleet


@pytest.mark.parametrize("disks", [LOCAL, SHARED], ids=["local", "shared"])
def test_a_victim_keeps_its_disk_waits_and_starts_again_when_room_appears(disks):
    fleet = crowded(disks=disks)
    fleet.come_to_rest()
    fleet.check_rest()
    low, high, driver = fleet.vms["low"], fleet.vms["high"], fleet.hosts["id-h0"].stepped.driver
    assert state_of(high) == "running"
    assert state_of(low) == "pending"
    assert low.why
    assert low.home.name == "h0"
    assert driver.vms["low"].power == "stopped"
    assert low.booked.disk_bytes == (5 * GIB if disks is LOCAL else 0)
    fleet.wish("high", desired_state.delete)
    fleet.come_to_rest()
    fleet.check_rest()
    assert state_of(fleet.vms["low"]) == "running"
    assert driver.vms["low"].runs == 2
    assert ("delete", "low") not in driver.log
    assert driver.log.count(("create", "low")) == 1


def test_a_victim_without_disks_starts_on_another_host():
    fleet = crowded()
    fleet.join("h1")
    fleet.come_to_rest()
    fleet.check_rest()
    assert fleet.running_on("low") == ["h1"]
    assert fleet.running_on("high") == ["h0"]


def test_diskless_victim_waits_and_starts_when_a_host_joins():
    fleet = crowded()
    fleet.come_to_rest()
    fleet.check_rest()
    low = fleet.vms["low"]
    assert (low.home, state_of(low)) == (None, "pending")
    assert low.why
    fleet.join("h1")
    fleet.come_to_rest()
    fleet.check_rest()
    assert fleet.running_on("low") == ["h1"]


@pytest.mark.parametrize("disks", [[], LOCAL], ids=["diskless", "local"])
def test_a_victim_that_is_stopped_on_its_way_out_stays_stopped(disks):
    fleet = crowded(disks=disks)
    fleet.wish("low", desired_state.stop)
    fleet.come_to_rest()
    fleet.check_rest()
    assert state_of(fleet.vms["low"]) == "stopped"
    fleet.wish("high", desired_state.delete)
    fleet.come_to_rest()
    assert state_of(fleet.vms["low"]) == "stopped"
    fleet.wish("low", desired_state.start)
    fleet.come_to_rest()
    fleet.check_rest()
    assert state_of(fleet.vms["low"]) == "running"


@pytest.mark.parametrize("disks", [[], LOCAL], ids=["diskless", "local"])
def test_a_victim_that_is_deleted_on_its_way_out_is_gone(disks):
    fleet = crowded(disks=disks)
    fleet.wish("low", desired_state.delete)
    fleet.come_to_rest()
    fleet.check_rest()
    assert fleet.vms["low"].is_gone
    assert state_of(fleet.vms["high"]) == "running"


def test_a_victim_that_is_resized_on_its_way_out_waits_in_its_new_size():
    fleet = crowded(disks=LOCAL)
    fleet.wish("low", desired_state.resize, msgspec.structs.replace(LOW, cpu="4", disks=LOCAL))
    fleet.come_to_rest()
    fleet.check_rest()
    fleet.wish("high", desired_state.delete)
    fleet.come_to_rest()
    fleet.check_rest()
    assert fleet.vms["low"].booked.cpu_millis == 4000
    assert fleet.hosts["id-h0"].stepped.driver.vms["low"].order.cpu_millis == 4000


def test_a_paused_victim_is_paused_again():
    fleet = FleetModel([SMALL])
    fleet.create("low", msgspec.structs.replace(LOW, disks=LOCAL))
    fleet.run(4)
    fleet.wish("low", desired_state.pause)
    fleet.run(2)
    fleet.create("high", HIGH)
    fleet.come_to_rest()
    assert state_of(fleet.vms["low"]) == "pending"
    fleet.wish("high", desired_state.delete)
    fleet.come_to_rest()
    fleet.check_rest()
    assert state_of(fleet.vms["low"]) == "paused"


def test_a_stopped_vm_loses_what_it_reserved_to_one_that_needs_it_more():
    fleet = FleetModel([SMALL])
    fleet.create("low", msgspec.structs.replace(LOW, disks=LOCAL, reserve=True))
    fleet.run(4)
    fleet.wish("low", desired_state.stop)
    fleet.come_to_rest()
    assert fleet.vms["low"].booked.cpu_millis == 3000
    fleet.create("high", HIGH)
    fleet.come_to_rest()
    fleet.check_rest()
    assert state_of(fleet.vms["high"]) == "running"
    assert state_of(fleet.vms["low"]) == "stopped"
    assert fleet.vms["low"].booked == fleet.vms["low"].wanted.disk_only


def test_an_eviction_ends_what_the_victim_wanted_to_grow_by():
    fleet = FleetModel([SMALL])
    fleet.create("low", msgspec.structs.replace(LOW, cpu="2"))
    fleet.create("peer", msgspec.structs.replace(LOW, cpu="2"))
    fleet.run(4)
    fleet.wish("low", desired_state.resize, msgspec.structs.replace(LOW, cpu="3"))
    fleet.decide()
    assert fleet.vms["low"].grow is not None
    fleet.become(placement.evict_vm(fleet.vms["low"], "low", "it must"))
    assert fleet.vms["low"].grow is None
    fleet.come_to_rest()
    fleet.check_rest()


def test_a_vm_that_moves_is_not_evicted():
    fleet = FleetModel([SMALL])
    fleet.create("low", LOW)
    fleet.run(4)
    fleet.join("h1")
    fleet.wish("low", desired_state.migrate)
    fleet.decide()
    assert fleet.vms["low"].moving.phase == "preparing"
    vm = fleet.vms["low"]
    for uid, why in (("low", "it is moving to another host"), (vm.move.uid, "it is not there")):
        change = placement.evict_vm(vm, uid, "it must")
        assert change.facts == (EvictFailed(uid=uid, reason=why),)
        assert change.vm == vm


def test_a_vm_on_its_way_out_is_not_evicted_twice():
    fleet = crowded()
    vm = fleet.vms["low"]
    assert placement.evict_vm(vm, "low", "again").vm == vm
    assert placement.evict_vm(vm, "low", "again").facts == ()


def test_vm_placed_at_once_waits_when_evicted_later():
    fleet = FleetModel([SMALL])
    fleet.create("low", LOW, fails_unplaced=True)
    fleet.run(4)
    fleet.create("high", HIGH)
    fleet.come_to_rest()
    fleet.check_rest()
    assert state_of(fleet.vms["low"]) == "pending"
    assert not fleet.vms["low"].is_gone


def promised() -> FleetModel:
    """Return a world in which ``low`` is to make way for ``high``, which is to be placed at once or not at all."""
    fleet = FleetModel([SMALL])
    fleet.create("low", LOW)
    fleet.run(4)
    fleet.create("high", HIGH, fails_unplaced=True)
    fleet.decide()
    assert fleet.vms["low"].is_evicted
    assert state_of(fleet.vms["high"]) == "pending"
    return fleet


def test_vm_to_be_placed_at_once_waits_for_preempted_room():
    fleet = promised()
    fleet.come_to_rest()
    fleet.check_rest()
    assert fleet.running_on("high") == ["h0"]


def test_it_goes_where_the_room_that_was_promised_does_not_come():
    fleet = promised()
    fleet.silence(fleet.hosts["id-h0"])
    fleet.run(2)
    assert fleet.vms["high"].is_gone
    assert "not placed" in fleet.met
    fleet.come_to_rest()
    fleet.check_rest()
    assert fleet.running_on("low") == ["h0"]


def test_one_that_its_owner_stops_meanwhile_waits_when_it_is_started_again():
    fleet = promised()
    fleet.wish("high", desired_state.stop)
    fleet.silence(fleet.hosts["id-h0"])
    fleet.wish("high", desired_state.start)
    fleet.run(2)
    assert state_of(fleet.vms["high"]) == "pending"


MOVABLE = pytest.mark.parametrize("disks", [[], SHARED], ids=["diskless", "shared disk"])


def resting(disks: list[DiskSpec]) -> FleetModel:
    """Return a world in which ``low`` is stopped on the only host."""
    fleet = FleetModel([SMALL])
    fleet.create("low", msgspec.structs.replace(LOW, disks=disks))
    fleet.run(4)
    fleet.wish("low", desired_state.stop)
    fleet.come_to_rest()
    return fleet


@MOVABLE
def test_stopped_vm_leaves_drained_host_and_starts_elsewhere(disks):
    fleet = resting(disks)
    fleet.wish("low", desired_state.vacate)
    fleet.come_to_rest()
    fleet.check_rest()
    assert fleet.vms["low"].home is None
    assert state_of(fleet.vms["low"]) == "stopped"
    fleet.silence(fleet.hosts["id-h0"])
    fleet.join("h1")
    fleet.wish("low", desired_state.start)
    fleet.run(4)
    assert fleet.running_on("low") == ["h1"]
    fleet.come_to_rest()
    fleet.check_rest()
    assert fleet.hosts["id-h0"].stepped.power("low") == "absent", "what remained there has gone, its disks have not"


@MOVABLE
def test_a_vm_that_left_its_host_and_is_deleted_leaves_nothing_behind(disks):
    fleet = resting(disks)
    fleet.wish("low", desired_state.vacate)
    fleet.wish("low", desired_state.delete)
    fleet.come_to_rest()
    fleet.check_rest()
    assert fleet.vms["low"].is_gone
    assert fleet.wires.disks == {}


@MOVABLE
@pytest.mark.parametrize("is_bound_first", [False, True])
def test_a_vm_that_starts_while_it_leaves_its_host_is_placed_again(is_bound_first, disks):
    fleet = resting(disks)
    fleet.wish("low", desired_state.vacate)
    fleet.wish("low", desired_state.start)
    if is_bound_first:
        fleet.decide()
    fleet.come_to_rest()
    fleet.check_rest()
    assert state_of(fleet.vms["low"]) == "running"


@MOVABLE
def test_vm_waiting_at_home_may_leave_a_drained_host(disks):
    fleet = resting(disks)
    fleet.create("high", HIGH)
    fleet.come_to_rest()
    fleet.wish("low", desired_state.start)
    fleet.come_to_rest()
    assert state_of(fleet.vms["low"]) == "pending"
    fleet.join("h1")
    fleet.wish("low", desired_state.vacate)
    fleet.come_to_rest()
    fleet.check_rest()
    assert fleet.running_on("low") == ["h1"]


def test_running_vm_or_local_disk_does_not_vacate_host():
    fleet = FleetModel([SMALL])
    fleet.create("low", LOW)
    fleet.run(4)
    with pytest.raises(WrongStateError):
        desired_state.vacate(fleet.vms["low"])
    with pytest.raises(WrongStateError):
        desired_state.vacate(fleet.wish("low", desired_state.stop).vm)  # its host has not said yet that it stopped
    with pytest.raises(NotMovableError):
        desired_state.vacate(resting(LOCAL).vms["low"])
