"""A refused fact leaves nothing behind: not a name, not a shape, not one byte of a checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.engine import Engine, find_policy
from hostler.errors import HostlerError
from hostler.model import (
    Answered,
    BindFailed,
    Guest,
    GuestArrived,
    GuestBound,
    GuestLeft,
    GuestsArrived,
    GuestSpec,
    Host,
    HostJoined,
    HostLeft,
    HostsJoined,
    PolicyChanged,
    Prepared,
    amounts,
)


def small_engine() -> Engine:
    engine = Engine([find_policy("spread")])
    engine.apply(HostJoined(host=Host(name="a", uid="a", version=1, capacity=amounts({"cpu": 4000}))))
    engine.apply(GuestArrived(guest=Guest(name="g", uid="g", spec=GuestSpec(requests=amounts({"cpu": 100})))))
    engine.step(1)
    return engine


wrong: Any = 7
listed: Any = [("cpu", 1)]
text: Any = "x"
REFUSED = {
    "a guest whose name is a number": lambda: GuestArrived(guest=Guest(name=wrong, uid="n")),
    "a guest whose uid is a number": lambda: GuestArrived(guest=Guest(name="n", uid=wrong)),
    "a guest whose version is a text": lambda: GuestArrived(guest=Guest(name="n", uid="n", version=text)),
    "a guest whose host is a number": lambda: GuestArrived(guest=Guest(name="n", uid="n", host=wrong)),
    "a guest whose devices are a list": lambda: GuestArrived(guest=Guest(name="n", uid="n", on_devices=listed)),
    "a guest that is none": lambda: GuestArrived(guest=wrong),
    "a spec that is none": lambda: GuestArrived(guest=Guest(name="n", uid="n", spec=wrong)),
    "a spec whose requests are a list": lambda: GuestArrived(
        guest=Guest(name="n", uid="n", spec=GuestSpec(requests=listed))
    ),
    "a spec with half a unit": lambda: GuestArrived(
        guest=Guest(name="n", uid="n", spec=GuestSpec(requests=(("cpu", 0.5),)))
    ),
    "a spec whose priority is a text": lambda: GuestArrived(
        guest=Guest(name="n", uid="n", spec=GuestSpec(priority=text))
    ),
    "an unknown policy with a new resource": lambda: GuestArrived(
        guest=Guest(name="n", uid="n", spec=GuestSpec(requests=amounts({"example.com/new": 1}), policy="none"))
    ),
    "a host whose name is a number": lambda: HostJoined(host=Host(name=wrong)),
    "a host whose labels are a list": lambda: HostJoined(host=Host(name="b", labels=listed)),
    "a host whose capacity is a text": lambda: HostJoined(host=Host(name="b", capacity=text)),
    "hosts in a list": lambda: HostsJoined(hosts=[Host(name="b")]),
    "hosts, one of them invalid": lambda: HostsJoined(hosts=(Host(name="b"), wrong)),
    "a contradiction that brings names": lambda: HostJoined(
        host=Host(name="a", uid="a", version=1, capacity=amounts({"example.com/other": 1}))
    ),
    "columns of numbers": lambda: GuestsArrived(specs=(GuestSpec(),), spec_of=(0,), names=(wrong,)),
    "a column as a list": lambda: GuestsArrived(specs=(GuestSpec(),), spec_of=[0], names=("n",)),
    "columns with a bad spec at the end": lambda: GuestsArrived(
        specs=(GuestSpec(requests=amounts({"example.com/new": 1})), wrong), spec_of=(0, 1), names=("n", "m")
    ),
    "columns that contradict a known guest": lambda: GuestsArrived(
        specs=(GuestSpec(requests=amounts({"example.com/new": 1})),), spec_of=(0, 0), names=("n", "g")
    ),
    "a bound fact whose host is a number": lambda: GuestBound(uid="g", host=wrong),
    "a failed bind whose uid is a number": lambda: BindFailed(uid=wrong, host="a"),
    "a departure of a number": lambda: GuestLeft(uid=wrong),
    "a host's departure by number": lambda: HostLeft(name=wrong),
    "an answer whose scores are text": lambda: Answered(uid="g", ask=1, scores=text),
    "a preparation of a number": lambda: Prepared(uid=wrong, host="a"),
    "policies that are none": lambda: PolicyChanged(policies=(wrong,)),
    "a time that is a text": lambda: GuestLeft(uid="g", at=text),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED.keys())
def test_a_refused_fact_leaves_not_one_byte_behind(make: Any) -> None:
    engine = small_engine()
    before = engine.checkpoint()
    with pytest.raises(HostlerError):
        engine.apply(make())
    assert engine.checkpoint() == before


def test_names_of_refused_facts_do_not_count_against_the_bounds() -> None:
    engine = small_engine()
    for number in range(3000):
        spec = GuestSpec(requests=amounts({f"example.com/r{number}": 1}), policy="none")
        with pytest.raises(HostlerError):
            engine.apply(GuestArrived(guest=Guest(name="n", uid="n", spec=spec)))
    spec = GuestSpec(requests=amounts({"example.com/last": 1}))
    engine.apply(GuestArrived(guest=Guest(name="n", uid="n", spec=spec)))
    (hold,) = engine.step(2)
    assert [c.reason.subject for c in hold.reasons] == ["example.com/last"]


def test_a_name_taken_back_does_not_lend_its_reason_to_the_next() -> None:
    engine = small_engine()
    first = GuestSpec(requests=amounts({"example.com/first": 1}))
    refused = GuestSpec(requests=amounts({"example.com/first": 1}), policy="none")
    with pytest.raises(HostlerError):
        engine.apply(GuestsArrived(specs=(first, refused), spec_of=(0, 1), names=("n", "m"), hosts=("a", "")))
    engine.apply(GuestArrived(guest=Guest(name="o", uid="o", spec=GuestSpec(requests=amounts({"example.com/x": 1})))))
    (hold,) = engine.step(2)
    assert [c.reason.subject for c in hold.reasons] == ["example.com/x"]


def test_thousands_of_label_keys_cost_no_column_each() -> None:
    engine = Engine([find_policy("spread")])
    hosts = tuple(
        Host(name=f"h{i}", labels=tuple((f"key-{i}-{k}", "v") for k in range(100)), capacity=amounts({"cpu": 1000}))
        for i in range(300)
    )
    engine.apply(HostsJoined(hosts=hosts))
    spec = GuestSpec(requests=amounts({"cpu": 1}), host_selector=(("key-299-7", "v"),))
    engine.apply(GuestArrived(guest=Guest(name="g", uid="g", spec=spec)))
    (bind,) = engine.step(1)
    assert bind.host == "h299"
    assert len(engine.state.cluster.marks._columns) == 1


def test_host_that_left_unseen_stays_away_when_its_old_fact_comes() -> None:
    engine = small_engine()
    engine.apply(HostLeft(name="late", uid="u", version=5))
    engine.apply(HostJoined(host=Host(name="late", uid="u", version=4)))
    assert [h.name for h in engine.hosts()] == ["a"]
    engine.apply(HostJoined(host=Host(name="late", uid="u", version=6)))
    assert [h.name for h in engine.hosts()] == ["a", "late"]
