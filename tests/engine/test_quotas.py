"""Quotas of tenants: what each is guaranteed, may have, may borrow, and may take back."""

from __future__ import annotations

import pytest

from hostler.engine import Engine
from hostler.engine.state.quotas import Quotas
from hostler.errors import FactError
from hostler.model import (
    BindFailed,
    Evict,
    EvictFailed,
    GuestChanged,
    GuestSpec,
    GuestTerm,
    HostJoined,
    HostLeft,
    Policy,
    Quota,
    QuotasChanged,
    amounts,
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
    reasons,
    states,
    step,
)
from tests.engine.gang_instances import (
    SimpleFront,
    app,
    evicted,
    form,
    held_for,
    leave,
    members,
    nominated,
    places,
    preempting,
    protect,
    runs,
    wants,
)


def quotas(engine: Engine, **cores: tuple[int, int | None]) -> None:
    """Give tenants (min, max) in cores; no maximum where there is None."""
    found = []
    for tenant, (least, most) in cores.items():
        top = amounts({"cpu": 1000 * most}) if most is not None else ()
        found.append(Quota(tenant=tenant, min=amounts({"cpu": 1000 * least}) if least else (), max=top))
    engine.apply(QuotasChanged(quotas=tuple(found)))


def fleet(*cores: int, chosen: str | Policy = "first_fit") -> Engine:
    names = "abcdefgh"
    return engine_with([host(names[i], cpu=1000 * n) for i, n in enumerate(cores)], chosen)


def decide_arrivals(engine: Engine, *guests, now: int | None = None) -> list:
    arrive(engine, *guests)
    return step(engine, engine.now if now is None else now)


def of(tenant: str, count: int, cpu: int = 1000, /, first: int = 0, **fields) -> list:
    return [wants(f"{tenant}{i}", cpu, tenant=tenant, **fields) for i in range(first, first + count)]


# -- minimum, maximum, borrowing --------------------------------------------------------------------------------------


def test_a_tenant_never_gets_more_than_its_maximum():
    engine = fleet(8)
    quotas(engine, t=(0, 2))
    actions = decide_arrivals(engine, *of("t", 3))
    assert len(binds(actions)) == 2
    assert reasons(engine.decision("t2")) == {"quota: quota exceeded: cpu beyond the maximum of t": 1}


def test_the_resource_that_is_exceeded_is_a_fact_whatever_it_is_called():
    books = Quotas()
    odd = "odd name"
    books.set([Quota(tenant="red", min=((odd, 2),), max=((odd, 4),)), Quota(tenant="blue", min=((odd, 2),))], [])
    assert books.exceeded(GuestSpec(requests=((odd, 4),), tenant="red")) is None
    assert books.exceeded(GuestSpec(requests=((odd, 5),), tenant="red")) == (odd, True)
    assert books.exceeded(GuestSpec(requests=((odd, 5),), tenant="blue")) == (odd, False)
    assert books.exceeded(GuestSpec(requests=((odd, 5),))) is None


def test_a_tenant_without_a_quota_is_not_bound_by_those_of_others():
    engine = fleet(8)
    quotas(engine, t=(0, 2), u=(2, 2))
    assert len(binds(decide_arrivals(engine, *of("free", 4), *(wants(f"none{i}", 1000) for i in range(4))))) == 8


def test_a_resource_that_no_quota_names_is_free():
    engine = fleet(8)
    engine.apply(QuotasChanged(quotas=(Quota(tenant="t", max=amounts({"gpu": 1})),)))
    assert len(binds(decide_arrivals(engine, *of("t", 8)))) == 8


def test_a_resource_without_a_maximum_has_none():
    engine = fleet(8)
    quotas(engine, t=(8, None))
    assert len(binds(decide_arrivals(engine, *of("t", 8)))) == 8


def test_a_tenant_may_borrow_what_others_leave_of_theirs():
    engine = fleet(8)
    quotas(engine, t=(2, None), u=(2, None))
    assert len(binds(decide_arrivals(engine, *of("t", 8)))) == 4
    assert reasons(engine.decision("t4")) == {"quota: quota exceeded: cpu that others leave for t": 1}


def test_a_tenant_borrows_no_further_than_its_own_maximum():
    engine = fleet(8)
    quotas(engine, t=(2, 3), u=(4, None))
    assert len(binds(decide_arrivals(engine, *of("t", 8)))) == 3


def test_a_tenant_gets_its_minimum_although_others_borrowed_it():
    engine = fleet(8)
    quotas(engine, t=(2, None), u=(2, None))
    decide_arrivals(engine, *of("t", 4))
    assert len(binds(decide_arrivals(engine, *of("u", 3)))) == 2


def test_what_was_lent_cannot_be_borrowed_again():
    engine = fleet(8)
    quotas(engine, t=(2, None), u=(2, None), v=(0, None))
    assert len(binds(decide_arrivals(engine, *of("t", 3)))) == 3
    assert len(binds(decide_arrivals(engine, *of("v", 3)))) == 1


def test_every_resource_of_a_quota_counts():
    engine = fleet(8)
    engine.apply(QuotasChanged(quotas=(Quota(tenant="t", max=amounts({"cpu": 8000, "memory": GIB})),)))
    arrive(engine, *(guest(f"m{i}", cpu=100, memory=GIB // 2, tenant="t") for i in range(3)))
    assert len(binds(step(engine, 0))) == 2


def test_guests_can_be_counted_themselves():
    engine = fleet(8)
    engine.apply(QuotasChanged(quotas=(Quota(tenant="t", max=amounts({"guests": 2})),)))
    assert len(binds(decide_arrivals(engine, *of("t", 3, 0)))) == 2


def test_a_guest_that_asks_for_nothing_of_a_resource_is_not_bound_by_it():
    engine = fleet(8)
    quotas(engine, t=(0, 1))
    assert len(binds(decide_arrivals(engine, *of("t", 1), *of("t", 3, 0, first=5)))) == 4


def test_what_runs_by_a_fact_counts_and_is_never_refused():
    engine = fleet(8)
    quotas(engine, t=(0, 2))
    runs(engine, "a", *of("t", 3))
    assert places(engine, "t0", "t1", "t2") == ["a", "a", "a"]
    assert binds(decide_arrivals(engine, *of("t", 1, first=3))) == {}


def test_guests_whose_host_is_away_still_count():
    engine = fleet(2, 8)
    quotas(engine, t=(0, 2))
    runs(engine, "a", *of("t", 2))
    engine.apply(HostLeft(name="a"))
    assert binds(decide_arrivals(engine, *of("t", 1, first=2))) == {}


def test_a_guest_that_grows_counts_with_its_new_size():
    engine = fleet(8)
    quotas(engine, t=(0, 4))
    runs(engine, "a", wants("t0", 1000, tenant="t", version=1))
    engine.apply(GuestChanged(guest=wants("t0", 3000, tenant="t", version=2)))
    assert len(binds(decide_arrivals(engine, *of("t", 2, first=1)))) == 1


@pytest.mark.parametrize(
    "given",
    [
        pytest.param((Quota(tenant="t"), Quota(tenant="t")), id="twice"),
        pytest.param((Quota(tenant=""),), id="for-nobody"),
        pytest.param((Quota(tenant="t", min=(("cpu", 2),), max=(("cpu", 1),)),), id="minimum-above-maximum"),
        pytest.param((Quota(tenant="t", min=(("cpu", -1),)),), id="negative"),
        pytest.param((Quota(tenant="t", max=(("cpu", 2**63),)),), id="enormous"),
    ],
)
def test_impossible_quotas_are_refused_and_change_nothing(given):
    engine = fleet(8)
    quotas(engine, t=(0, 2))
    before = engine.checkpoint()
    with pytest.raises(FactError):
        engine.apply(QuotasChanged(quotas=given))
    assert engine.checkpoint() == before
    assert len(binds(decide_arrivals(engine, *of("t", 3)))) == 2


def test_a_step_of_many_guests_decides_as_one_after_another():
    engine = fleet(2, 3, 8)
    quotas(engine, t=(2, 5), u=(3, None), v=(0, 3))
    arrive(engine, *of("t", 6, priority=1), *of("u", 6), *of("v", 6, priority=1), *of("free", 3))
    twin = engine.fork()
    single: list = []
    while more := twin.step(0, 1):
        single += more
    assert step(engine, 0) == single
    assert essence(twin) == essence(engine)


# -- waking -----------------------------------------------------------------------------------------------------------


def test_guest_over_quota_is_retried_when_one_of_its_tenant_leaves():
    engine = fleet(8)
    quotas(engine, t=(0, 1))
    decide_arrivals(engine, *of("t", 2))
    leave(engine, "t0")
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert places(engine, "t1") == ["a"]


def test_guest_over_quota_is_retried_wherever_quota_became_free():
    # The host that lost a guest is too small for the one that waits; another one has room.
    engine = engine_with([host("a", cpu=2000, memory=GIB), host("b", cpu=8000, memory=8 * GIB)], "first_fit")
    quotas(engine, t=(0, 2))
    runs(engine, "a", guest("t0", cpu=2000, memory=GIB, tenant="t"))
    assert holds(decide_arrivals(engine, guest("t1", cpu=2000, memory=4 * GIB, tenant="t"))) == ["t1"]
    leave(engine, "t0")
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert places(engine, "t1") == ["b"]


def test_guest_over_quota_is_retried_when_a_guest_of_a_lost_host_ends():
    engine = fleet(2, 2)
    quotas(engine, t=(0, 2))
    runs(engine, "a", *of("t", 2))
    engine.apply(HostLeft(name="a"))
    decide_arrivals(engine, *of("t", 1, first=2))
    leave(engine, "t0")
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert places(engine, "t2") == ["b"]


def test_guest_that_could_not_borrow_is_retried_when_a_tenant_shrinks():
    engine = fleet(2, 8)
    quotas(engine, t=(1, None), u=(2, None))
    runs(engine, "a", *of("u", 2))
    runs(engine, "b", *of("t", 1))
    assert holds(decide_arrivals(engine, *of("t", 1, 1000, first=1, host_name="b"))) == ["t1"]
    leave(engine, "u0")
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert places(engine, "t1") == ["b"]


def test_a_raised_maximum_lets_a_waiting_guest_go():
    engine = fleet(8)
    quotas(engine, t=(0, 1))
    decide_arrivals(engine, *of("t", 2))
    quotas(engine, t=(0, 2))
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert places(engine, "t1") == ["a"]


def test_a_lowered_maximum_evicts_nobody():
    engine = fleet(8, chosen=preempting(reclaim=True))
    quotas(engine, t=(0, 4))
    arrive(engine, *of("t", 4))
    front = SimpleFront(engine)
    front.step()
    quotas(engine, t=(0, 1))
    front.settle(3600 * SECOND)
    assert front.evictions == []
    leave(engine, "t0", "t1", "t2")
    assert binds(decide_arrivals(engine, *of("t", 1, first=4))) == {}


def test_removed_quotas_bind_nobody():
    engine = fleet(8)
    quotas(engine, t=(0, 1))
    decide_arrivals(engine, *of("t", 3))
    engine.apply(QuotasChanged(quotas=()))
    front = SimpleFront(engine)
    front.settle(30 * SECOND)
    assert "" not in places(engine, "t0", "t1", "t2")


def test_a_failed_bind_gives_its_part_of_the_quota_back():
    engine = fleet(8)
    quotas(engine, t=(0, 1))
    decide_arrivals(engine, *of("t", 1))
    engine.apply(BindFailed(uid="t0", host="a"))
    assert binds(decide_arrivals(engine, *of("t", 1, first=1))) == {"t1": "a"}


def test_quotas_survive_a_restart():
    engine = fleet(8)
    quotas(engine, t=(2, 3), u=(2, None))
    decide_arrivals(engine, *of("t", 4))
    again = Engine.restore(engine.checkpoint())
    assert again.checkpoint() == engine.checkpoint()
    assert again.state.quotas.used == engine.state.quotas.used
    for each in (engine, again):
        leave(each, "t0")
    assert step(again, 60 * SECOND) == step(engine, 60 * SECOND)


def test_guest_waiting_for_quota_is_woken_alike_after_a_restart():
    # A waiting guest with a rule against it was evaluated before the restart, and not yet after it.
    engine = engine_with([host("a", labels={"host": "a"})], "first_fit")
    quotas(engine, t=(0, 1))
    runs(engine, "a", *of("t", 1))
    shy = wants("shy", 9000, app="x", anti_affinity=(GuestTerm("host", app("web")),))
    decide_arrivals(engine, shy, wants("t1", 1000, tenant="t", app="web"))
    again = Engine.restore(engine.checkpoint())
    for each in (engine, again):
        arrive(each, wants("other", 0))
    for now in (0, 10 * SECOND, 20 * SECOND):
        assert again.next_due() == engine.next_due()
        assert step(again, now) == step(engine, now)


# -- gangs ------------------------------------------------------------------------------------------------------------


def test_a_gang_beyond_its_quota_is_not_placed_in_part():
    engine = fleet(8)
    quotas(engine, t=(0, 3))
    form(engine, "team", 4)
    assert binds(decide_arrivals(engine, *members("team", 4, 1000, tenant="t"))) == {}
    said = [reasons(engine.decision(f"team-{i}")) for i in range(4)]
    assert {"quota: quota exceeded: cpu beyond the maximum of t": 1} in said


def test_members_beyond_the_minimum_stay_within_the_quota():
    engine = fleet(8)
    quotas(engine, t=(0, 3))
    form(engine, "team", 2)
    assert len(binds(decide_arrivals(engine, *members("team", 4, 1000, tenant="t")))) == 3


def test_members_of_several_tenants_count_for_their_own():
    engine = fleet(8)
    quotas(engine, t=(0, 1), u=(0, 1))
    form(engine, "team", 2)
    team = [wants("t0", 1000, gang="team", tenant="t"), wants("u0", 1000, gang="team", tenant="u")]
    assert len(binds(decide_arrivals(engine, *team))) == 2


def test_a_gang_that_takes_nothing_takes_nothing_of_the_quota():
    engine = fleet(2)
    quotas(engine, t=(0, 4))
    form(engine, "team", 3)
    decide_arrivals(engine, *members("team", 3, 1000, tenant="t"))
    assert engine.state.quotas.used.get("t", {}).get("cpu", 0) == 0


# -- reclaiming -------------------------------------------------------------------------------------------------------


def lent(*, reclaim: bool = True, chosen: Policy | None = None, **fields) -> Engine:
    """Return an engine with one host of four cores. t has all of them: two are borrowed from u."""
    engine = fleet(4, chosen=chosen or preempting(reclaim=reclaim))
    quotas(engine, t=(2, None), u=(2, None))
    runs(engine, "a", *of("t", 4, 1000, **fields))
    return engine


def test_a_tenant_takes_back_what_it_is_guaranteed():
    engine = lent()
    actions = decide_arrivals(engine, *of("u", 1))
    assert len(evicted(actions)) == 1
    assert nominated(actions) == {"u0": "a"}
    assert engine.decision("u0").note == "reclaims 1 on a"
    leave(engine, *evicted(actions))
    assert binds(step(engine, SECOND)) == {"u0": "a"}
    assert held_for(engine) == {}


def test_a_policy_that_does_not_reclaim_leaves_the_borrower_alone():
    engine = lent(reclaim=False)
    assert evicted(decide_arrivals(engine, *of("u", 1))) == []


def test_a_tenant_reclaims_from_guests_of_higher_priority_too():
    engine = lent(priority=9)
    assert len(evicted(decide_arrivals(engine, *of("u", 1)))) == 1


def test_reclaiming_works_without_preemption():
    engine = lent(chosen=Policy(name="first_fit", reclaim=True))
    actions = decide_arrivals(engine, *of("u", 1))
    assert len(evicted(actions)) == 1
    leave(engine, *evicted(actions))
    assert binds(step(engine, SECOND)) == {"u0": "a"}


def test_nothing_is_reclaimed_while_there_is_room():
    engine = lent()
    engine.apply(HostJoined(host=host("b")))
    actions = decide_arrivals(engine, *of("u", 1))
    assert (evicted(actions), binds(actions)) == ([], {"u0": "b"})


def test_a_tenant_reclaims_no_more_than_its_minimum():
    engine = lent()
    front = SimpleFront(engine)
    arrive(engine, *of("u", 4))
    front.settle(600 * SECOND)
    assert len(front.evictions) == 2
    assert sorted(places(engine, "u0", "u1", "u2", "u3")) == ["", "", "a", "a"]


def test_a_tenant_beyond_its_minimum_preempts_like_everybody_else():
    engine = lent()
    leave(engine, "t0", "t1")
    runs(engine, "a", *of("u", 2))
    assert evicted(decide_arrivals(engine, *of("u", 1, 1000, first=2))) == []
    assert evicted(decide_arrivals(engine, *of("u", 1, 1000, first=3, priority=5))) == []


def test_a_guest_larger_than_what_is_owed_reclaims_nothing():
    engine = lent()
    assert evicted(decide_arrivals(engine, *of("u", 1, 3000))) == []


def test_the_one_furthest_above_its_minimum_gives_first():
    engine = fleet(8, chosen=preempting(reclaim=True))
    quotas(engine, s=(2, None), t=(2, None), u=(4, None))
    runs(engine, "a", *of("s", 3), *of("t", 5))
    front = SimpleFront(engine)
    arrive(engine, *of("u", 1))
    front.step()
    assert front.evictions[0].startswith("t")


def test_in_the_end_all_borrowers_have_given_back():
    engine = fleet(8, chosen=preempting(reclaim=True))
    quotas(engine, s=(2, None), t=(2, None), u=(4, None))
    runs(engine, "a", *of("s", 4), *of("t", 4))
    front = SimpleFront(engine)
    arrive(engine, *of("u", 4))
    front.settle(600 * SECOND)
    assert sorted(uid[0] for uid in front.evictions) == ["s", "s", "t", "t"]
    assert "" not in places(engine, "u0", "u1", "u2", "u3")


def test_a_borrower_gives_up_the_lowest_priority_first():
    engine = fleet(4, chosen=preempting(reclaim=True))
    quotas(engine, t=(2, None), u=(2, None))
    runs(engine, "a", *(wants(f"t{p}", 1000, p, tenant="t") for p in (3, 1, 4, 2)))
    assert evicted(decide_arrivals(engine, *of("u", 1))) == ["t1"]


def test_a_borrower_gives_up_the_youngest_of_equal_priority_first():
    engine = fleet(4, chosen=preempting(reclaim=True))
    quotas(engine, t=(2, None), u=(2, None))
    runs(engine, "a", *(wants(f"t{age}", 1000, tenant="t", started=age) for age in (3, 1, 4, 2)))
    assert evicted(decide_arrivals(engine, *of("u", 1))) == ["t4"]


def test_the_lowest_priority_goes_first_over_all_hosts():
    engine = fleet(2, 2, chosen=preempting(reclaim=True))
    quotas(engine, t=(2, None), u=(2, None))
    runs(engine, "a", *(wants(f"t{p}", 1000, p, tenant="t") for p in (3, 4)))
    runs(engine, "b", *(wants(f"t{p}", 1000, p, tenant="t") for p in (1, 2)))
    assert evicted(decide_arrivals(engine, *of("u", 1))) == ["t1"]


def test_nobody_falls_below_its_own_minimum():
    engine = fleet(4, chosen=preempting(reclaim=True))
    quotas(engine, t=(2, None), u=(2, None))
    runs(engine, "a", *of("t", 1, 1000), wants("t-big", 2000, tenant="t"), wants("other", 1000))
    # t has one core above its minimum; its large guest may not go, its small one may.
    assert evicted(decide_arrivals(engine, *of("u", 1))) == ["t0"]


def test_nothing_is_reclaimed_if_a_tenant_would_fall_below_its_minimum():
    engine = fleet(4, chosen=preempting(reclaim=True))
    quotas(engine, t=(2, None), u=(2, None))
    runs(engine, "a", wants("t-big", 3000, tenant="t"), wants("other", 1000))
    assert evicted(decide_arrivals(engine, *of("u", 1))) == []


def test_nobody_falls_below_its_minimum_of_another_resource():
    engine = engine_with([host("a", cpu=4000, memory=4 * GIB)], preempting(reclaim=True))
    quota = {"cpu": 2000, "memory": 3 * GIB}
    engine.apply(
        QuotasChanged(
            quotas=(Quota(tenant="t", min=amounts(quota)), Quota(tenant="u", min=amounts({"cpu": 2000, "memory": GIB})))
        )
    )
    runs(engine, "a", *(guest(f"t{i}", cpu=2000, memory=2 * GIB, tenant="t") for i in range(2)))
    assert evicted(decide_arrivals(engine, guest("u0", cpu=1000, memory=0, tenant="u"))) == []


def test_guests_without_a_quota_are_not_reclaimed():
    engine = fleet(4, chosen=preempting(reclaim=True))
    quotas(engine, u=(2, None))
    runs(engine, "a", *(wants(f"free{i}", 1000, tenant="free") for i in range(4)))
    assert evicted(decide_arrivals(engine, *of("u", 1))) == []


def test_a_borrowers_gang_that_falls_as_one_goes_wholly():
    engine = fleet(4, chosen=preempting(reclaim=True))
    quotas(engine, t=(1, None), u=(3, None))
    form(engine, "team", 3, disruption="all")
    runs(engine, "a", *members("team", 3, 1000, tenant="t"), wants("t9", 1000, 9, tenant="t"))
    assert sorted(evicted(decide_arrivals(engine, *of("u", 1)))) == ["team-0", "team-1", "team-2"]


def test_a_borrowers_gang_stays_where_its_fall_would_cost_too_much():
    engine = fleet(4, chosen=preempting(reclaim=True))
    quotas(engine, t=(2, None), u=(2, None))
    form(engine, "team", 3, disruption="all")
    runs(engine, "a", *members("team", 3, 1000, tenant="t"), wants("t9", 1000, 9, tenant="t"))
    assert evicted(decide_arrivals(engine, *of("u", 1))) == ["t9"]


def test_budgets_are_respected_when_reclaiming():
    engine = lent(app="web")
    protect(engine, "web", 0)
    assert evicted(decide_arrivals(engine, *of("u", 1))) == []
    protect(engine, "web", 1)
    front = SimpleFront(engine)
    front.settle(60 * SECOND)
    assert len(front.evictions) == 1


def test_what_was_reclaimed_can_be_borrowed_back_when_it_is_free_again():
    engine = lent()
    front = SimpleFront(engine)
    for i in range(2):
        arrive(engine, *of("u", 1, 1000, first=i))
        front.settle((i + 1) * 15 * SECOND)
    arrive(engine, *of("t", 2, 1000, first=4))
    front.settle(60 * SECOND)
    assert places(engine, "t4", "t5") == ["", ""]
    leave(engine, "u0", "u1")
    front.settle(120 * SECOND)
    assert places(engine, "t4", "t5") == ["a", "a"]
    assert len(front.evictions) == 2


@pytest.mark.parametrize("least", [0, 1, 2])
def test_two_owed_guests_reclaim_two(least):
    engine = fleet(4, chosen=preempting(reclaim=True))
    quotas(engine, t=(least, None), u=(4 - least, None))
    runs(engine, "a", *of("t", 4))
    actions = decide_arrivals(engine, *of("u", 2))
    assert len(evicted(actions)) == 2
    leave(engine, *evicted(actions))
    assert len(binds(step(engine, SECOND))) == 2


def test_a_gang_takes_back_what_its_tenant_is_guaranteed():
    engine = lent()
    form(engine, "team", 2)
    arrive(engine, *members("team", 2, 1000, tenant="u"))
    front = SimpleFront(engine)
    front.settle(60 * SECOND)
    assert len(front.evictions) == 2
    assert places(engine, "team-0", "team-1") == ["a", "a"]


def test_a_gang_takes_from_several_borrowers_when_one_is_not_enough():
    engine = fleet(6, chosen=Policy(name="first_fit", reclaim=True))
    quotas(engine, t=(1, None), u=(4, None), v=(1, None))
    runs(engine, "a", *of("t", 3), *of("v", 3))
    form(engine, "team", 4)
    actions = decide_arrivals(engine, *members("team", 4, 1000, tenant="u"))
    assert sorted(name[0] for name in evicted(actions)) == ["t", "t", "v", "v"]
    assert {a.reason for a in actions if isinstance(a, Evict)} == {"reclaimed by gang default/team for tenant u"}


def test_gang_that_is_only_partly_owed_reclaims_nothing():
    engine = lent()
    form(engine, "team", 3)
    assert evicted(decide_arrivals(engine, *members("team", 3, 1000, tenant="u"))) == []


def test_budgets_are_respected_when_a_gang_reclaims():
    engine = lent(labels=(("app", "t"),))
    protect(engine, "t", 1)
    form(engine, "team", 2)
    assert evicted(decide_arrivals(engine, *members("team", 2, 1000, tenant="u"))) == []


def test_who_is_reclaimed_is_reported_for_whom():
    actions = decide_arrivals(lent(), *of("u", 1))
    assert {a.reason for a in actions if isinstance(a, Evict)} == {"reclaimed by u0 for tenant u"}
    assert {(a.is_preemption, a.is_reclaim) for a in actions if isinstance(a, Evict)} == {(False, True)}


def test_a_step_that_reclaims_decides_as_one_after_another():
    # What u0 reclaims is kept for it before the next one is looked at.
    engine = fleet(4, chosen=Policy(name="first_fit", reclaim=True))
    quotas(engine, t=(2, None), u=(2, None))
    runs(engine, "a", *of("t", 3, 1000))
    arrive(engine, *of("u", 1, 2000), wants("free", 1000))
    twin = engine.fork()
    single: list = []
    while more := twin.step(0, 1):
        single += more
    assert step(engine, 0) == single


def test_a_reclaim_that_fails_is_not_tried_for_ever():
    engine = lent()
    arrive(engine, *of("u", 1))
    count = 0
    for now in range(0, 590 * SECOND, 5 * SECOND):
        for action in step(engine, now):
            if isinstance(action, Evict):
                count += 1
                engine.apply(EvictFailed(uid=action.uid))
    assert 1 <= count <= 4 * 3


def test_reclaimed_guests_that_come_back_are_not_evicted_for_ever():
    engine = lent()
    arrive(engine, *of("u", 1))
    count = 0
    for now in range(0, 590 * SECOND, 5 * SECOND):
        for action in step(engine, now):
            if isinstance(action, Evict):
                count += 1
                leave(engine, action.uid)
                runs(engine, "a", wants(f"t-again-{count}", 1000, tenant="t"))
    assert count == 3


def test_the_victims_of_one_owner_are_not_counted_as_given_twice():
    # While one guest of t is on its way out, t has one core above its minimum, not two.
    engine = fleet(4, chosen=preempting(reclaim=True))
    quotas(engine, t=(2, None), u=(1, None), v=(1, None))
    runs(engine, "a", *of("t", 3, 1000), wants("other", 1000))
    first = evicted(decide_arrivals(engine, *of("u", 1)))
    assert len(first) == 1
    assert evicted(decide_arrivals(engine, *of("v", 1))) == []


def test_a_reclaim_survives_a_restart():
    engine = lent()
    victims = evicted(decide_arrivals(engine, *of("u", 1)))
    again = Engine.restore(engine.checkpoint())
    assert again.checkpoint() == engine.checkpoint()
    for each in (engine, again):
        leave(each, *victims)
    assert step(again, SECOND) == step(engine, SECOND)
    assert states(again)["u0"] == "assumed"
