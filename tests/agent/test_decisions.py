"""The agent's decisions, case by case: what is ordered and what is found go in, what is done comes out."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.core.decisions import after_outcome, begin, first_state, next_actions, next_due, observe, take
from hostler.agent.core.plan import allocations_of, plan
from hostler.agent.core.reports import gone, reports, unknown
from hostler.agent.core.state import Action, ActionOutcome, AgentState, DriverVerb, Record
from hostler.agent.driver import Landing, ObservedVm
from hostler.agent.messages import Departed, Disk, HostSize, Migration, Order, Orders, Trouble

GIB = 2**30
SECOND = 1_000_000_000
SIZE = HostSize(cpu_millis=8000, memory_bytes=16 * GIB, disk_bytes=100 * GIB)
TO_TARGET = Migration(is_source=True, address="there", secret="s")
FROM_SOURCE = Migration(is_source=False)


def order(vm="a", power="running", generation=1, **changes):
    return Order(vm=vm, power=power, generation=generation, memory_bytes=changes.pop("memory_bytes", GIB), **changes)


def found(vm="a", power="running", **changes):
    return ObservedVm(vm=vm, power=power, **changes)


def state_with(orders=(), there=(), records=(), *, bulk=False, size=SIZE):
    state = first_state(size, records)
    state = take(state, Orders(version=1, is_full=True, orders=tuple(orders), allows_bulk_teardown=bulk))
    return observe(state, there)


def verbs(state: AgentState, now: int = 0) -> dict[str, str]:
    return {action.vm: str(action.verb) for action in next_actions(state, now)}


def fail(state: AgentState, kind: str, now: int = 0) -> AgentState:
    (action,) = next_actions(state, now)
    trouble = Trouble(kind=kind, code="c", message="m")
    return after_outcome(begin(state, action), action, ActionOutcome(trouble=trouble), now)


MADE = {"made": order()}


@pytest.mark.parametrize(
    ("power", "there", "verb"),
    [
        ("running", None, "create"),
        ("running", "stopped", "start"),
        ("running", "paused", "resume"),
        ("running", "running", None),
        ("stopped", None, "create"),
        ("stopped", "running", "stop"),
        ("stopped", "paused", "stop"),
        ("stopped", "stopped", None),
        ("paused", None, "create"),
        ("paused", "stopped", "start"),
        ("paused", "running", "pause"),
        ("paused", "paused", None),
        ("absent", "running", "delete"),
        ("absent", "stopped", "delete"),
        ("absent", "landing", "delete"),
        ("absent", "left", "delete"),
        ("absent", None, None),
    ],
)
def test_whatever_is_found_leads_to_the_order(power, there, verb):
    state = state_with([order(power=power)], [found(power=there)] if there else [])
    assert verbs(state).get("a") == verb


def test_before_the_host_was_looked_at_nothing_is_done():
    state = take(first_state(SIZE, ()), Orders(version=1, is_full=True, orders=(order(),)))
    assert verbs(state) == {}
    assert verbs(observe(state, [])) == {"a": "create"}


def test_a_vm_with_an_action_under_way_gets_no_second_one():
    state = state_with([order()])
    (action,) = next_actions(state, 0)
    assert verbs(begin(state, action)) == {}


def test_what_is_fulfilled_is_recorded_with_its_generation():
    state = state_with([order(generation=7)], [found()])
    assert state.records["a"].generation == 7
    assert reports(state, plan(state, 0))["a"].generation == 7


# --- who is touched


def test_a_vm_that_nobody_ordered_is_reported_and_never_touched():
    state = state_with([], [found("stranger"), found("other", is_ours=False)])
    assert verbs(state) == {}
    assert unknown(state) == ("other", "stranger")
    assert reports(state, plan(state, 0)) == {}


@pytest.mark.parametrize("power", ["running", "stopped", "absent"])
def test_foreign_vm_is_not_touched_even_if_its_name_is_ordered(power):
    state = state_with([order(power=power)], [found(is_ours=False)])
    assert verbs(state) == {}
    assert plan(state, 0).refusals["a"].code == "not_ours"
    assert reports(state, plan(state, 0))["a"].trouble.code == "not_ours"


def test_a_vm_missing_from_a_full_list_is_held():
    state = state_with([order()], [found()])
    state = take(state, Orders(version=2, is_full=True))
    assert verbs(state) == {}
    assert reports(state, plan(state, 0))["a"].state == "running"
    assert unknown(state) == ()


def test_a_vm_that_is_neither_ordered_nor_here_is_forgotten():
    state = state_with([], [], [Record(vm="a", generation=3)])
    (action,) = next_actions(state, 0)
    assert action.verb is DriverVerb.FORGET
    assert after_outcome(begin(state, action), action, ActionOutcome(), 0).records == {}


def test_before_all_orders_are_known_nothing_is_forgotten():
    state = observe(first_state(SIZE, [Record(vm="a")]), [])
    assert verbs(state) == {}


def test_with_an_unknown_inventory_nothing_is_done_and_nothing_is_free():
    state = first_state(SIZE, (), is_inventory_known=False)
    state = observe(take(state, Orders(version=1, is_full=True, orders=(order(), order("b", "absent")))), [found("b")])
    assert verbs(state) == {}
    assert allocations_of(state).free == (0, 0, 0)


# --- old news


def test_an_older_order_changes_nothing():
    state = state_with([order(power="stopped", generation=5)], [found(power="stopped")])
    late = take(state, Orders(version=2, is_full=False, orders=(order(power="running", generation=4),)))
    assert verbs(late) == {}


def test_older_order_changes_nothing():
    state = state_with([order(power="running", generation=5)])
    late = take(state, Orders(version=2, is_full=False, orders=(order(power="absent", generation=4),)))
    assert verbs(late) == {"a": "create"}
    late = take(state, Orders(version=2, is_full=True, orders=(order(power="absent", generation=4),)))
    assert verbs(late) == {"a": "create"}


def test_older_orders_than_those_known_are_ignored_as_a_whole():
    state = state_with([order()], [found()])
    state = take(state, Orders(version=9, is_full=False, orders=(order(power="stopped", generation=2),)))
    assert take(state, Orders(version=8, is_full=True, orders=())) is state


def test_a_deleted_vm_is_not_made_again_by_an_order_of_that_age():
    state = state_with([order(power="absent", generation=5)], [found()])
    (action,) = next_actions(state, 0)
    state = after_outcome(begin(state, action), action, ActionOutcome(), 0)
    assert gone(state) == (Departed(vm="a", generation=5),)
    again = observe(first_state(SIZE, state.records.values()), [])
    again = take(again, Orders(version=1, is_full=True, orders=(order(generation=5), order("b", generation=1))))
    assert verbs(again) == {"b": "create"}
    newer = take(state, Orders(version=2, is_full=False, orders=(order(generation=6),)))
    assert verbs(newer) == {"a": "create"}


# --- teardown


def absent(count):
    return [order(f"v{number}", "absent") for number in range(count)]


def vms(count):
    return [found(f"v{number}") for number in range(count)]


@pytest.mark.parametrize(
    ("deleted", "of", "bulk", "done"),
    [
        (3, 3, False, 3),
        (4, 4, False, 0),
        (4, 15, False, 0),
        (4, 16, False, 4),
        (4, 4, True, 4),
    ],
    ids=["three of three", "four of four", "more than a quarter", "a quarter", "allowed"],
)
def test_many_deletions_at_once_need_permission(deleted, of, bulk, done):
    rest = [order(f"v{number}") for number in range(deleted, of)]
    state = state_with(absent(deleted) + rest, vms(of), bulk=bulk, size=HostSize(cpu_millis=10**6, memory_bytes=2**50))
    assert list(verbs(state).values()) == ["delete"] * done
    assert plan(state, 0).refused_teardown == deleted - done


def test_a_permission_lasts_until_what_it_was_given_for_is_done():
    state = state_with(absent(8), vms(8), bulk=True)
    state = take(state, Orders(version=2, is_full=False, orders=(order("new"),)))
    assert list(verbs(state).values()).count("delete") == 8


def test_single_deletions_are_counted_together_until_done():
    state = state_with([order(f"v{number}") for number in range(8)], vms(8))
    for number in range(8):
        state = take(
            state,
            Orders(version=number + 2, is_full=False, orders=(order(f"v{number}", "absent", generation=2),)),
        )
    assert list(verbs(state).values()).count("delete") == 3


# --- failures


def test_transient_failure_is_retried_with_doubling_waits():
    state, now, waits = state_with([order()], [found(power="stopped")]), 0, []
    for _ in range(9):
        state = observe(fail(state, "transient", now), [found(power="stopped")])
        due = next_due(state, now)
        assert due is not None
        assert verbs(state, due - 1) == {}
        waits.append((due - now) // SECOND)
        now = due
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert reports(state, plan(state, now))["a"].trouble.failures == 9


def test_a_permanent_failure_is_not_tried_again_for_that_generation():
    state = observe(fail(state_with([order()], [found(power="stopped")]), "permanent"), [found(power="stopped")])
    assert verbs(state, 10**18) == {}
    report = reports(state, plan(state, 0))["a"]
    assert (report.trouble.kind, report.failed_generation) == ("permanent", 1)
    newer = take(state, Orders(version=2, is_full=False, orders=(order(generation=2),)))
    assert verbs(newer) == {"a": "start"}
    assert reports(newer, plan(newer, 0))["a"].trouble is None


def test_a_blocked_vm_is_tried_again_at_every_look_and_counts_no_failure():
    state = state_with([order()])
    for _ in range(5):
        state = fail(state, "blocked")
        assert verbs(state, 10**18) == {}
        state = observe(state, [])
        assert reports(state, plan(state, 0))["a"].trouble.failures == 0
        assert verbs(state) == {"a": "create"}


def test_host_is_scanned_after_a_failure_before_anything_else():
    state = fail(state_with([order()], [found(power="stopped")]), "transient")
    assert verbs(state, 10**18) == {}
    assert verbs(observe(state, [found(power="running")]), 10**18) == {}, "it had worked after all"


def test_what_holds_a_vm_up_now_is_reported_rather_than_what_failed_before():
    state = state_with([order(cpu_millis=9000)])
    state = fail(state, "transient")
    state = observe(state, [found(power="stopped")])
    assert reports(state, plan(state, 0))["a"].trouble.code == "c"
    assert reports(state, plan(state, SECOND))["a"].trouble.code == "no_room"


def test_success_takes_the_trouble_away():
    state = observe(fail(state_with([order()], [found(power="stopped")]), "transient"), [found(power="stopped")])
    (action,) = next_actions(state, SECOND)
    state = after_outcome(begin(state, action), action, ActionOutcome(), SECOND)
    assert reports(state, plan(state, 0))["a"].trouble is None


# --- restarts


def test_restart_is_recorded_between_stop_and_start():
    record = Record(vm="a", generation=1, restarts=0, **MADE)
    state = state_with([order(restarts=1)], [found()], [record])
    (action,) = next_actions(state, 0)
    assert action.verb is DriverVerb.RESTART
    state = after_outcome(begin(state, action), action, ActionOutcome(), 0)
    assert state.records["a"].restarts == 1
    assert verbs(state) == {"a": "start"}


def test_a_found_vm_without_a_record_takes_the_restarts_as_done():
    state = state_with([order(restarts=5)], [found()])
    assert verbs(state) == {}
    assert state.records["a"].restarts == 5


def test_restart_ordered_during_start_still_happens():
    state = state_with([order()], [found(power="stopped")])
    (action,) = next_actions(state, 0)
    state = take(begin(state, action), Orders(version=2, is_full=False, orders=(order(restarts=1),)))
    assert verbs(after_outcome(state, action, ActionOutcome(), 0)) == {"a": "restart"}
    trouble = Trouble(kind="transient", code="c", message="m")
    state = after_outcome(state, action, ActionOutcome(trouble=trouble), 0)
    state = take(state, Orders(version=3, is_full=False, orders=(order(restarts=2),)))
    assert verbs(observe(state, [found(power="running")])) == {"a": "restart"}, "it had been started after all"


def test_a_restart_of_a_vm_that_is_to_be_stopped_is_no_more_than_a_stop():
    record = Record(vm="a", generation=1, restarts=0, **MADE)
    state = state_with([order(power="stopped", restarts=1)], [found()], [record])
    assert verbs(state) == {"a": "stop"}


# --- sizes


def test_a_vm_of_another_size_is_resized_while_it_runs():
    record = Record(vm="a", generation=1, **MADE)
    state = state_with([order(memory_bytes=2 * GIB, generation=2)], [found()], [record])
    (action,) = next_actions(state, 0)
    assert action.verb is DriverVerb.RESIZE
    state = after_outcome(begin(state, action), action, ActionOutcome(), 0)
    assert verbs(state) == {}
    assert state.records["a"].generation == 2


def test_a_vm_that_is_restarted_anyway_is_resized_while_it_is_stopped():
    record = Record(vm="a", generation=1, **MADE)
    state = state_with([order(memory_bytes=2 * GIB, generation=2, restarts=1)], [found()], [record])
    done = []
    for _ in range(3):
        (action,) = next_actions(state, 0)
        done.append(str(action.verb))
        state = after_outcome(begin(state, action), action, ActionOutcome(), 0)
    assert done == ["restart", "resize", "start"]


def test_vm_that_may_have_grown_counts_in_its_larger_size():
    record = Record(vm="a", generation=1, **MADE)
    state = state_with([order(memory_bytes=4 * GIB, generation=2)], [found()], [record])
    state = observe(fail(state, "transient"), [found()])
    assert allocations_of(state).used.memory_bytes == 4 * GIB
    state = observe(first_state(SIZE, state.records.values()), [found()])
    assert allocations_of(state).used.memory_bytes == 4 * GIB, "also after a crash"
    state = take(state, Orders(version=3, is_full=True, orders=(order(generation=3),)))
    assert verbs(state) == {"a": "resize"}, "whether it has the old size is not known"


def test_an_adopted_vm_of_another_size_than_ordered_is_resized():
    state = state_with([order(memory_bytes=2 * GIB)], [found(memory_bytes=GIB, cpu_count=1)])
    assert verbs(state) == {"a": "resize"}


# --- room


def test_only_as_much_is_started_as_fits_and_the_rest_says_why():
    orders = [order(f"v{number}", cpu_millis=3000) for number in range(3)]
    state = state_with(orders, [found(f"v{number}", power="stopped") for number in range(3)])
    assert verbs(state) == {"v0": "start", "v1": "start"}
    assert plan(state, 0).refusals["v2"].code == "no_room"
    for action in next_actions(state, 0):
        state = begin(state, action)
    assert verbs(state) == {}, "what is under way is booked already"


def test_vm_that_may_have_started_keeps_its_room():
    orders = [order("a", cpu_millis=5000), order("b", cpu_millis=5000)]
    off = [found("a", power="stopped"), found("b", power="stopped")]
    state = state_with(orders, off)
    (action,) = next_actions(state, 0)
    state = after_outcome(
        begin(state, action), action, ActionOutcome(trouble=Trouble(kind="transient", code="c", message="m")), 0
    )
    assert verbs(state) == {}
    assert verbs(observe(state, off)) == {"b": "start"}


def test_room_that_appears_is_used_at_once():
    orders = [order("big", cpu_millis=8000), order("waits", cpu_millis=8000)]
    state = state_with(orders, [found("big"), found("waits", power="stopped")])
    assert verbs(state) == {}
    state = take(state, Orders(version=2, is_full=False, orders=(order("big", "stopped", 2, cpu_millis=8000),)))
    (action,) = next_actions(state, 0)
    state = begin(state, action)
    assert verbs(state) == {}, "what a stop gives back counts when it is done"
    assert verbs(after_outcome(state, action, ActionOutcome(), 0)) == {"waits": "start"}


def test_vms_that_nobody_ordered_take_their_room_all_the_same():
    state = state_with([order(cpu_millis=2000)], [found(power="stopped"), found("stranger", cpu_count=7)])
    assert verbs(state) == {}


def test_disks_count_from_creation():
    state = state_with([order(disks=(Disk(size_bytes=101 * GIB),))])
    assert verbs(state) == {}
    state = state_with([order(disks=(Disk(size_bytes=101 * GIB, storage="shared"),))])
    assert verbs(state) == {"a": "create"}


# --- silence


def test_a_vm_that_silence_stops_is_not_started_in_silence():
    orders = [order("keeps"), order("stops", when_silent="stop")]
    state = state_with(orders, [found("keeps", power="stopped"), found("stops", power="stopped")])
    state = msgspec.structs.replace(state, silent_at=SECOND)
    assert verbs(state, SECOND - 1) == {"keeps": "start", "stops": "start"}
    assert verbs(state, SECOND) == {"keeps": "start"}


# --- migration


@pytest.mark.parametrize(
    ("there", "record", "verb"),
    [
        ("running", Record(vm="a", generation=1, **MADE), "send"),
        ("running", Record(vm="a", generation=1, sent=2, **MADE), "send"),
        ("stopped", Record(vm="a", generation=1, **MADE), "start"),
        ("stopped", Record(vm="a", generation=1, sent=2, **MADE), None),
        ("left", Record(vm="a", generation=1, sent=2, **MADE), None),
        (None, Record(vm="a", generation=1, sent=2, **MADE), None),
    ],
    ids=["not begun", "crashed while sending", "off", "off since sending began", "gone over", "gone over and removed"],
)
def test_the_source_sends_and_never_starts_what_may_run_elsewhere(there, record, verb):
    state = state_with([order(generation=2, migration=TO_TARGET)], [found(power=there)] if there else [], [record])
    assert verbs(state).get("a") == verb


def test_that_sending_began_is_recorded_before_it_begins():
    state = state_with([order(generation=2, migration=TO_TARGET)], [found()])
    (action,) = next_actions(state, 0)
    assert action.landing == Landing(address="there", secret="s")
    assert begin(state, action).records["a"].sent == 2


@pytest.mark.parametrize(
    ("there", "verb"),
    [(None, "await_landing"), ("landing", "await_landing"), ("running", None), ("stopped", None), ("left", "delete")],
    ids=["nothing yet", "agent restarted", "landed", "landed and ended", "was here before"],
)
def test_the_target_prepares_a_landing_and_starts_nothing(there, verb):
    state = state_with([order(generation=2, migration=FROM_SOURCE)], [found(power=there)] if there else [])
    assert verbs(state).get("a") == verb


def test_a_landing_is_reported_with_its_address():
    state = state_with([order(generation=2, migration=FROM_SOURCE)])
    (action,) = next_actions(state, 0)
    state = after_outcome(begin(state, action), action, ActionOutcome(landing=Landing(address="here", secret="s")), 0)
    assert verbs(state) == {}
    report = reports(state, plan(state, 0))["a"]
    assert (report.state, report.landing_address, report.landing_secret) == ("landing", "here", "s")
    assert allocations_of(state).used.memory_bytes == GIB


@pytest.mark.parametrize("there", ["left", "stopped"])
def test_a_newer_order_to_run_gives_the_vm_back_to_the_source(there):
    record = Record(vm="a", generation=1, sent=2, **MADE)
    state = state_with([order(generation=3)], [found(power=there)], [record])
    assert verbs(state) == {"a": "start"}


def test_the_side_that_lost_removes_what_is_left():
    state = state_with([order(power="absent", generation=3)], [found(power="left")], [Record(vm="a", sent=2)])
    assert verbs(state) == {"a": "delete"}


def test_that_shared_disks_are_kept_is_recorded_before_a_vm_is_removed():
    kept = order(power="absent", generation=3, keeps_shared=True)
    state = state_with([kept], [found()], [Record(vm="a", generation=1, **MADE)])
    (action,) = next_actions(state, 0)
    assert action.order == kept
    assert begin(state, action).records["a"].kept == 3


@pytest.mark.parametrize(
    ("generation", "keeps", "is_removed"), [(2, False, False), (3, False, False), (3, True, True), (4, False, True)]
)
def test_killed_agent_ignores_older_order_to_remove_shared_disks(generation, keeps, is_removed):
    record = Record(vm="a", generation=1, kept=3, **MADE)
    late = order(power="absent", generation=generation, keeps_shared=keeps)
    state = state_with([late], [found(power="stopped")], [record])
    assert verbs(state) == ({"a": "delete"} if is_removed else {})


def test_a_landing_is_looked_at_again_before_a_new_order_removes_it():
    state = state_with([order(generation=2, migration=FROM_SOURCE)], [found(power="landing")])
    state = take(state, Orders(version=2, is_full=False, orders=(order(generation=3),)))
    assert verbs(state) == {}
    assert verbs(observe(state, [found(power="running")])) == {}, "it landed meanwhile"
    assert verbs(observe(state, [found(power="landing")])) == {"a": "delete"}, "nobody came"


def test_a_look_that_is_older_than_an_action_does_not_count():
    state = state_with([order()])
    (action,) = next_actions(state, 0)
    state = after_outcome(begin(state, action), action, ActionOutcome(), 0)
    assert verbs(observe(state, [], unsure={"a"})) == {"a": "start"}
    (action,) = next_actions(state, 0)
    state = after_outcome(begin(state, action), action, ActionOutcome(), 0)
    assert verbs(observe(state, [found(power="stopped")], unsure={"a"})) == {}


def test_what_failed_for_an_older_order_does_not_hold_up_the_new_one():
    state = state_with([order()], [found(power="stopped")])
    (action,) = next_actions(state, 0)
    state = begin(state, action)
    state = take(state, Orders(version=2, is_full=False, orders=(order(generation=2),)))
    state = after_outcome(state, action, ActionOutcome(trouble=Trouble(kind="permanent", code="c", message="m")), 0)
    assert verbs(observe(state, [found(power="stopped")])) == {"a": "start"}


def test_an_action_names_the_order_that_it_is_for():
    (action,) = next_actions(state_with([order()]), 0)
    assert action == Action(verb=DriverVerb.CREATE, vm="a", order=order())
