"""No answer of an engine depends on what it remembers: twins that begin cold answer like the engine that runs on.

Known cases come first, one test each. Then random runs are played with twins that are restored, forked, and follow the
log. On failure the seed and the first difference are printed; ``play(seed, steps)`` repeats it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from hostler.engine import Engine
from hostler.engine.cache.wide_rows import CacheBudget
from hostler.model import (
    Action,
    AskUse,
    Event,
    Evict,
    Gang,
    GangChanged,
    GuestArrived,
    GuestLeft,
    GuestTerm,
    HostJoined,
    NamespaceChanged,
    Nominate,
    PolicyChanged,
    Quota,
    QuotasChanged,
    Selector,
    amounts,
    labels,
)
from tests.engine.engine_twins import as_logged, content, play, take
from tests.engine.fleet import SECOND, engine_with, host, policy
from tests.engine.gang_instances import app, preempting, runs, wants
from tests.engine.random_runs import RandomRun, RunStep
from tests.engine.run_contents import KINDS, RunContents

pytestmark = pytest.mark.early

QUICK_SEEDS, LONG_SEEDS = 200, 10_000
QUICK_STEPS, LONG_STEPS = 11, 16
PER_TEST, PER_LONG_TEST = 10, 50  # seeds; a long test must end within the limit of one test on a busy machine too

TWINS: dict[str, Callable[[Engine], Engine]] = {
    "restored": lambda engine: Engine.restore(engine.checkpoint()),
    "forked": lambda engine: engine.fork(),
}
twins = pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)


def both(engine: Engine, twin: Engine, *facts: Event, seconds: int = 0) -> list[Action]:
    """Give both the same facts and let them step; return what both did."""
    for each in (engine, twin):
        for fact in facts:
            each.apply(fact)
    now = engine.now + seconds * SECOND
    actions = engine.step(now)
    assert twin.step(now) == actions
    assert twin.next_due() == engine.next_due()
    assert content(twin) == content(engine)
    return actions


# -- known cases ------------------------------------------------------------------------------------------------------


@twins
def test_guests_that_were_put_back_keep_their_place_in_a_twin(twin):
    """Guests that were taken out to be tried and were not tried wait on with their old place.

    The engine that runs on has them behind all others in its table. A change of policies queued all in that order.
    """
    engine = engine_with([host("h", cpu=2)], "first_fit")
    runs(engine, "h", wants("old", 2))
    for guest in (*(wants(f"small-{n}", 1) for n in range(9)), wants("large", 3)):
        engine.apply(GuestArrived(guest=guest))
    engine.step(0)
    engine.apply(GuestLeft(uid="old"))
    engine.step(SECOND)
    stamps = [entry.stamp for entry in engine.state.queue.entries.values()]
    assert stamps != sorted(stamps), "a guest was put back"
    other = twin(engine)
    for each in (engine, other):
        each.apply(PolicyChanged(policies=(policy("spread"),)))
    assert content(other) == content(engine)


@twins
def test_equal_specs_leave_equal_checkpoints(twin):
    """Guests of equal specs share one: msgspec leaves out a default only if it is the very same object.

    The evicted guest brought a "default" of its own. The engine that runs on wrote it down, a restored one did not.
    """
    engine = engine_with([host("h", cpu=2)], preempting())
    engine.apply(GuestArrived(guest=wants("first", 2)))
    runs(engine, "h", wants("second", 2, namespace="".join(("def", "ault"))))
    engine.apply(GuestArrived(guest=wants("high", 2, 9)))
    actions = both(engine, twin(engine))
    assert [action.guest for action in actions if isinstance(action, Evict)] == ["second"]


@twins
@pytest.mark.parametrize("holder", ["victim", "preemptor"])
def test_nominated_guest_waits_for_its_victim_also_in_a_twin(twin, holder):
    """The victim still stops when a third guest leaves the host: amounts suffice then, and anti-affinity does not.

    A cold twin reported no failure by anti-affinity, and tried the guest at once.
    """
    apart = {"anti_affinity": (GuestTerm("host", app("a")),)}
    engine = engine_with([host("h", cpu=4, labels=labels({"host": "h"}))], preempting())
    runs(engine, "h", wants("low", 1, app="a", **(apart if holder == "victim" else {})), wants("third", 2))
    engine.apply(GuestArrived(guest=wants("high", 2, 9, app="a", **(apart if holder == "preemptor" else {}))))
    assert any(isinstance(action, Nominate) for action in engine.step(engine.now))
    other = twin(engine)
    assert both(engine, other, GuestLeft(uid="third")) == []
    assert [type(action).__name__ for action in both(engine, other, GuestLeft(uid="low"))] == ["Bind"]


@twins
def test_guest_refused_from_outside_is_asked_again_for_the_same_facts(twin):
    """A placement that does not concern a guest is no reason to ask again, also if a checkpoint lies in between."""
    judged = policy("pack", ask=AskUse("judge"))
    engine = engine_with([host("h", cpu=8)], policy("first_fit"), judged)
    engine.apply(GuestArrived(guest=wants("picky", 20, policy="pack")))
    engine.step(0)
    engine.apply(GuestArrived(guest=wants("other", 1)))
    engine.step(SECOND)
    assert both(engine, twin(engine), seconds=1) == []


@twins
def test_namespace_labels_that_change_while_nobody_waits_count_later(twin):
    """Whom a term means is derived and kept; it was kept beyond a change of the labels if nobody waited then."""
    red = GuestTerm("host", app("a"), (), Selector())
    engine = engine_with([host("h", cpu=4, labels=labels({"host": "h"}))], policy("first_fit"))
    runs(engine, "h", wants("a", 1, app="a"))
    engine.apply(GuestArrived(guest=wants("b", 1, anti_affinity=(red,))))
    engine.step(0)
    engine.apply(GuestLeft(uid="b"))
    engine.step(SECOND)
    engine.apply(NamespaceChanged(name="default", labels=labels({"team": "red"})))
    engine.step(2 * SECOND)
    engine.apply(GuestArrived(guest=wants("c", 1, anti_affinity=(red,))))
    engine.step(3 * SECOND)
    both(engine, twin(engine), GuestLeft(uid="a"), seconds=20)


def test_asking_when_to_step_changes_no_state():
    """A follower is never asked; deadlines that no longer matter must stay in both or in neither."""
    engine = engine_with([host("h", cpu=4)], preempting())
    runs(engine, "h", wants("low", 4))
    engine.apply(GuestArrived(guest=wants("high", 4, 9)))
    engine.step(0)
    follower = engine.fork()
    for each in (engine, follower):
        each.apply(GuestLeft(uid="high"))
    engine.next_due()
    assert content(engine) == content(follower)


def test_gang_of_more_shapes_than_slots_is_placed_by_search():
    """Slots are given up while a search goes on; it must not read those of other shapes."""
    zones = ("x", "y", "z")
    hosts = [host(f"h{zone}", cpu=3, labels=labels({"zone": zone})) for zone in zones]
    outcomes = []
    for budget in (CacheBudget(), CacheBudget(0, 1)):
        engine = Engine([policy("first_fit")], cache_budget=budget)
        for each in hosts:
            engine.apply(HostJoined(host=each))
        engine.apply(GangChanged(gang=Gang(name="g", min_count=6)))
        for number in range(6):
            only = {"selector": {"zone": zones[number % 3]}} if number < 3 else {}
            apart = {"anti_affinity": (GuestTerm("zone", app(f"x{number}")),)}
            member = wants(f"m{number}", 1 + number // 3, app=f"x{(number + 3) % 6}", gang="g", **only, **apart)
            engine.apply(GuestArrived(guest=member))
        outcomes.append(engine.step(0))
    assert outcomes[0] == outcomes[1]


def test_turns_of_a_gang_go_on_whatever_the_slots():
    """A gang of more shapes than slots is tried in several runs; each began its turns at the same host again."""
    outcomes = []
    for budget in (CacheBudget(), CacheBudget(0, 1)):
        engine = Engine([policy("round_robin")], cache_budget=budget)
        for name in ("a", "b", "c"):
            engine.apply(HostJoined(host=host(name, cpu=9)))
        engine.apply(GangChanged(gang=Gang(name="g", min_count=3)))
        for number in range(3):
            engine.apply(GuestArrived(guest=wants(f"m{number}", 1 + number, gang="g")))
        outcomes.append(sorted(action.host for action in engine.step(0)))
    assert outcomes[0] == outcomes[1] == ["a", "b", "c"]


def test_guest_beyond_its_quota_is_decided_in_its_turn():
    """It was decided before those in front of it whom the kernel had not decided yet: how many depends on memory."""
    outcomes = []
    for budget in (CacheBudget(), CacheBudget(0, 1)):
        engine = Engine([policy("first_fit")], cache_budget=budget)
        engine.apply(HostJoined(host=host("h", cpu=9)))
        engine.apply(QuotasChanged(quotas=(Quota(tenant="t", max=amounts({"cpu": 1})),)))
        runs(engine, "h", wants("full", 1, tenant="t"))
        for name, cpu, tenant in (("first", 1, ""), ("second", 2, ""), ("beyond", 3, "t"), ("last", 4, "")):
            engine.apply(GuestArrived(guest=wants(name, cpu, tenant=tenant)))
        outcomes.append([action.uid for action in engine.step(0)])
    assert outcomes[0] == outcomes[1] == ["first", "second", "beyond", "last"]


@twins
def test_cheapest_victim_is_found_whether_or_not_waiting_guests_are_known(twin):
    """A guest that waits holds a term about the preemptor; the search for victims ended early where that was known."""
    hosts = [host(f"h{number:03}", cpu=2, labels=labels({"host": str(number)})) for number in range(120)]
    engine = engine_with(hosts, preempting())
    for number in range(120):
        runs(engine, f"h{number:03}", wants(f"v{number}", 2, 1 if number < 119 else 0))
    shy = wants("shy", 9, anti_affinity=(GuestTerm("host", app("p")),))
    engine.apply(GuestArrived(guest=shy))
    engine.step(0)
    actions = both(engine, twin(engine), GuestArrived(guest=wants("p", 1, 5, app="p")))
    assert [action.host for action in actions if isinstance(action, Nominate)] == ["h119"]


@twins
def test_many_waiting_pairs_wake_alike(twin):
    """Beyond a number of waiting pairs only those are looked at whom a change concerns, by notes that a twin lacks."""
    place = {"labels": labels({"host": "h"})}
    engine = engine_with([host("h", cpu=4, **place)], policy("first_fit"))
    runs(engine, "h", wants("x", 1, app="x"), wants("y", 3, app="y"))
    for number in range(70):
        engine.apply(GuestArrived(guest=wants(f"big{number}", 100 + number)))
    apart = wants("apart", 3, anti_affinity=(GuestTerm("host", app("x")),))
    engine.apply(GuestArrived(guest=apart))
    engine.step(0)
    for seconds, uid in enumerate(("y", "x"), start=20):
        other = twin(engine)
        both(engine, other, GuestLeft(uid=uid), seconds=seconds)
        both(engine, other, GuestArrived(guest=wants(f"again-{uid}", 1, app="x")), seconds=1)
    other = twin(engine)
    both(engine, other, GuestLeft(uid="again-x"), GuestLeft(uid="again-y"), seconds=20)
    assert engine.decision("apart").host == "h"


# -- random runs ------------------------------------------------------------------------------------------------------


def test_random_runs_contain_what_twins_must_survive():
    """Twins prove little about what does not happen. Each kind happens in at least one run of ten."""
    runs: Counter[str] = Counter()
    for seed in range(QUICK_SEEDS):
        run = RandomRun(seed)
        engine = Engine(run.policies, seed=seed, rules=run.rules, cache_budget=run.cache_budget)
        contents = RunContents()
        for _ in range(LONG_STEPS):
            turn = run.turn()
            contents.before(engine, turn)
            actions = take(engine, turn)
            contents.after(engine, actions)
            run.notice(actions)
        runs.update(contents.found.keys())
    rare = {kind: runs[kind] for kind in KINDS if runs[kind] < QUICK_SEEDS // 10}
    assert not rare, f"in few of {QUICK_SEEDS} runs: {rare}; all: {dict(runs)}"


@pytest.mark.parametrize("first", range(0, QUICK_SEEDS, PER_TEST))
def test_twins_of_short_random_runs_answer_alike(first):
    for seed in range(first, first + PER_TEST):
        play(seed, QUICK_STEPS)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, LONG_SEEDS, PER_LONG_TEST))
def test_twins_of_long_random_runs_answer_alike(first):
    for seed in range(first, first + PER_LONG_TEST):
        play(seed, LONG_STEPS, ask_all=False)


def test_a_process_with_another_order_of_sets_decides_alike():
    """A replica is another process: its sets of names have another order, and no decision may depend on that."""
    script = "from tests.engine.test_twins import print_actions; print_actions()"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        ).stdout
        for seed in ("1", "2")
    ]
    assert "bind" in outputs[0]
    assert outputs[0] == outputs[1]


def print_actions() -> None:
    """Print what an engine does in some random runs."""
    for seed in range(1_000_000, 1_000_020):
        run = RandomRun(seed)
        engine = Engine(run.policies, seed=seed, rules=run.rules, cache_budget=run.cache_budget)
        for _ in range(12):
            turn: RunStep = as_logged(run.turn())
            actions = take(engine, turn)
            print(msgspec.json.encode(actions).decode())
            run.notice(actions)
