"""What hosts are ordered: all of the spec, never more than is booked, and to each side of a move its own part."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.messages import Disk, Image, Migration, Order, VmNetwork
from hostler.control.vms import desired_state, placement
from hostler.control.vms.orders import order_for, order_for_remains
from hostler.control.vms.spec import DiskSpec, ImageSpec, NetworkSpec, VmSpec
from tests.control.vms.situations import (
    HOME,
    LARGER,
    LOCAL,
    OTHER,
    SHARED,
    SITUATIONS,
    SMALLER,
    aborting,
    bound,
    cleaning,
    copying,
    deleted,
    made,
    preparing,
    running,
    stopped,
    told,
)

GIB = 2**30
SHA = "ab" * 32


def test_an_order_says_all_that_the_spec_says():
    spec = VmSpec(
        cpu="2500m",
        memory="3Gi",
        disks=[
            DiskSpec(size="5Gi", image=ImageSpec(url="https://a/b", sha256=SHA)),
            DiskSpec(size="6Gi", storage="nfs", image=ImageSpec(path="/images/x")),
            DiskSpec(size="7Gi"),
        ],
        kernel="/boot/k",
        initrd="/boot/i",
        kernel_arguments="quiet",
        network=NetworkSpec(kind="bridge", bridge="br0"),
    )
    assert order_for(bound(made(spec)), "id-0") == Order(
        vm="vm",
        generation=2,
        power="running",
        name="name",
        cpu_count=3,
        cpu_millis=2500,
        memory_bytes=3 * GIB,
        disks=(
            Disk(size_bytes=5 * GIB, image=Image(url="https://a/b", sha256=SHA)),
            Disk(size_bytes=6 * GIB, storage="nfs", image=Image(path="/images/x")),
            Disk(size_bytes=7 * GIB),
        ),
        network=VmNetwork(kind="bridge", bridge="br0"),
        kernel="/boot/k",
        initrd="/boot/i",
        kernel_arguments="quiet",
        since=2,
    )


def test_growth_is_ordered_when_it_is_booked_and_not_before():
    growing = desired_state.resize(running(), LARGER).vm
    assert order_for(growing, "id-0").cpu_millis == 2000
    assert order_for(growing, "id-0").generation == growing.home.generation
    assert order_for(bound(growing), "id-0").cpu_millis == 3000


def test_a_shrink_is_ordered_at_once_and_given_back_when_it_is_done():
    shrinking = desired_state.resize(running(), SMALLER).vm
    assert order_for(shrinking, "id-0").cpu_millis == 1000
    assert shrinking.booked.cpu_millis == 2000
    assert told(shrinking, "running", lag=1).booked.cpu_millis == 2000
    assert told(shrinking, "running").booked.cpu_millis == 1000


def test_a_restart_is_a_count_that_grows():
    vm = running()
    again = desired_state.restart(vm).vm
    assert [order_for(one, "id-0").restarts for one in (vm, again, desired_state.restart(again).vm)] == [0, 1, 2]


def test_only_a_vm_that_may_start_elsewhere_is_stopped_by_a_watchdog():
    restart = VmSpec(cpu="1", memory="1Gi", when_lost="restart")
    assert order_for(bound(made(restart)), "id-0").when_silent == "stop"
    assert order_for(running(), "id-0").when_silent == "keep"


def test_only_the_source_of_a_move_gets_the_secret():
    assert order_for(preparing(), "id-0").migration is None
    assert order_for(preparing(), "id-1").migration == Migration(is_source=False)
    assert order_for(copying(), "id-0").migration == Migration(is_source=True, address="a", secret="s")
    assert order_for(copying(), "id-1").migration == Migration(is_source=False)
    assert order_for(copying(), "id-0").generation == order_for(copying(), "id-1").generation
    for vm in (cleaning(), aborting()):
        sides = [order_for(vm, host.host) for host in (HOME, OTHER)]
        assert sorted(order.power for order in sides) == ["absent", "running"]
    assert order_for(cleaning(), "id-1").migration is None
    assert cleaning().moving.secret == ""


@pytest.mark.parametrize(("situation", "loser"), [(cleaning, "id-0"), (aborting, "id-1")])
def test_the_side_that_loses_a_vm_keeps_its_hands_off_shared_disks(situation, loser):
    vm = situation(SHARED)
    assert order_for(vm, loser).power == "absent"
    assert order_for(vm, loser).keeps_shared
    assert not order_for(situation(), loser).keeps_shared, "there are none"
    orders = [order_for(deleted(vm), host) for host in ("id-0", "id-1")]
    assert [(order.power, order.keeps_shared) for order in orders] == [("absent", False)] * 2


def test_remains_go_without_shared_disks_once_the_vms_own_host_has_it():
    vm = running(SHARED)
    order = order_for_remains(vm, "id-9")
    assert (order.power, order.keeps_shared, order.generation) == ("absent", True, vm.generation)
    for unknown in (made(SHARED), bound(made(SHARED))):
        assert order_for_remains(unknown, "id-9").power == "stopped", "no other host knows of these disks"


def test_remains_stay_while_they_are_all_of_a_vm_and_go_with_it():
    assert order_for_remains(stopped(LOCAL), "id-9").power == "stopped"
    assert order_for_remains(running(), "id-9").power == "absent"
    order = order_for_remains(deleted(made(SHARED)), "id-9")
    assert (order.power, order.keeps_shared) == ("absent", False)


def test_each_side_of_a_move_has_devices_of_its_own():
    spec = msgspec.convert({"cpu": "1", "memory": "1Gi", "devices": [{"kind": "gpu", "count": 2}]}, VmSpec)
    vm = placement.book_placement(made(spec), "vm", 1, HOME, (0, 3)).vm
    vm = desired_state.migrate(told(vm, "running")).vm
    vm = placement.book_placement(vm, vm.move.uid, 1, OTHER, (5, 6)).vm
    assert order_for(vm, "id-0").devices == ("gpu:0", "gpu:3")
    assert order_for(vm, "id-1").devices == ("gpu:5", "gpu:6")
    vm = told(vm, "landing", host=OTHER, lag=1, landing_address="a", landing_secret="s")
    assert order_for(told(vm, "running", host=OTHER), "id-1").devices == ("gpu:5", "gpu:6")


@pytest.mark.parametrize("name", SITUATIONS)
def test_no_order_asks_for_more_than_is_booked(name):
    vm = SITUATIONS[name]
    for host, claim in (("id-0", vm.run), ("id-1", vm.move)):
        if vm.home is not None and vm.home.host == "id-1":
            claim = vm.run if host == "id-1" else vm.move
        order = order_for(vm, host)
        if order is not None and order.power in ("running", "paused"):
            assert claim is not None
            assert claim.is_bound
            assert order.cpu_millis <= claim.size.cpu_millis
            assert order.memory_bytes <= claim.size.memory_bytes


@pytest.mark.parametrize("name", SITUATIONS)
def test_an_order_is_never_newer_than_the_vm(name):
    vm = SITUATIONS[name]
    for host in ("id-0", "id-1"):
        order = order_for(vm, host)
        assert order is None or order.generation <= vm.generation
