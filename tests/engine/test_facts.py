"""Facts: identity and version, places by facts, churn of hosts, and that a refused fact leaves no trace."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from hostler.engine import Engine
from hostler.errors import FactError, HostlerError, InputError, UnknownNameError
from hostler.model import (
    MAX_AMOUNT,
    Answered,
    AskUse,
    Bind,
    BindFailed,
    Device,
    DeviceRequest,
    Event,
    Guest,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestLeft,
    GuestsArrived,
    GuestSpec,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    HostsJoined,
    PolicyChanged,
    Prepare,
    Prepared,
    ScorerUse,
    Taint,
    amounts,
)
from tests.engine.fleet import (
    GIB,
    SECOND,
    arrive,
    batch,
    binds,
    books,
    devices_left,
    due,
    engine_with,
    essence,
    guest,
    holds,
    host,
    place,
    policy,
    reasons,
    spec,
    states,
    step,
    used,
)

ONE = {"guests": 1, "cpu": 1000, "memory": GIB}


def refused(engine: Engine, event: Event, error: type[HostlerError] = FactError) -> HostlerError:
    """Apply an event that must be refused without a trace; return the error."""
    before = essence(engine)
    with pytest.raises(error) as caught:
        engine.apply(event)
    assert essence(engine) == before
    return caught.value


def unheard(engine: Engine, event: Event) -> None:
    """Apply an event that must change nothing."""
    before = essence(engine)
    engine.apply(event)
    assert essence(engine) == before


# -- identity and version ---------------------------------------------------------------------------------------------


def test_the_same_fact_about_a_host_again_changes_nothing():
    engine = engine_with([host("a", version=3)])
    unheard(engine, HostJoined(host=host("a", version=3)))
    unheard(engine, HostChanged(host=host("a", version=3)))
    unheard(engine, HostsJoined(hosts=(host("a", version=3),)))


def test_an_older_fact_about_a_host_changes_nothing():
    engine = engine_with([host("a", version=3)])
    unheard(engine, HostChanged(host=host("a", cpu=1, version=2)))
    unheard(engine, HostsJoined(hosts=(host("a", cpu=1, version=2),)))


def test_a_contradictory_fact_of_equal_version_about_a_host_is_refused():
    engine = engine_with([host("a", version=3)])
    error = refused(engine, HostChanged(host=host("a", cpu=1, version=3)))
    assert "'a'" in error.message
    assert error.code == "impossible_fact"
    refused(engine, HostsJoined(hosts=(host("new"), host("a", cpu=1, version=3))))


def test_a_host_without_a_version_is_always_news():
    engine = engine_with([host("a")])
    engine.apply(HostChanged(host=host("a", cpu=1)))
    assert next(engine.hosts()).capacity == amounts({"cpu": 1, "memory": 4 * GIB})


def test_a_host_of_another_uid_is_another_host_whatever_its_version():
    engine = engine_with([host("a", uid="first", version=7)])
    engine.apply(HostJoined(host=host("a", cpu=1, uid="second", version=1)))
    assert next(engine.hosts()).uid == "second"


def test_a_late_fact_about_a_replaced_host_changes_nothing():
    engine = engine_with([host("a", uid="first", version=1)])
    engine.apply(HostJoined(host=host("a", uid="second", version=5)))
    unheard(engine, HostChanged(host=host("a", cpu=1, uid="first", version=2)))


def test_a_late_fact_about_a_host_that_left_changes_nothing():
    engine = engine_with([host("a", uid="first", version=2)])
    engine.apply(HostLeft(name="a", uid="first"))
    unheard(engine, HostJoined(host=host("a", uid="first", version=1)))
    unheard(engine, HostJoined(host=host("a", uid="first", version=2)))
    assert not list(engine.hosts())


def test_the_end_of_a_host_that_was_replaced_does_not_end_its_successor():
    engine = engine_with([host("a", uid="first", version=1)])
    engine.apply(HostJoined(host=host("a", uid="second", version=2)))
    engine.apply(HostLeft(name="a", uid="first"))
    assert [h.uid for h in engine.hosts()] == ["second"]
    unheard(engine, HostJoined(host=host("a", uid="first", version=1)))


def test_the_end_of_an_unknown_host_changes_no_books():
    engine = engine_with([host("a")])
    before = books(engine)
    engine.apply(HostLeft(name="nobody"))
    assert books(engine) == before


def test_the_same_fact_about_a_guest_again_changes_nothing():
    engine = engine_with([host("a")])
    place(engine, guest("g", version=2))
    unheard(engine, GuestArrived(guest=guest("g", version=2)))
    unheard(engine, GuestChanged(guest=guest("g", version=2)))


def test_an_older_fact_about_a_guest_changes_nothing():
    engine = engine_with([host("a"), host("b")])
    place(engine, guest("g", version=2))
    unheard(engine, GuestChanged(guest=guest("g", cpu=2000, version=1)))
    unheard(engine, GuestChanged(guest=guest("g", host="b", version=1)))


def test_a_contradictory_fact_of_equal_version_about_a_guest_is_refused():
    engine = engine_with([host("a")])
    place(engine, guest("g", version=2))
    refused(engine, GuestChanged(guest=guest("g", cpu=2000, version=2)))


def test_a_batch_that_is_delivered_twice_changes_nothing_the_second_time():
    engine = engine_with([host("a")])
    engine.apply_many(batch([spec()], ["x", "y"]))
    unheard(engine, batch([spec()], ["x", "y"]))
    engine.step(0)
    unheard(engine, batch([spec()], ["x", "y"]))


def test_a_guest_that_left_never_comes_back():
    engine = engine_with([host("a")])
    place(engine, guest("g"))
    engine.apply(GuestLeft(uid="g"))
    unheard(engine, GuestArrived(guest=guest("g", version=9)))
    unheard(engine, GuestBound(uid="g", host="a"))
    assert used(engine, "a") == {}


def test_a_guest_whose_end_is_told_before_its_arrival_never_arrives():
    engine = engine_with([host("a")])
    engine.apply(GuestLeft(uid="g"))
    engine.apply(GuestArrived(guest=guest("g")))
    engine.apply_many(batch([spec()], ["g"]))
    assert list(engine.guests()) == []
    assert engine.step(0) == []


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(GuestLeft(uid="nobody"), id="its end"),
        pytest.param(GuestBound(uid="nobody", host="a"), id="its bind"),
        pytest.param(BindFailed(uid="nobody", host="a"), id="its failed bind"),
        pytest.param(Answered(uid="nobody", ask=1), id="an answer"),
        pytest.param(Prepared(uid="nobody", host="a"), id="a preparation"),
    ],
)
def test_facts_about_unknown_guests_change_no_books(event):
    engine = engine_with([host("a")])
    before = books(engine)
    engine.apply(event)
    assert books(engine) == before
    assert engine.step(0) == []


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(HostJoined(host=Host(name="")), id="host without a name"),
        pytest.param(HostJoined(host=Host(name="h", capacity=(("cpu", -1),))), id="negative capacity"),
        pytest.param(HostJoined(host=Host(name="h", capacity=(("cpu", MAX_AMOUNT + 1),))), id="capacity beyond 2^62"),
        pytest.param(HostJoined(host=Host(name="h", reserve=(("cpu", -1),))), id="negative reserve"),
        pytest.param(HostJoined(host=Host(name="h", devices=(Device("gpu", "", 0),))), id="device of nothing"),
        pytest.param(HostJoined(host=Host(name="h", devices=(Device("gpu"),) * 65)), id="65 devices"),
        pytest.param(HostsJoined(hosts=(host("x"), host("x", cpu=1))), id="one name twice"),
        pytest.param(HostsJoined(hosts=(host("x"), Host(name="y", capacity=(("cpu", -1),)))), id="one bad of two"),
        pytest.param(GuestArrived(guest=Guest(name="g")), id="guest without a uid"),
        pytest.param(GuestArrived(guest=Guest(name="", uid="g")), id="guest without a name"),
        pytest.param(GuestArrived(guest=guest("g", GuestSpec(requests=(("cpu", -1),)))), id="negative request"),
        pytest.param(
            GuestArrived(guest=guest("g", GuestSpec(requests=(("cpu", MAX_AMOUNT + 1),)))), id="request beyond 2^62"
        ),
        pytest.param(
            GuestArrived(guest=guest("g", GuestSpec(devices=(DeviceRequest("gpu", 0),)))), id="no devices asked for"
        ),
        pytest.param(
            GuestArrived(guest=guest("g", GuestSpec(devices=(DeviceRequest("gpu", 1, 1001),)))), id="1001 milli"
        ),
        pytest.param(GuestsArrived(specs=(spec(),), spec_of=(0, 0), names=("x",)), id="columns of different length"),
        pytest.param(GuestsArrived(specs=(spec(),), spec_of=(0, 1), names=("x", "y")), id="spec that is not there"),
        pytest.param(GuestsArrived(specs=(spec(),), spec_of=(0, 0), names=("x", "x")), id="uid twice"),
        pytest.param(GuestsArrived(specs=(spec(),), spec_of=(0, 0), names=("x", "")), id="empty name"),
    ],
)
def test_a_fact_that_no_front_could_send_is_refused_without_a_trace(event):
    engine = engine_with([host("a")])
    place(engine, guest("there"))
    refused(engine, event)


def test_a_guest_that_names_an_unknown_policy_is_refused_with_the_nearest_name():
    engine = engine_with([host("a")], "spread", "pack")
    error = refused(engine, GuestArrived(guest=guest("g", policy="packk")), UnknownNameError)
    assert "pack" in error.hint
    refused(engine, batch([spec(), spec(policy="packk")], ["x", "y"]), UnknownNameError)


def test_an_overcommit_that_passes_2_to_the_62_is_refused_without_a_trace():
    engine = engine_with([host("a")])
    refused(engine, HostJoined(host=host("b", cpu=MAX_AMOUNT, overcommit=(("cpu", 2_000_000),))), InputError)
    refused(
        engine,
        HostsJoined(hosts=(host("c"), host("b", cpu=MAX_AMOUNT, overcommit=(("cpu", 2_000_000),)))),
        InputError,
    )


def test_time_never_runs_backwards():
    engine = engine_with([host("a")], clock_start=50)
    engine.apply(HostJoined(host=host("b"), at=40))
    assert engine.now == 50
    engine.apply(HostJoined(host=host("c"), at=60))
    assert engine.now == 60
    engine.step(10)
    assert engine.now == 60


def test_a_backoff_begins_at_the_time_of_the_fact_that_caused_it():
    engine = engine_with([host("a")])
    place(engine, guest("g"), now=0)
    engine.apply(BindFailed(uid="g", host="a", at=100 * SECOND))
    assert due(engine) >= 101 * SECOND


@pytest.mark.parametrize("where", ["", "a", "away"])
def test_the_last_decision_about_a_guest_can_be_read_after_the_guest_changed(where):
    engine = engine_with([host("a")])
    place(engine, guest("g", version=1, selector={"disk": "ssd", "zone": "x"}, gpu=(1, 500)))
    before = reasons(engine.decision("g"))
    engine.apply(GuestChanged(guest=guest("g", version=2, host=where)))
    assert reasons(engine.decision("g")) == before == {"host_affinity: selector mismatch: disk=ssd": 1}
    assert reasons(Engine.restore(engine.checkpoint()).decision("g")) == before


# -- guests that come with a place ------------------------------------------------------------------------------------


def test_a_guest_that_arrives_bound_is_booked_and_not_queued():
    engine = engine_with([host("a")])
    arrive(engine, guest("g", host="a"))
    assert used(engine, "a") == ONE
    assert engine.decision("g").state == "bound"
    assert engine.step(0) == []


def test_a_guest_bound_to_an_unknown_host_is_parked_and_booked_when_the_host_joins():
    engine = engine_with([host("a")])
    arrive(engine, guest("g", host="later"))
    assert engine.decision("g").state == "parked"
    assert engine.step(0) == []
    engine.apply(HostJoined(host=host("later")))
    assert engine.decision("g").state == "bound"
    assert used(engine, "later") == ONE


def test_parked_guests_are_booked_too_when_many_hosts_join_at_once():
    engine = engine_with()
    arrive(engine, guest("g", host="a"), guest("h", host="b"))
    engine.apply(HostsJoined(hosts=(host("a"), host("b"))))
    assert used(engine, "a") == used(engine, "b") == ONE


def test_a_host_that_leaves_parks_its_guests_and_gets_them_back():
    engine = engine_with([host("a", gpus=2)])
    place(engine, guest("g", gpu=(1, 300)))
    engine.apply(HostLeft(name="a"))
    assert engine.decision("g").state == "parked"
    engine.apply(HostJoined(host=host("a", gpus=2)))
    assert used(engine, "a") == ONE
    assert devices_left(engine, "a") == [700, 1000]


def test_a_host_comes_back_with_another_size():
    engine = engine_with([host("a", version=1, gpus=2)])
    place(engine, guest("g", gpu=(2, 1000), cpu=3000))
    engine.apply(HostLeft(name="a"))
    engine.apply(HostJoined(host=host("a", cpu=2000, version=2, gpus=4)))
    assert used(engine, "a") == {"guests": 1, "cpu": 3000, "memory": GIB}  # a fact, although it exceeds the limit
    assert devices_left(engine, "a") == [0, 0, 1000, 1000]
    assert place(engine, guest("h", cpu=1000), guest("i", cpu=0)) == ["", "a"]


def test_a_host_that_leaves_and_comes_back_smaller_keeps_nothing_of_devices_it_lost():
    engine = engine_with([host("a", gpus=2)])
    place(engine, guest("g", gpu=(2, 1000)))
    engine.apply(HostLeft(name="a"))
    engine.apply(HostJoined(host=host("a", gpus=1)))
    assert len(devices_left(engine, "a")) == 1
    engine.apply(GuestLeft(uid="g"))
    assert devices_left(engine, "a") == [1000]
    assert used(engine, "a") == {}


def test_a_running_host_that_loses_a_device_and_gets_it_back_keeps_its_books():
    engine = engine_with([host("a", gpus=3)])
    arrive(engine, guest("g", gpu=(1, 1000), host="a", on_devices=(2,)))
    engine.apply(HostChanged(host=host("a", gpus=1)))
    assert devices_left(engine, "a") == [1000]
    engine.apply(HostChanged(host=host("a", gpus=3)))
    assert devices_left(engine, "a") == [1000, 1000, 0]
    engine.apply(GuestLeft(uid="g"))
    assert devices_left(engine, "a") == [1000, 1000, 1000]


def test_the_row_of_a_host_that_left_holds_nothing_for_the_next_host():
    engine = engine_with([host("a", gpus=2, labels={"zone": "x"}, taints=(Taint("t"),), cordoned=True)])
    arrive(engine, guest("g", gpu=(2, 1000), host="a"))
    engine.apply(HostLeft(name="a"))
    engine.apply(HostJoined(host=host("b", gpus=2)))
    assert used(engine, "b") == {}
    assert place(engine, guest("h", gpu=(2, 1000))) == ["b"]
    engine.apply(GuestLeft(uid="g"))
    assert used(engine, "b") == ONE


def test_a_guest_on_devices_that_it_names_holds_exactly_those():
    engine = engine_with([host("a", gpus=3)])
    arrive(engine, guest("g", gpu=(2, 600), host="a", on_devices=(2, 0)))
    assert devices_left(engine, "a") == [400, 1000, 400]
    engine.apply(GuestLeft(uid="g"))
    assert devices_left(engine, "a") == [1000, 1000, 1000]


@pytest.mark.parametrize(
    "on_devices",
    [
        pytest.param((5,), id="no such index"),
        pytest.param((0, 1), id="too many"),
        pytest.param((2,), id="another kind"),
        pytest.param((-1,), id="a negative index"),
    ],
)
def test_a_guest_on_devices_that_the_host_does_not_have_is_refused(on_devices):
    engine = engine_with([host("a", devices=(Device("gpu"), Device("gpu"), Device("nic")))])
    refused(engine, GuestArrived(guest=guest("g", gpu=(1, 500), host="a", on_devices=on_devices)))


def test_a_guest_bound_by_another_scheduler_leaves_the_queue():
    engine = engine_with([host("a"), host("b")])
    arrive(engine, guest("g", version=1))
    engine.apply(GuestChanged(guest=guest("g", version=2, host="b")))
    assert engine.step(0) == []
    assert used(engine, "b") == ONE


def test_a_pending_guest_reported_bound_is_booked_there():
    engine = engine_with([host("a"), host("b")])
    arrive(engine, guest("g"))
    engine.apply(GuestBound(uid="g", host="b"))
    assert engine.step(0) == []
    assert used(engine, "b") == ONE
    assert used(engine, "a") == {}


def test_a_guest_bound_elsewhere_than_we_decided_moves_its_booking():
    engine = engine_with([host("a"), host("b")])
    assert place(engine, guest("g")) == ["a"]
    engine.apply(GuestBound(uid="g", host="b"))
    assert used(engine, "a") == {}
    assert used(engine, "b") == ONE
    assert engine.decision("g").state == "bound"


def test_a_guest_bound_to_a_host_that_nobody_knows_is_parked_there():
    engine = engine_with([host("a")])
    place(engine, guest("g"))
    engine.apply(GuestBound(uid="g", host="elsewhere"))
    assert used(engine, "a") == {}
    assert engine.decision("g").state == "parked"


def test_a_fact_without_a_host_never_unbinds_a_guest():
    engine = engine_with([host("a")])
    arrive(engine, guest("g", version=1, host="a"))
    engine.apply(GuestChanged(guest=guest("g", version=2, cpu=2000)))
    assert used(engine, "a") == {"guests": 1, "cpu": 2000, "memory": GIB}
    assert engine.decision("g").state == "bound"


def test_a_running_guest_is_resized_in_place():
    engine = engine_with([host("a", gpus=2)])
    arrive(engine, guest("g", version=1, host="a", cpu=3000, gpu=(1, 400)))
    engine.apply(GuestChanged(guest=guest("g", version=2, host="a", cpu=500, gpu=(1, 400))))
    assert used(engine, "a") == {"guests": 1, "cpu": 500, "memory": GIB}
    assert devices_left(engine, "a") == [600, 1000]
    engine.apply(GuestChanged(guest=guest("g", version=3, host="a", cpu=500, gpu=(2, 1000))))
    assert devices_left(engine, "a") == [0, 0]


def test_a_guest_confirmed_by_a_fact_of_its_own_is_bound():
    engine = engine_with([host("a")])
    place(engine, guest("g", version=1))
    engine.apply(GuestChanged(guest=guest("g", version=2, host="a")))
    assert engine.decision("g").state == "bound"
    assert used(engine, "a") == ONE


def test_facts_may_exceed_a_limit_and_decisions_do_not():
    engine = engine_with([host("a", cpu=2000)])
    arrive(engine, *(guest(f"g{i}", host="a") for i in range(5)))
    assert used(engine, "a")["cpu"] == 5000
    engine.apply(GuestArrived(guest=guest("late")))
    (hold,) = engine.step(0)
    assert reasons(hold) == {"resources: insufficient: cpu": 1}


def test_a_guest_on_a_full_device_goes_below_zero_and_comes_back_to_what_it_was():
    engine = engine_with([host("a", gpus=1)])
    arrive(engine, guest("g", gpu=(1, 700), host="a"), guest("h", gpu=(1, 700), host="a"))
    assert devices_left(engine, "a") == [-400]
    engine.apply(GuestLeft(uid="g"))
    assert devices_left(engine, "a") == [300]


# -- sums beyond 2^62 -------------------------------------------------------------------------------------------------


@pytest.fixture
def brimful() -> Engine:
    """An engine whose host ``a`` has 2^62 of cpu booked, and ``b`` nothing."""
    engine = engine_with([host("a"), host("b", cpu=0)])
    arrive(engine, guest("big", cpu=MAX_AMOUNT, memory=0, host="a"))
    return engine


def test_a_guest_that_would_pass_2_to_the_62_is_refused(brimful):
    refused(brimful, GuestArrived(guest=guest("g", cpu=1, host="a")))


def test_a_pending_guest_that_cannot_be_booked_where_it_is_said_to_run_stays_pending(brimful):
    arrive(brimful, guest("g", cpu=1, version=1))
    refused(brimful, GuestChanged(guest=guest("g", cpu=1, version=2, host="a")))
    refused(brimful, GuestBound(uid="g", host="a"))
    assert brimful.decision("g").state == "active"


def test_a_waiting_guest_that_cannot_be_booked_where_it_is_said_to_run_stays_waiting(brimful):
    place(brimful, guest("g", cpu=1, version=1))
    refused(brimful, GuestBound(uid="g", host="a"))
    assert brimful.decision("g").state == "waiting"


def test_a_placed_guest_that_cannot_be_booked_elsewhere_stays_where_it_is(brimful):
    arrive(brimful, guest("g", cpu=1, host="b", version=1))
    refused(brimful, GuestBound(uid="g", host="a"))
    refused(brimful, GuestChanged(guest=guest("g", cpu=1, host="a", version=2)))
    assert used(brimful, "b") == {"guests": 1, "cpu": 1, "memory": GIB}


def test_a_running_guest_that_grows_past_2_to_the_62_is_refused(brimful):
    arrive(brimful, guest("g", cpu=0, host="a", version=1))
    refused(brimful, GuestChanged(guest=guest("g", cpu=1, host="a", version=2)))


def test_a_ready_guest_whose_confirmation_is_refused_is_still_ready():
    engine = engine_with([host("a"), host("b", cpu=0)])
    arrive(engine, guest("big", cpu=MAX_AMOUNT, memory=0, host="b"))
    arrive(engine, guest("g", cpu=1, version=1, prepare=("disk",)))
    engine.step(0)
    engine.apply(Prepared(uid="g", host="a"))
    refused(engine, GuestChanged(guest=guest("g", cpu=1, version=2, host="b", prepare=("disk",))))
    assert binds(engine.step(0)) == {"g": "a"}


def test_a_batch_with_one_guest_that_cannot_be_booked_books_none():
    engine = engine_with([host("a")])
    shapes = (spec(cpu=MAX_AMOUNT), spec(cpu=1))
    refused(engine, GuestsArrived(specs=shapes, spec_of=(0, 1), names=("x", "y"), hosts=("a", "a")))
    refused(engine, GuestsArrived(specs=shapes, spec_of=(1, 0), names=("x", "y"), hosts=("a", "a")))


def test_parked_guests_that_no_longer_add_up_stay_parked():
    engine = engine_with()
    arrive(engine, guest("x", cpu=MAX_AMOUNT, host="a"), guest("y", cpu=1, host="a"))
    engine.apply(HostJoined(host=host("a")))
    assert sorted(states(engine).values()) == ["bound", "parked"]
    assert used(engine, "a")["guests"] == 1


# -- binds that fail --------------------------------------------------------------------------------------------------


def test_a_failed_bind_gives_everything_back():
    engine = engine_with([host("a", gpus=2)])
    before = used(engine, "a"), devices_left(engine, "a")
    place(engine, guest("g", gpu=(1, 300)))
    engine.apply(BindFailed(uid="g", host="a", reason="no disk"))
    assert (used(engine, "a"), devices_left(engine, "a")) == before
    decision = engine.decision("g")
    assert (decision.state, decision.host, decision.devices) == ("backoff", "", ())
    assert "no disk" in decision.note


def test_a_failed_bind_of_another_host_or_of_a_bound_guest_changes_nothing():
    engine = engine_with([host("a")])
    place(engine, guest("g"))
    unheard(engine, BindFailed(uid="g", host="elsewhere"))
    engine.apply(GuestBound(uid="g", host="a"))
    unheard(engine, BindFailed(uid="g", host="a"))
    assert engine.decision("g").state == "bound"


def test_a_bind_that_failed_on_a_host_that_left_gives_back_too():
    engine = engine_with([host("a"), host("b", cpu=0)])
    place(engine, guest("g"))
    engine.apply(HostLeft(name="a"))
    engine.apply(BindFailed(uid="g", host="a"))
    assert engine.decision("g").state == "backoff"
    engine.apply(HostJoined(host=host("a")))
    assert used(engine, "a") == {}


def test_a_prepared_guest_that_is_bound_elsewhere_gets_no_second_bind():
    engine = engine_with([host("a"), host("b")])
    arrive(engine, guest("g", prepare=("disk",)))
    (prepare,) = engine.step(0)
    assert isinstance(prepare, Prepare)
    engine.apply(Prepared(uid="g", host="a"))
    engine.apply(GuestBound(uid="g", host="b"))
    assert engine.step(1) == []
    assert engine.decision("g").state == "bound"


# -- guests that leave, in every state --------------------------------------------------------------------------------


def _active(engine: Engine) -> None:
    arrive(engine, guest("g"))


def _backoff(engine: Engine) -> None:
    place(engine, guest("g"), now=0)
    engine.apply(BindFailed(uid="g", host="a"))


def _waiting(engine: Engine) -> None:
    place(engine, guest("g", cpu=9000), now=0)


def _asked(engine: Engine) -> None:
    place(engine, guest("g", policy="asking"), now=0)


def _preparing(engine: Engine) -> None:
    place(engine, guest("g", prepare=("disk",)), now=0)


def _ready(engine: Engine) -> None:
    _preparing(engine)
    engine.apply(Prepared(uid="g", host="a"))


def _assumed(engine: Engine) -> None:
    place(engine, guest("g"), now=0)


def _bound(engine: Engine) -> None:
    _assumed(engine)
    engine.apply(GuestBound(uid="g", host="a"))


def _parked(engine: Engine) -> None:
    arrive(engine, guest("g", host="away"))


IN_STATE = {
    "active": (_active, "active"),
    "backoff": (_backoff, "backoff"),
    "waiting": (_waiting, "waiting"),
    "asked": (_asked, "asked"),
    "preparing": (_preparing, "preparing"),
    "ready": (_ready, "preparing"),
    "assumed": (_assumed, "assumed"),
    "bound": (_bound, "bound"),
    "parked": (_parked, "parked"),
}


def in_state(bring: Callable[[Engine], None]) -> Engine:
    engine = engine_with([host("a")], "spread", policy("spread", name="asking", ask=AskUse("oracle")))
    bring(engine)
    return engine


@pytest.mark.parametrize(("bring", "state"), [pytest.param(*case, id=name) for name, case in IN_STATE.items()])
def test_a_guest_that_leaves_takes_everything_with_it(bring, state):
    engine = in_state(bring)
    assert engine.decision("g").state == state
    engine.apply(GuestLeft(uid="g"))
    assert list(engine.guests()) == []
    assert used(engine, "a") == {}
    assert len(engine.state.queue) == 0
    assert engine.step(10_000 * SECOND) == []
    assert engine.next_due() is None
    engine.apply(HostJoined(host=host("away")))
    assert used(engine, "away") == {}
    with pytest.raises(UnknownNameError):
        engine.decision("g")
    assert place(engine, guest("next", cpu=4000)) == ["a"]


@pytest.mark.parametrize("bring", [pytest.param(case[0], id=name) for name, case in IN_STATE.items()])
def test_a_guest_bound_by_somebody_in_any_state_is_booked_once_and_left_alone(bring):
    engine = in_state(bring)
    engine.apply(HostJoined(host=host("b")))
    engine.apply(GuestBound(uid="g", host="b"))
    assert engine.decision("g").state == "bound"
    assert used(engine, "b")["guests"] == 1
    assert used(engine, "a") == {}
    assert engine.step(10_000 * SECOND) == []
    assert engine.next_due() is None


@pytest.mark.parametrize("bring", [pytest.param(case[0], id=name) for name, case in IN_STATE.items()])
def test_a_host_that_leaves_and_returns_finds_its_books_as_they_were(bring):
    engine = in_state(bring)
    before = used(engine, "a")
    engine.apply(HostLeft(name="a"))
    engine.apply(HostJoined(host=host("a")))
    assert used(engine, "a") == before


# -- hosts that change ------------------------------------------------------------------------------------------------


def test_a_cordoned_host_takes_nobody_and_keeps_what_it_has():
    engine = engine_with([host("a"), host("b")])
    assert place(engine, guest("g")) == ["a"]
    engine.apply(HostChanged(host=host("a", cordoned=True)))
    assert used(engine, "a") == ONE
    assert place(engine, guest("h"), guest("i")) == ["b", "b"]
    assert reasons(engine.decision("h")) == {"cordon: cordoned": 1}
    engine.apply(HostChanged(host=host("a")))
    assert place(engine, guest("j")) == ["a"]


def test_counts_add_up_to_the_hosts_after_every_join_and_leave():
    engine = engine_with([host(name) for name in "abc"])
    for at, change in enumerate(["+d", "+e", "-a", "+f", "-c", "+a", "-b", "+g", "+h"]):
        name = change[1]
        engine.apply(HostJoined(host=host(name)) if change[0] == "+" else HostLeft(name=name))
        place(engine, guest(f"g{at}", cpu=10, memory=10))
        decision = engine.decision(f"g{at}")
        assert (decision.hosts, decision.feasible) == (len(list(engine.hosts())),) * 2


def test_a_resource_that_is_first_named_by_a_late_guest_counts_like_any_other():
    engine = engine_with([host("a")])
    assert place(engine, guest("first")) == ["a"]
    engine.apply(GuestArrived(guest=guest("g", more={"license": 1})))
    (hold,) = engine.step(0)
    assert reasons(hold) == {"resources: insufficient: license": 1}
    engine.apply(HostJoined(host=host("b", more={"license": 1})))
    assert binds(engine.step(60 * SECOND)) == {"g": "b"}


def test_a_guest_may_ask_for_any_number_of_resources():
    many = {f"r{i}": 1 for i in range(20)}
    engine = engine_with([host("a")])
    assert place(engine, guest("first")) == ["a"]
    assert place(engine, guest("g", more=many)) == [""]
    engine.apply(HostJoined(host=host("b", more=many)))
    assert binds(engine.step(60 * SECOND)) == {"g": "b"}
    assert used(engine, "b") == ONE | many


def test_a_host_may_bring_any_number_of_resources():
    engine = engine_with([host("a")])
    place(engine, guest("first"))
    engine.apply(HostJoined(host=host("b", more={f"r{i}": 2 for i in range(30)})))
    assert place(engine, guest("g", more={"r29": 2}), guest("h", more={"r29": 1})) == ["b", ""]


def test_device_kinds_and_models_that_are_first_named_late_count_like_any_other():
    engine = engine_with([host("a", gpus=1, model="A")])
    assert place(engine, guest("first", gpu=(1, 100))) == ["a"]
    late = DeviceRequest("fpga", 1, 500, ("X",))
    engine.apply(GuestArrived(guest=guest("g", devices=(late,))))
    (hold,) = engine.step(0)
    assert reasons(hold) == {"devices: no device: fpga": 1}
    engine.apply(HostJoined(host=host("b", devices=(Device("fpga", "Y"),))))
    engine.apply(HostJoined(host=host("c", devices=(Device("fpga", "X"),))))
    assert binds(engine.step(60 * SECOND)) == {"g": "c"}
    assert place(engine, guest("h", devices=(DeviceRequest("gpu", 1, 100, ("B",)),))) == [""]
    assert reasons(engine.decision("h")) == {"devices: no device: gpu": 2, "devices: wrong device model: gpu": 1}


def test_the_order_of_many_names_stays_right_whatever_the_order_they_join_in():
    engine = engine_with((), "first_fit")
    names = [f"{i:03}" for i in range(120)]
    for name in reversed(names):
        engine.apply(HostJoined(host=host(name, cpu=1000)))
    assert [h.name for h in engine.hosts()] == names
    assert place(engine, *(guest(f"g{i:03}") for i in range(120))) == names


def test_hosts_that_join_at_once_are_as_good_as_hosts_that_join_one_by_one():
    hosts = [host(f"h{i:02}", cpu=1000 * (1 + i % 3)) for i in (5, 2, 9, 1, 7, 3)]
    one = engine_with(hosts)
    many = engine_with()
    many.apply_many(HostsJoined(hosts=tuple(hosts)))
    assert books(one) == books(many)
    guests = [guest(f"g{i}") for i in range(12)]
    assert place(one, *guests) == place(many, *guests)


def test_guests_that_arrive_at_once_are_as_good_as_guests_that_arrive_one_by_one():
    hosts = [host("a"), host("b")]
    shapes = [spec(), spec(cpu=500), spec(cpu=9000)]
    one, many = engine_with(hosts), engine_with(hosts)
    names = [f"g{i}" for i in range(9)]
    arrive(one, *(guest(name, shapes[i % 3]) for i, name in enumerate(names)))
    many.apply_many(batch(shapes, names))
    assert books(one) == books(many)
    assert one.step(0) == many.step(0)


def test_guests_may_arrive_at_once_with_their_places():
    engine = engine_with([host("a")])
    engine.apply_many(batch([spec()], ["x", "y", "z"], hosts=("a", "", "away")))
    assert states(engine) == {"x": "bound", "y": "active", "z": "parked"}


# -- policies ---------------------------------------------------------------------------------------------------------


def test_other_policies_decide_from_the_next_step_on():
    engine = engine_with([host("a"), host("b")], "spread")
    assert place(engine, guest("g1"), guest("g2")) == ["a", "b"]
    engine.apply(PolicyChanged(policies=(policy("pack"),)))
    assert [p.name for p in engine.policies] == ["pack"]
    assert place(engine, guest("g3"), guest("g4"), guest("g5")) == ["a", "a", "a"]


def test_a_change_of_policies_tries_every_pending_guest_again():
    engine = engine_with([host("a", cpu=1000)])
    place(engine, guest("x"), guest("g"), now=0)
    engine.apply(PolicyChanged(policies=(policy("spread", overcommit=(("cpu", 2_000_000),)),)))
    assert engine.decision("g").state == "active"
    assert binds(engine.step(0)) == {"g": "a"}


@pytest.mark.parametrize(
    ("policies", "error"),
    [
        pytest.param((), InputError, id="none at all"),
        pytest.param((policy("spread"), policy("spread")), HostlerError, id="one name twice"),
        pytest.param((policy("fgd", mix=()),), InputError, id="fgd without a mix"),
        pytest.param((policy("pack"),), UnknownNameError, id="without one that a pending guest names"),
        pytest.param((policy("spread", scorers=(ScorerUse("nonsense"),)),), UnknownNameError, id="unknown scorer"),
        pytest.param((policy("spread", scorers=(ScorerUse("balanced", 0),)),), InputError, id="weight of zero"),
        pytest.param((policy("spread", ties=("name", "name")),), InputError, id="a tie key twice"),
        pytest.param(
            (policy("spread", overcommit=(("cpu", 10**12),)),), InputError, id="an overcommit that passes 2^62"
        ),
    ],
)
def test_policies_that_cannot_be_are_refused_without_a_trace(policies, error):
    engine = engine_with([host("a", cpu=2**50)], "spread")
    arrive(engine, guest("g", policy="spread"))
    refused(engine, PolicyChanged(policies=policies), error)
    assert binds(engine.step(0)) == {"g": "a"}


def test_a_bind_that_fails_after_its_policy_was_dropped_still_gives_back():
    engine = engine_with([host("a")], "spread", "pack")
    place(engine, guest("g", policy="pack"))
    engine.apply(PolicyChanged(policies=(policy("spread"),)))
    engine.apply(BindFailed(uid="g", host="a"))
    assert used(engine, "a") == {}
    assert engine.decision("g").state == "backoff"


def test_a_guest_of_a_dropped_policy_is_unparked_like_any_other():
    engine = engine_with([host("a", gpus=1)], "spread", "pack")
    place(engine, guest("g", policy="pack", gpu=(1, 500)))
    engine.apply(HostLeft(name="a"))
    engine.apply(PolicyChanged(policies=(policy("spread"),)))
    engine.apply(HostJoined(host=host("a", gpus=1)))
    assert devices_left(engine, "a") == [500]


def test_a_placed_guest_is_not_moved_by_a_change_of_policies():
    engine = engine_with([host("a"), host("b")])
    place(engine, guest("g1"), guest("g2"))
    before = books(engine)
    engine.apply(PolicyChanged(policies=(policy("pack"),)))
    assert books(engine) == before
    assert engine.step(0) == []


# -- devices of several requests --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["lowest", "best", "worst", "random"])
@pytest.mark.parametrize(
    ("sizes", "requests"),
    [
        pytest.param((1000, 500), (DeviceRequest("gpu", 1, 500), DeviceRequest("gpu", 1, 1000)), id="share then whole"),
        pytest.param(
            (600, 900), (DeviceRequest("gpu", 2, 300), DeviceRequest("gpu", 1, 650)), id="two shares, one big"
        ),
        pytest.param((1000, 1000), (DeviceRequest("gpu", 2, 500), DeviceRequest("gpu", 2, 500)), id="twice two halves"),
    ],
)
def test_several_requests_of_one_kind_are_booked_as_told_or_refused(rule, sizes, requests):
    machine = host("a", devices=tuple(Device("gpu", "", size) for size in sizes))
    engine = engine_with([machine], policy("spread", devices=rule))
    arrive(engine, guest("g", devices=requests))
    actions = engine.step(0)
    if holds(actions):
        assert devices_left(engine, "a") == list(sizes)
        return
    (bind,) = actions
    assert isinstance(bind, Bind)
    left, at = list(sizes), 0
    for request in requests:
        own = bind.devices[at : at + request.count]
        assert len(set(own)) == request.count, "one request took a device twice"
        for device in own:
            left[device] -= request.milli
        at += request.count
    assert min(left) >= 0
    assert devices_left(engine, "a") == left
    engine.apply(GuestLeft(uid="g"))
    assert devices_left(engine, "a") == list(sizes)


def test_a_share_goes_to_a_device_of_the_model_it_asked_for():
    machine = host("a", devices=(Device("gpu", "A"), Device("gpu", "B")))
    for name in ("fgd", "spread", "pack", "random", "gpu_packing"):
        engine = engine_with([machine], name)
        arrive(engine, guest("g", devices=(DeviceRequest("gpu", 1, 500, ("B",)),)))
        (bind,) = step(engine, 0)
        assert bind.devices == (1,), name


def test_events_that_are_no_events_are_refused():
    engine = engine_with([host("a")])
    with pytest.raises(FactError):
        engine.apply(msgspec.structs.replace(host("b")))
