"""What an agent says of VMs without an order: how much they take, and that they are in the way of another."""

from __future__ import annotations

from hostler.agent.core.decisions import first_state, observe
from hostler.agent.core.plan import plan
from hostler.agent.core.reports import ReportContent, difference, taken
from hostler.agent.core.state import Record
from hostler.agent.messages import Disk, Order, Taken
from tests.agent.test_decisions import GIB, SIZE, found, order, state_with

GUEST = found("guest@17", is_ours=False, cpu_count=7, memory_bytes=4 * GIB)
TAKEN = Taken(vm="guest@17", cpu_millis=7000, memory_bytes=4 * GIB)
MADE = order("ours", cpu_millis=2000, disks=(Disk(size_bytes=GIB),))


def test_foreign_vm_takes_the_room_that_the_driver_reports():
    state = state_with(orders=[order()], there=[found(), GUEST])
    assert taken(state) == (TAKEN,)


def test_one_that_does_not_run_takes_nothing_that_is_known():
    assert taken(state_with(there=[found("guest", "stopped", is_ours=False, cpu_count=2)])) == ()


def test_own_vm_without_order_takes_the_size_it_was_made_with():
    records, there = [Record(vm="ours", made=MADE)], [found("ours")]
    assert taken(observe(first_state(SIZE, records), there)) == ()
    told = Taken(vm="ours", cpu_millis=2000, memory_bytes=GIB, disk_bytes=GIB)
    assert taken(state_with(there=there, records=records)) == (told,)
    assert taken(state_with(orders=[MADE], there=there, records=records)) == ()


def test_a_vm_that_does_not_fit_beside_them_says_who_is_there():
    state = state_with(orders=[order(cpu_millis=2000)], there=[found(power="stopped"), GUEST])
    trouble = plan(state, 0).refusals["a"]
    assert trouble.message.startswith("a does not fit on this host: cpu: 2 more wanted, 1 free")
    assert trouble.message.endswith("; VMs without an order here take cpu 7, memory 4Gi: guest@17")
    assert "remove VMs that are not needed there" in trouble.hint


def test_vm_to_remove_takes_its_found_size_without_sizes_in_order():
    bare = Order(vm="b", generation=1, power="absent")
    state = state_with(orders=[order(cpu_millis=2000), bare], there=[found(power="stopped"), found("b", cpu_count=7)])
    assert plan(state, 0).refusals["a"].message == "a does not fit on this host: cpu: 2 more wanted, 1 free"


def test_of_many_only_some_are_named():
    guests = [found(f"guest@{number}", is_ours=False, cpu_count=1) for number in range(1, 9)]
    state = state_with(orders=[order()], there=[found(power="stopped"), *guests])
    message = plan(state, 0).refusals["a"].message
    assert message.endswith("take cpu 8: guest@1, guest@2, guest@3, guest@4, guest@5 and 3 more")


def test_a_vm_that_does_not_fit_beside_our_own_blames_nobody():
    state = state_with(orders=[order(cpu_millis=9000)], there=[found(power="stopped")])
    assert "without an order here" not in plan(state, 0).refusals["a"].message


def test_what_is_taken_is_reported_as_a_whole_when_something_of_it_changed():
    def told(before: ReportContent, now: ReportContent):
        return difference(before, now, boot="b", agent="a", epoch=1, sequence=1).taken

    some = ReportContent(taken=(TAKEN,))
    assert told(some, some) is None
    assert told(ReportContent(), some) == (TAKEN,)
    assert told(some, ReportContent()) == ()
