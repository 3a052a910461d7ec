"""Constraints across guests against their slow twin: random fleets, guests that look at each other, and every event."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.engine import Engine
from hostler.engine.cluster.counters import CounterKey
from hostler.model import (
    Action,
    BindFailed,
    Defer,
    Evict,
    EvictFailed,
    Expression,
    Guest,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestLeft,
    GuestsArrived,
    GuestSpec,
    GuestTerm,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    HostPort,
    NamespaceChanged,
    Policy,
    QueueRules,
    ScorerUse,
    Selector,
    Spread,
    Taint,
    Term,
    Toleration,
    WeightedGuestTerm,
    amounts,
    labels,
)
from tests.engine.fleet import GIB, LONG, MIB, QUICK, SECOND, books, essence, policy
from tests.engine.twin_guests import HOSTNAME, EnginePair
from tests.random_examples import count_examples

ZONE = "topology.kubernetes.io/zone"
RACK = "rack"
NAMES = ["h0", "h1", "h2", "h3", "h4"]
LATER = 60  # seconds, beyond every backoff
NO_FLUSH = QueueRules(flush_after_ns=10**9 * SECOND)

# Default spreading that refuses: the guests of one owner stay within one of each other, zone by zone.
OWNERS_APART = Policy(
    name="owners_apart",
    scorers=(ScorerUse("even_spread", 1, f'{{"defaults":[{{"topology":"{ZONE}","max_skew":1}}]}}'),),
)
POLICIES = (
    policy("kubernetes"),
    policy("spread"),
    policy("pack"),
    policy("first_fit", name="alone", one_guest_per_host=True),
)

# -- random things, few enough to meet --------------------------------------------------------------------------------

places = st.sampled_from(
    [
        {ZONE: "x", RACK: "p", "disk": "ssd"},
        {ZONE: "x", RACK: "p"},
        {ZONE: "x", RACK: "q", "disk": "ssd"},
        {ZONE: "y", RACK: "r"},
        {ZONE: "y", RACK: "r", "disk": "hdd"},
        {ZONE: "z", RACK: "s", "disk": "ssd"},
        {ZONE: "y"},
        {RACK: "p"},
        {"disk": "ssd"},
    ]
)
taint_lists = st.sampled_from(
    [*[()] * 12, (Taint("t"),), (Taint("s", "", "PreferNoSchedule"),), (Taint("u", "1", "NoExecute"),)]
)
image_lists = st.sampled_from([(), (), (("app", 300 * MIB),), (("app", 300 * MIB), ("db", 900 * MIB))])


def hosts(name: st.SearchStrategy[str]) -> st.SearchStrategy[Host]:
    """Hosts: some lack labels, are tainted, cordoned or small; most have their own name as a label."""
    return st.builds(
        lambda own, marks, bears_name, taints, cordoned, cpu, images: Host(
            name=own,
            capacity=amounts({"cpu": cpu, "memory": 8 * GIB}),
            labels=labels(marks | ({HOSTNAME: own} if bears_name else {})),
            taints=taints,
            cordoned=cordoned,
            images=images,
        ),
        name,
        places,
        st.sampled_from([True] * 7 + [False]),
        taint_lists,
        st.sampled_from([False] * 15 + [True]),
        st.sampled_from([8000, 8000, 3000]),
        image_lists,
    )


fleets = st.integers(3, 5).flatmap(lambda count: st.tuples(*(hosts(st.just(name)) for name in NAMES[:count])))

is_a, is_b = Selector((Expression("app", "In", ("a",)),)), Selector((Expression("app", "In", ("b",)),))
selectors = st.sampled_from(
    [
        *[is_a] * 5,
        *[is_b] * 3,
        Selector((Expression("app", "In", ("a", "b")),)),
        Selector((Expression("app", "NotIn", ("a",)),)),
        Selector((Expression("tier", "Exists"),)),
        Selector((Expression("tier", "DoesNotExist"), Expression("app", "Exists"))),
        Selector(),
        None,
    ]
)
topologies = st.sampled_from([ZONE, ZONE, RACK, HOSTNAME, HOSTNAME])
namespace_lists = st.sampled_from([(), (), (), (), ("other",), ("other", "default")])
is_red, is_not_red = Selector((Expression("team", "In", ("red",)),)), Selector((Expression("team", "NotIn", ("red",)),))
namespace_selectors = st.sampled_from([None, None, None, None, Selector(), is_red, is_not_red])
guest_terms = st.builds(GuestTerm, topologies, selectors, namespace_lists, namespace_selectors)
weighted_terms = st.builds(WeightedGuestTerm, st.sampled_from([1, 10, 100]), guest_terms)
spreads = st.builds(
    Spread,
    topologies,
    st.sampled_from([1, 1, 2]),
    selectors,
    st.booleans(),
    st.sampled_from([1, 1, 1, 2, 4]),
    st.sampled_from([True, True, False]),
    st.booleans(),
)
addresses = st.sampled_from(["", "10.0.0.1", "::1"])
ports = st.builds(HostPort, st.sampled_from([80, 80, 81]), st.sampled_from(["TCP", "TCP", "UDP"]), addresses)
sayings = st.one_of(
    st.tuples(st.just("affinity"), guest_terms),
    st.tuples(st.just("anti_affinity"), guest_terms),
    st.tuples(st.just("preferred_affinity"), weighted_terms),
    st.tuples(st.just("preferred_anti_affinity"), weighted_terms),
    st.tuples(st.just("spread"), spreads),
    st.tuples(st.just("spread"), spreads),
    st.tuples(st.just("ports"), ports),
)
# What guests say about hosts, and what they ask for: few of them differ from the first.
own_wants = st.sampled_from(
    [
        *[{}] * 6,
        {"requests": amounts({"cpu": 2000})},
        {"requests": (), "images": ("app", "app", "none")},
        {"images": ("app", "db")},
        {"host_selector": labels({"disk": "ssd"})},
        {"host_affinity": (Term((Expression(ZONE, "NotIn", ("x",)),)),), "images": ("db",)},
        {"tolerations": (Toleration("t", "Exists"),)},
        {"tolerations": (Toleration("", "Exists"),)},
    ]
)
guest_labels = st.sampled_from([{"app": "a"}, {"app": "a"}, {"app": "b"}, {"app": "a", "tier": "1"}, {}])


def spec_of(marks: dict[str, str], namespace: str, said: list[tuple[str, Any]], wants: dict[str, Any]) -> GuestSpec:
    about_others = {kind: tuple(what for other, what in said if other == kind) for kind, _ in said}
    wants = {"requests": amounts({"cpu": 1000, "memory": GIB})} | wants
    return GuestSpec(labels=labels(marks), namespace=namespace, **about_others, **wants)


specs = st.builds(
    spec_of, guest_labels, st.sampled_from(["default", "default", "other"]), st.lists(sayings, max_size=3), own_wants
)

numbers = st.integers(0, 99)
teams = st.sampled_from(["red", "blue", ""])
happenings = st.one_of(
    *[st.tuples(st.just("arrives"), numbers)] * 5,
    *[st.tuples(st.just("arrive"), st.lists(numbers, min_size=2, max_size=5))] * 2,
    st.tuples(st.just("runs already"), st.tuples(numbers, st.sampled_from(NAMES))),
    *[st.tuples(st.just("leaves"), numbers)] * 3,
    st.tuples(st.just("will leave"), numbers),
    st.tuples(st.just("becomes"), st.tuples(numbers, numbers)),
    st.tuples(st.sampled_from(["is bound", "is not bound"]), numbers),
    *[st.tuples(st.just("host changes"), hosts(st.sampled_from(NAMES)))] * 2,
    st.tuples(st.just("host goes"), st.sampled_from(NAMES)),
    st.tuples(st.just("namespace"), st.tuples(st.sampled_from(["default", "other"]), teams)),
    *[st.tuples(st.just("time passes"), st.sampled_from([2, LATER]))] * 2,
)
stories = st.tuples(fleets, st.lists(specs, min_size=4, max_size=6), st.lists(happenings, min_size=12, max_size=20))


class RandomFleet(EnginePair):
    """A fleet, the shapes that its guests have, and what happens to them."""

    def __init__(
        self, fleet: tuple[Host, ...], shapes: list[GuestSpec], *policies: Policy, rules: QueueRules | None = None
    ) -> None:
        super().__init__(*policies, rules=rules)
        self.shapes = shapes
        self.number = 0
        for host in fleet:
            self.apply(HostJoined(host=host))

    def happen(self, what: str, detail: Any) -> int:
        """Let one thing happen; return how many seconds pass. What cannot happen now does not."""
        match what:
            case "arrives":
                self.apply(GuestArrived(guest=self.new_guest(detail)))
            case "arrive":
                guests = [self.new_guest(at) for at in detail]
                self.apply(
                    GuestsArrived(
                        specs=tuple(guest.spec for guest in guests),
                        spec_of=tuple(range(len(guests))),
                        names=tuple(guest.name for guest in guests),
                    )
                )
            case "runs already":
                guest = self.new_guest(detail[0])
                self.apply(GuestArrived(guest=msgspec.structs.replace(guest, host=detail[1])))
            case "host changes":
                is_there = detail.name in self.twin.hosts
                self.apply(HostChanged(host=detail) if is_there else HostJoined(host=detail))
            case "host goes" if detail in self.twin.hosts:
                self.apply(HostLeft(name=detail))
            case "namespace":
                self.apply(NamespaceChanged(name=detail[0], labels=labels({"team": detail[1]} if detail[1] else {})))
            case "time passes":
                return detail
            case _:
                self.happen_to_a_guest(what, detail)
        return 0

    def happen_to_a_guest(self, what: str, detail: Any) -> None:
        pick = detail[0] if isinstance(detail, tuple) else detail
        uids = sorted(self.specs)
        if what != "leaves":
            uids = [uid for uid in uids if self.place_of(uid)]
        if what in ("is bound", "is not bound"):
            uids = [uid for uid in uids if self.engine.decision(uid).state == "assumed"]
        if not uids or what == "host goes":
            return
        uid = uids[pick % len(uids)]
        match what:
            case "leaves":
                self.apply(GuestLeft(uid=uid))
            case "will leave":
                self.change(uid, msgspec.structs.replace(self.specs[uid], is_leaving=True))
            case "becomes":
                self.change(uid, self.shape(detail[1]))
            case "is bound":
                self.apply(GuestBound(uid=uid, host=self.place_of(uid)))
            case "is not bound":
                self.engine.apply(BindFailed(uid=uid, host=self.place_of(uid)))
                self.twin.free(uid)

    def change(self, uid: str, spec: GuestSpec) -> None:
        self.apply(GuestChanged(guest=Guest(name=uid, uid=uid, spec=spec, host=self.place_of(uid))))

    def shape(self, at: int) -> GuestSpec:
        return self.shapes[at % len(self.shapes)]

    def new_guest(self, at: int) -> Guest:
        self.number += 1
        return Guest(name=f"g{self.number:02}", uid=f"g{self.number:02}", spec=self.shape(at))

    def now_after(self, seconds: int) -> int:
        return self.engine.now + seconds * SECOND


def with_policies(shapes: list[GuestSpec], policies: tuple[Policy, ...]) -> list[GuestSpec]:
    """Deal policies out to shapes in turn."""
    return [msgspec.structs.replace(shape, policy=policies[at % len(policies)].name) for at, shape in enumerate(shapes)]


# -- decisions --------------------------------------------------------------------------------------------------------


def tell(story: Any, *policies: Policy) -> RandomFleet:
    """Tell a story, and compare every decision with the twin's."""
    fleet, shapes, events = story
    world = RandomFleet(fleet, with_policies(shapes, policies), *policies)
    for event in events:
        seconds = world.happen(*event)
        world.follow(world.engine.step(world.now_after(seconds)))
    return world


@pytest.mark.parametrize("name", ["kubernetes", "spread", "pack"])
@given(story=stories)
@settings(QUICK, max_examples=count_examples(150))
def test_each_policy_decides_as_the_twin_what_guests_say_about_each_other(name, story):
    tell(story, policy(name))


@given(story=stories)
@QUICK
def test_several_policies_in_one_engine_decide_as_the_twin(story):
    tell(story, *POLICIES)


@pytest.mark.long
@given(story=st.tuples(fleets, st.lists(specs, min_size=4, max_size=8), st.lists(happenings, min_size=30, max_size=40)))
@LONG
def test_several_policies_in_one_engine_decide_as_the_twin_at_length(story):
    tell(story, *POLICIES)


@given(story=stories)
@QUICK
def test_default_spreading_of_siblings_decides_as_the_twin(story):
    fleet, shapes, events = story
    shapes = [msgspec.structs.replace(shape, siblings=is_a, spread=()) for shape in shapes]
    tell((fleet, shapes, events), policy("kubernetes"), OWNERS_APART)


@given(story=stories)
@QUICK
def test_no_decision_ever_breaks_a_hard_constraint_of_anybody(story):
    fleet, shapes, events = story
    world = RandomFleet(fleet, with_policies(shapes, POLICIES), *POLICIES)
    for event in events:
        seconds = world.happen(*event)
        for action in world.engine.step(world.now_after(seconds)):
            if not isinstance(action, Defer):
                world.take_over(action)
                assert world.twin.broken_by(action.uid) == []


@given(story=stories)
@QUICK
def test_explanations_name_the_hosts_scores_and_first_reasons_of_the_twin(story):
    fleet, shapes, events = story
    world = RandomFleet(fleet, with_policies(shapes, POLICIES), *POLICIES)
    for event in events:
        seconds = world.happen(*event)
        for uid in sorted(world.specs)[-3:]:
            world.check_explanation(uid)
        world.step(seconds)
    for uid in world.specs:
        world.check_explanation(uid)


# -- counters ---------------------------------------------------------------------------------------------------------


@given(story=stories)
@QUICK
def test_counters_equal_a_recount_after_every_event_and_every_step(story):
    fleet, shapes, events = story
    world = RandomFleet(fleet, with_policies(shapes, POLICIES), *POLICIES)
    for event in events:
        seconds = world.happen(*event)
        world.check_counters()
        world.step(seconds)
        world.check_counters()


@given(story=stories)
@QUICK
def test_counters_of_forks_and_restored_engines_equal_a_recount(story):
    fleet, shapes, events = story
    world = RandomFleet(fleet, with_policies(shapes, POLICIES), *POLICIES)
    for event in events:
        world.step(world.happen(*event))
    before = world.engine.state.cluster.counters.tallies()
    original = world.engine
    for again in (original.fork(), Engine.restore(original.checkpoint())):
        world.engine = again
        world.happen("arrive", [0, 1, 2, 3])
        again.step(again.now)
        counters, shapes_of = again.state.cluster.counters, again.state.shapes.shapes
        assert counters.tallies() == counters.recount({shape.number: shape.spec for shape in shapes_of})
    assert original.state.cluster.counters.tallies() == before


def counts_of(engine: Engine) -> dict[CounterKey, list[int]]:
    """Return all counters, whatever numbers their domains have; which there are depends on the shapes looked at."""
    return {key: sorted(tally.values()) for key, tally in engine.state.cluster.counters.tallies().items()}


# -- batches, forks, restores -----------------------------------------------------------------------------------------


@given(story=stories)
@QUICK
def test_forks_and_restored_engines_decide_the_same(story):
    fleet, shapes, events = story
    world = RandomFleet(fleet, with_policies(shapes, POLICIES), *POLICIES)
    for event in events:
        seconds = world.happen(*event)
        now = world.now_after(seconds)
        before = world.engine.checkpoint()
        fork, restored, bystander = world.engine.fork(), Engine.restore(before), world.engine.fork()
        actions = world.step(seconds)
        assert fork.step(now) == actions
        assert restored.step(now) == actions
        assert essence(fork) == essence(restored) == essence(world.engine)
        assert bystander.checkpoint() == before


def first_retry(actions: list[Action]) -> int | None:
    """Return where a guest is decided again: an earlier step rejected it, and one in between cured that."""
    rejected: set[str] = set()
    for at, action in enumerate(actions):
        if action.uid in rejected:
            return at
        if isinstance(action, Defer):
            rejected.add(action.uid)
    return None


@given(story=stories)
@QUICK
def test_a_batch_is_decided_as_one_by_one(story):
    """No guest waits when these arrive. A step wakes once, so single steps may wake a guest sooner and then differ."""
    fleet, shapes, events = story
    world = RandomFleet(fleet, with_policies(shapes, POLICIES), *POLICIES)
    for event in events:
        for uid in [uid for uid in world.specs if not world.place_of(uid)]:
            world.apply(GuestLeft(uid=uid))
        now = world.now_after(world.happen(*event))
        world.engine.step(now, limit=0)
        single = world.engine.fork()
        batch = world.step()
        one_by_one: list[Action] = []
        while more := single.step(now, limit=1):
            one_by_one += more
        if (cured := first_retry(one_by_one)) is not None:
            assert batch[:cured] == one_by_one[:cured]
            continue
        assert one_by_one == batch
        assert books(single)["hosts"] == books(world.engine)["hosts"]
        one, other = counts_of(single), counts_of(world.engine)
        assert {key: one[key] for key in one.keys() & other.keys()} == {
            key: other[key] for key in one.keys() & other.keys()
        }


# -- seeded lives -----------------------------------------------------------------------------------------------------


def seeded_host(rng: Random, number: int) -> Host:
    marks = {HOSTNAME: f"h{number:02}", ZONE: "vwxyz"[number % 5], RACK: f"r{number // 4}"}
    lacking = rng.choice([ZONE, RACK, HOSTNAME]) if rng.random() < 0.1 else ""
    return Host(
        name=f"h{number:02}",
        capacity=amounts({"cpu": rng.choice([1500, 3000])}),
        labels=labels({key: value for key, value in marks.items() if key != lacking}),
    )


def seeded_spec(rng: Random) -> GuestSpec:
    terms = [
        GuestTerm(topology, Selector((Expression("app", "In", (app,)),)), (), Selector() if app == "a" else None)
        for topology in (ZONE, RACK, HOSTNAME)
        for app in "abc"
    ]
    return GuestSpec(
        requests=amounts({"cpu": rng.choice([250, 500])}),
        policy=rng.choice(POLICIES[:3]).name,
        namespace=rng.choice(["default", "other"]),
        labels=labels({"app": rng.choice("abc")}),
        anti_affinity=tuple(rng.sample(terms, rng.choice([0, 0, 1]))),
        preferred_affinity=tuple(WeightedGuestTerm(10, term) for term in rng.sample(terms, 2)),
        preferred_anti_affinity=tuple(WeightedGuestTerm(10, term) for term in rng.sample(terms, 2)),
        spread=(Spread(ZONE, 1, Selector((Expression("app", "Exists"),)), rng.random() < 0.3),),
        ports=tuple(HostPort(port) for port in rng.sample([80, 81, 82, 83], rng.choice([0, 1]))),
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_fleet_that_outgrows_its_tables_decides_as_the_twin(seed):
    """Sixty hosts, then more than sixty-four: columns, domains and counters grow while guests are there."""
    rng = Random(seed)
    world = RandomFleet(
        tuple(seeded_host(rng, at) for at in range(60)), [seeded_spec(rng) for _ in range(12)], *POLICIES
    )
    for number in range(60, 75):
        world.happen("arrive", [rng.randrange(12) for _ in range(2)])
        world.follow(world.engine.step(world.now_after(20)))
        world.happen("host changes", seeded_host(rng, number))
        world.happen("host changes", seeded_host(rng, rng.randrange(number)))
        world.happen("leaves", rng.randrange(99))
        if number % 5 == 0:
            world.happen("host goes", f"h{rng.randrange(number):02}")
        world.check_counters()


def life(seed: int) -> str:
    """Live a seeded life of guests that look at each other, and return all that came of it."""
    rng = Random(seed)
    engine = Engine(POLICIES, rules=NO_FLUSH)
    for at in range(9):
        engine.apply(HostJoined(host=seeded_host(rng, at)))
    shapes = [seeded_spec(rng) for _ in range(8)]
    told: list[object] = []
    for at in range(40):
        engine.apply(GuestArrived(guest=Guest(name=f"g{at}", uid=f"g{at}", spec=rng.choice(shapes))))
        told += engine.step(engine.now + SECOND)
        told.append(engine.explain(f"g{at}"))
        if at % 5 == 4:
            engine.apply(GuestLeft(uid=f"g{at - 3}"))
    return f"{told}{engine.checkpoint().hex()}"


def test_decisions_do_not_depend_on_the_hash_seed():
    root = Path(__file__).parent.parent.parent
    code = (
        "from hostler.config import prepare_kernel_cache; prepare_kernel_cache(); "
        "from tests.engine.test_across_guests import life; print(life(5))"
    )
    lives = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert lives == {life(5) + "\n"}


# -- waking, and coming to rest ---------------------------------------------------------------------------------------


def settle(world: RandomFleet) -> None:
    """Step whenever it is worth while, until nothing is due but the flush of those who wait in vain."""
    horizon = NO_FLUSH.flush_after_ns
    for _ in range(40 + 20 * len(world.specs)):
        due = world.engine.next_due()
        if due is None or due >= horizon:
            return
        world.step(max(0, -(-(due - world.engine.now) // SECOND)))
    raise AssertionError("it does not come to rest")


@given(story=stories)
@QUICK
def test_nobody_waits_whom_some_host_would_take(story):
    """Whatever cures a refusal wakes the guest: places taken, guests that leave, labels, hosts, namespaces."""
    fleet, shapes, events = story
    world = RandomFleet(fleet, with_policies(shapes, POLICIES), *POLICIES, rules=NO_FLUSH)
    for event in events:
        world.happen(*event)
        settle(world)
        for uid, spec in world.specs.items():
            if not world.place_of(uid):
                assert world.twin.judge(spec).totals == {}, uid


@given(story=stories, priorities=st.lists(st.sampled_from([0, 0, 5, 9]), min_size=6, max_size=6), ends=st.booleans())
@QUICK
def test_once_arrivals_stop_steps_soon_return_no_more_actions(story, priorities, ends):
    """Victims end at once or cannot be evicted; those that wait are only looked at again when something happened."""
    fleet, shapes, events = story
    shapes = [
        msgspec.structs.replace(shape, priority=priorities[at], policy=POLICIES[at % 3].name)
        for at, shape in enumerate(shapes)
    ]
    world = RandomFleet(fleet, shapes, *POLICIES, rules=NO_FLUSH)
    for what, detail in events:
        if what in ("arrives", "arrive", "runs already", "host changes", "leaves"):
            world.happen(what, detail)
            carry_out(world, world.engine.step(world.now_after(1)), ends=ends)
    come_to_rest(world, ends=ends)
    assert world.engine.step(world.engine.now) == []


def come_to_rest(world: RandomFleet, *, ends: bool | None) -> None:
    """Step whenever something is due, and do what the engine says, until nothing is due any more."""
    for _ in range(200 + 40 * len(world.specs)):
        due = world.engine.next_due()
        if due is None or due >= NO_FLUSH.flush_after_ns:
            return
        carry_out(world, world.engine.step(due), ends=ends)
    raise AssertionError("it does not come to rest")


def carry_out(world: RandomFleet, actions: list[Action], *, ends: bool | None) -> None:
    """Let victims end, or not, or (None) leave it open for good."""
    for action in actions:
        if isinstance(action, Evict) and ends:
            world.apply(GuestLeft(uid=action.uid))
        elif isinstance(action, Evict) and ends is not None:
            world.apply(EvictFailed(uid=action.uid))


def test_a_preemptor_whose_victims_never_leave_comes_to_rest():
    low = GuestSpec(requests=amounts({"cpu": 1000}))
    fleet = tuple(Host(name=name, capacity=amounts({"cpu": 1000})) for name in NAMES[:3])
    world = RandomFleet(fleet, [low, msgspec.structs.replace(low, priority=9)], policy("kubernetes"), rules=NO_FLUSH)
    for name in NAMES[:3]:
        world.happen("runs already", (0, name))
    world.happen("arrives", 1)
    come_to_rest(world, ends=None)
