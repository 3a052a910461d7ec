"""The queue: which guest is tried when, what wakes it, and decisions that wait for answers from outside."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hostler.engine import Engine
from hostler.model import (
    Abandon,
    Answered,
    Ask,
    AskUse,
    Bind,
    BindFailed,
    Defer,
    Device,
    DeviceRequest,
    Event,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestLeft,
    GuestSpec,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    HostsJoined,
    PolicyChanged,
    Prepare,
    Prepared,
    QueueRules,
    Taint,
    Toleration,
)
from tests.engine.fleet import (
    GIB,
    SECOND,
    arrive,
    binds,
    engine_with,
    essence,
    guest,
    holds,
    host,
    place,
    policy,
    reasons,
    states,
    step,
    used,
)
from tests.engine.fleet import due as due_at

LATER = 60 * SECOND  # beyond every backoff, before the flush


# -- order ------------------------------------------------------------------------------------------------------------


def test_guests_are_tried_by_priority_then_age():
    engine = engine_with([host("a", cpu=10_000, memory=10 * GIB)])
    arrive(
        engine,
        guest("old", priority=0),
        guest("low", priority=-5),
        guest("high", priority=9),
        guest("young", priority=0),
        guest("top", priority=9),
    )
    assert [a.uid for a in engine.step(0)] == ["high", "top", "old", "young", "low"]


def test_a_woken_guest_keeps_its_age():
    engine = engine_with([host("a", cpu=0)])
    arrive(engine, guest("first"), guest("second"))
    engine.step(0)
    arrive(engine, guest("third"))
    engine.apply(HostJoined(host=host("b", cpu=2000)))
    assert binds(engine.step(LATER)) == {"first": "b", "second": "b"}


def test_a_guest_that_becomes_more_important_goes_first():
    engine = engine_with([host("a", cpu=1000)])
    arrive(engine, guest("one", version=1), guest("two", version=1))
    engine.apply(GuestChanged(guest=guest("two", version=2, priority=1)))
    assert binds(engine.step(0)) == {"two": "a"}


def test_a_step_decides_at_most_so_many_and_leaves_the_rest_active():
    engine = engine_with([host("a", cpu=10_000, memory=10 * GIB)])
    arrive(engine, *(guest(f"g{i}") for i in range(5)))
    assert [a.uid for a in engine.step(0, limit=2)] == ["g0", "g1"]
    assert engine.next_due() == 0
    assert [a.uid for a in engine.step(0, limit=0)] == []
    assert [a.uid for a in engine.step(0, limit=9)] == ["g2", "g3", "g4"]
    assert engine.next_due() is None


def test_refused_guests_count_towards_the_limit_of_a_step():
    engine = engine_with([host("a", cpu=1000)])
    arrive(engine, guest("big", cpu=5000), guest("small"))
    assert holds(engine.step(0, limit=1)) == ["big"]
    assert binds(engine.step(0, limit=1)) == {"small": "a"}


# -- when -------------------------------------------------------------------------------------------------------------


def test_an_idle_engine_is_never_due():
    engine = engine_with([host("a")])
    assert engine.next_due() is None
    assert engine.step(5) == []


def test_a_new_guest_is_due_at_once():
    engine = engine_with([host("a")], clock_start=7)
    arrive(engine, guest("g"))
    assert engine.next_due() == 7


def test_failed_binds_back_off_twice_as_long_each_time_up_to_a_limit():
    rules = QueueRules(jitter_percent=0)
    engine = engine_with([host("a")], rules=rules)
    arrive(engine, guest("g"))
    now, waits = 0, []
    for _ in range(8):
        assert binds(engine.step(now)) == {"g": "a"}
        engine.apply(BindFailed(uid="g", host="a", at=now))
        due = due_at(engine)
        assert engine.step(due - 1) == []
        waits.append((due - now) // SECOND)
        now = due
    assert waits == [1, 2, 4, 8, 10, 10, 10, 10]


def test_a_bind_that_succeeds_ends_the_growth():
    engine = engine_with([host("a")], rules=QueueRules(jitter_percent=0))
    place(engine, guest("g"), now=0)
    for _ in range(3):
        engine.apply(BindFailed(uid="g", host="a"))
        engine.step(due_at(engine))
    engine.apply(GuestBound(uid="g", host="a"))
    assert engine.state.guests["g"].errors == 0


def test_refusals_back_off_too_and_are_tried_for_ever():
    rules = QueueRules(jitter_percent=0, flush_after_ns=1)
    engine = engine_with([host("a", cpu=0)], rules=rules)
    arrive(engine, guest("g"))
    now, waits = 0, []
    for _ in range(60):
        assert holds(engine.step(now)) == ["g"]
        due = due_at(engine)
        waits.append((due - now) // SECOND)
        assert engine.step(due - 1) == []
        now = due
    assert waits == [1, 2, 4, 8] + [10] * 56
    assert engine.decision("g").attempt == 60


@pytest.mark.parametrize("percent", [1, 10, 50])
def test_jitter_stays_within_its_bounds_and_differs_between_guests(percent):
    engine = engine_with([host("a", 10**6, 100 * GIB)], rules=QueueRules(jitter_percent=percent), seed=3)
    names = [f"g{i}" for i in range(60)]
    place(engine, *(guest(name) for name in names), now=0)
    for name in names:
        engine.apply(BindFailed(uid=name, host="a"))
    ends = [engine.state.queue.entries[name].until for name in names]
    assert all(SECOND <= end <= SECOND + SECOND * percent // 100 for end in ends)
    assert len(set(ends)) > 40


def test_jitter_is_the_same_for_the_same_seed_and_another_for_another():
    def ends(seed: int) -> list[int]:
        engine = engine_with([host("a", cpu=0)], seed=seed)
        place(engine, *(guest(f"g{i}") for i in range(10)), now=0)
        return [entry.until for entry in engine.state.queue.entries.values()]

    assert ends(1) == ends(1)
    assert ends(1) != ends(2)


def test_no_backoff_at_all_when_its_limit_is_zero():
    engine = engine_with([host("a")], rules=QueueRules(backoff_max_ns=0))
    place(engine, guest("g"), now=5)
    engine.apply(BindFailed(uid="g", host="a"))
    assert engine.next_due() == 5
    assert binds(engine.step(5)) == {"g": "a"}


def test_a_waiting_guest_is_tried_again_after_five_minutes():
    engine = engine_with([host("a", cpu=0)])
    place(engine, guest("g"), now=0)
    assert engine.next_due() == 300 * SECOND
    assert engine.step(300 * SECOND - 1) == []
    assert holds(engine.step(300 * SECOND)) == ["g"]
    assert engine.next_due() == 600 * SECOND


def test_a_guest_that_fits_again_during_its_backoff_is_tried_at_once():
    engine = engine_with([host("a", cpu=0)], rules=QueueRules(jitter_percent=0))
    place(engine, guest("g"), now=0)
    engine.apply(HostJoined(host=host("b"), at=1))
    assert engine.next_due() == 1
    assert binds(engine.step(1)) == {"g": "b"}


def test_no_lower_guest_gets_free_room_because_its_backoff_ended():
    engine = engine_with([host("a", cpu=1000)], rules=QueueRules(jitter_percent=0))
    arrive(engine, guest("tenant", cpu=1000, host="a", version=1))
    place(engine, guest("low", cpu=1000), now=0)
    place(engine, guest("high", cpu=1000, priority=5), now=SECOND)
    engine.apply(GuestLeft(uid="tenant", at=SECOND + 1))
    assert binds(engine.step(SECOND + 1)) == {"high": "a"}


def test_room_that_becomes_free_again_during_the_same_backoff_is_used_too():
    engine = engine_with([host("a", cpu=2000)], rules=QueueRules(jitter_percent=0))
    arrive(engine, *(guest(f"tenant {i}", cpu=1000, host="a", version=1) for i in (1, 2)))
    place(engine, guest("g"), guest("h"), now=0)
    engine.apply(GuestLeft(uid="tenant 1", at=1))
    assert binds(engine.step(1)) == {"g": "a"}
    engine.apply(GuestLeft(uid="tenant 2", at=2))
    assert binds(engine.step(2)) == {"h": "a"}


def test_one_free_place_costs_two_tries_however_many_wait_for_it():
    engine = engine_with([host("a", cpu=1000)])
    arrive(engine, guest("tenant", cpu=1000, host="a", version=1))
    place(engine, *(guest(f"g{i}") for i in range(50)), now=0)
    engine.apply(GuestLeft(uid="tenant", at=1))
    actions = engine.step(1)
    assert binds(actions) == {"g0": "a"}
    assert holds(actions) == ["g1"]
    assert sum(engine.decision(f"g{i}").attempt for i in range(50)) == 52


def test_a_guest_whose_bind_failed_rests_although_there_is_room():
    engine = engine_with([host("a")], rules=QueueRules(jitter_percent=0))
    place(engine, guest("g"), now=0)
    engine.apply(BindFailed(uid="g", host="a", at=1))
    engine.apply(HostJoined(host=host("b"), at=2))
    assert engine.step(2) == []
    assert binds(engine.step(1 + SECOND)).keys() == {"g"}


def test_due_times_of_guests_that_left_do_not_count():
    engine = engine_with([host("a", cpu=0)])
    place(engine, guest("g"), guest("h"), now=0)
    engine.apply(GuestLeft(uid="g"))
    engine.apply(GuestLeft(uid="h"))
    assert engine.next_due() is None


# -- what wakes whom --------------------------------------------------------------------------------------------------

FULL = [guest("tenant", cpu=4000, memory=GIB, host="a", version=1)]


def waiting_engine(hosts: list[Host], there: list, wanted: GuestSpec | None = None, **fields) -> Engine:
    engine = engine_with(hosts, "spread", policy("spread", name="double", overcommit=(("cpu", 2_000_000),)))
    arrive(engine, *there)
    arrive(engine, guest("g", wanted, version=1, **fields))
    assert holds(engine.step(0)) == ["g"]
    assert engine.decision("g").state == "waiting"
    return engine


CURES = [
    pytest.param([host("a")], FULL, {}, [GuestLeft(uid="tenant")], id="a guest leaves"),
    pytest.param(
        [host("a")], FULL, {}, [GuestChanged(guest=guest("tenant", cpu=3000, host="a", version=2))], id="one shrinks"
    ),
    pytest.param([host("a")], FULL, {}, [GuestBound(uid="tenant", host="elsewhere")], id="a guest moves away"),
    pytest.param([host("a")], FULL, {}, [HostJoined(host=host("b"))], id="a host joins"),
    pytest.param([host("a")], FULL, {}, [HostsJoined(hosts=(host("b"), host("c")))], id="hosts join"),
    pytest.param([host("a")], FULL, {}, [HostChanged(host=host("a", cpu=5000))], id="a host grows"),
    pytest.param(
        [host("a")], FULL, {}, [HostChanged(host=host("a", overcommit=(("cpu", 1_250_000),)))], id="a host overcommits"
    ),
    pytest.param([host("a", reserve=(("cpu", 4000),))], [], {}, [HostChanged(host=host("a"))], id="a reserve ends"),
    pytest.param([host("a", cordoned=True)], [], {}, [HostChanged(host=host("a"))], id="a cordon ends"),
    pytest.param([host("a", taints=(Taint("t"),))], [], {}, [HostChanged(host=host("a"))], id="a taint goes"),
    pytest.param(
        [host("a")], [], {"selector": {"disk": "ssd"}}, [HostChanged(host=host("a", labels={"disk": "ssd"}))],
        id="a label comes",
    ),
    pytest.param([host("a")], [], {"host_name": "b"}, [HostJoined(host=host("b"))], id="the named host joins"),
    pytest.param([host("a")], [], {"gpu": (1, 500)}, [HostChanged(host=host("a", gpus=1))], id="a device comes"),
    pytest.param(
        [host("a", gpus=1)], [guest("tenant", gpu=(1, 1000), host="a")], {"gpu": (1, 500)}, [GuestLeft(uid="tenant")],
        id="a device is freed",
    ),
    pytest.param(
        [host("a", gpus=1, model="A")], [], {"devices": (DeviceRequest("gpu", 1, 500, ("B",)),)},
        [HostChanged(host=host("a", devices=(Device("gpu", "B"),)))], id="a device of the model comes",
    ),
    pytest.param([host("a")], FULL, {}, [GuestChanged(guest=guest("g", cpu=0, version=2))], id="it asks for less"),
    pytest.param(
        [host("a", taints=(Taint("t"),))], [], {},
        [GuestChanged(guest=guest("g", version=2, tolerations=(Toleration("t", "Exists"),)))], id="it tolerates more",
    ),
    pytest.param(
        [host("a")], FULL, {}, [GuestChanged(guest=guest("g", version=2, policy="double"))], id="another policy"
    ),
    pytest.param(
        [host("a")], FULL, {}, [PolicyChanged(policies=(policy("spread", overcommit=(("cpu", 2_000_000),)),))],
        id="the policies change",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("hosts", "there", "wanted", "events"), CURES)
def test_a_waiting_guest_is_woken_by_what_cures_it(hosts, there, wanted, events):
    engine = waiting_engine(hosts, there, **wanted)
    assert engine.step(LATER) == []
    for event in events:
        engine.apply(event)
    assert engine.next_due() == LATER
    assert list(binds(engine.step(LATER))) == ["g"]


NOT_CURES = [
    pytest.param([host("a"), host("b")], FULL, {"cpu": 4500}, [GuestLeft(uid="tenant")], id="too little room freed"),
    pytest.param([host("a")], FULL, {}, [HostJoined(host=host("b", cpu=500))], id="too small a host joins"),
    pytest.param([host("a")], FULL, {}, [HostJoined(host=host("b", cordoned=True))], id="a cordoned host joins"),
    pytest.param([host("a")], FULL, {}, [HostJoined(host=host("b", taints=(Taint("t"),)))], id="a tainted host joins"),
    pytest.param([host("a")], FULL, {}, [HostChanged(host=host("a", labels={"x": "y"}))], id="a label nobody wants"),
    pytest.param([host("a")], FULL, {}, [HostChanged(host=host("a", memory=64 * GIB))], id="another resource grows"),
    pytest.param([host("a")], FULL, {}, [HostLeft(name="a")], id="a host leaves"),
    pytest.param(
        [host("a"), host("b", cordoned=True)], [*FULL, guest("other", host="b")], {}, [GuestLeft(uid="other")],
        id="room freed behind a cordon",
    ),
    pytest.param([host("a")], FULL, {"host_name": "b"}, [HostJoined(host=host("c"))], id="another host joins"),
    pytest.param([host("a")], [*FULL, guest("p", host="away")], {}, [GuestLeft(uid="p")], id="a parked guest leaves"),
    pytest.param([host("a")], FULL, {}, [GuestChanged(guest=guest("g", version=2))], id="its version changes only"),
    pytest.param([host("a")], FULL, {}, [HostChanged(host=host("a"))], id="nothing changes"),
]  # fmt: skip


@pytest.mark.parametrize(("hosts", "there", "wanted", "events"), NOT_CURES)
def test_a_waiting_guest_is_not_woken_by_what_cannot_cure_it(hosts, there, wanted, events):
    engine = waiting_engine(hosts, there, **wanted)
    for event in events:
        engine.apply(event)
    assert engine.step(LATER) == []
    assert engine.decision("g").state == "waiting"
    assert engine.decision("g").attempt == 1


TWICE = [
    pytest.param(
        host("a", version=1, cordoned=True), HostChanged(host=host("a", version=2)), GuestLeft(uid="tenant"),
        id="cordon, then room",
    ),
    pytest.param(
        host("a", version=1, taints=(Taint("t"),)), HostChanged(host=host("a", version=2)), GuestLeft(uid="tenant"),
        id="taint, then room",
    ),
    pytest.param(
        host("a", version=1, cordoned=True),
        HostChanged(host=host("a", version=2)),
        HostChanged(host=host("a", version=3, cpu=8000)),
        id="cordon, then a larger host",
    ),
    pytest.param(
        host("a", version=1, cordoned=True), GuestLeft(uid="tenant"), HostChanged(host=host("a", version=2)),
        id="room, then cordon",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("machine", "first", "second"), TWICE)
@pytest.mark.parametrize("step_between", [True, False])
def test_a_guest_that_needs_two_cures_is_woken_by_the_second(machine, first, second, step_between):
    engine = waiting_engine([machine], FULL)
    engine.apply(first)
    if step_between:
        engine.step(LATER)
    engine.apply(second)
    assert list(binds(engine.step(2 * LATER))) == ["g"]


def test_waking_compares_all_resources_of_a_new_host():
    engine = engine_with([host("a", cpu=0)])
    place(engine, guest("g1", cpu=900), guest("g2", cpu=800), now=0)
    engine.apply(HostJoined(host=host("tiny", cpu=0, memory=0)))
    engine.step(LATER)
    engine.apply(HostJoined(host=host("wide", more={f"r{i}": 1 for i in range(12)})))
    assert set(binds(engine.step(2 * LATER))) == {"g1", "g2"}


def test_waking_follows_the_limits_of_the_policies_of_today():
    engine = engine_with([host("a")])
    arrive(engine, guest("x", cpu=2000, host="a"), guest("y", cpu=2000, host="a"))
    place(engine, guest("g", cpu=6000), now=0)
    engine.apply(HostJoined(host=host("tiny", cpu=0, memory=0)))
    engine.step(LATER)
    engine.apply(PolicyChanged(policies=(policy("spread", overcommit=(("cpu", 2_000_000),)),)))
    assert holds(engine.step(LATER)) == ["g"]
    engine.apply(GuestLeft(uid="x"))
    engine.apply(GuestLeft(uid="y"))
    assert binds(engine.step(2 * LATER)) == {"g": "a"}


def test_only_the_shapes_that_fit_are_woken():
    engine = engine_with([host("a")])
    arrive(engine, *FULL)
    place(engine, guest("small", cpu=100), guest("large", cpu=9000), guest("ssd", cpu=100, selector={"d": "s"}), now=0)
    engine.apply(GuestLeft(uid="tenant"))
    assert binds(engine.step(LATER)) == {"small": "a"}
    assert states(engine)["large"] == states(engine)["ssd"] == "waiting"


def test_guests_of_a_shape_are_tried_until_one_of_them_finds_no_room():
    engine = engine_with([host("a", cpu=0)], rules=QueueRules(flush_after_ns=10**6 * SECOND))
    place(engine, *(guest(f"g{i}") for i in range(5)), now=0)
    engine.apply(HostJoined(host=host("b", cpu=3000)))
    actions = engine.step(LATER)
    assert binds(actions) == {"g0": "b", "g1": "b", "g2": "b"}
    assert holds(actions) == ["g3"]
    assert states(engine)["g4"] == "waiting"


def test_room_freed_by_a_failed_bind_wakes_those_who_waited_for_it():
    engine = engine_with([host("a", cpu=1000)])
    place(engine, guest("first"), guest("second"), now=0)
    engine.apply(BindFailed(uid="first", host="a", at=LATER))
    assert binds(engine.step(LATER)) == {"second": "a"}


def test_a_wake_that_came_while_nobody_waited_is_not_kept_for_later():
    engine = engine_with([host("a", cpu=0)])
    engine.apply(HostJoined(host=host("b", cpu=500)))
    place(engine, guest("g"), now=0)
    assert engine.step(LATER) == []


# -- asking outside ---------------------------------------------------------------------------------------------------


def asking(*hosts: Host, **fields) -> Engine:
    """Return an engine that asks an oracle for five seconds at most."""
    return engine_with(hosts, policy("spread", ask=AskUse("oracle", **fields)), rules=QueueRules(jitter_percent=0))


def ask_about(engine: Engine, *names: str) -> list[Ask]:
    arrive(engine, *(guest(name) for name in names))
    actions = engine.step(engine.now)
    assert all(isinstance(a, Ask) for a in actions)
    return actions  # type: ignore[return-value]


def test_an_ask_names_the_feasible_hosts_and_a_deadline_and_books_nothing():
    engine = asking(host("b"), host("a"), host("c", cpu=0))
    (ask,) = ask_about(engine, "g")
    assert (ask.asked, ask.hosts, ask.deadline) == ("oracle", ("a", "b"), 5 * SECOND)
    assert used(engine, "a") == used(engine, "b") == {}
    assert engine.decision("g").state == "asked"
    assert engine.next_due() == 5 * SECOND
    assert engine.step(5 * SECOND - 1) == []


def test_an_answer_adds_its_scores_to_the_policy_s():
    engine = asking(host("a"), host("b"), weight=10)
    (ask,) = ask_about(engine, "g")
    engine.apply(Answered(uid="g", ask=ask.ask, scores=(("a", 1), ("b", 7))))
    assert engine.next_due() == 0
    own = engine.explain("g")
    assert binds(engine.step(0)) == {"g": "b"}
    by_host = {v.host: v.total or 0 for v in own.verdicts}
    assert engine.decision("g").total == by_host["b"] + 70


def test_hosts_that_the_answer_leaves_out_are_not_chosen():
    engine = asking(host("a"), host("b"))
    (ask,) = ask_about(engine, "g")
    engine.apply(Answered(uid="g", ask=ask.ask, scores=(("b", 0),), refused=(("a", "no"),)))
    assert binds(engine.step(0)) == {"g": "b"}


def test_an_answer_that_refuses_every_host_leaves_the_guest_waiting():
    engine = asking(host("a"), host("b"), host("c", cpu=0))
    (ask,) = ask_about(engine, "g")
    engine.apply(Answered(uid="g", ask=ask.ask, refused=(("a", "no volume"), ("b", "no volume"))))
    (hold,) = engine.step(0)
    assert isinstance(hold, Defer)
    assert hold.hosts == 3
    assert reasons(hold) == {"ask: refused by: oracle": 2, "resources: insufficient: cpu": 1}
    assert "no volume" in engine.decision("g").note
    assert engine.decision("g").state == "waiting"


def test_the_state_is_checked_again_when_the_answer_comes():
    engine = asking(host("a", cpu=1000), host("b", cpu=1000))
    one, two = ask_about(engine, "one", "two")
    for ask in (one, two):
        engine.apply(Answered(uid=ask.uid, ask=ask.ask, scores=(("a", 5), ("b", 1))))
    assert binds(engine.step(0)) == {"one": "a", "two": "b"}


def test_an_answer_about_hosts_that_meanwhile_left_is_refused():
    engine = asking(host("a"), host("b", cpu=0))
    (ask,) = ask_about(engine, "g")
    engine.apply(HostLeft(name="a"))
    engine.apply(Answered(uid="g", ask=ask.ask, scores=(("a", 5),)))
    assert holds(engine.step(0)) == ["g"]


def test_a_guest_without_any_feasible_host_asks_nobody():
    engine = asking(host("a", cpu=0))
    arrive(engine, guest("g"))
    assert holds(engine.step(0)) == ["g"]


def test_an_error_backs_the_guest_off_and_asks_again_with_another_number():
    engine = asking(host("a"))
    (first,) = ask_about(engine, "g")
    engine.apply(Answered(uid="g", ask=first.ask, error="500"))
    assert engine.decision("g").state == "backoff"
    assert "500" in engine.decision("g").note
    assert engine.next_due() == SECOND
    (second,) = engine.step(SECOND)
    assert isinstance(second, Ask)
    assert second.ask != first.ask


def test_no_answer_in_time_backs_the_guest_off():
    engine = asking(host("a"))
    ask_about(engine, "g")
    assert engine.step(5 * SECOND) == []
    assert engine.decision("g").state == "backoff"
    assert engine.next_due() == 6 * SECOND


def test_no_answer_in_time_to_an_ignorable_ask_decides_without_it():
    engine = asking(host("a"), host("b"), ignorable=True)
    ask_about(engine, "g")
    assert binds(engine.step(5 * SECOND)) == {"g": "a"}


def test_an_error_to_an_ignorable_ask_decides_without_it():
    engine = asking(host("a"), host("b"), ignorable=True)
    (ask,) = ask_about(engine, "g")
    engine.apply(Answered(uid="g", ask=ask.ask, error="down", scores=(("b", 9),)))
    assert binds(engine.step(0)) == {"g": "a"}


WRONG_ANSWERS: list = [
    pytest.param(lambda ask: Answered(uid="g", ask=ask.ask + 1, scores=(("b", 9),)), id="of another ask"),
    pytest.param(lambda ask: Answered(uid="h", ask=ask.ask, scores=(("b", 9),)), id="about another guest"),
]


@pytest.mark.parametrize("answer", WRONG_ANSWERS)
def test_a_wrong_answer_changes_nothing(answer: Callable[[Ask], Event]):
    engine = asking(host("a"), host("b"))
    (ask,) = ask_about(engine, "g")
    before = essence(engine)
    engine.apply(answer(ask))
    assert essence(engine) == before
    assert engine.step(0) == []


def test_a_late_answer_changes_nothing():
    engine = asking(host("a"), host("b"))
    (ask,) = ask_about(engine, "g")
    engine.step(5 * SECOND)
    engine.apply(Answered(uid="g", ask=ask.ask, scores=(("b", 9),)))
    assert engine.decision("g").state == "backoff"
    (again,) = step(engine, 6 * SECOND)
    engine.apply(Answered(uid="g", ask=ask.ask, scores=(("b", 9),)))
    assert engine.decision("g").state == "asked"
    engine.apply(Answered(uid="g", ask=again.ask, scores=(("a", 9), ("b", 0))))
    assert binds(engine.step(6 * SECOND)) == {"g": "a"}


def test_an_answer_twice_counts_once():
    engine = asking(host("a"), host("b"))
    (ask,) = ask_about(engine, "g")
    engine.apply(Answered(uid="g", ask=ask.ask, scores=(("b", 0),)))
    engine.apply(Answered(uid="g", ask=ask.ask, scores=(("a", 0),)))
    assert binds(engine.step(0)) == {"g": "b"}
    assert engine.step(0) == []


def test_a_guest_that_changes_while_asked_is_asked_about_again():
    engine = asking(host("a"), host("b"))
    arrive(engine, guest("g", version=1))
    (first,) = step(engine, 0)
    engine.apply(GuestChanged(guest=guest("g", version=2, cpu=2000)))
    (second,) = step(engine, 0)
    assert isinstance(second, Ask)
    engine.apply(Answered(uid="g", ask=first.ask, scores=(("b", 0),)))
    assert engine.step(0) == []
    engine.apply(Answered(uid="g", ask=second.ask, scores=(("a", 0),)))
    assert binds(engine.step(0)) == {"g": "a"}


def test_an_answer_under_a_policy_that_no_longer_asks_is_no_obstacle():
    engine = asking(host("a"))
    (ask,) = ask_about(engine, "g")
    engine.apply(PolicyChanged(policies=(policy("spread"),)))
    engine.apply(Answered(uid="g", ask=ask.ask, scores=(("a", 1),)))
    assert binds(engine.step(0)) == {"g": "a"}


def test_guest_of_an_asking_policy_is_woken_alike_in_a_fork():
    engine = asking(host("a", cordoned=True))
    arrive(engine, guest("tenant", host="a"))
    arrive(engine, guest("g"))
    engine.step(0)
    others = [engine.fork(), Engine.restore(engine.checkpoint())]
    engine.apply(GuestLeft(uid="tenant"))
    expected = engine.step(LATER)
    for other in others:
        other.apply(GuestLeft(uid="tenant"))
        assert other.step(LATER) == expected


# -- preparing something ----------------------------------------------------------------------------------------------


def preparing(*hosts: Host) -> Engine:
    engine = engine_with(hosts, rules=QueueRules(jitter_percent=0))
    arrive(engine, guest("g", prepare=("disk", "image"), gpu=(1, 500)))
    (action,) = engine.step(0)
    assert isinstance(action, Prepare)
    assert (action.needs, action.deadline, action.devices) == (("disk", "image"), 600 * SECOND, (0,))
    return engine


def test_a_guest_that_is_prepared_holds_its_room_and_is_bound_when_ready():
    engine = preparing(host("a", gpus=1))
    assert used(engine, "a")["guests"] == 1
    assert engine.decision("g").state == "preparing"
    assert engine.next_due() == 600 * SECOND
    engine.apply(Prepared(uid="g", host="a"))
    assert engine.next_due() == 0
    (bind,) = engine.step(1)
    assert bind == Bind("g", "g", bind.seq, "a", (0,))
    assert engine.decision("g").state == "assumed"
    assert engine.step(700 * SECOND) == []


def test_a_preparation_that_fails_gives_back_and_backs_off():
    engine = preparing(host("a", gpus=1))
    engine.apply(Prepared(uid="g", host="a", error="disk full"))
    assert used(engine, "a") == {}
    assert engine.decision("g").state == "backoff"
    assert "disk full" in engine.decision("g").note
    (again,) = engine.step(SECOND)
    assert isinstance(again, Prepare)


def test_preparation_past_its_deadline_is_abandoned():
    engine = preparing(host("a", gpus=1))
    (abandon,) = engine.step(600 * SECOND)
    assert isinstance(abandon, Abandon)
    assert (abandon.uid, abandon.host) == ("g", "a")
    assert used(engine, "a") == {}
    assert engine.next_due() == 601 * SECOND


def test_room_of_an_abandoned_preparation_is_used_in_the_same_step():
    engine = preparing(host("a", gpus=1))
    arrive(engine, guest("h", gpu=(1, 1000)))
    assert holds(engine.step(1)) == ["h"]
    actions = engine.step(600 * SECOND)
    assert [type(a) for a in actions] == [Abandon, Defer] or binds(actions) == {"h": "a"}


def test_a_preparation_that_was_answered_is_not_abandoned_at_its_deadline():
    engine = preparing(host("a", gpus=1))
    engine.apply(Prepared(uid="g", host="a"))
    (bind,) = engine.step(600 * SECOND)
    assert isinstance(bind, Bind)


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(Prepared(uid="g", host="elsewhere"), id="of another host"),
        pytest.param(Prepared(uid="h", host="a"), id="of another guest"),
        pytest.param(BindFailed(uid="g", host="a"), id="a failed bind before there was one"),
    ],
)
def test_wrong_news_about_a_preparation_changes_nothing(event):
    engine = preparing(host("a", gpus=1))
    before = essence(engine)
    engine.apply(event)
    assert essence(engine) == before


def test_a_late_preparation_changes_nothing():
    engine = preparing(host("a", gpus=1))
    engine.step(600 * SECOND)
    engine.apply(Prepared(uid="g", host="a"))
    assert engine.decision("g").state == "backoff"
    assert used(engine, "a") == {}


def test_a_guest_that_asks_and_prepares_does_one_after_the_other():
    engine = asking(host("a"), host("b"))
    arrive(engine, guest("g", prepare=("disk",)))
    (ask,) = step(engine, 0)
    engine.apply(Answered(uid="g", ask=ask.ask, scores=(("b", 3),)))
    (prepare,) = engine.step(0)
    assert isinstance(prepare, Prepare)
    engine.apply(Prepared(uid="g", host="b"))
    assert binds(engine.step(0)) == {"g": "b"}


def test_every_arrival_in_flight_or_waiting_is_counted_once():
    engine = engine_with([host("a", cpu=2000)], rules=QueueRules(jitter_percent=0))
    arrive(engine, guest("x"), guest("y"), guest("z"))
    engine.step(0)
    engine.apply(BindFailed(uid="x", host="a"))
    engine.apply(GuestArrived(guest=guest("w")))
    assert states(engine) == {"x": "backoff", "y": "assumed", "z": "waiting", "w": "active"}
    assert set(engine.state.queue.entries) == {"x", "z", "w"}
