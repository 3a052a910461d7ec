"""A stopped VM that owns nothing on its host: it is moved without being started, and starts where it is then."""

from __future__ import annotations

import msgspec
import pytest

from hostler.control.vms import desired_state, reports
from hostler.control.vms.errors import MigratingError, WrongStateError
from hostler.control.vms.guests import CAN_MIGRATE
from hostler.control.vms.reasons import host_left_by_move
from hostler.control.vms.spec import DiskSpec, Size, VmSpec
from hostler.control.vms.state import state_of
from hostler.errors import InputError
from tests.control.vms.fleet_model import SMALL, FleetModel
from tests.control.vms.situations import LOCAL, SITUATIONS, stopped

DISKLESS = VmSpec(cpu="2", memory="1Gi")
SHARED = msgspec.structs.replace(DISKLESS, disks=[DiskSpec(size="5Gi", storage="shared")])
MOVABLE = pytest.mark.parametrize("spec", [DISKLESS, SHARED], ids=["diskless", "shared disk"])


def at_rest(spec: VmSpec = DISKLESS) -> FleetModel:
    """Return a world in which VM a is stopped on h0, and h1 has room."""
    fleet = FleetModel([SMALL])
    fleet.create("a", spec)
    fleet.run(4)
    fleet.wish("a", desired_state.stop)
    fleet.come_to_rest()
    fleet.join("h1")
    return fleet


def told_engine(fleet: FleetModel):
    """Ask for a move, and return the shape of what the engine is asked for."""
    [fact] = fleet.wish("a", desired_state.migrate).facts
    return fact.guest.spec


@MOVABLE
@pytest.mark.parametrize("target", ["", "h1"])
def test_a_stopped_vm_is_moved_and_starts_where_it_is_then(spec, target):
    fleet = at_rest(spec)
    fleet.wish("a", desired_state.migrate, target)
    assert state_of(fleet.vms["a"]) == "migrating"
    fleet.come_to_rest()
    fleet.check_rest()
    vm = fleet.vms["a"]
    assert (state_of(vm), vm.home.name, vm.other, vm.booked) == ("stopped", "h1", None, Size())
    assert vm.observed_generation == vm.generation, "the move is done"
    assert fleet.hosts["id-h0"].stepped.power("a") == "absent"
    fleet.wish("a", desired_state.start)
    fleet.come_to_rest()
    fleet.check_rest()
    assert fleet.running_on("a") == ["h1"]


def test_hosts_that_cannot_migrate_will_do_and_nobody_is_stopped_for_it():
    shape = told_engine(at_rest())
    assert CAN_MIGRATE not in dict(shape.host_selector)
    assert not shape.may_preempt
    assert host_left_by_move(shape) == "h0", "owners are told which host it is to leave"


def test_one_for_which_no_host_has_room_stays_with_the_reason():
    fleet = at_rest()
    fleet.create("full", msgspec.structs.replace(DISKLESS, cpu="4", host_name="h1"))
    fleet.come_to_rest()
    change = fleet.wish("a", desired_state.migrate)
    assert change.vm.moving is not None
    fleet.come_to_rest()
    fleet.check_rest()
    vm = fleet.vms["a"]
    assert (state_of(vm), vm.home.name) == ("stopped", "h0")
    assert "not moved: no room" in fleet.notes
    assert fleet.running_on("full") == ["h1"]


def test_it_is_stopped_at_its_new_host_before_that_has_said_anything():
    vm = SITUATIONS["moved while stopped"]
    assert state_of(reports.apply_absence(vm, "id-0").vm) == "stopped"


def test_landing_vm_is_neither_started_nor_at_rest():
    fleet = at_rest()
    fleet.wish("a", desired_state.migrate)
    vm = fleet.vms["a"]
    with pytest.raises(MigratingError):
        desired_state.start(vm)
    assert not desired_state.is_at_rest(vm), "a drained host waits for it"


def test_a_move_that_is_called_off_leaves_it_stopped_where_it_is():
    fleet = at_rest()
    fleet.wish("a", desired_state.migrate)
    assert fleet.wish("a", desired_state.cancel_move).unmoved == "it was called off"
    fleet.come_to_rest()
    fleet.check_rest()
    assert (state_of(fleet.vms["a"]), fleet.vms["a"].home.name) == ("stopped", "h0")


@MOVABLE
@pytest.mark.parametrize("dead", ["id-h0", "id-h1"])
@pytest.mark.parametrize("decided", [False, True])
def test_whichever_host_dies_meanwhile_it_is_stopped_and_starts_again(spec, dead, decided):
    fleet = at_rest(spec)
    fleet.wish("a", desired_state.migrate)
    if decided:
        fleet.decide()
    fleet.prove_dead(fleet.hosts[dead])
    fleet.come_to_rest()
    fleet.check_rest()
    assert state_of(fleet.vms["a"]) == "stopped"
    fleet.wish("a", desired_state.start)
    fleet.come_to_rest()
    fleet.check_rest()
    assert len(fleet.running_on("a")) == 1


@MOVABLE
def test_one_that_is_deleted_on_its_way_is_gone_from_both(spec):
    fleet = at_rest(spec)
    fleet.wish("a", desired_state.migrate)
    fleet.decide()
    fleet.wish("a", desired_state.delete)
    fleet.come_to_rest()
    fleet.check_rest()
    assert fleet.vms["a"].is_gone
    assert "a" not in fleet.wires.disks


@pytest.mark.parametrize(
    ("vm", "error", "told"),
    [
        (stopped(LOCAL), InputError, "it has a disk on its host"),
        (stopped(msgspec.structs.replace(SHARED, reserve=True)), WrongStateError, "does not run"),
        (SITUATIONS["to be stopped"], InputError, "it has a disk on its host"),
        (desired_state.vacate(stopped(DISKLESS)).vm, WrongStateError, "does not run"),
        (reports.mark_unknown(stopped(DISKLESS)).vm, WrongStateError, "is silent"),
    ],
)
def test_one_that_keeps_something_on_its_host_or_is_on_none_is_refused(vm, error, told):
    with pytest.raises(error, match=told):
        desired_state.migrate(vm)
