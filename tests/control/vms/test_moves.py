"""A live migration with the real agents on both sides and something at every arrow: crash, change of mind, death.

In the end the VM is on one side or on none, what was booked for the other is free again, and it never ran twice.
"""

from __future__ import annotations

import pytest

from hostler.control.vms import desired_state
from hostler.control.vms.errors import MigratingError, WrongStateError
from hostler.control.vms.spec import DiskSpec, Size, VmSpec
from hostler.control.vms.state import state_of
from tests.control.vms.fleet_model import SMALL, FleetModel

DISKLESS = VmSpec(cpu="2", memory="1Gi", when_lost="restart")
SHARED = VmSpec(cpu="2", memory="1Gi", disks=[DiskSpec(size="5Gi", storage="shared")])
ARROWS = range(60)


class MoveModel:
    def __init__(self, spec: VmSpec = DISKLESS) -> None:
        self.fleet = FleetModel([SMALL])
        self.fleet.create("a", spec)
        self.fleet.run(4)
        assert state_of(self.vm) == "running"
        self.source = self.fleet.hosts["id-h0"]
        self.target = self.fleet.join("h1")
        self.fleet.wish("a", desired_state.migrate)

    @property
    def vm(self):
        return self.fleet.vms["a"]

    def steps(self):
        """Yield at every arrow between the three."""
        fleet = self.fleet
        for _ in range(6):
            fleet.step()
            yield
            fleet.carry_out()
            yield
            for host in (self.target, self.source):
                fleet.send_orders(host)
                fleet.deliver_orders(host)
                yield
                yield from self._work(host)
                if not host.is_dead:
                    fleet.send_report(host)
                    yield
                    fleet.deliver_report(host)
                    yield

    def _work(self, host):
        if host.is_dead:
            return
        host.stepped.look()
        for action in host.stepped.actions():
            host.stepped.begin(action)
            yield
            if action.vm in host.stepped.lanes:
                host.stepped.do(action.vm)
                self.fleet.check()
                yield
            if action.vm in host.stepped.lanes:
                host.stepped.finish(action.vm)
                yield

    def until(self, arrow: int, happens) -> None:
        """Go on to an arrow, let something happen there, and go on to the end."""
        for number, _ in enumerate(self.steps()):
            if number == arrow:
                happens()
        self.fleet.come_to_rest()
        self.fleet.check_rest()

    def crash(self, *hosts) -> None:
        for host in hosts:
            host.stepped.kill()
            self.fleet.register(host)

    def powers(self) -> tuple[str, str]:
        return self.source.stepped.power("a"), self.target.stepped.power("a")

    def was_thrown_away_after_it_arrived(self) -> bool:
        log = self.target.stepped.driver.log
        return ("land", "a") in log and ("delete", "a") in log[log.index(("land", "a")) :]


@pytest.mark.parametrize("spec", [DISKLESS, SHARED], ids=["diskless", "shared disk"])
def test_a_vm_moves_and_its_books_move_with_it(spec):
    mover = MoveModel(spec)
    phases: list[str] = []
    for _ in mover.steps():
        if mover.vm.moving is not None and mover.vm.moving.phase not in phases[-1:]:
            phases.append(mover.vm.moving.phase)
    assert phases == ["placing", "preparing", "copying", "cleaning"]
    assert mover.powers() == ("absent", "running")
    assert mover.target.stepped.driver.vms["a"].runs == 1, "it was never started again"
    assert mover.vm.home.name == "h1"
    assert mover.vm.observed_generation == mover.vm.generation
    assert mover.fleet.engine_holds() == {"h1": mover.vm.wanted}


def test_there_are_as_many_arrows_as_are_tried():
    assert sum(1 for _ in MoveModel().steps()) == len(ARROWS)


@pytest.mark.parametrize("spec", [DISKLESS, SHARED], ids=["diskless", "shared disk"])
@pytest.mark.parametrize("victims", ["source", "target", "both"])
@pytest.mark.parametrize("arrow", ARROWS)
def test_a_crash_of_agents_at_any_arrow_does_not_stop_the_move(arrow, victims, spec):
    mover = MoveModel(spec)
    hosts = {"source": [mover.source], "target": [mover.target], "both": [mover.source, mover.target]}[victims]
    mover.until(arrow, lambda: mover.crash(*hosts))
    assert mover.powers() == ("absent", "running")
    assert mover.target.stepped.driver.vms["a"].runs == 1


@pytest.mark.parametrize("spec", [DISKLESS, SHARED], ids=["diskless", "shared disk"])
@pytest.mark.parametrize("crashes", [False, True], ids=["", "and both agents crash"])
@pytest.mark.parametrize("arrow", ARROWS)
def test_a_move_can_be_called_off_at_any_arrow(arrow, crashes, spec):
    mover = MoveModel(spec)
    answers = []

    def call_off() -> None:
        try:
            mover.fleet.wish("a", desired_state.cancel_move)
            answers.append("called off")
        except (MigratingError, WrongStateError) as error:
            answers.append(error.code)
        if crashes:
            mover.crash(mover.source, mover.target)

    mover.until(arrow, call_off)
    assert sorted(mover.powers()) == ["absent", "running"]
    assert mover.vm.home.name == ("h0" if mover.powers()[0] == "running" else "h1")
    if "called off" not in answers:
        assert mover.powers() == ("absent", "running")


@pytest.mark.parametrize("crashes", [False, True], ids=["", "and both agents crash"])
def test_driver_leaves_disks_to_source_when_landed_move_is_canceled(crashes):
    mover = MoveModel(SHARED)
    for _ in mover.steps():
        if ("land", "a") in mover.target.stepped.driver.log:
            break
    assert mover.vm.moving.phase == "copying", "nobody has said yet that it landed"
    mover.fleet.wish("a", desired_state.cancel_move)
    if crashes:
        mover.crash(mover.source, mover.target)
    mover.fleet.come_to_rest()
    mover.fleet.check_rest()
    assert mover.was_thrown_away_after_it_arrived()
    assert mover.powers() == ("running", "absent")
    assert mover.fleet.wires.disks == {"a": "h0"}
    assert mover.fleet.wires.made == {"a": 1}
    mover.fleet.wish("a", desired_state.delete)
    mover.fleet.come_to_rest()
    assert mover.fleet.wires.disks == {}


def test_vm_deleted_during_aborted_move_leaves_no_disk():
    mover = MoveModel(SHARED)
    for _ in mover.steps():
        if ("land", "a") in mover.target.stepped.driver.log:
            break
    mover.fleet.wish("a", desired_state.cancel_move)
    mover.fleet.exchange(mover.target)
    assert mover.powers() == ("left", "absent"), "the target let go, the source has not started it again"
    mover.fleet.wish("a", desired_state.delete)
    mover.fleet.come_to_rest()
    mover.fleet.check_rest()
    assert mover.vm.is_gone
    assert mover.fleet.wires.disks == {}


@pytest.mark.parametrize("crashes", [False, True], ids=["", "and both agents crash"])
@pytest.mark.parametrize("arrow", ARROWS)
def test_a_vm_deleted_at_any_arrow_is_gone_everywhere(arrow, crashes):
    mover = MoveModel()

    def delete() -> None:
        mover.fleet.wish("a", desired_state.delete)
        if crashes:
            mover.crash(mover.source, mover.target)

    mover.until(arrow, delete)
    assert mover.powers() == ("absent", "absent")
    assert mover.vm.is_gone
    assert mover.fleet.engine_holds() == {}


@pytest.mark.parametrize("spec", [DISKLESS, SHARED], ids=["diskless", "shared disk"])
@pytest.mark.parametrize("victim", ["source", "target"])
@pytest.mark.parametrize("arrow", ARROWS)
def test_the_death_of_one_side_at_any_arrow_leaves_the_vm_to_the_other(arrow, victim, spec):
    mover = MoveModel(spec)
    dead = mover.source if victim == "source" else mover.target
    mover.until(arrow, lambda: mover.fleet.prove_dead(dead))
    alive = mover.target if victim == "source" else mover.source
    if state_of(mover.vm) == "stopped":  # it did not arrive, or it died where it had arrived
        assert mover.vm.spec is SHARED or mover.vm.spec.disks
        assert mover.vm.home is None
    else:
        assert alive.stepped.power("a") == "running"
        assert mover.vm.home.host == alive.id
    assert spec is DISKLESS or not mover.was_thrown_away_after_it_arrived()


@pytest.mark.parametrize("first", ["delete", "death"])
@pytest.mark.parametrize("victim", ["source", "target"])
@pytest.mark.parametrize("arrow", ARROWS)
def test_a_vm_that_is_deleted_while_a_side_dies_ends(arrow, victim, first):
    mover = MoveModel()
    dead = mover.source if victim == "source" else mover.target
    deeds = [lambda: mover.fleet.wish("a", desired_state.delete), lambda: mover.fleet.prove_dead(dead)]
    mover.until(arrow, lambda: [deed() for deed in (deeds if first == "delete" else reversed(deeds))])
    assert mover.vm.is_gone
    assert mover.fleet.engine_holds() == {}


@pytest.mark.parametrize("arrow", ARROWS)
def test_both_sides_may_die_one_after_the_other(arrow):
    mover = MoveModel()

    def die() -> None:
        mover.fleet.prove_dead(mover.source)
        mover.fleet.prove_dead(mover.target)

    mover.until(arrow, die)
    assert state_of(mover.vm) == "pending"
    assert mover.vm.why
    mover.fleet.join("h2")
    mover.fleet.come_to_rest()
    assert mover.vm.home.name == "h2"
    assert state_of(mover.vm) == "running"


@pytest.mark.parametrize("victim", ["source", "target"])
@pytest.mark.parametrize("arrow", ARROWS)
def test_silence_at_any_arrow_only_delays(arrow, victim):
    mover = MoveModel()
    host = mover.source if victim == "source" else mover.target
    mover.until(arrow, lambda: mover.fleet.silence(host))
    assert mover.powers() == ("absent", "running")
    assert mover.target.stepped.driver.vms["a"].runs == 1


def test_a_target_that_prepares_again_is_sent_to_where_it_is_now():
    mover = MoveModel()
    for _ in mover.steps():
        if mover.vm.moving is not None and mover.vm.moving.phase == "copying":
            break
    before = mover.vm
    mover.target.stepped.driver.vms.clear()  # its landing is lost, with its secret
    mover.crash(mover.target)
    mover.fleet.exchange(mover.target)
    mover.fleet.exchange(mover.target)
    assert mover.vm.moving.secret != before.moving.secret
    assert mover.vm.home.generation == before.home.generation, "a newer order would let the source start what it sent"
    mover.fleet.come_to_rest()
    mover.fleet.check_rest()
    assert mover.powers() == ("absent", "running")


def test_move_without_room_is_aborted_and_frees_its_claim():
    fleet = FleetModel([SMALL])
    fleet.create("a", DISKLESS)
    fleet.run(4)
    change = fleet.wish("a", desired_state.migrate)
    assert state_of(change.vm) == "migrating"
    fleet.decide()
    assert fleet.vms["a"].moving is None
    assert any("not moved" in note for note in fleet.notes)
    assert fleet.vms["a"].observed_generation == fleet.vms["a"].generation
    assert fleet.engine_holds() == {"h0": Size(cpu_millis=2000, memory_bytes=2**30)}
