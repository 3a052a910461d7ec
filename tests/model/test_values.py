"""Model values hash, compare, cannot change, and go through msgspec both ways; what a host may give."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.errors import InputError
from hostler.model import (
    MAX_AMOUNT,
    Abandon,
    Action,
    Answered,
    Ask,
    AskUse,
    Bind,
    BindFailed,
    Decision,
    Defer,
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
    MixEntry,
    PluginUse,
    Policy,
    PolicyChanged,
    Prepare,
    Prepared,
    Reason,
    ReasonCount,
    ScorerUse,
    may_give,
)
from tests.model.strategies import guests, hosts, specs

REASONS = (ReasonCount(Reason("resources", "too_small", "cpu"), 2),)
POLICY = Policy(
    name="p",
    filters=(PluginUse("cordon"),),
    scorers=(ScorerUse("least", -2, '{"a":1}'),),
    ties=("fewer_guests", "name"),
    overcommit=(("cpu", 1_500_000),),
    ask=AskUse("oracle", 5, 3, ignorable=True),
    mix=(MixEntry(1000, 500, 1, ("T4",), 0.25),),
)
EVENTS = [
    HostJoined(at=1, host=Host(name="h")),
    HostsJoined(hosts=(Host(name="h"), Host(name="i", rank=2))),
    HostChanged(host=Host(name="h", cordoned=True)),
    HostLeft(name="h", uid="u"),
    GuestArrived(guest=Guest(name="g", uid="u", draw_key=0)),
    GuestsArrived(specs=(GuestSpec(),), spec_of=(0, 0), names=("a", "b")),
    GuestChanged(guest=Guest(name="g", host="h")),
    GuestLeft(uid="u"),
    GuestBound(uid="u", host="h"),
    BindFailed(uid="u", host="h", reason="gone"),
    Answered(uid="u", ask=1, scores=(("h", 3),), refused=(("i", "full"),)),
    Prepared(uid="u", host="h", error="no disk"),
    PolicyChanged(policies=(POLICY,)),
]
ACTIONS = [
    Bind("u", "g", 1, "h", (0, 1)),
    Defer("u", "g", 1, 2, REASONS, 3),
    Ask("u", "g", 1, "oracle", 4, ("h", "i"), 99),
    Prepare("u", "g", 1, "h", ("volume",), 99, (0,)),
    Abandon("u", "g", 1, "h", "late"),
]
TREES = [*EVENTS, *ACTIONS, POLICY]


def _ids(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize("event", EVENTS, ids=_ids)
def test_event_reads_back_the_same_from_json_and_messagepack(event):
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=Event) == event


@pytest.mark.parametrize("action", ACTIONS, ids=_ids)
def test_action_reads_back_the_same_from_json_and_messagepack(action):
    assert msgspec.json.decode(msgspec.json.encode(action), type=Action) == action
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(action), type=Action) == action


@pytest.mark.parametrize("value", TREES, ids=_ids)
def test_equal_values_have_equal_hashes(value):
    copy = msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value))
    assert copy is not value
    assert hash(copy) == hash(value)


@pytest.mark.parametrize("value", TREES, ids=_ids)
def test_values_cannot_change(value):
    with pytest.raises(AttributeError):
        setattr(value, value.__struct_fields__[0], None)


@given(hosts())
def test_any_host_reads_back_the_same_and_hashes(host):
    copy = msgspec.json.decode(msgspec.json.encode(host), type=Host)
    assert copy == host
    assert hash(copy) == hash(host)


@given(guests())
def test_any_guest_reads_back_the_same_and_hashes(guest):
    copy = msgspec.msgpack.decode(msgspec.msgpack.encode(guest), type=Guest)
    assert copy == guest
    assert hash(copy) == hash(guest)


@given(specs, specs)
def test_specs_are_equal_when_all_they_say_is(first, second):
    assert (first == second) == (msgspec.json.encode(first) == msgspec.json.encode(second))


def test_decision_is_data_even_when_nothing_fits():
    decision = Decision(guest="g", uid="u", seq=1, at=0, policy="p", state="waiting", hosts=2, reasons=REASONS)
    assert decision.host == ""
    assert sum(count.hosts for count in decision.reasons) + decision.feasible == decision.hosts
    assert decision.reasons[0].reason.text() == "too small: cpu"


@pytest.mark.parametrize(
    ("host", "overcommit", "reserve", "gives"),
    [
        pytest.param(Host(name="h"), (), (), 0, id="no-capacity"),
        pytest.param(Host(name="h", capacity=(("cpu", 1000),)), (), (), 1000, id="all-of-it"),
        pytest.param(
            Host(name="h", capacity=(("cpu", 1001),)), (("cpu", 1_500_000),), (), 1501, id="ratio-rounds-down"
        ),
        pytest.param(
            Host(name="h", capacity=(("cpu", 1000),), overcommit=(("cpu", 2_000_000),)),
            (("cpu", 3_000_000),),
            (),
            2000,
            id="host-ratio-beats-policy",
        ),
        pytest.param(Host(name="h", capacity=(("cpu", 1000),)), (), (("cpu", 300),), 700, id="policy-reserve"),
        pytest.param(
            Host(name="h", capacity=(("cpu", 1000),), reserve=(("cpu", 100),)),
            (),
            (("cpu", 300),),
            900,
            id="host-reserve-beats-policy",
        ),
        pytest.param(
            Host(name="h", capacity=(("cpu", 1000),), reserve=(("cpu", 0),)),
            (),
            (("cpu", 300),),
            1000,
            id="host-reserve-of-zero-beats-policy",
        ),
        pytest.param(
            Host(name="h", capacity=(("cpu", 1000),), reserve=(("cpu", 2000),)),
            (),
            (),
            0,
            id="never-below-zero",
        ),
        pytest.param(
            Host(name="h", capacity=(("cpu", 1000),), reserve=(("cpu", 100),)),
            (("cpu", 2_000_000),),
            (),
            1900,
            id="reserve-comes-after-the-ratio",
        ),
    ],
)
def test_host_may_give_capacity_times_ratio_less_reserve(host, overcommit, reserve, gives):
    assert may_give(host, "cpu", overcommit, reserve) == gives


def test_host_that_may_give_more_than_the_limit_is_refused():
    host = Host(name="h", capacity=(("cpu", MAX_AMOUNT),), overcommit=(("cpu", 2_000_000),))
    with pytest.raises(InputError, match="more than 2\\^62"):
        may_give(host, "cpu")


@given(hosts(), st.integers(1, 5_000_000))
def test_what_a_host_may_give_is_never_negative(host, ratio):
    assert may_give(host, "cpu", (("cpu", ratio),), (("cpu", 5),)) >= 0
