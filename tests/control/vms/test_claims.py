"""VMs as guests of the engine, and decisions about them: what is claimed, under which name, and what fails."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.messages import VmReport
from hostler.control.vms import desired_state, placement, reports
from hostler.control.vms.guests import CAN_MIGRATE, HAS_BRIDGE, HAS_STORAGE, guest_of, vm_of_uid
from hostler.control.vms.spec import DiskSpec, NetworkSpec, VmSpec
from hostler.control.vms.state import Booking, state_of
from hostler.errors import InputError
from hostler.model import BindFailed, Gang, GangChanged, GuestArrived, GuestBound, GuestChanged, GuestLeft, amounts
from tests.control.vms.fleet_model import SMALL, FleetModel
from tests.control.vms.situations import (
    DISKLESS,
    HOME,
    LARGER,
    LOCAL,
    OTHER,
    bound,
    copying,
    evicted,
    made,
    preparing,
    running,
    stopped,
    told,
)

GIB = 2**30


def test_a_vm_arrives_in_its_project_with_all_that_it_needs():
    spec = msgspec.convert(
        {
            "cpu": "2",
            "memory": "1Gi",
            "disks": [{"size": "5Gi"}, {"size": "9Gi", "storage": "nfs"}],
            "network": {"kind": "bridge", "bridge": "br0"},
            "labels": {"app": "web"},
            "priority": 7,
            "strategy": "pack",
            "host_name": "h9",
            "host_selector": {"zone": "a"},
            "gang": "crew",
        },
        VmSpec,
    )
    [fact] = desired_state.create("vm", "p", "name", spec).facts
    guest = fact.guest
    assert (guest.uid, guest.name, guest.gang, guest.host) == ("vm", "name", "p/crew", "")
    assert guest.spec.requests == amounts({"cpu": 2000, "memory": GIB, "storage": 5 * GIB})
    assert (guest.spec.namespace, guest.spec.tenant, guest.spec.policy) == ("p", "p", "pack")
    assert (guest.spec.priority, guest.spec.host_name, guest.spec.labels) == (7, "h9", (("app", "web"),))
    assert dict(guest.spec.host_selector) == {
        "zone": "a",
        f"{HAS_STORAGE}nfs": "yes",
        f"{HAS_BRIDGE}br0": "yes",
    }


def test_uids_are_numbered_and_lead_back_to_the_vm():
    vm = running(LOCAL)
    assert vm.run.uid == "vm"
    vm = told(desired_state.stop(vm).vm, "stopped")
    assert vm.disk.uid == "vm.2"
    vm = bound(desired_state.start(vm).vm)
    assert vm.run.uid == "vm.3"
    assert desired_state.resize(vm, msgspec.structs.replace(LOCAL, cpu="3")).vm.grow.uid == "vm.4"
    assert {vm_of_uid(uid) for uid in ("vm", "vm.2", "vm.33")} == {"vm"}


def test_stopped_vm_gets_disk_claim_before_its_run_claim_goes():
    vm = desired_state.stop(running(LOCAL)).vm
    change = reports.apply_report(vm, "id-0", report(vm, "stopped"))
    assert [type(fact) for fact in change.facts] == [GuestArrived, GuestLeft]
    disk = change.facts[0].guest
    assert (disk.host, disk.spec.requests, disk.spec.tenant) == ("h0", amounts({"storage": 5 * GIB}), "p")
    assert disk.spec.priority == 2**31 - 1, "nobody's disk makes way"
    assert change.facts[1].uid == "vm"


def test_a_start_is_claimed_at_home_only_and_without_the_disk():
    [fact] = desired_state.start(stopped()).facts
    assert fact.guest.spec.host_name == "h0"
    assert fact.guest.spec.requests == amounts({"cpu": 2000, "memory": GIB})


def test_growth_is_claimed_at_home_without_wishes_about_others():
    spec = msgspec.convert(
        {
            "cpu": "2",
            "memory": "1Gi",
            "labels": {"app": "web"},
            "anti_affinity": [{"topology": "kubernetes.io/hostname", "selector": {"app": "web"}}],
            "devices": [{"kind": "gpu"}],
        },
        VmSpec,
    )
    change = desired_state.resize(running(spec), msgspec.structs.replace(spec, cpu="3"))
    [arrived] = [fact for fact in change.facts if isinstance(fact, GuestArrived)]
    assert arrived.guest.spec.requests == amounts({"cpu": 1000})
    assert arrived.guest.spec.devices == (), "it has its devices already"
    assert (arrived.guest.spec.host_name, arrived.guest.spec.labels, arrived.guest.spec.anti_affinity) == ("h0", (), ())
    grown = placement.book_placement(change.vm, change.vm.grow.uid, 1, HOME, ())
    assert [type(fact) for fact in grown.facts] == [GuestBound, GuestChanged, GuestLeft], "never less than is booked"
    assert grown.facts[1].guest.spec.requests == amounts({"cpu": 3000, "memory": GIB})


def test_a_move_is_claimed_anywhere_but_at_home_and_where_vms_can_land():
    [fact] = desired_state.migrate(running()).facts
    [term] = fact.guest.spec.host_affinity
    assert (term.names[0].operator, term.names[0].values) == ("NotIn", ("h0",))
    assert dict(fact.guest.spec.host_selector)[CAN_MIGRATE] == "yes"
    [fact] = desired_state.migrate(running(), "h1").facts
    assert fact.guest.spec.host_name == "h1"


def test_a_move_keeps_the_terms_of_the_vm():
    spec = msgspec.convert(
        {
            "cpu": "2",
            "memory": "1Gi",
            "host_affinity": [
                {"expressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("a", "b")
            ],
        },
        VmSpec,
    )
    [fact] = desired_state.migrate(running(spec)).facts
    assert [len(term.expressions) for term in fact.guest.spec.host_affinity] == [1, 1]
    assert all(term.names[0].values == ("h0",) for term in fact.guest.spec.host_affinity)


@pytest.mark.parametrize("target", ["h0", "h1"])
def test_a_vm_is_not_moved_to_where_it_is_or_may_not_be(target):
    vm = running(msgspec.structs.replace(DISKLESS, host_name="h0"))
    with pytest.raises(InputError) as caught:
        desired_state.migrate(vm, target)
    assert caught.value.hint


def test_a_decision_about_what_changed_since_fails_and_changes_nothing():
    vm = made()
    resized = desired_state.resize(vm, LARGER).vm
    for late in (resized, desired_state.stop(vm).vm, desired_state.delete(vm).vm, bound(vm)):
        change = placement.book_placement(late, "vm", vm.run.version, HOME, ())
        assert change.vm == late
        assert [type(fact) for fact in change.facts] == [BindFailed]
        assert change.facts[0].reason
        assert change.hosts == ()


def test_a_disk_is_not_looked_for_on_another_host_of_the_same_name():
    vm = desired_state.start(stopped()).vm
    change = placement.book_placement(vm, vm.run.uid, 1, Booking(host="id-new", name="h0"), ())
    assert change.vm == vm
    assert isinstance(change.facts[0], BindFailed)


def test_a_move_that_was_called_off_does_not_land():
    vm = desired_state.migrate(running()).vm
    stays = desired_state.cancel_move(vm).vm
    assert isinstance(placement.book_placement(stays, vm.move.uid, 1, OTHER, ()).facts[0], BindFailed)
    assert placement.note_wait(stays, vm.move.uid, "no room").vm == stays


def test_hold_is_noted_unless_the_claim_is_gone_or_bound():
    vm = placement.note_wait(made(), "vm", "no room").vm
    assert vm.why == "no room"
    assert bound(vm).why == ""
    for late in (running(), desired_state.stop(vm).vm):
        assert placement.note_wait(late, "vm", "no room").vm == late


def test_reason_of_vm_on_its_host_depends_on_whether_owner_named_it():
    vm, words = made(), {"why": "2 not the named host", "at_home": "2 not its host"}
    assert placement.note_wait(vm, "vm", **words).vm.why == "2 not its host"
    named = msgspec.structs.replace(vm, spec=msgspec.structs.replace(vm.spec, host_name="h9"))
    assert placement.note_wait(named, "vm", **words).vm.why == "2 not the named host"


def test_vm_to_be_placed_at_once_is_dropped_if_held_and_kept_if_placed():
    vm = desired_state.create("vm", "p", "name", DISKLESS, fails_unplaced=True).vm
    change = placement.note_wait(vm, "vm", "no room")
    assert change.vm.is_gone
    assert "no room" in change.failed
    assert change.facts == (GuestLeft(uid="vm"),)
    homeless = reports.apply_absence(placement.evict_vm(told(bound(vm), "running"), "vm", "it must").vm, "id-0").vm
    assert not placement.note_wait(homeless, homeless.run.uid, "no room").vm.is_gone


def test_a_leaving_vm_holds_its_room_and_says_so():
    [fact] = desired_state.delete(running()).facts
    assert fact.guest.spec.is_leaving
    assert (fact.guest.host, fact.guest.version) == ("h0", 2)


def test_the_guest_of_a_landing_is_at_the_target():
    vm = preparing()
    assert guest_of(vm, vm.move).host == "h1"
    assert guest_of(vm, vm.run).host == "h0"
    vm = told(copying(), "running", host=OTHER)
    assert (guest_of(vm, vm.run).host, vm.home.name) == ("h1", "h1")


def test_an_evicted_vm_with_a_disk_claims_its_home_again():
    vm = evicted()
    change = reports.apply_report(vm, "id-0", report(vm, "stopped"))
    assert [type(fact) for fact in change.facts] == [GuestArrived, GuestLeft, GuestArrived]
    assert change.facts[2].guest.spec.host_name == "h0"


def report(vm, state):
    return VmReport(vm="vm", state=state, generation=vm.home.generation)


def test_members_of_a_gang_stop_start_grow_and_move_alone():
    fleet = FleetModel([SMALL, SMALL])
    fleet.engine.apply(GangChanged(gang=Gang(name="crew", namespace="p", min_count=2)))
    spec = VmSpec(cpu="1", memory="1Gi", gang="crew", disks=[DiskSpec(size="5Gi", storage="shared")])
    fleet.create("a", spec)
    fleet.decide()
    assert state_of(fleet.vms["a"]) == "pending"
    fleet.create("b", spec)
    fleet.come_to_rest()
    fleet.check_rest()
    assert [state_of(vm) for vm in fleet.vms.values()] == ["running", "running"]
    for wish in (desired_state.stop, desired_state.start, desired_state.migrate):
        fleet.wish("a", wish)
        fleet.come_to_rest()
        fleet.check_rest()
    for cpu in ("2", "1"):
        fleet.wish("a", desired_state.resize, msgspec.structs.replace(spec, cpu=cpu))
        fleet.come_to_rest()
        fleet.check_rest()
    for name in "ab":
        fleet.wish(name, desired_state.delete)
    fleet.come_to_rest()
    fleet.check_rest()


def test_constraints_that_make_no_sense_are_refused_before_anybody_is_reported():
    vm = running()
    spec = msgspec.structs.replace(vm.spec, host_selector={"": "x"})
    with pytest.raises(InputError):
        desired_state.resize(vm, spec)
    assert NetworkSpec() == vm.spec.network


def test_vm_resized_while_stopping_starts_with_new_size():
    vm = desired_state.resize(desired_state.stop(running(LOCAL)).vm, msgspec.structs.replace(LOCAL, cpu="3")).vm
    assert vm.grow is None, "what it has goes back anyway"
    at_rest = told(vm, "stopped")
    assert at_rest.run is None
    assert desired_state.start(at_rest).vm.run.size.cpu_millis == 3000
    early = desired_state.start(vm).vm
    assert (early.run.size.cpu_millis, early.grow.size.cpu_millis) == (2000, 1000)


def test_reserved_vm_resized_while_stopped_reserves_its_growth():
    vm = stopped(msgspec.structs.replace(LOCAL, reserve=True))
    vm = desired_state.resize(vm, msgspec.structs.replace(vm.spec, cpu="3")).vm
    assert vm.grow.size.cpu_millis == 1000
    vm = bound(vm)
    assert (vm.booked.cpu_millis, vm.power) == (3000, "stopped")
