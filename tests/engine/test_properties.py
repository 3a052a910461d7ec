"""What must never happen: books that do not add up, limits passed, forks that disturb, replays that differ."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
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
from hostler.engine.journals.journal import Recorder, read_journal, replay
from hostler.engine.state.queue import ACTIVE, BACKOFF, WAITING
from hostler.engine.state.records import ASKED, PLACED_STATES, QUEUED
from hostler.model import (
    Abandon,
    Action,
    Answered,
    Ask,
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
    QueueRules,
    Taint,
    Toleration,
    amounts,
    labels,
    may_give,
)
from tests.engine.fleet import LONG, QUICK, SECOND, books, essence, policy
from tests.random_examples import count_examples

pytestmark = pytest.mark.early

# -- books that add up ------------------------------------------------------------------------------------------------


def wanted(spec: GuestSpec) -> Counter[str]:
    return Counter({"guests": 1} | dict(spec.requests))


def booked(engine: Engine) -> dict[str, tuple[Counter[str], list[int]]]:
    """Add up from the guests alone what every host gives, and what its devices have left."""
    sums: dict[str, tuple[Counter[str], list[int]]] = {
        h.name: (Counter(), [d.milli for d in h.devices]) for h in engine.hosts()
    }
    for record in engine.state.guests.values():
        if record.state not in PLACED_STATES or record.host not in sums:
            continue
        total, left = sums[record.host]
        total.update(wanted(record.guest.spec))
        sizes = [d.milli for d in record.guest.spec.devices for _ in range(d.count)]
        for device, milli in zip(record.devices, sizes, strict=False):
            if device < len(left):
                left[device] -= milli
    return sums


def check_books(engine: Engine) -> None:
    """Compare every column of every host with the sum over its guests; names that no host has share one column."""
    cluster = engine.state.cluster
    table = cluster.tables.resources
    names = table.values[: cluster.resource_capacity]
    for name, (total, left) in booked(engine).items():
        row = cluster.row_of[name]
        expected: Counter[str] = Counter()
        for resource, amount in total.items():
            expected[resource if table.find(resource) >= 0 else ""] += amount
        assert {n: cluster.used(row, i) for i, n in enumerate(names) if cluster.used(row, i)} == dict(+expected)
        assert cluster.device_left(row) == left


def check_queue(engine: Engine) -> None:
    """Every pending guest is in exactly one state of the queue, or asked about; nobody else is in the queue."""
    queue = engine.state.queue
    pending = {uid for uid, record in engine.state.guests.items() if record.state == QUEUED}
    assert set(queue.entries) == pending
    waiting = [uid for uids in queue.waiting.values() for uid in uids]
    assert sorted(waiting) == sorted(uid for uid, entry in queue.entries.items() if entry.state == WAITING)
    for uid, record in engine.state.guests.items():
        if record.state == QUEUED:
            assert queue.entries[uid].state in (ACTIVE, BACKOFF, WAITING)
            assert not record.host
        elif record.state == ASKED:
            assert not record.host
        else:
            assert record.host
        is_away = bool(record.host) and record.host not in engine.state.cluster.row_of
        assert (engine.state_of(record) == "parked") == is_away


def check_limits(before: Engine, actions: list[Action]) -> None:
    """Walk the actions of a step: what the engine itself decides fits at that moment."""
    sums = booked(before)
    hosts = {h.name: h for h in before.hosts()}
    policies = {"": before.policies[0]} | {p.name: p for p in before.policies}
    for action in actions:
        record = before.state.guests[action.uid]
        spec = record.guest.spec
        sizes = [(d.kind, d.milli, d.models) for d in spec.devices for _ in range(d.count)]
        if isinstance(action, Abandon):
            if action.host in sums:
                sums[action.host][0].subtract(wanted(spec))
                left = sums[action.host][1]
                for device, (_, milli, _) in zip(record.devices, sizes, strict=False):
                    if device < len(left):  # the host may have lost it meanwhile
                        left[device] += milli
        elif isinstance(action, Bind | Prepare) and record.state not in PLACED_STATES:
            host, (total, left) = hosts[action.host], sums[action.host]
            total.update(wanted(spec))
            chosen = policies[spec.policy]
            for resource, amount in wanted(spec).items():
                if amount and (resource != "guests" or dict(host.capacity).get("guests")):
                    assert total[resource] <= may_give(host, resource, chosen.overcommit, chosen.reserve)
            assert len(action.devices) == len(sizes)
            at = 0
            for request in spec.devices:
                assert len(set(action.devices[at : at + request.count])) == request.count
                at += request.count
            for device, (kind, milli, models) in zip(action.devices, sizes, strict=True):
                left[device] -= milli
                assert host.devices[device].kind == kind
                assert not models or host.devices[device].model in models
                assert left[device] >= 0


# -- the machine ------------------------------------------------------------------------------------------------------

HOSTS = [f"h{i}" for i in range(5)]
POLICIES = (
    policy("spread"),
    policy("pack", overcommit=(("cpu", 1_500_000),)),
    policy("round_robin"),
    policy("random"),
    policy("fgd"),
    policy("least_loaded", name="asking", ask=AskUse("oracle", timeout_ns=2 * SECOND, always=True)),
    policy("gpu_clustering", name="guessing", ask=AskUse("oracle", timeout_ns=SECOND, ignorable=True)),
)
FEWER = tuple(p for p in POLICIES if p.name != "random")

sizes = st.fixed_dictionaries(
    {"cpu": st.integers(0, 4)}, optional={"memory": st.integers(0, 4), "fpga": st.integers(0, 1)}
)
device_requests = st.sampled_from(
    [(), (), (DeviceRequest("gpu", 1, 300),), (DeviceRequest("gpu", 1, 500),), (DeviceRequest("gpu", 2),),
     (DeviceRequest("gpu", 1, 1000, ("A",)),), (DeviceRequest("nic", 1, 500), DeviceRequest("gpu", 1, 500)),
     (DeviceRequest("gpu", 1, 300), DeviceRequest("gpu", 1, 1000)),
     (DeviceRequest("gpu", 2, 300), DeviceRequest("gpu", 1, 600))]
)  # fmt: skip
guest_specs = st.builds(
    lambda size, devices, chosen, priority, zone, tolerant, prepare: GuestSpec(
        requests=amounts(size),
        devices=devices,
        policy=chosen,
        priority=priority,
        host_selector=labels({"zone": zone}) if zone else (),
        tolerations=(Toleration("t", "Exists"),) if tolerant else (),
        prepare=("disk",) if prepare else (),
    ),
    sizes,
    device_requests,
    st.sampled_from(["", *(p.name for p in FEWER), "random"]),
    st.sampled_from([0, 0, 5]),
    st.sampled_from(["", "", "", "x"]),
    st.booleans(),
    st.sampled_from([False, False, True]),
)
machines = st.builds(
    lambda name, size, guests, devices, zone, tainted, cordoned, rank: Host(
        name=name,
        capacity=amounts({"memory": 12} | size | guests),
        devices=devices,
        labels=labels({"zone": zone} if zone else {}),
        taints=(Taint("t"),) if tainted else (),
        cordoned=cordoned,
        rank=rank,
    ),
    st.sampled_from(HOSTS),
    st.fixed_dictionaries({"cpu": st.integers(3, 12)}, optional={"fpga": st.integers(1, 2)}),
    st.sampled_from([{}, {}, {"guests": 3}]),
    st.sampled_from(
        [(), (Device("gpu", "A"), Device("gpu", "A")), (Device("gpu", "B"), Device("nic")), (Device("nic", "", 500),)]
    ),
    st.sampled_from(["x", "y", ""]),
    st.sampled_from([False, False, True]),
    st.sampled_from([False, False, False, True]),
    st.integers(0, 1),
)


class EngineLifeMachine(RuleBasedStateMachine):
    """A cluster's life in random events; before every step the engine is compared with its twins."""

    @initialize(
        seed=st.integers(0, 3), first=st.permutations(POLICIES), hosts=st.lists(machines, min_size=3, max_size=5)
    )
    def begin(self, seed, first, hosts):
        self.lines: list[bytes] = []
        rules = QueueRules(flush_after_ns=20 * SECOND, prepare_timeout_ns=5 * SECOND)
        self.recorder = Recorder(Engine(first, seed=seed, rules=rules), self.lines.append)
        self.version = 0
        self.number = 0
        self.asks: list[Ask] = []
        self.apply(HostsJoined(hosts=tuple({h.name: self.stamped(h) for h in hosts}.values())))

    @property
    def engine(self) -> Engine:
        return self.recorder.engine

    def apply(self, event: Event) -> None:
        self.recorder.apply(event)

    def stamped(self, host: Host) -> Host:
        self.version += 1
        return Host(**{f: getattr(host, f) for f in host.__struct_fields__} | {"version": self.version})

    def some(self, pick: int, *states: str) -> str | None:
        """Pick a guest in one of the states."""
        uids = [u for u, r in self.engine.state.guests.items() if not states or self.engine.state_of(r) in states]
        return uids[pick % len(uids)] if uids else None

    # -- facts --------------------------------------------------------------------------------------------------------

    @rule(host=machines)
    def a_host_joins_or_changes(self, host):
        known = host.name in self.engine.state.cluster.row_of
        self.apply((HostChanged if known else HostJoined)(host=self.stamped(host)))

    @rule(name=st.sampled_from(HOSTS))
    def a_host_leaves(self, name):
        self.apply(HostLeft(name=name))

    @rule(name=st.sampled_from(HOSTS), cordoned=st.booleans())
    def a_host_is_cordoned_or_not(self, name, cordoned):
        row = self.engine.state.cluster.row_of.get(name)
        if row is not None:
            known = self.engine.state.cluster.host(row)
            fields = {f: getattr(known, f) for f in known.__struct_fields__} | {"cordoned": cordoned}
            self.apply(HostChanged(host=self.stamped(Host(**fields))))

    @rule(spec=guest_specs)
    def a_guest_arrives(self, spec):
        self.number += 1
        self.apply(GuestArrived(guest=Guest(name=f"g{self.number}", uid=f"u{self.number}", version=1, spec=spec)))

    @rule(spec=guest_specs, name=st.sampled_from(HOSTS))
    def a_guest_arrives_bound(self, spec, name):
        self.number += 1
        guest = Guest(name=f"g{self.number}", uid=f"u{self.number}", version=1, spec=spec, host=name)
        self.apply(GuestArrived(guest=guest))

    @rule(specs=st.lists(guest_specs, min_size=1, max_size=3), count=st.integers(1, 8))
    def guests_arrive_and_are_decided(self, specs, count):
        names = tuple(f"g{self.number + i + 1}" for i in range(count))
        self.number += count
        self.apply(GuestsArrived(specs=tuple(specs), spec_of=tuple(i % len(specs) for i in range(count)), names=names))
        self.step(0, None)

    @rule(pick=st.integers(0, 99), spec=guest_specs, where=st.sampled_from(["", "", *HOSTS]))
    def a_guest_changes(self, pick, spec, where):
        uid = self.some(pick)
        if uid is not None:
            known = self.engine.state.guests[uid].guest
            self.version += 1
            guest = Guest(name=known.name, uid=uid, version=100 + self.version, spec=spec, host=where)
            self.apply(GuestChanged(guest=guest))

    @rule(pick=st.integers(0, 99))
    def a_guest_leaves(self, pick):
        uid = self.some(pick)
        if uid is not None:
            self.apply(GuestLeft(uid=uid))

    @rule(pick=st.integers(0, 99), name=st.sampled_from(HOSTS))
    def somebody_binds_a_guest(self, pick, name):
        uid = self.some(pick)
        if uid is not None:
            self.apply(GuestBound(uid=uid, host=name))

    @rule(pick=st.integers(0, 99), works=st.booleans(), then=st.sampled_from([None, 0, 2]))
    def a_bind_ends(self, pick, works, then):
        uid = self.some(pick, "assumed")
        if uid is not None:
            host = self.engine.decision(uid).host
            self.apply(GuestBound(uid=uid, host=host) if works else BindFailed(uid=uid, host=host, reason="no"))
        if then is not None:
            self.step(then, None)

    @rule(pick=st.integers(0, 99), error=st.sampled_from(["", "", "no"]), then=st.sampled_from([None, 0, 6]))
    def a_preparation_ends(self, pick, error, then):
        uid = self.some(pick, "preparing")
        if uid is not None:
            self.apply(Prepared(uid=uid, host=self.engine.decision(uid).host, error=error))
        if then is not None:
            self.step(then, None)

    @precondition(lambda self: self.asks)
    @rule(pick=st.integers(0, 99), error=st.sampled_from(["", "", "", "no"]), rng=st.randoms(use_true_random=False))
    def an_answer_comes(self, pick, error, rng):
        ask = self.asks.pop(pick % len(self.asks))
        scores = tuple((name, rng.randrange(100)) for name in ask.hosts if rng.random() < 0.8)
        self.apply(Answered(uid=ask.uid, ask=ask.ask, scores=scores, error=error))
        self.step(0, None)

    @rule(policies=st.permutations(POLICIES))
    def the_policies_change(self, policies):
        self.apply(PolicyChanged(policies=tuple(policies)))

    # -- steps --------------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0, 0, 1, 3, 12, 30]), limit=st.sampled_from([None, None, 1, 3]))
    def a_step(self, seconds, limit):
        self.step(seconds, limit)

    def step(self, seconds: int, limit: int | None) -> None:
        """Step the engine, its fork, its restored twin, and one that decides one guest at a time."""
        now = self.engine.now + seconds * SECOND
        before = self.engine.checkpoint()
        fork, restored, origin = self.engine.fork(), Engine.restore(before), self.engine.fork()
        one_by_one = self.engine.fork()
        actions = self.recorder.step(now, limit)
        assert fork.step(now, limit) == actions
        assert restored.step(now, limit) == actions
        now_known = essence(self.engine)
        assert essence(fork) == now_known
        assert essence(restored) == now_known
        if limit is None:
            single: list[Action] = []
            while more := one_by_one.step(now, limit=1):
                single += more
            assert single == actions
            assert essence(one_by_one) == now_known
        assert origin.checkpoint() == before, "a step elsewhere disturbed a fork"
        check_limits(origin, actions)
        self.asks += [a for a in actions if isinstance(a, Ask)]
        for action in actions:
            decision = self.engine.decision(action.uid)
            is_new = origin.state.guests[action.uid].state not in PLACED_STATES
            if is_new and not isinstance(action, Ask):
                assert decision.hosts == len(list(self.engine.hosts()))

    @rule()
    def it_is_due_exactly_when_a_step_has_something_to_do(self):
        due = self.engine.next_due()
        assert due is None or due >= 0
        if due is not None and due > self.engine.now:
            twin = self.engine.fork()
            assert twin.step(due - 1) == []

    @rule(pick=st.integers(0, 99))
    def an_explanation_changes_nothing_and_agrees_with_a_fork(self, pick):
        uid = self.some(pick)
        if uid is None:
            return
        before = essence(self.engine)
        explanation = self.engine.explain(uid)
        assert essence(self.engine) == before
        assert self.engine.fork().explain(uid) == explanation
        assert len(explanation.verdicts) == len(list(self.engine.hosts()))
        assert explanation.decision.feasible == len(explanation.feasible)

    @rule()
    def a_checkpoint_read_back_is_the_same_checkpoint(self):
        before = self.engine.checkpoint()
        restored = Engine.restore(before)
        assert restored.checkpoint() == before
        assert essence(restored) == essence(self.engine)

    @invariant()
    def books_and_queue_add_up(self):
        if hasattr(self, "recorder"):
            check_books(self.engine)
            check_queue(self.engine)

    def teardown(self):
        if not hasattr(self, "recorder"):
            return
        journal = read_journal(self.lines)
        again = replay(journal)
        assert again.difference is None
        assert essence(again.engine) == essence(self.engine)


def test_a_random_life_keeps_every_promise():
    run_state_machine_as_test(
        EngineLifeMachine, settings=settings(QUICK, max_examples=count_examples(250), stateful_step_count=50)
    )


@pytest.mark.long
def test_many_long_random_lives_keep_every_promise():
    run_state_machine_as_test(EngineLifeMachine, settings=settings(LONG, max_examples=400, stateful_step_count=80))


# -- seeded lives: longer than hypothesis likes, every step compared with a fork --------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_long_run_equals_its_forks_its_restores_and_its_replay(seed):
    rng = Random(seed)
    lines: list[bytes] = []
    recorder = Recorder(Engine(POLICIES[:5], seed=seed), lines.append)
    engine = recorder.engine
    shapes = [
        GuestSpec(
            requests=amounts({"cpu": rng.randrange(4), "memory": rng.randrange(3)}),
            policy=rng.choice(POLICIES[:5]).name,
        )
        for _ in range(12)
    ]
    recorder.apply(
        HostsJoined(hosts=tuple(Host(name=f"h{i:02}", capacity=amounts({"cpu": 9, "memory": 9})) for i in range(40)))
    )
    live: list[str] = []
    for turn in range(60):
        names = [f"{turn}-{i}" for i in range(rng.randrange(8))]
        recorder.apply(
            GuestsArrived(specs=tuple(shapes), spec_of=tuple(rng.randrange(12) for _ in names), names=tuple(names))
        )
        live += names
        for _ in range(rng.randrange(5)):
            if live:
                recorder.apply(GuestLeft(uid=live.pop(rng.randrange(len(live)))))
        name = f"h{rng.randrange(48):02}"
        if name in engine.state.cluster.row_of and rng.random() < 0.3:
            recorder.apply(HostLeft(name=name))
        else:
            recorder.apply(HostJoined(host=Host(name=name, capacity=amounts({"cpu": rng.randrange(12), "memory": 9}))))
        now = engine.now + rng.randrange(3) * SECOND
        fork, restored, before = engine.fork(), Engine.restore(engine.checkpoint()), engine.fork()
        actions = recorder.step(now)
        assert fork.step(now) == restored.step(now) == actions
        check_limits(before, actions)
        check_books(engine)
        check_queue(engine)
    assert essence(engine) == essence(fork) == essence(restored)
    assert replay(read_journal(lines)).difference is None


# -- duplicated, late and reordered facts -----------------------------------------------------------------------------


def guest_history(rng: Random, name: str, hosts: list[str]) -> list[Event]:
    """What happens to one guest, in order: it arrives, changes, is bound for good, changes, perhaps leaves."""
    place = rng.choice(["", *hosts])
    history: list[Event] = []
    for version in range(1, rng.randrange(2, 6)):
        is_bound = bool(place) and version >= 2
        spec = GuestSpec(requests=amounts({"cpu": rng.randrange(5)}), devices=(DeviceRequest("gpu", 1, 100),))
        guest = Guest(
            name=name,
            uid=name,
            version=version,
            spec=spec,
            host=place if is_bound else "",
            on_devices=(0,) if is_bound else (),
        )
        history.append(GuestArrived(guest=guest) if version == 1 else GuestChanged(guest=guest))
    if rng.random() < 0.3:
        history.append(GuestLeft(uid=name))
    return history


def host_fact(rng: Random, name: str, uid: str, version: int) -> Host:
    return Host(
        name=name,
        uid=uid,
        version=version,
        capacity=amounts({"cpu": rng.randrange(1, 9)}),
        devices=(Device("gpu"),) * rng.randrange(1, 3),
        cordoned=rng.random() < 0.2,
    )


def host_history(rng: Random, name: str) -> list[Event]:
    """What happens to one host, in order: it joins and changes."""
    versions = range(1, rng.randrange(2, 6))
    return [HostChanged(host=host_fact(rng, name, "", version)) for version in versions]


def apply_histories(histories: list[list[Event]]) -> Engine:
    engine = Engine([policy("spread")])
    for history in histories:
        for event in history:
            engine.apply(event)
    return engine


def facts_of(engine: Engine) -> dict[str, object]:
    """The books, without the order in which things were heard of."""
    found = books(engine)
    return {
        "hosts": found["hosts"],
        "guests": dict(sorted(found["guests"].items())),  # type: ignore[attr-defined]
        "gone": sorted(engine.state.left_guests),
    }


@given(rng=st.randoms(use_true_random=False))
@QUICK
def test_facts_in_any_order_and_any_number_of_times_lead_to_the_same_books(rng):
    names = ["a", "b", "c"]
    histories = [host_history(rng, name) for name in names[: rng.randrange(1, 4)]]
    histories += [guest_history(rng, f"g{i}", names) for i in range(rng.randrange(1, 5))]
    deliveries = [event for history in histories for event in history for _ in range(rng.randrange(1, 3))]
    rng.shuffle(deliveries)
    engine = apply_histories([deliveries])
    assert facts_of(engine) == facts_of(apply_histories(histories))
    check_books(engine)
    check_queue(engine)


@given(rng=st.randoms(use_true_random=False))
@QUICK
def test_hosts_replaced_under_their_name_ignore_late_facts(rng):
    """Each host in order, facts skipped and old ones repeated, its end told or missed; hosts mixed in any order."""
    histories, queues = [], []
    for name in ["a", "b"]:
        history: list[Event] = []
        delivered: list[Event] = []
        for life in range(rng.randrange(1, 4)):
            facts: list[Event] = [
                HostChanged(host=host_fact(rng, name, f"{name}-{life}", version))
                for version in range(1, rng.randrange(2, 5))
            ]
            last = [HostLeft(name=name, uid=f"{name}-{life}")]
            if life:
                history += [HostLeft(name=name, uid=f"{name}-{life - 1}")]
                delivered += [history[-1]] if rng.random() < 0.6 else []
            history += facts
            for fact in facts[:-1]:
                delivered += [fact] if rng.random() < 0.7 else []
                delivered += [rng.choice(delivered)] if delivered and rng.random() < 0.4 else []
            delivered.append(facts[-1])
            old = [e for e in history if e not in facts and e not in last]
            delivered += [rng.choice(old) for _ in range(rng.randrange(3)) if old]
        histories.append(history)
        queues.append(delivered)
    mixed: list[Event] = []
    while any(queues):
        mixed.append(rng.choice([q for q in queues if q]).pop(0))
    engine = apply_histories([mixed])
    assert {h.name: h for h in engine.hosts()} == {h.name: h for h in apply_histories(histories).hosts()}


@pytest.mark.long
@given(rng=st.randoms(use_true_random=False))
@LONG
def test_facts_in_any_order_lead_to_the_same_books_at_length(rng):
    names = ["a", "b", "c", "d"]
    histories = [host_history(rng, name) for name in names] + [guest_history(rng, f"g{i}", names) for i in range(8)]
    deliveries = [event for history in histories for event in history for _ in range(rng.randrange(1, 4))]
    rng.shuffle(deliveries)
    assert facts_of(apply_histories([deliveries])) == facts_of(apply_histories(histories))
