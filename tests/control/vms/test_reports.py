"""What hosts say: only what an order of its age says counts, only those who have the VM are heard."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.messages import Trouble, VmReport
from hostler.control.vms import desired_state, reports
from hostler.control.vms.orders import order_for
from hostler.control.vms.state import VmChange, state_of
from hostler.model import GuestLeft
from tests.control.vms.checks import check_told
from tests.control.vms.situations import (
    DISKLESS,
    LOCAL,
    OTHER,
    PERMANENT,
    RESTARTING,
    SHARED,
    SITUATIONS,
    aborting,
    bound,
    cleaning,
    copying,
    deleted,
    evicted,
    made,
    preparing,
    running,
    told,
)

STATES = ("absent", "creating", "stopped", "starting", "running", "paused", "stopping", "landing", "leaving", "left")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", SITUATIONS)
def test_a_stranger_is_not_heard(name, state):
    vm = SITUATIONS[name]
    report = VmReport(vm="vm", state=state, generation=vm.generation, landing_address="x", landing_secret="y")
    for change in (
        reports.apply_report(vm, "id-9", report),
        reports.apply_absence(vm, "id-9"),
        reports.lose_host(vm, "id-9"),
    ):
        assert change.vm == vm
        assert (change.facts, change.hosts) == ((), ())


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", SITUATIONS)
def test_a_report_of_an_order_that_was_never_given_changes_nothing(name, state):
    vm = SITUATIONS[name]
    for host in ("id-0", "id-1"):
        report = VmReport(vm="vm", state=state, generation=vm.generation + 1)
        assert reports.apply_report(vm, host, report).vm == vm


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", SITUATIONS)
def test_an_old_report_frees_nothing(name, state):
    vm = SITUATIONS[name]
    for host in ("id-0", "id-1"):
        report = VmReport(vm="vm", state=state, generation=0)
        change = reports.apply_report(vm, host, report)
        assert not any(isinstance(fact, GuestLeft) for fact in change.facts)
        assert change.vm.booked == vm.booked


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_same_report_twice_says_nothing_new(name):
    vm = SITUATIONS[name]
    for booking in (vm.home, vm.other):
        if booking is None:
            continue
        for state in STATES:
            report = VmReport(vm="vm", state=state, generation=booking.generation)
            change = reports.apply_report(vm, booking.host, report)
            once = change.vm
            check_told(vm, change)
            again = reports.apply_report(once, booking.host, report)
            assert again.facts == ()
            assert again.vm == once


@pytest.mark.parametrize("name", SITUATIONS)
def test_gone_counts_only_where_the_vm_was_to_be_absent(name):
    vm = SITUATIONS[name]
    for host in ("id-0", "id-1"):
        order = order_for(vm, host)
        change = reports.apply_absence(vm, host)
        check_told(vm, change)
        if order is None or order.power != "absent":
            assert change.vm == vm
        else:
            assert change.vm != vm
            assert order_for(change.vm, host) is None
            assert reports.apply_absence(vm, host, order.generation - 1).vm == vm, "by an older order: it may be back"
            assert reports.apply_absence(vm, host, order.generation) == change
            report = VmReport(vm="vm", state="absent", generation=order.generation)
            assert reports.apply_report(vm, host, report) == change, "absent by that order is gone"


def test_a_vm_has_arrived_when_the_target_says_so_of_this_move():
    vm = copying()
    stale = VmReport(vm="vm", state="running", generation=vm.other.generation - 1)
    assert reports.apply_report(vm, OTHER.host, stale).vm == vm
    arrived = told(vm, "running", host=OTHER)
    assert (arrived.home.name, arrived.other.name) == ("h1", "h0")
    assert arrived.home.generation == arrived.other.generation == vm.generation + 1


def test_vm_sent_before_source_died_is_awaited_at_target():
    vm = reports.lose_host(told(copying(), "left"), "id-0").vm
    assert (vm.home, vm.moving.phase) == (None, "copying")
    change = reports.apply_report(vm, OTHER.host, VmReport(vm="vm", state="running", generation=vm.other.generation))
    assert (change.vm.home.name, change.vm.other, change.vm.moving) == ("h1", None, None)
    assert state_of(told(change.vm, "running", host=OTHER)) == "running"


@pytest.mark.parametrize("state", STATES)
def test_what_has_not_arrived_when_its_source_is_dead_never_will(state):
    vm = reports.lose_host(copying(SHARED), "id-0").vm
    report = VmReport(vm="vm", state=state, landing_address="a", landing_secret="s")
    after = reports.apply_report(vm, OTHER.host, report).vm
    assert after.moving.phase == ("copying" if state == "running" else "aborting")
    assert state_of(reports.apply_absence(told(vm, "landing", host=OTHER, lag=1), OTHER.host).vm) == "stopped"


def test_a_target_that_cannot_take_it_ends_the_move():
    vm = preparing()
    change = reports.apply_report(
        vm,
        OTHER.host,
        VmReport(vm="vm", state="absent", trouble=PERMANENT, failed_generation=vm.other.generation),
    )
    assert change.vm.moving.phase == "aborting"
    assert "it cannot be" in change.unmoved
    assert not change.failed, "what else was wanted of it may come true"
    assert change.hosts == (OTHER.host,), "the source hears of it when the target has let go"
    stays = reports.apply_absence(change.vm, OTHER.host)
    assert stays.hosts == ("id-0",)
    assert stays.vm.home.generation == stays.vm.generation
    assert state_of(told(stays.vm, "running")) == "running"


def test_trouble_of_an_older_order_does_not_end_a_move():
    vm = copying()
    late = VmReport(vm="vm", state="running", trouble=PERMANENT, failed_generation=vm.home.generation - 1)
    assert reports.apply_report(vm, "id-0", late).vm.moving.phase == "copying"


def test_what_happens_after_a_move_is_settled_by_either_report():
    moved = reports.apply_absence(cleaning(), "id-0").vm
    assert moved.observed_generation < moved.generation
    assert told(moved, "running", host=OTHER).observed_generation == moved.generation
    confirmed = told(cleaning(), "running", host=OTHER)
    assert confirmed.observed_generation < confirmed.generation
    assert reports.apply_absence(confirmed, "id-0").vm.observed_generation == confirmed.generation


def test_a_shrink_before_a_move_is_given_back_after_it():
    vm = desired_state.migrate(desired_state.resize(running(), msgspec.structs.replace(DISKLESS, cpu="1")).vm).vm
    vm = bound(vm, OTHER)
    vm = told(vm, "landing", host=OTHER, lag=1, landing_address="a", landing_secret="s")
    vm = told(told(vm, "running", host=OTHER), "running", host=OTHER)
    assert vm.booked.cpu_millis == 2000
    change = reports.apply_absence(vm, "id-0")
    assert change.vm.booked.cpu_millis == 1000


@pytest.mark.parametrize("name", SITUATIONS)
def test_silence_changes_what_is_known_and_nothing_else(name):
    vm = SITUATIONS[name]
    quiet = reports.mark_unknown(vm)
    assert (quiet.facts, quiet.hosts) == ((), ())
    assert quiet.vm.is_unknown == (vm.home is not None)
    assert reports.mark_unknown(quiet.vm).vm == quiet.vm
    heard = reports.mark_heard(quiet.vm)
    assert (heard.facts, heard.hosts) == ((), ())
    assert heard.vm == msgspec.structs.replace(vm, is_unknown=False)


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_dead_host_has_nothing_and_is_proved_dead_once(name):
    vm = SITUATIONS[name]
    for host in ("id-0", "id-1"):
        change = reports.lose_host(vm, host)
        after = change.vm
        check_told(vm, change)
        assert after.home is not None or after.reported_generation == 0
        assert all(booking is None or booking.host != host for booking in (after.home, after.other))
        again = reports.lose_host(after, host)
        assert again.vm == after
        assert (again.facts, again.hosts) == ((), ())
        second = reports.lose_host(after, "id-1" if host == "id-0" else "id-0")
        both = second.vm
        check_told(after, second)
        assert both.home is None
        assert both.other is None
        assert both.moving is None
        assert both.is_gone or both.power != "absent"


def test_what_is_lost_depends_on_disks_and_on_what_was_wished():
    cases = {
        "lost": LOCAL,
        "pending": RESTARTING,
        "stopped": DISKLESS,
    }
    for state, spec in cases.items():
        assert state_of(reports.lose_host(running(spec), "id-0").vm) == state
    assert (
        state_of(reports.lose_host(running(msgspec.structs.replace(SHARED, when_lost="restart")), "id-0").vm)
        == "pending"
    )
    assert state_of(reports.lose_host(desired_state.stop(running(RESTARTING)).vm, "id-0").vm) == "stopped"


@pytest.mark.parametrize(
    ("vm", "failed", "unmoved"),
    [
        (SITUATIONS["bound"], "its host is gone, and it does not start elsewhere by itself", ""),
        (SITUATIONS["to be restarted"], "its host is gone, and it does not start elsewhere by itself", ""),
        (SITUATIONS["growing"], "its host is gone, and it does not start elsewhere by itself", ""),
        (desired_state.restart(running(RESTARTING)).vm, "", ""),
        (desired_state.migrate(running(RESTARTING)).vm, "", "the move is given up: its host is gone"),
        (desired_state.stop(running(DISKLESS)).vm, "", "its host is gone"),
        (SITUATIONS["to be moved while stopped"], "", "the move is given up: its host is gone"),
        (SITUATIONS["to be stopped"], "its host is gone, and its disk with it", ""),
    ],
)
def test_operation_fails_on_dead_host_unless_it_completes_elsewhere(vm, failed, unmoved):
    change = reports.lose_host(vm, "id-0")
    assert (change.failed, change.unmoved) == (failed, unmoved)
    goes_on = change.vm.observed_generation < change.vm.generation
    assert goes_on == (state_of(change.vm) in ("pending", "lost"))


def test_a_vm_that_lost_its_disk_tells_so_and_can_be_recreated():
    change = reports.lose_host(running(LOCAL), "id-0")
    assert change.failed
    assert change.vm.trouble.code == "disk_lost"
    assert change.vm.failed_generation == change.vm.generation
    restarted = desired_state.start(change.vm).vm
    assert (state_of(restarted), restarted.trouble, restarted.why) == ("pending", None, "")
    assert restarted.run.size == restarted.wanted


@pytest.mark.parametrize(
    ("vm", "state"),
    [
        pytest.param(running(LOCAL), "lost", id="its disk lay there"),
        pytest.param(desired_state.stop(running(LOCAL)).vm, "lost", id="and it was to be stopped"),
        pytest.param(running(SHARED), "creating", id="its disk lies elsewhere"),
        pytest.param(running(DISKLESS), "creating", id="it had none"),
        pytest.param(bound(made(LOCAL)), "creating", id="it was never made"),
        pytest.param(told(bound(made(LOCAL)), "creating", lag=1), "creating", id="it was being made"),
        pytest.param(deleted(running(LOCAL)), "deleting", id="it was to go"),
    ],
)
def test_vm_missing_on_its_host_is_lost_with_disk_or_rebuilt(vm, state):
    change = reports.apply_missing(vm, "id-0")
    check_told(vm, change)
    assert state_of(change.vm) == state
    assert change.vm.is_lost == bool(change.failed) == (state == "lost")
    assert change.vm.is_gone == (vm.power == "absent")
    assert reports.apply_missing(vm, OTHER.host) == VmChange(vm=vm), "it is none of another host's business"


def test_room_is_given_back_only_when_the_host_says_so():
    for vm in (running(LOCAL), evicted(), deleted(running(LOCAL))):
        booked = vm.booked
        for wish in (desired_state.stop, desired_state.delete):
            if vm.power != "absent":
                assert wish(vm).vm.booked == booked
    assert reports.apply_absence(deleted(running(LOCAL)), "id-0").vm.is_gone


def test_while_a_move_is_given_up_both_sides_are_booked():
    vm = aborting()
    assert vm.move.is_bound
    assert vm.run.is_bound
    change = reports.apply_absence(vm, "id-1")
    assert change.facts == (GuestLeft(uid=vm.move.uid),)


def test_what_a_host_tells_of_a_vm_before_it_has_made_it_is_no_fulfilment():
    vm = bound(made())
    early = told(vm, "absent", lag=2)
    assert early.observed_generation == 0
    assert state_of(early) == "creating"


def test_problem_text_names_the_vm_and_keeps_host_paths():
    vm = msgspec.structs.replace(running(LOCAL), id="f00d", name="web")
    assert vm.home is not None
    said = "f00d does not fit on this host: see /vms/f00d/log of hostler-f00d; beef-f00d takes it from f00d."
    trouble = Trouble(kind="blocked", code="no_room", message=said, hint="ls /vms/f00d")
    report = VmReport(vm="f00d", state="stopped", generation=0, trouble=trouble)
    told = reports.apply_report(vm, vm.home.host, report).vm.trouble
    assert told is not None
    assert told.message == (
        "web does not fit on this host: see /vms/f00d/log of hostler-f00d; beef-f00d takes it from web."
    )
    assert (told.hint, told.code) == ("ls /vms/f00d", "no_room")
