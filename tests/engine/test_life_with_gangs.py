"""A cluster's life with gangs, tenants, budgets, reservations and evictions, in random events: what must never happen.

Everything that a step decides is checked again here in plain Python, from the guests and hosts alone.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hostler.engine import Engine
from hostler.engine.state.gang_book import GANG
from hostler.engine.state.queue import ACTIVE, BACKOFF, WAITING
from hostler.engine.state.records import GROUPED, PLACED_STATES, QUEUED
from hostler.model import (
    Abandon,
    Action,
    Bind,
    BindFailed,
    Budget,
    BudgetChanged,
    BudgetLeft,
    Defer,
    Device,
    DeviceRequest,
    Evict,
    EvictFailed,
    Expression,
    Gang,
    GangChanged,
    GangLeft,
    Guest,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestLeft,
    GuestSpec,
    GuestTerm,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    HostsJoined,
    PolicyChanged,
    Prepare,
    Prepared,
    QueueRules,
    Quota,
    QuotasChanged,
    Reservation,
    ReservationChanged,
    ReservationLeft,
    Spread,
    Term,
    amounts,
    labels,
)
from tests.engine.fleet import LONG, QUICK, SECOND, essence
from tests.engine.gang_instances import PlainCluster, app, preempting

HOSTS = [f"h{i}" for i in range(5)]
GANGS = ["g0", "g1", "g2"]
TENANTS = ["", "", "t", "u"]
GPUS = [(), (), (), (), (), (DeviceRequest("gpu", 1, 500),), (DeviceRequest("gpu", 2),)]
LIMITS: Any = {
    "max_evictions": 5, "window_ns": 60 * SECOND, "wait_ns": 30 * SECOND, "max_repeats": 2, "max_cascade": 2,
}  # fmt: skip
POLICIES = (
    preempting("first_fit", budgets="strict", reclaim=True, **LIMITS),
    preempting("spread", budgets="best_effort", **LIMITS),
    msgspec.structs.replace(preempting("pack"), preemption=None),
)
STRICT = {"", "first_fit"}  # the policies that never break a budget, as long as the first one is the default


# -- what may happen --------------------------------------------------------------------------------------------------

machines = st.builds(
    lambda name, cpu, memory, gpus, zone, cordoned: Host(
        name=name,
        capacity=amounts({"cpu": cpu, "memory": memory}),
        devices=(Device("gpu"),) * gpus,
        labels=labels({"zone": zone, "host": name} if zone else {"host": name}),
        cordoned=cordoned,
    ),
    st.sampled_from(HOSTS),
    st.integers(2, 8),
    st.integers(4, 12),
    st.sampled_from([0, 0, 2]),
    st.sampled_from(["x", "y", "y", ""]),
    st.sampled_from([False, False, False, True]),
)
terms = st.builds(GuestTerm, st.sampled_from(["zone", "host"]), st.sampled_from([app("a"), app("b")]))
guest_specs = st.builds(
    lambda cpu, memory, gpu, priority, chosen, name, tenant, near, apart, even, polite, prepare, zone: GuestSpec(
        requests=amounts({"cpu": cpu, "memory": memory}),
        devices=gpu,
        priority=priority,
        policy=chosen,
        labels=labels({"app": name}),
        tenant=tenant,
        affinity=near,
        anti_affinity=apart,
        spread=even,
        may_preempt=not polite,
        prepare=("disk",) if prepare else (),
        host_selector=labels({"zone": zone} if zone else {}),
    ),
    st.sampled_from([1, 2, 3, 4, 0]),
    st.sampled_from([1, 0, 2, 3]),
    st.sampled_from(GPUS),
    st.sampled_from([0, 5, 0, 9]),
    st.sampled_from(["", "", "first_fit", "spread", "pack"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from(TENANTS),
    st.sampled_from([(), (), (), ()]) | st.tuples(terms),
    st.sampled_from([(), (), ()]) | st.tuples(terms),
    st.sampled_from([(), (), (), (Spread("zone", 1, app("a")),), (Spread("host", 2, app("b")),)]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from(["", "", "", "", "x"]),
)
gangs = st.builds(
    lambda name, least, more, priority, topology, disruption, broken, line: Gang(
        name=name,
        min_count=least,
        max_count=0 if more is None else least + more,
        priority=priority,
        topology=topology,
        disruption=disruption,
        when_broken=broken,
        release_after_ns=15 * SECOND,
        head_of_line=line,
    ),
    st.sampled_from(GANGS),
    st.integers(1, 4),
    st.sampled_from([None, None, 0, 1]),
    st.sampled_from([None, None, 5, 9]),
    st.sampled_from(["", "", "zone"]),
    st.sampled_from(["single", "all"]),
    st.sampled_from(["keep", "prefer_repair", "release_after"]),
    st.sampled_from(["skip", "reserve"]),
)
cores = st.integers(0, 6)
quota_lists = st.lists(
    st.builds(
        lambda tenant, least, more: Quota(
            tenant=tenant,
            min=amounts({"cpu": least}),
            max=() if more is None else amounts({"cpu": least + more, "memory": 12}),
        ),
        st.sampled_from(["t", "u"]),
        cores,
        st.none() | cores,
    ),
    max_size=2,
    unique_by=lambda quota: quota.tenant,
)
reservations = st.builds(
    lambda name, cpu, where, whose, start, length: Reservation(
        name=name,
        amounts=amounts({"cpu": cpu}),
        hosts=(Term((Expression("zone", "In", (where,)),)),) if where else (),
        tenant=whose if whose in TENANTS else "",
        gang=f"default/{whose}" if whose in GANGS else "",
        selector=app("a") if whose == "app" else None,
        since=start,
        until=start + length if length else 0,
    ),
    st.sampled_from(["r", "s"]),
    st.integers(0, 4),
    st.sampled_from(["", "x", "y"]),
    st.sampled_from(["t", "u", "g0", "g1", "app"]),
    st.sampled_from([0, 0, 20 * SECOND]),
    st.sampled_from([0, 30 * SECOND, 90 * SECOND]),
)


def checkpoint_content(engine: Engine) -> dict[str, object]:
    """Return what a checkpoint says, without what ``essence`` says better: names for numbers that depend on history."""
    saved: dict[str, object] = msgspec.msgpack.decode(engine.checkpoint())
    return {name: value for name, value in saved.items() if name not in ("reasons", "guests", "queue", "queue_stamp")}


# -- the machine ------------------------------------------------------------------------------------------------------


class GangLifeMachine(RuleBasedStateMachine):
    """Random events; before every step the engine is compared with its twins, after it with the plain reading."""

    @initialize(
        seed=st.integers(0, 3),
        hosts=st.lists(machines, min_size=2, max_size=4, unique_by=lambda host: host.name),
        fill=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b"]), st.sampled_from(TENANTS)), max_size=8),
    )
    def begin(self, seed, hosts, fill):
        rules = QueueRules(flush_after_ns=20 * SECOND, prepare_timeout_ns=5 * SECOND)
        self.engine = Engine(POLICIES, seed=seed, rules=rules)
        self.version = 0
        self.number = 0
        self.claims: set[str] = set()  # those for whom guests were evicted
        self.evictions: dict[str, Evict] = {}  # asked for and not answered yet
        self.engine.apply(HostsJoined(hosts=tuple(self.stamped(host) for host in hosts)))
        for at, name, tenant in fill:
            spec = GuestSpec(requests=amounts({"cpu": 2, "memory": 1}), labels=labels({"app": name}), tenant=tenant)
            self.arrive(spec, host=hosts[at % len(hosts)].name)

    def stamped(self, thing: Any) -> Any:
        self.version += 1
        return msgspec.structs.replace(thing, version=self.version)

    def some(self, pick: int, *states: str) -> str | None:
        """Pick a guest in one of the states."""
        known = self.engine.state.guests
        uids = [u for u, r in known.items() if not states or self.engine.state_of(r) in states]
        return uids[pick % len(uids)] if uids else None

    def arrive(self, spec: GuestSpec, gang: str = "", host: str = "") -> None:
        self.number += 1
        key = f"default/{gang}" if gang else ""
        name = f"{gang or 'guest'}-{self.number}"
        started = self.engine.now + 1 if host else 0
        self.engine.apply(
            GuestArrived(guest=Guest(name=name, uid=name, version=1, spec=spec, gang=key, host=host, started=started))
        )

    # -- hosts --------------------------------------------------------------------------------------------------------

    @rule(host=machines)
    def a_host_joins_or_changes(self, host):
        known = host.name in self.engine.state.cluster.row_of
        self.engine.apply((HostChanged if known else HostJoined)(host=self.stamped(host)))

    @rule(name=st.sampled_from(HOSTS))
    def a_host_leaves(self, name):
        self.engine.apply(HostLeft(name=name))

    # -- guests -------------------------------------------------------------------------------------------------------

    @rule(spec=guest_specs)
    def a_guest_arrives(self, spec):
        self.arrive(spec)

    @rule(spec=guest_specs, name=st.sampled_from(HOSTS))
    def a_guest_arrives_bound(self, spec, name):
        self.arrive(spec, host=name)

    @rule(spec=guest_specs, gang=st.sampled_from(GANGS), count=st.integers(1, 4), host=st.sampled_from(["", "", "h0"]))
    def members_arrive(self, spec, gang, count, host):
        for _ in range(count):
            self.arrive(spec, gang, host)

    @rule(
        gang=gangs, specs=st.lists(guest_specs, min_size=1, max_size=2), count=st.integers(1, 5), then=st.integers(0, 3)
    )
    def a_gang_arrives_with_members(self, gang, specs, count, then):
        self.engine.apply(GangChanged(gang=self.stamped(gang)))
        for i in range(count):
            self.arrive(specs[i % len(specs)], gang.name)
        self.step(then, None)

    @rule(gang=gangs)
    def a_gang_arrives_or_changes(self, gang):
        self.engine.apply(GangChanged(gang=self.stamped(gang)))

    @rule(name=st.sampled_from(GANGS))
    def a_gang_leaves(self, name):
        self.engine.apply(GangLeft(key=f"default/{name}"))

    @rule(pick=st.integers(0, 99))
    def a_guest_leaves(self, pick):
        uid = self.some(pick)
        if uid is not None:
            self.leave(uid)

    def leave(self, uid: str) -> None:
        self.evictions.pop(uid, None)
        self.engine.apply(GuestLeft(uid=uid))

    @rule(pick=st.integers(0, 99), spec=guest_specs)
    def a_guest_changes(self, pick, spec):
        uid = self.some(pick)
        if uid is not None:
            known = self.engine.state.guests[uid].guest
            changed = msgspec.structs.replace(known, spec=spec, host="")
            self.engine.apply(GuestChanged(guest=self.stamped(changed)))

    @rule(pick=st.integers(0, 99))
    def the_end_of_a_running_guest_is_decided(self, pick):
        uid = self.some(pick, "bound")
        if uid is not None:
            known = self.engine.state.guests[uid].guest
            spec = msgspec.structs.replace(known.spec, is_leaving=True)
            self.engine.apply(GuestChanged(guest=self.stamped(msgspec.structs.replace(known, spec=spec))))

    @rule(pick=st.integers(0, 99), name=st.sampled_from(HOSTS))
    def somebody_binds_a_guest(self, pick, name):
        uid = self.some(pick)
        if uid is not None:
            self.engine.apply(GuestBound(uid=uid, host=name))

    # -- answers ------------------------------------------------------------------------------------------------------

    @rule(pick=st.integers(0, 99), works=st.sampled_from([True, True, False]))
    def a_bind_ends(self, pick, works):
        uid = self.some(pick, "assumed")
        if uid is not None:
            self.bound(uid, works)

    def bound(self, uid: str, works: bool) -> None:
        host = self.engine.decision(uid).host
        self.engine.apply(GuestBound(uid=uid, host=host) if works else BindFailed(uid=uid, host=host, reason="no"))
        if not works:
            self.evictions.pop(uid, None)

    @rule(then=st.integers(0, 3))
    def all_binds_succeed(self, then):
        for uid, record in list(self.engine.state.guests.items()):
            if self.engine.state_of(record) == "assumed":
                self.bound(uid, works=True)
        self.step(then, None)

    @rule(pick=st.integers(0, 99), error=st.sampled_from(["", "", "no"]))
    def a_preparation_ends(self, pick, error):
        uid = self.some(pick, "preparing")
        if uid is not None:
            self.engine.apply(Prepared(uid=uid, host=self.engine.decision(uid).host, error=error))
            if error:
                self.evictions.pop(uid, None)

    @precondition(lambda self: self.evictions)
    @rule(pick=st.integers(0, 99), how=st.sampled_from(["left", "left", "failed", "came back"]), then=st.integers(0, 2))
    def an_eviction_ends(self, pick, how, then):
        uid = sorted(self.evictions)[pick % len(self.evictions)]
        guest = self.engine.state.guests[uid].guest
        if how == "failed":
            del self.evictions[uid]
            self.engine.apply(EvictFailed(uid=uid, reason="no"))
        else:
            self.leave(uid)
        if how == "came back":
            self.arrive(guest.spec, guest.gang.removeprefix("default/"))
        self.step(then, None)

    # -- rules --------------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(["a", "b"]), allowed=st.integers(0, 2))
    def a_budget_changes(self, name, allowed):
        on_their_way = tuple(sorted(self.engine.state.guests[uid].guest.name for uid in self.engine.state.evicting))
        budget = Budget(name=name, selector=app(name), allowed=allowed, disrupted=on_their_way)
        self.engine.apply(BudgetChanged(budget=self.stamped(budget)))

    @rule(name=st.sampled_from(["a", "b"]))
    def a_budget_leaves(self, name):
        self.engine.apply(BudgetLeft(key=f"default/{name}"))

    @rule(quotas=quota_lists)
    def the_quotas_change(self, quotas):
        self.engine.apply(QuotasChanged(quotas=tuple(quotas)))

    @rule(reservation=reservations)
    def a_reservation_changes(self, reservation):
        self.engine.apply(ReservationChanged(reservation=self.stamped(reservation)))

    @rule(name=st.sampled_from(["r", "s"]))
    def a_reservation_leaves(self, name):
        self.engine.apply(ReservationLeft(name=name))

    @rule(policies=st.permutations(POLICIES[1:]))
    def the_policies_change(self, policies):
        self.engine.apply(PolicyChanged(policies=(POLICIES[0], *policies)))

    # -- steps and twins ----------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0, 0, 1, 3, 12, 35]), limit=st.sampled_from([None, None, None, 1, 3]))
    def a_step(self, seconds, limit):
        self.step(seconds, limit)

    def step(self, seconds: int, limit: int | None) -> list[Action]:
        """Step the engine, its fork and its restored twin, and check what was decided."""
        engine = self.engine
        now = engine.now + seconds * SECOND
        before = engine.checkpoint()
        fork, restored, origin = engine.fork(), Engine.restore(before), engine.fork()
        actions = engine.step(now, limit)
        assert fork.step(now, limit) == actions
        known = essence(engine)
        assert essence(fork) == known
        assert checkpoint_content(fork) == checkpoint_content(engine)
        assert restored.step(now, limit) == actions
        assert essence(restored) == known
        assert checkpoint_content(restored) == checkpoint_content(engine)
        assert origin.checkpoint() == before, "a step elsewhere disturbed a fork"
        self.check_actions(PlainCluster(origin), origin, actions)
        for action in actions:
            if isinstance(action, Evict):
                self.evictions[action.uid] = action
                self.claims.add(action.preemptor)
        return actions

    @rule()
    def the_engine_is_replaced_by_its_restored_twin(self):
        self.engine = Engine.restore(self.engine.checkpoint())

    @rule()
    def it_is_due_exactly_when_a_step_has_something_to_do(self):
        due = self.engine.next_due()
        if due is not None and due > self.engine.now:
            assert self.engine.fork().step(due - 1) == []

    @rule(pick=st.integers(0, 99))
    def plans_that_were_kept_equal_plans_made_anew(self, pick):
        uid = self.some(pick)
        if uid is None:
            return
        twin = Engine.restore(self.engine.checkpoint())
        number = self.engine.state.guests[uid].shape
        for policy in range(len(POLICIES)):
            before = essence(self.engine)
            plans = [
                e._evictions.planner.plan(e.state.shapes.shapes[number], policy, frozenset())
                for e in (self.engine, twin)
            ]
            assert plans[0] == plans[1]
            assert essence(self.engine) == before, "a dry run changed something"

    # -- what was decided ---------------------------------------------------------------------------------------------

    def check_actions(self, world: PlainCluster, origin: Engine, actions: list[Action]) -> None:
        """Walk the actions of a step: each decision is right at its moment."""
        fresh: Counter[str] = Counter()
        before = set(world.placed)
        for action in actions:
            guest = world.guests[action.uid]
            if isinstance(action, Abandon):
                world.placed.pop(action.uid, None)
                self.evictions.pop(action.uid, None)  # it is nowhere now, so there is nothing to evict
            elif isinstance(action, Bind | Prepare) and action.uid not in world.placed:
                world.check_place(guest, action.host)
                world.check_devices(guest, action.host, action.devices)
                if not guest.gang:
                    world.check_quota(guest)
                world.placed[action.uid] = (guest, action.host)
                world.devices[action.uid] = action.devices
                fresh[guest.gang] += 1
            elif isinstance(action, Evict):
                self.check_eviction(world, action)
        for key in fresh:
            if key:
                now = {a.uid for a in actions if isinstance(a, Bind | Prepare) and world.guests[a.uid].gang == key}
                world.check_maximum(now - before)
                self.check_gang(world, key, now)

    def check_gang(self, world: PlainCluster, key: str, now: set[str]) -> None:
        """A gang has its minimum whenever some of it was placed just now, and no more than its maximum."""
        gang = world.gangs[key]
        hosts = {uid: host for uid, (guest, host) in world.placed.items() if guest.gang == key}
        assert len(hosts) >= gang.min_count, f"{key} has {len(hosts)} of {gang.min_count} members"
        assert not gang.max_count or len(hosts) <= max(gang.max_count, len(hosts) - len(now & hosts.keys()))
        if gang.topology:
            labelled = [dict(world.hosts[host].labels) for uid, host in hosts.items() if uid in now]
            assert len({marks.get(gang.topology) for marks in labelled}) == 1
            assert all(gang.topology in marks for marks in labelled)

    def check_eviction(self, world: PlainCluster, action: Evict) -> None:
        """An eviction is of a placed guest, for a guest with a claim whose room is kept."""
        guest, host = world.placed[action.uid]
        assert host == action.host
        assert action.uid not in self.evictions, "it is on its way out already"
        assert not guest.spec.is_leaving
        if not action.preemptor:
            assert world.gangs[guest.gang].when_broken == "release_after"
            return
        assert action.preemptor in self.engine.state.nominations
        if action.preemptor.startswith(GANG):
            key = action.preemptor.removeprefix(GANG)
            assert guest.gang != key
            policies = {g.spec.policy for g in world.guests.values() if g.gang == key}
        else:
            policies = {world.guests[action.preemptor].spec.policy}
        world.disrupt(guest, strictly=policies <= STRICT)

    # -- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def books_add_up(self):
        if not hasattr(self, "engine"):
            return
        state = self.engine.state
        cluster = state.cluster
        names = cluster.tables.resources.values[: cluster.resource_capacity]
        sums: dict[str, Counter[str]] = {name: Counter() for name in cluster.row_of}
        for record in state.guests.values():
            if record.state in PLACED_STATES and record.host in sums:
                sums[record.host].update(Counter({"guests": 1} | dict(record.guest.spec.requests)))
        for name, total in sums.items():
            row = cluster.row_of[name]
            assert {n: cluster.used(row, i) for i, n in enumerate(names) if cluster.used(row, i)} == dict(+total)
        specs = {record.shape: record.guest.spec for record in state.guests.values()}
        counters = cluster.counters
        assert counters.tallies() == {
            key: {domain: n for domain, n in tally.items() if n} for key, tally in counters.recount(specs).items()
        }
        quotas = state.quotas
        for tenant in quotas.quotas:
            for name, amount in quotas.used.get(tenant, {}).items():
                assert amount == PlainCluster(self.engine).used(tenant, name) or name == "guests"

    @invariant()
    def every_pending_guest_is_in_one_place(self):
        if not hasattr(self, "engine"):
            return
        state = self.engine.state
        queue = state.queue
        singles = {uid for uid, record in state.guests.items() if record.state == QUEUED}
        queued_gangs = {name.removeprefix(GANG) for name in queue.entries if name.startswith(GANG)}
        assert {name for name in queue.entries if not name.startswith(GANG)} == singles
        waiting = [uid for uids in queue.waiting.values() for uid in uids]
        assert sorted(waiting) == sorted(uid for uid, entry in queue.entries.items() if entry.state == WAITING)
        assert all(entry.state in (ACTIVE, BACKOFF, WAITING) for entry in queue.entries.values())
        for uid, record in state.guests.items():
            assert bool(record.host) == (record.state in PLACED_STATES)
            assert (record.state == GROUPED) <= bool(record.guest.gang)
            assert not (record.guest.gang and record.state == QUEUED), uid
        for key in queued_gangs:
            assert not state.gangs.why_not_ready(key)
            assert any(state.guests[uid].state == GROUPED for uid in state.gangs.members[key])
        for key, members in state.gangs.members.items():
            assert set(members) == {uid for uid, r in state.guests.items() if r.guest.gang == key}

    @invariant()
    def room_is_kept_only_for_those_who_wait(self):
        if not hasattr(self, "engine"):
            return
        state = self.engine.state
        cluster = state.cluster
        wanted = {(f"nomination:{uid}", n.host) for uid, n in state.nominations.items() if n.host in cluster.row_of}
        found = set()
        for name, row in cluster.row_of.items():
            for hold, _ in cluster.holds.on(row):
                kind, _, who = hold.partition(":")
                if kind == "nomination":
                    found.add((hold, name))
                else:
                    assert kind == "reservation"
                    assert who in state.reservations
        assert found == wanted
        assert len(cluster.holds) == sum(len(cluster.holds.on(row)) for row in cluster.row_of.values())
        for uid in state.nominations:
            if uid.startswith(GANG):
                assert state.gangs.pending(uid.removeprefix(GANG))
            else:
                assert state.guests[uid].state not in PLACED_STATES
        for uid in state.evicting:
            assert state.guests[uid].state in PLACED_STATES, f"{uid} is evicted and nowhere"

    def teardown(self):
        """Once arrivals stop, and everything is carried out, the engine comes to rest."""
        if not hasattr(self, "engine"):
            return
        engine = self.engine
        quiet = 0
        for _ in range(400):
            self.carry_out_everything()
            due = engine.next_due()
            if due is None:
                break
            actions = self.step((max(due, engine.now) - engine.now) // SECOND + 1, None)
            quiet = quiet + 1 if all(isinstance(action, Defer) for action in actions) else 0
            if quiet == 12:  # more than the windows and waits of all limits
                break
        else:
            raise AssertionError(f"still busy: {actions}")
        for uid in self.claims & engine.state.guests.keys():
            decision = engine.decision(uid)
            assert decision.host or decision.note or decision.reasons, (
                f"{uid} evicted others, and nobody knows what for"
            )

    def carry_out_everything(self) -> None:
        engine = self.engine
        for uid, record in list(engine.state.guests.items()):
            name = engine.state_of(record)
            if name == "assumed":
                engine.apply(GuestBound(uid=uid, host=record.host))
            elif name == "preparing":
                engine.apply(Prepared(uid=uid, host=record.host))
        for uid, record in list(engine.state.guests.items()):
            if uid in engine.state.evicting or (record.guest.spec.is_leaving and record.host):
                self.leave(uid)


# -- lives by hypothesis, which makes failures small, and by seeds, which are fuller --------------------------------


class RandomEvents:
    """Random events of the same kinds, less simple than those that hypothesis begins with."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)

    def one(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def host(self) -> Host:
        name, zone = self.one(*HOSTS), self.one("x", "y", "y", "")
        return Host(
            name=name,
            capacity=amounts({"cpu": self.rng.randint(2, 8), "memory": self.rng.randint(4, 12)}),
            devices=(Device("gpu"),) * self.one(0, 0, 2),
            labels=labels({"zone": zone, "host": name} if zone else {"host": name}),
            cordoned=self.rng.random() < 0.15,
        )

    def term(self) -> GuestTerm:
        return GuestTerm(self.one("zone", "host"), app(self.one("a", "b")))

    def spec(self) -> GuestSpec:
        rng = self.rng
        return GuestSpec(
            requests=amounts({"cpu": rng.randint(0, 4), "memory": rng.randint(0, 3)}),
            devices=self.one(*GPUS),
            priority=self.one(0, 0, 5, 9),
            policy=self.one("", "", "first_fit", "spread", "pack"),
            labels=labels({"app": self.one("a", "b")}),
            tenant=self.one(*TENANTS),
            affinity=(self.term(),) if rng.random() < 0.1 else (),
            anti_affinity=(self.term(),) if rng.random() < 0.15 else (),
            spread=(Spread(self.one("zone", "host"), rng.randint(1, 2), app("a")),) if rng.random() < 0.15 else (),
            may_preempt=rng.random() < 0.8,
            prepare=("disk",) if rng.random() < 0.15 else (),
            host_selector=labels({"zone": "x"} if rng.random() < 0.1 else {}),
        )

    def gang(self) -> Gang:
        least, more = self.rng.randint(1, 4), self.one(None, None, 0, 1)
        return Gang(
            name=self.one(*GANGS),
            min_count=least,
            max_count=0 if more is None else least + more,
            priority=self.one(None, None, 5, 9),
            topology=self.one("", "", "zone"),
            disruption=self.one("single", "all"),
            when_broken=self.one("keep", "prefer_repair", "release_after"),
            release_after_ns=self.one(5, 15) * SECOND,
            head_of_line=self.one("skip", "reserve"),
        )

    def quotas(self) -> list[Quota]:
        found = []
        for tenant in ("t", "u"):
            least, more = self.rng.randint(0, 6), self.one(None, None, 0, 2)
            top = () if more is None else amounts({"cpu": least + more, "memory": 12})
            if self.rng.random() < 0.8:
                found.append(Quota(tenant=tenant, min=amounts({"cpu": least}), max=top))
        return found

    def reservation(self) -> Reservation:
        whose, where, start = self.one("t", "u", "g0", "g1", "app"), self.one("", "x", "y"), self.one(0, 20 * SECOND)
        length = self.one(0, 30 * SECOND, 90 * SECOND)
        return Reservation(
            name=self.one("r", "s"),
            amounts=amounts({"cpu": self.rng.randint(0, 4)}),
            hosts=(Term((Expression("zone", "In", (where,)),)),) if where else (),
            tenant=whose if whose in TENANTS else "",
            gang=f"default/{whose}" if whose in GANGS else "",
            selector=app("a") if whose == "app" else None,
            since=start,
            until=start + length if length else 0,
        )

    def event(self, life: GangLifeMachine) -> None:
        """Let one thing happen."""
        rng, pick = self.rng, self.rng.randrange(100)
        what = rng.choices(
            ["guest", "bound guest", "members", "gang", "gang change", "gang leaves", "leaves", "changes", "ends",
             "binds", "bind", "all binds", "prepared", "eviction", "budget", "budget leaves", "quotas", "reservation",
             "reservation leaves", "policies", "host", "host leaves", "step", "swap", "due", "plans"],
            [6, 5, 3, 8, 2, 1, 5, 2, 1, 1, 4, 4, 3, 8, 2, 1, 2, 2, 1, 1, 3, 2, 12, 2, 2, 3],
        )[0]  # fmt: skip
        match what:
            case "guest":
                life.a_guest_arrives(spec=self.spec())
            case "bound guest":
                life.a_guest_arrives_bound(spec=self.spec(), name=self.one(*HOSTS))
            case "members":
                life.members_arrive(
                    spec=self.spec(), gang=self.one(*GANGS), count=self.one(1, 2), host=self.one("", "h0")
                )
            case "gang":
                specs = [self.spec() for _ in range(self.one(1, 1, 2))]
                gang, count = self.gang(), rng.randint(1, 5)
                life.a_gang_arrives_with_members(gang=gang, specs=specs, count=count, then=self.one(0, 2))
            case "gang change":
                life.a_gang_arrives_or_changes(gang=self.gang())
            case "gang leaves":
                life.a_gang_leaves(name=self.one(*GANGS))
            case "leaves":
                life.a_guest_leaves(pick=pick)
            case "changes":
                life.a_guest_changes(pick=pick, spec=self.spec())
            case "ends":
                life.the_end_of_a_running_guest_is_decided(pick=pick)
            case "binds":
                life.somebody_binds_a_guest(pick=pick, name=self.one(*HOSTS))
            case "bind":
                life.a_bind_ends(pick=pick, works=self.one(True, False))
            case "all binds":
                life.all_binds_succeed(then=self.one(0, 2))
            case "prepared":
                life.a_preparation_ends(pick=pick, error=self.one("", "", "no"))
            case "eviction":
                if life.evictions:
                    how = self.one("left", "left", "failed", "came back")
                    life.an_eviction_ends(pick=pick, how=how, then=self.one(0, 1))
            case "budget":
                life.a_budget_changes(name=self.one("a", "b"), allowed=self.one(0, 1, 2))
            case "budget leaves":
                life.a_budget_leaves(name=self.one("a", "b"))
            case "quotas":
                life.the_quotas_change(quotas=self.quotas())
            case "reservation":
                life.a_reservation_changes(reservation=self.reservation())
            case "reservation leaves":
                life.a_reservation_leaves(name=self.one("r", "s"))
            case "policies":
                life.the_policies_change(policies=rng.sample(POLICIES[1:], 2))
            case "host":
                life.a_host_joins_or_changes(host=self.host())
            case "host leaves":
                life.a_host_leaves(name=self.one(*HOSTS))
            case "step":
                life.a_step(seconds=self.one(0, 0, 1, 3, 12, 35), limit=self.one(None, None, None, 1, 3))
            case "swap":
                life.the_engine_is_replaced_by_its_restored_twin()
            case "due":
                life.it_is_due_exactly_when_a_step_has_something_to_do()
            case "plans":
                life.plans_that_were_kept_equal_plans_made_anew(pick=pick)


def live(seed: int, events: int) -> GangLifeMachine:
    """Let a seeded life happen, with all its checks."""
    dice, life = RandomEvents(seed), GangLifeMachine()
    hosts = list({host.name: host for host in (dice.host() for _ in range(4))}.values())
    fill = [(dice.rng.randrange(4), dice.one("a", "b"), dice.one(*TENANTS)) for _ in range(dice.rng.randrange(9))]
    life.begin(seed=seed, hosts=hosts, fill=fill)
    for _ in range(events):
        dice.event(life)
        life.books_add_up()
        life.every_pending_guest_is_in_one_place()
        life.room_is_kept_only_for_those_who_wait()
    life.teardown()
    return life


def test_a_random_life_with_gangs_keeps_every_promise():
    run_state_machine_as_test(GangLifeMachine, settings=settings(QUICK, max_examples=25, stateful_step_count=25))


@pytest.mark.parametrize("seed", range(20))
def test_a_seeded_life_with_gangs_keeps_every_promise(seed):
    live(seed, 60)


@pytest.mark.long
def test_many_long_random_lives_with_gangs_keep_every_promise():
    run_state_machine_as_test(GangLifeMachine, settings=settings(LONG, max_examples=400, stateful_step_count=60))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 500))
def test_many_long_seeded_lives_with_gangs_keep_every_promise(seed):
    live(seed, 150)
