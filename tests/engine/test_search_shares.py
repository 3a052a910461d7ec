"""Long searches of gangs: cut into shares by tenant and step, continued, saved, and no obstacle for others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostler.engine import Engine
from hostler.engine.checkpoint import decode, encode
from hostler.model import (
    Bind,
    DecisionNote,
    Defer,
    Expression,
    GuestArrived,
    GuestBound,
    GuestLeft,
    GuestTerm,
    HostJoined,
    QueueRules,
    Selector,
)
from hostler.model.notes import GANG_SEARCHED, find_note
from tests.engine.fleet import arrive, binds, engine_with, host, step, step_to_rest
from tests.engine.gang_instances import engine_for, form, instance, preempting, wants

APART = GuestTerm(topology="rack", selector=Selector((Expression("app", "In", ("x",)),)))
NEVER = 2**59  # units that no search spends
MEMBERS = 12
OFTEN = 6  # refusals after which a search tries 500 placements in a domain, not 10,000


def racks(zones: int, per_zone: int) -> list[Any]:
    """Return two hosts for every rack, and so many racks in every zone."""
    return [
        host(f"h{zone}-{rack}-{side}", cpu=10_000, labels={"zone": f"z{zone}", "rack": f"{zone}-{rack}"})
        for zone in range(zones)
        for rack in range(per_zone)
        for side in range(2)
    ]


def hopeless(units: int, *, zones: int = 2) -> Engine:
    """Return an engine whose zones have one rack too few for a gang that spreads over racks."""
    return engine_with(racks(zones, MEMBERS - 1), "first_fit", rules=QueueRules(search_units=units))


def add_gang(engine: Engine, name: str, tenant: str, members: int = MEMBERS) -> None:
    form(engine, name, members, topology="zone")
    engine.state.gangs.refusals[f"default/{name}"] = OFTEN
    for number in range(members):
        member = wants(f"{name}-{number}", 100, gang=name, app="x", anti_affinity=(APART,), tenant=tenant)
        engine.apply(GuestArrived(guest=member))


def work_of(engine: Engine) -> int:
    """Return how many guests were booked and taken off, as the touch log counts them."""
    return engine.state.cluster.log_end


def test_search_of_a_gang_pauses_within_its_share():
    """A gang of 64 that fits by amounts alone held one step for 14 seconds; a step now does a bounded number of
    bookings, whatever the gang is."""
    engine = engine_with(racks(8, 63), "first_fit")
    add_gang(engine, "crew", "a", 64)
    before = work_of(engine)
    assert step(engine, 0) == []
    # 8 domains in the greedy order (64 members, booked and taken off), and 128 units of the search, likewise.
    assert work_of(engine) - before <= 2 * (8 * 64 + 128 + 64)
    assert engine.is_searching
    assert engine.next_due() == 0


def test_member_of_a_searched_gang_is_active_with_a_reason():
    engine = hopeless(20)
    add_gang(engine, "crew", "a")
    assert step(engine, 0) == []
    decision = engine.decision("crew-0")
    assert decision.state == "active"
    assert decision.notes == (DecisionNote(GANG_SEARCHED, "default/crew"),)
    actions = step_to_rest(engine, 0)
    assert {type(action) for action in actions} == {Defer}
    assert engine.decision("crew-0").state == "waiting"
    assert find_note(engine.decision("crew-0").notes, GANG_SEARCHED) is None


def everything_said(engine: Engine) -> list[Any]:
    return [msgspec.to_builtins(action) for action in step_to_rest(engine, 0)]


@pytest.mark.parametrize("units", [1, 30])
def test_continued_search_finds_what_an_unbounded_one_finds(units):
    """When nothing changes in between, the actions are the same to the last number."""
    for seed in range(30):
        engines = [engine_for(instance(seed), "spread") for _ in range(2)]
        for engine, share in zip(engines, (units, NEVER), strict=True):
            engine.state.rules = QueueRules(search_units=share)
            engine.state.gangs.refusals.update(dict.fromkeys(engine.state.gangs.gangs, OFTEN))
        bounded, whole = map(everything_said, engines)
        assert bounded == whole, f"instance {seed}"


@pytest.mark.parametrize("units", [1, 13])
def test_continued_search_for_victims_ends_like_an_unbounded_one(units):
    """The search goes on through all stages: free room first, then room of guests of lower priority."""

    def crowded(share: int) -> Engine:
        engine = engine_with(racks(2, MEMBERS), preempting(), rules=QueueRules(search_units=share))
        for row, one in enumerate(racks(2, MEMBERS)):
            size = 9_950 if row % 3 else 9_800
            engine.apply(GuestArrived(guest=wants(f"low-{row}", size, host=one.name)))
            engine.apply(GuestBound(uid=f"low-{row}", host=one.name))
        form(engine, "crew", MEMBERS, topology="zone")
        engine.state.gangs.refusals["default/crew"] = OFTEN
        for number in range(MEMBERS):
            size = 100 + 50 * (number % 3)
            member = wants(f"crew-{number}", size, 10, gang="crew", app="x", anti_affinity=(APART,), tenant="a")
            engine.apply(GuestArrived(guest=member))
        return engine

    assert everything_said(crowded(units)) == everything_said(crowded(NEVER))


def test_guest_of_another_tenant_is_decided_while_gangs_wait():
    """Tenant a has ten gangs that search for long. A guest of tenant b that arrives in between is bound in the next
    step, and so is a gang of tenant b."""
    engine = hopeless(10)
    for number in range(10):
        add_gang(engine, f"crew{number}", "a")
    for number in range(30):
        step(engine, 0)
        assert engine.is_searching
        arrive(engine, wants(f"web-{number}", 100, tenant="b"))
        assert f"web-{number}" in binds(step(engine, 0))
    form(engine, "small", 2)
    arrive(engine, *[wants(f"small-{n}", 100, gang="small", tenant="b") for n in range(2)])
    assert {"small-0", "small-1"} <= binds(step(engine, 0)).keys()


def test_step_with_a_limit_passes_over_paused_searches():
    """A paused gang is no decision: a front that takes one guest per step gets one."""
    engine = hopeless(10)
    add_gang(engine, "crew", "a")
    step(engine, 0, 1)
    arrive(engine, wants("web", 100, tenant="b"))
    assert binds(step(engine, 0, 1)).keys() == {"web"}


def test_tenants_take_turns_when_many_search():
    """Of ten tenants four have a share in each step; those that waited longest come first, so each has had one after
    three steps."""
    engine = hopeless(10)
    for number in range(10):
        add_gang(engine, f"crew{number}", f"t{number}")
    for _ in range(3):
        step(engine, 0)
    assert len(engine.state.gangs.searches.positions) == 10
    spent = []
    for _ in range(5):
        before = dict(engine.state.gangs.searches.served)
        step(engine, 0)
        after = engine.state.gangs.searches.served
        spent.append({tenant for tenant in after if after[tenant] != before.get(tenant)})
    assert all(len(served) == 4 for served in spent), spent
    assert set().union(*spent[:3]) == {f"t{number}" for number in range(10)}


def test_second_gang_waits_when_its_tenant_spent_the_share():
    engine = hopeless(10)
    add_gang(engine, "first", "a")
    add_gang(engine, "second", "a")
    step(engine, 0)
    assert list(engine.state.gangs.searches.positions) == ["default/first"]
    assert engine.decision("second-0").attempt == 0
    assert engine.decision("second-0").state == "active"
    step_to_rest(engine, 0)
    assert engine.decision("second-0").attempt == 1


REST = QueueRules(search_units=10, search_rest_ns=100)


def resting() -> Engine:
    """Return an engine that has searched for a gang of tenant a once, at time 0, and lets a rest after that."""
    engine = engine_with(racks(2, MEMBERS - 1), "first_fit", rules=REST)
    add_gang(engine, "crew", "a")
    step(engine, 0)
    return engine


def test_search_rests_until_its_time_and_others_are_decided():
    """Each arrival is decided by a step of its own; the search did a share in each of them before."""
    engine = resting()
    before = work_of(engine)
    for now in (10, 50, 99):
        arrive(engine, wants(f"web-{now}", 100, tenant="b"))
        assert binds(step(engine, now)).keys() == {f"web-{now}"}
    assert work_of(engine) - before == 3
    assert not engine.is_searching
    assert engine.next_due() == 100
    step(engine, 100)
    assert work_of(engine) - before > 3 + 10


def test_new_gangs_and_members_do_not_shorten_a_rest():
    engine = resting()
    before = work_of(engine)
    add_gang(engine, "other", "a")
    arrive(engine, wants("crew-more", 100, gang="crew", app="x", anti_affinity=(APART,), tenant="a"))
    assert step(engine, 50) == []
    assert work_of(engine) == before
    assert engine.next_due() == 100
    step(engine, 100)
    assert work_of(engine) > before


def test_rest_of_one_tenant_does_not_hold_gangs_of_another():
    engine = resting()
    form(engine, "small", 2)
    arrive(engine, *[wants(f"small-{n}", 100, gang="small", tenant="b") for n in range(2)])
    assert binds(step(engine, 50)).keys() == {"small-0", "small-1"}


def test_rest_goes_on_from_checkpoint_and_fork():
    engine = resting()
    add_gang(engine, "other", "a")
    twins = [engine.fork(), Engine.restore(engine.checkpoint())]
    for now in (10, 99, 100, 150, 200, 300):
        actions = step(engine, now)
        for twin in twins:
            assert step(twin, now) == actions
            assert twin.checkpoint() == engine.checkpoint()
            assert twin.next_due() == engine.next_due()


def test_search_without_rest_ends_at_once():
    engine = resting()
    engine.search_without_rest()
    add_gang(engine, "mine", "a")
    actions = step_to_rest(engine, 0)
    assert {action.uid for action in actions} == {f"mine-{number}" for number in range(MEMBERS)}


@pytest.mark.parametrize("after", [1, 3, 8])
def test_search_goes_on_from_checkpoint_and_fork(after):
    engine = hopeless(10)
    add_gang(engine, "crew", "a")
    add_gang(engine, "other", "b")
    for _ in range(after):
        step(engine, 0)
    twins = [engine.fork(), Engine.restore(engine.checkpoint())]
    for _ in range(12):
        actions = step(engine, 0)
        for twin in twins:
            assert step(twin, 0) == actions
            assert twin.checkpoint() == engine.checkpoint()


def test_checkpoint_without_searches_is_read():
    """One of an earlier version: its gangs are active in the queue, and their search begins from the start."""
    engine = hopeless(10)
    add_gang(engine, "crew", "a")
    step(engine, 0)
    saved = decode(engine.checkpoint())
    saved.searches, saved.searches_served, saved.searches_turn = {}, {}, 0
    saved.searches_denied = []
    restored = Engine.restore(encode(saved))
    assert everything_said(restored) == everything_said(engine)


def test_changed_member_starts_the_search_again():
    engine = hopeless(10)
    add_gang(engine, "crew", "a")
    for _ in range(4):
        step(engine, 0)
    begun = engine.state.gangs.searches.positions["default/crew"]
    engine.apply(GuestLeft(uid="crew-0"))
    assert not engine.is_searching
    arrive(engine, wants("crew-0b", 100, gang="crew", app="x", anti_affinity=(APART,), tenant="a"))
    step(engine, 0)
    assert engine.state.gangs.searches.positions["default/crew"].about != begun.about


def test_room_that_comes_during_a_search_is_not_missed():
    """The racks that were tried in vain have one more: the gang is refused by what it had tried, and tried again when
    its backoff ends, not at the flush."""
    engine = hopeless(10, zones=1)
    add_gang(engine, "crew", "a")
    for _ in range(3):
        step(engine, 0)
    engine.apply(HostJoined(host=host("new", cpu=10_000, labels={"zone": "z0", "rack": "new"})))
    actions = step_to_rest(engine, 0)
    if not any(isinstance(action, Bind) for action in actions):
        due = engine.next_due()
        assert due is not None
        assert due < QueueRules().flush_after_ns
        actions = step_to_rest(engine, due)
    assert len(binds(actions)) == MEMBERS


def test_host_that_leaves_during_a_search_is_not_chosen():
    engine = engine_with(racks(1, MEMBERS), "first_fit", rules=QueueRules(search_units=3))
    arrive(engine, wants("in-the-way", 9_950, tenant="b"))
    add_gang(engine, "crew", "a", MEMBERS)
    actions = step(engine, 0)
    engine.apply(GuestLeft(uid="in-the-way"))
    taken: dict[str, str] = {}
    for action in (*actions, *step_to_rest(engine, 0)):
        if isinstance(action, Bind) and action.uid.startswith("crew"):
            taken[action.host] = action.uid
    assert len(taken) in (0, MEMBERS)
