"""Answers from outside count for gangs and for nominated guests too, not only for guests that are decided alone."""

from __future__ import annotations

from hostler.engine import Engine
from hostler.model import (
    Answered,
    Ask,
    AskUse,
    Bind,
    Evict,
    GuestLeft,
    GuestTerm,
    PreemptionRules,
    QueueRules,
)
from tests.engine.fleet import SECOND, arrive, binds, engine_with, holds, host, policy, reasons, states, step
from tests.engine.gang_instances import app, form, members, wants


def asking(*cores: int, **fields) -> Engine:
    """Return an engine with hosts a, b, c of so many cores that asks an oracle."""
    hosts = [host("abcdef"[at], cpu=1000 * number, labels={"host": "abcdef"[at]}) for at, number in enumerate(cores)]
    chosen = policy("first_fit", ask=AskUse("oracle", always=True, **fields), preemption=PreemptionRules())
    return engine_with(hosts, chosen, rules=QueueRules(jitter_percent=0))


def answer(engine: Engine, ask: Ask, *allowed: str, said: str = "no") -> None:
    """Answer that these of the asked hosts are allowed, all alike."""
    refused = tuple((name, said) for name in ask.hosts if name not in allowed)
    scores = tuple((name, 0) for name in ask.hosts if name in allowed)
    engine.apply(Answered(uid=ask.uid, ask=ask.ask, scores=scores, refused=refused))


def asked(actions) -> dict[str, tuple[str, ...]]:
    assert all(isinstance(one, Ask) for one in actions), actions
    return {one.uid: one.hosts for one in actions}


def gang_of(engine: Engine, count: int, cpu: int = 1000, **fields) -> list[Ask]:
    """Form a gang, and return what is asked about its members."""
    form(engine, "team", count, **fields)
    arrive(engine, *members("team", count, cpu))
    found = engine.step(engine.now)
    asked(found)
    return [one for one in found if isinstance(one, Ask)]


# -- gangs ------------------------------------------------------------------------------------------------------------


def test_gang_members_are_asked_before_any_is_placed():
    engine = asking(2, 2)
    one, two = gang_of(engine, 2)
    assert (one.hosts, two.hosts) == (("a", "b"), ("a", "b"))
    assert states(engine) == {"team-0": "asked", "team-1": "asked"}
    answer(engine, one, "b")
    assert engine.step(0) == [], "the other answer is awaited"
    answer(engine, two, "a", "b")
    assert binds(engine.step(0)) == {"team-0": "b", "team-1": "a"}


def test_gang_whose_member_is_rejected_outside_waits_as_a_whole():
    engine = asking(2, 2)
    one, two = gang_of(engine, 2)
    answer(engine, one, "a", "b")
    answer(engine, two)
    actions = engine.step(0)
    assert sorted(holds(actions)) == ["team-0", "team-1"]
    (rejected,) = [one for one in actions if one.uid == "team-1"]
    assert reasons(rejected) == {"ask: refused by: oracle": 2}
    assert not any(isinstance(one, Bind | Evict) for one in actions)


def test_scores_from_outside_choose_the_hosts_of_members():
    engine = asking(2, 2)
    for ask in gang_of(engine, 2):
        engine.apply(Answered(uid=ask.uid, ask=ask.ask, scores=(("a", 1), ("b", 1000))))
    assert binds(engine.step(0)) == {"team-0": "b", "team-1": "b"}


def test_rejected_gang_is_asked_again_when_it_is_tried_again():
    engine = asking(2)
    (one, two) = gang_of(engine, 2)
    for ask in (one, two):
        answer(engine, ask)
    assert sorted(holds(engine.step(0))) == ["team-0", "team-1"]
    again = engine.step(3600 * SECOND)
    assert asked(again) == {"team-0": ("a",), "team-1": ("a",)}
    assert {ask.ask for ask in again}.isdisjoint({one.ask, two.ask})


def test_gang_backs_off_when_an_answer_fails():
    engine = asking(2)
    one, two = gang_of(engine, 2)
    engine.apply(Answered(uid=one.uid, ask=one.ask, error="no connection"))
    answer(engine, two, "a")
    assert "no connection" in engine.decision("team-0").note
    later = engine.step(60 * SECOND)
    assert asked(later) == {"team-0": ("a",)}
    answer(engine, later[0], "a")
    assert binds(engine.step(60 * SECOND)) == {"team-0": "a", "team-1": "a"}


def test_answer_that_may_be_ignored_does_not_stop_a_gang():
    engine = asking(2, ignorable=True)
    one, two = gang_of(engine, 2)
    answer(engine, one, "a")
    assert binds(engine.step(two.deadline)) == {"team-0": "a", "team-1": "a"}


def test_member_that_leaves_unanswered_does_not_stop_its_gang():
    engine = asking(4)
    form(engine, "team", 2)
    arrive(engine, *members("team", 3))
    one, two, three = engine.step(0)
    answer(engine, one, "a")
    answer(engine, two, "a")
    engine.apply(GuestLeft(uid=three.uid))
    assert binds(engine.step(0)) == {"team-0": "a", "team-1": "a"}


def test_member_that_needs_another_is_asked_about_all_hosts():
    engine = asking(2, 2)
    form(engine, "team", 2)
    near = GuestTerm("host", app("lead"))
    arrive(engine, wants("lead", 1000, gang="team", app="lead"))
    arrive(engine, wants("mate", 1000, gang="team", affinity=(near,)))
    first = engine.step(0)
    assert asked(first) == {"lead": ("a", "b"), "mate": ("a", "b")}
    for ask in first:
        answer(engine, ask, "b")
    assert binds(engine.step(0)) == {"lead": "b", "mate": "b"}


# -- nominated guests -------------------------------------------------------------------------------------------------


def nominated(*cores: int) -> tuple[Engine, list]:
    """Return an engine whose guest ``high`` evicted ``low-a`` from the first host, and what comes after that."""
    engine = asking(*cores)
    arrive(engine, *(wants(f"low-{'abcdef'[at]}", 1000 * n, host="abcdef"[at], priority=at)
                     for at, n in enumerate(cores)))  # fmt: skip
    arrive(engine, wants("high", 1000 * cores[0], priority=100))
    actions = engine.step(0)
    assert [one.uid for one in actions if isinstance(one, Evict)] == ["low-a"]
    engine.apply(GuestLeft(uid="low-a"))
    return engine, step(engine, 0)


def test_nominated_guest_is_asked_about_its_host_first():
    engine, actions = nominated(2, 2)
    assert asked(actions) == {"high": ("a",)}
    arrive(engine, wants("thief", 2000, priority=100))
    assert holds(engine.step(0)) == ["thief"], "the room stays held while the answer is awaited"
    answer(engine, actions[0], "a")
    assert binds(engine.step(0)) == {"high": "a"}


def test_nominated_guest_that_is_rejected_outside_gives_its_room_back():
    engine, actions = nominated(2, 2)
    answer(engine, actions[0])
    after = engine.step(0)
    assert "high" in holds(after)
    assert "a" not in {one.host for one in after if isinstance(one, Bind)}
    assert "no" in engine.decision("high").note


def test_nominated_guest_that_is_rejected_is_asked_about_other_hosts():
    engine, actions = nominated(2, 2)
    engine.apply(GuestLeft(uid="low-b"))
    answer(engine, actions[0])
    (again,) = [one for one in engine.step(0) if isinstance(one, Ask)]
    assert asked([again]) == {"high": ("b",)}
    answer(engine, again, "b")
    assert binds(engine.step(0)) == {"high": "b"}


def test_gang_that_evicted_others_is_asked_and_keeps_its_room():
    engine = asking(2, 2)
    arrive(engine, wants("low-a", 2000, host="a"), wants("low-b", 2000, host="b"))
    form(engine, "team", 2, priority=10)
    arrive(engine, *members("team", 2, 2000))
    actions = engine.step(0)
    assert sorted(one.uid for one in actions if isinstance(one, Evict)) == ["low-a", "low-b"]
    for uid in ("low-a", "low-b"):
        engine.apply(GuestLeft(uid=uid))
    asks = engine.step(0)
    assert asked(asks) == {"team-0": ("a", "b"), "team-1": ("a", "b")}
    arrive(engine, wants("thief", 2000, priority=10))
    assert holds(engine.step(0)) == ["thief"]
    for ask in asks:
        answer(engine, ask, "a", "b")
    assert sorted(binds(engine.step(0))) == ["team-0", "team-1"]
