"""Checkpoints: whatever influences a decision is written and comes back; what was not written by us is refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine import Engine, Registry, checkpoint
from hostler.errors import HostlerError, InputError, UnknownNameError
from hostler.model import (
    Answered,
    AskUse,
    BindFailed,
    DecisionNote,
    Event,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestLeft,
    HostChanged,
    HostJoined,
    HostLeft,
    PluginUse,
    Policy,
    PolicyChanged,
    Prepared,
    QueueRules,
    Taint,
)
from hostler.model.notes import NO_EVICTION_HELPS, RECORDED
from tests.engine.fleet import QUICK, SECOND, arrive, declared, engine_with, essence, guest, host, place, policy, spec

# -- what is remembered -----------------------------------------------------------------------------------------------


def _turn(engine: Engine) -> list[Event]:
    place(engine, guest("x", policy="round_robin"), guest("y", policy="round_robin"))
    engine.apply(GuestBound(uid="x", host="a"))
    return [BindFailed(uid="y", host="b"), GuestArrived(guest=guest("z", policy="round_robin"))]


def _lots(engine: Engine) -> list[Event]:
    place(engine, guest("x", policy="random"))
    return [BindFailed(uid="x", host=engine.decision("x").host)]


def _refusals(engine: Engine) -> list[Event]:
    place(engine, guest("x", cpu=9000), now=0)
    engine.apply(HostJoined(host=host("d", cpu=1)))
    for at in (400, 800):
        engine.step(at * SECOND)
    return [HostJoined(host=host("big", cpu=9000))]


def _errors(engine: Engine) -> list[Event]:
    place(engine, guest("x"), now=0)
    for _ in range(3):
        engine.apply(BindFailed(uid="x", host=engine.decision("x").host))
        due = engine.next_due()
        assert due is not None
        engine.step(due)
    return [BindFailed(uid="x", host=engine.decision("x").host)]


def _buried_guest(engine: Engine) -> list[Event]:
    place(engine, guest("x"))
    engine.apply(GuestLeft(uid="x"))
    return [GuestArrived(guest=guest("x", version=7))]


def _buried_host(engine: Engine) -> list[Event]:
    engine.apply(HostJoined(host=host("e", uid="u", version=5)))
    engine.apply(HostLeft(name="e"))
    return [HostJoined(host=host("e", uid="u", version=4)), GuestArrived(guest=guest("x", host_name="e"))]


def _parked(engine: Engine) -> list[Event]:
    arrive(engine, guest("x", host="away", gpu=(1, 300)))
    return [HostJoined(host=host("away", cpu=1500, gpus=1)), GuestArrived(guest=guest("y", host_name="away"))]


def _ready(engine: Engine) -> list[Event]:
    place(engine, guest("x", prepare=("disk",)))
    engine.apply(Prepared(uid="x", host=engine.decision("x").host))
    return []


def _deadline(engine: Engine) -> list[Event]:
    place(engine, guest("x", prepare=("disk",)))
    return [GuestArrived(guest=guest("y"))]


def _asked(engine: Engine) -> list[Event]:
    place(engine, guest("x", policy="asking"))
    return [Answered(uid="x", ask=1, scores=(("c", 5), ("b", 1)))]


def _answered(engine: Engine) -> list[Event]:
    place(engine, guest("x", policy="asking"))
    engine.apply(Answered(uid="x", ask=1, scores=(("c", 5),)))
    return []


def _improved(engine: Engine) -> list[Event]:
    place(engine, guest("x", cpu=9000), now=0)
    engine.apply(HostJoined(host=host("big", cpu=9000)))
    return []


def _ages(engine: Engine) -> list[Event]:
    arrive(engine, guest("old", cpu=3000), guest("young", cpu=3000), guest("lord", cpu=3000, priority=9))
    engine.apply(GuestChanged(guest=guest("old", cpu=3500, version=2)))
    return [HostLeft(name="a"), HostLeft(name="b")]


def _marks(engine: Engine) -> list[Event]:
    engine.apply(HostChanged(host=host("a", taints=(Taint("t"),), labels={"zone": "x"}, rank=3)))
    engine.apply(HostChanged(host=host("b", cordoned=True)))
    return [GuestArrived(guest=guest("x", selector={"zone": "x"})), GuestArrived(guest=guest("y"))]


def _limits(engine: Engine) -> list[Event]:
    engine.apply(
        PolicyChanged(policies=(policy("spread", overcommit=(("cpu", 2_000_000),), reserve=(("memory", 5),)),))
    )
    return [GuestArrived(guest=guest("x", cpu=7000)), GuestArrived(guest=guest("y", cpu=9000))]


def _holes(engine: Engine) -> list[Event]:
    engine.apply(HostLeft(name="b"))
    return [HostJoined(host=host("bb", cpu=9000)), GuestArrived(guest=guest("x", cpu=8000))]


def _reasons(engine: Engine) -> list[Event]:
    engine.apply(HostChanged(host=host("a", taints=(Taint("t"),))))
    place(engine, guest("x", cpu=9000))
    policies = (Policy(name="plain", filters=(PluginUse("taints"),)), policy("spread"), *engine.policies[1:])
    engine.apply(PolicyChanged(policies=policies[:1]))
    engine.apply(PolicyChanged(policies=policies))
    engine.apply(HostChanged(host=host("b", cordoned=True)))
    return [GuestArrived(guest=guest("y", cpu=9000, policy="spread")), GuestArrived(guest=guest("z", cpu=9000))]


REMEMBERED = {
    "whose turn it is": _turn,
    "the attempts that lots depend on": _lots,
    "refusals in a row": _refusals,
    "errors in a row": _errors,
    "guests that left": _buried_guest,
    "hosts that left": _buried_host,
    "guests that are parked": _parked,
    "guests whose preparation is done": _ready,
    "deadlines": _deadline,
    "who was asked what": _asked,
    "an answer that is not yet weighed": _answered,
    "an improvement that nobody was woken for yet": _improved,
    "priorities and ages": _ages,
    "labels, taints, ranks and cordons": _marks,
    "limits of the policies": _limits,
    "rows of hosts that left": _holes,
    "the codes of reasons": _reasons,
}


@pytest.mark.parametrize("prepare", REMEMBERED.values(), ids=REMEMBERED.keys())
def test_an_engine_that_was_restored_goes_on_as_if_it_had_never_stopped(prepare: Callable[[Engine], list[Event]]):
    policies = ("spread", "round_robin", "random", policy("spread", name="asking", ask=AskUse("oracle")))
    engine = engine_with([host(name) for name in "abc"], *policies, seed=5)
    later = prepare(engine)
    twin = Engine.restore(engine.checkpoint())
    assert essence(twin) == essence(engine)
    for event in later:
        engine.apply(event)
        twin.apply(event)
        assert essence(twin) == essence(engine)
    for at in (1, 2, 10, 700, 2000):
        now = engine.now + at * SECOND
        assert twin.next_due() == engine.next_due()
        assert twin.step(now) == engine.step(now)
        assert essence(twin) == essence(engine)
    assert twin.checkpoint() == engine.checkpoint()


def test_seed_clock_and_rules_come_back():
    rules = QueueRules(backoff_initial_ns=7, jitter_percent=50)
    engine = Engine([policy("random")], clock_start=123, seed=-9, rules=rules)
    twin = Engine.restore(engine.checkpoint())
    assert (twin.now, twin.state.seed, twin.state.rules, twin.policies) == (123, -9, rules, (policy("random"),))


def test_a_spec_is_written_once_however_many_guests_have_it():
    engine = engine_with([host("a", cpu=10**9, memory=2**60)])
    large = spec(labels=tuple((f"label-{i:03}", "v" * 50) for i in range(100)))
    arrive(engine, *(guest(f"g{i:04}", large) for i in range(10)))
    few = len(engine.checkpoint())
    arrive(engine, *(guest(f"h{i:04}", large) for i in range(200)))
    assert len(engine.checkpoint()) - few < 200 * 200


def test_writing_a_checkpoint_changes_nothing():
    engine = engine_with([host("a")])
    place(engine, guest("x"), guest("y", cpu=9000))
    assert engine.checkpoint() == engine.checkpoint()
    twin = engine.fork()
    engine.checkpoint()
    assert essence(engine) == essence(twin)


# -- plugins ----------------------------------------------------------------------------------------------------------


class SmallGuestsFilter:
    """A third party's filter."""

    name = "small"
    reasons = declared("small", "too_large")

    def __init__(self, view: Any, args: Any) -> None:
        pass

    def evaluate(self, wanted: Any, rows: Any) -> Any:
        return np.full(len(rows), int(dict(wanted.requests).get("cpu", 0) > 2000))


def test_engine_with_a_plugin_is_restored_only_with_the_plugin():
    registry = Registry(extra={"small": SmallGuestsFilter})
    engine = Engine([Policy(name="own", filters=(PluginUse("small"),))], registry=registry)
    engine.apply(HostJoined(host=host("a")))
    place(engine, guest("x", cpu=3000))
    saved = engine.checkpoint()
    with pytest.raises(UnknownNameError, match="small"):
        Engine.restore(saved)
    twin = Engine.restore(saved, registry)
    assert twin.decision("x") == engine.decision("x")
    assert place(twin, guest("y", cpu=2000)) == ["a"]


# -- what is no checkpoint --------------------------------------------------------------------------------------------


def busy() -> Engine:
    """An engine with something of everything."""
    engine = engine_with([host(name, gpus=2, labels={"zone": name}) for name in "abc"], "spread", "round_robin")
    place(engine, guest("x", gpu=(1, 300)), guest("y", policy="round_robin"), guest("z", cpu=9000))
    place(engine, guest("p", prepare=("disk",)))
    arrive(engine, guest("q"), guest("r", host="away"))
    engine.apply(GuestLeft(uid="y"))
    engine.apply(HostLeft(name="b"))
    return engine


SAVED = busy().checkpoint()


plain = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5) | st.binary(max_size=5)
values = st.recursive(plain, lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=9), some))


@given(value=values)
@QUICK
def test_whatever_is_no_checkpoint_is_refused(value):
    with pytest.raises(InputError, match="not a checkpoint"):
        Engine.restore(msgspec.msgpack.encode(value))


@given(cut=st.integers(0, len(SAVED) - 1))
@QUICK
def test_a_checkpoint_that_was_cut_short_is_refused(cut):
    with pytest.raises(InputError):
        Engine.restore(SAVED[:cut])


@given(at=st.integers(0, len(SAVED) - 1), byte=st.integers(0, 255))
@QUICK
def test_checkpoint_with_a_wrong_byte_is_rejected_or_read(at, byte):
    with suppress(HostlerError):
        Engine.restore(SAVED[:at] + bytes([byte]) + SAVED[at + 1 :])


def test_a_checkpoint_of_another_format_is_refused_by_its_number():
    saved = checkpoint.decode(SAVED)
    saved.format = 99
    with pytest.raises(InputError, match="format 99"):
        Engine.restore(checkpoint.encode(saved))


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("no eviction helps", DecisionNote(NO_EVICTION_HELPS)),
        ("bind failed: no disk", DecisionNote(RECORDED, said="bind failed: no disk")),
    ],
)
def test_note_of_an_older_checkpoint_reads_as_it_did(text: str, note: DecisionNote):
    saved = checkpoint.decode(SAVED)
    saved.guests = [msgspec.structs.replace(record, notes=(), note=text) for record in saved.guests]
    engine = Engine.restore(checkpoint.encode(saved))
    decisions = [engine.decision(uid) for uid in engine.guests()]
    assert {(one.note, one.notes) for one in decisions} == {(text, (note,))}
    assert Engine.restore(engine.checkpoint()).decision(decisions[0].uid) == decisions[0]


def _first(**changes: Any) -> Callable[[list], list]:
    return lambda records: [msgspec.structs.replace(records[0], **changes), *records[1:]]


CONTRADICTIONS = [
    pytest.param("guests", _first(shape=9999), id="a shape that is not there"),
    pytest.param("guests", _first(host="nowhere"), id="a guest on a host that is not there"),
    pytest.param("queue", lambda entries: {}, id="pending guests that are not queued"),
    pytest.param("queue", lambda entries: entries | {"w": next(iter(entries.values()))}, id="a stranger in the queue"),
    pytest.param("policies", lambda policies: (), id="no policy"),
    pytest.param("policies", lambda policies: policies * 2, id="a policy twice"),
    pytest.param("now", lambda now: 2**62, id="a time beyond all bounds"),
    pytest.param("improved_rows", lambda rows: [999], id="an improved row that is not there"),
    pytest.param("free_rows", lambda rows: [0], id="a free row that is taken"),
    pytest.param("free_rows", lambda rows: [99], id="a free row that is not there"),
    pytest.param("ready", lambda uids: ["nobody"], id="a guest that is ready and unknown"),
    pytest.param(
        "queue", lambda entries: {uid: e._replace(key=(999, 0)) for uid, e in entries.items()}, id="a key of no shape"
    ),
    pytest.param("hosts", lambda hosts: [hosts[0], *hosts], id="a host twice"),
]


@pytest.mark.parametrize(("field", "change"), CONTRADICTIONS)
def test_a_checkpoint_that_contradicts_itself_is_refused(field, change):
    saved = checkpoint.decode(SAVED)
    setattr(saved, field, change(getattr(saved, field)))
    with pytest.raises(HostlerError):
        Engine.restore(checkpoint.encode(saved))
