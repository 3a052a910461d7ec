"""A stopped VM that owns nothing on its host: it is moved without being started, and starts where it is then."""

from __future__ import annotations

import msgspec
import pytest

from hostler.control.vms import reports, wishes
from hostler.control.vms.errors import MigratingError, WrongStateError
from hostler.control.vms.guests import CAN_MIGRATE
from hostler.control.vms.reasons import left_by
from hostler.control.vms.spec import DiskSpec, Size, VmSpec
from hostler.control.vms.state import state_of
from hostler.errors import InputError
from tests.control.vms.situations import LOCAL, SITUATIONS, stopped
from tests.control.vms.world import SMALL, World

DISKLESS = VmSpec(cpu="2", memory="1Gi")
SHARED = msgspec.structs.replace(DISKLESS, disks=[DiskSpec(size="5Gi", storage="shared")])
MOVABLE = pytest.mark.parametrize("spec", [DISKLESS, SHARED], ids=["diskless", "shared disk"])


def at_rest(spec: VmSpec = DISKLESS) -> World:
    """Return a world in which VM a is stopped on h0, and h1 has room."""
    world = World([SMALL])
    world.create("a", spec)
    world.run(4)
    world.wish("a", wishes.stop)
    world.come_to_rest()
    world.join("h1")
    return world


def told_engine(world: World):
    """Ask for a move, and return the shape of what the engine is asked for."""
    [fact] = world.wish("a", wishes.migrate).facts
    return fact.guest.spec


@MOVABLE
@pytest.mark.parametrize("target", ["", "h1"])
def test_a_stopped_vm_is_moved_and_starts_where_it_is_then(spec, target):
    world = at_rest(spec)
    world.wish("a", wishes.migrate, target)
    assert state_of(world.vms["a"]) == "migrating"
    world.come_to_rest()
    world.check_rest()
    vm = world.vms["a"]
    assert (state_of(vm), vm.home.name, vm.other, vm.booked) == ("stopped", "h1", None, Size())
    assert vm.observed_generation == vm.generation, "the move is done"
    assert world.hosts["id-h0"].site.power("a") == "absent"
    world.wish("a", wishes.start)
    world.come_to_rest()
    world.check_rest()
    assert world.running_on("a") == ["h1"]


def test_hosts_that_cannot_migrate_will_do_and_nobody_is_stopped_for_it():
    shape = told_engine(at_rest())
    assert CAN_MIGRATE not in dict(shape.host_selector)
    assert not shape.may_preempt
    assert left_by(shape) == "h0", "owners are told which host it is to leave"


def test_one_for_which_no_host_has_room_stays_with_the_reason():
    world = at_rest()
    world.create("full", msgspec.structs.replace(DISKLESS, cpu="4", host_name="h1"))
    world.come_to_rest()
    change = world.wish("a", wishes.migrate)
    assert change.vm.moving is not None
    world.come_to_rest()
    world.check_rest()
    vm = world.vms["a"]
    assert (state_of(vm), vm.home.name) == ("stopped", "h0")
    assert "not moved: no room" in world.notes
    assert world.running_on("full") == ["h1"]


def test_it_is_stopped_at_its_new_host_before_that_has_said_anything():
    vm = SITUATIONS["moved while stopped"]
    assert state_of(reports.gone(vm, "id-0").vm) == "stopped"


def test_until_it_has_arrived_it_is_neither_started_nor_taken_for_one_at_rest():
    world = at_rest()
    world.wish("a", wishes.migrate)
    vm = world.vms["a"]
    with pytest.raises(MigratingError):
        wishes.start(vm)
    assert not wishes.is_at_rest(vm), "a drained host waits for it"


def test_a_move_that_is_called_off_leaves_it_stopped_where_it_is():
    world = at_rest()
    world.wish("a", wishes.migrate)
    assert world.wish("a", wishes.cancel_move).unmoved == "it was called off"
    world.come_to_rest()
    world.check_rest()
    assert (state_of(world.vms["a"]), world.vms["a"].home.name) == ("stopped", "h0")


@MOVABLE
@pytest.mark.parametrize("dead", ["id-h0", "id-h1"])
@pytest.mark.parametrize("decided", [False, True])
def test_whichever_host_dies_meanwhile_it_is_stopped_and_starts_again(spec, dead, decided):
    world = at_rest(spec)
    world.wish("a", wishes.migrate)
    if decided:
        world.decide()
    world.prove_dead(world.hosts[dead])
    world.come_to_rest()
    world.check_rest()
    assert state_of(world.vms["a"]) == "stopped"
    world.wish("a", wishes.start)
    world.come_to_rest()
    world.check_rest()
    assert len(world.running_on("a")) == 1


@MOVABLE
def test_one_that_is_deleted_on_its_way_is_gone_from_both(spec):
    world = at_rest(spec)
    world.wish("a", wishes.migrate)
    world.decide()
    world.wish("a", wishes.delete)
    world.come_to_rest()
    world.check_rest()
    assert world.vms["a"].is_gone
    assert "a" not in world.wires.disks


@pytest.mark.parametrize(
    ("vm", "error", "told"),
    [
        (stopped(LOCAL), InputError, "it has a disk on its host"),
        (stopped(msgspec.structs.replace(SHARED, reserve=True)), WrongStateError, "does not run"),
        (SITUATIONS["to be stopped"], InputError, "it has a disk on its host"),
        (wishes.vacate(stopped(DISKLESS)).vm, WrongStateError, "does not run"),
        (reports.silent(stopped(DISKLESS)).vm, WrongStateError, "is silent"),
    ],
)
def test_one_that_keeps_something_on_its_host_or_is_on_none_is_refused(vm, error, told):
    with pytest.raises(error, match=told):
        wishes.migrate(vm)
