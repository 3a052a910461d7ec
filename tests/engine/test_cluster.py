"""The books of all hosts: what is used, what may be given, what devices have left, and which rows changed."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from hostler.engine.cluster.cluster import Cluster
from hostler.engine.cluster.shapes import Shape, ShapeTable
from hostler.engine.cluster.tables import Tables
from hostler.errors import FactError, InputError
from hostler.model import GUESTS, MAX_AMOUNT, Device, DeviceRequest, GuestSpec, Host, amounts
from tests.engine.fleet import QUICK, host, spec
from tests.engine.small_samples import NAMES, hosts, several_devices, specs


class NamedCluster:
    """A cluster with a table of shapes, spoken to by names."""

    def __init__(self) -> None:
        self.tables = Tables()
        for name in ("fpga", "tokens", "new"):
            self.tables.resources.acquire(name)  # as a policy or a reservation would
        self.cluster = Cluster(self.tables)
        self.shapes = ShapeTable(self.tables)

    def shape(self, wanted: GuestSpec) -> Shape:
        return self.shapes.shapes[self.shapes.number(wanted)]

    def book(self, name: str, wanted: GuestSpec, uid: str, devices: tuple[int, ...] = ()) -> None:
        self.cluster.book(self.cluster.row_of[name], self.shape(wanted), devices, uid)

    def unbook(self, name: str, wanted: GuestSpec, uid: str, devices: tuple[int, ...] = ()) -> None:
        self.cluster.unbook(self.cluster.row_of[name], self.shape(wanted), devices, uid)

    def used(self, name: str) -> dict[str, int]:
        row, cluster = self.cluster.row_of[name], self.cluster
        cluster.fit_layout()
        return {r: n for i, r in enumerate(self.tables.resources.values) if (n := cluster.used(row, i))}

    def limit(self, name: str, resource: str, limit_set: int = 0) -> int:
        self.cluster.fit_layout()
        return self.cluster.limit(self.cluster.row_of[name], self.tables.resources.number(resource), limit_set)

    def left(self, name: str) -> list[int]:
        return self.cluster.device_left(self.cluster.row_of[name])


def with_hosts(*fleet: Host) -> NamedCluster:
    books = NamedCluster()
    for each in fleet:
        books.cluster.put(each)
    return books


# -- bookings ---------------------------------------------------------------------------------------------------------


def devices_for(machine: Host, wanted: GuestSpec, pick: int) -> tuple[int, ...]:
    """Return any devices of the right kinds, as a fact might name them; none where the host lacks such devices."""
    taken: list[int] = []
    for request in wanted.devices:
        of_kind = [at for at, device in enumerate(machine.devices) if device.kind == request.kind]
        if len(of_kind) < request.count:
            return ()
        taken += [of_kind[(pick + i) % len(of_kind)] for i in range(request.count)]
    return tuple(taken)


class ClusterMachine(RuleBasedStateMachine):
    """Hosts and bookings come and go; the allocations equal those of a ledger that adds everything up again."""

    def __init__(self) -> None:
        super().__init__()
        self.books = NamedCluster()
        self.hosts: dict[str, Host] = {}
        self.held: dict[str, dict[str, tuple[GuestSpec, tuple[int, ...]]]] = {}
        self.number = 0
        self.seen = self.books.cluster.log_end
        self.touched: set[int] = set()

    def touch(self, name: str) -> None:
        self.touched.add(self.books.cluster.row_of[name])

    @rule(machine=hosts())
    def a_host_joins_or_keeps_its_devices(self, machine):
        known = self.hosts.get(machine.name)
        if known is not None and known.devices != machine.devices:
            return  # a change of devices books them again: see the engine's tests
        self.books.cluster.put(machine)
        self.hosts[machine.name] = machine
        self.held.setdefault(machine.name, {})
        self.touch(machine.name)

    @rule(fleet=st.lists(hosts(st.sampled_from(["p", "q", "r", "s"])), max_size=4, unique_by=lambda h: h.name))
    def hosts_join_at_once(self, fleet):
        fresh = [machine for machine in fleet if machine.name not in self.hosts]
        self.books.cluster.put_many(fresh)
        for machine in fresh:
            self.hosts[machine.name] = machine
            self.held[machine.name] = {}
            self.touch(machine.name)

    @precondition(lambda self: self.hosts)
    @rule(pick=st.integers(0, 99))
    def a_host_leaves(self, pick):
        name = sorted(self.hosts)[pick % len(self.hosts)]
        self.touch(name)
        assert self.books.cluster.remove(name) == set(self.held.pop(name))
        del self.hosts[name]

    @precondition(lambda self: self.hosts)
    @rule(pick=st.integers(0, 99), wanted=specs(several_devices))
    def a_guest_is_booked(self, pick, wanted):
        name = sorted(self.hosts)[pick % len(self.hosts)]
        self.number += 1
        devices = devices_for(self.hosts[name], wanted, pick)
        self.books.book(name, wanted, f"g{self.number}", devices)
        self.held[name][f"g{self.number}"] = (wanted, devices)
        self.touch(name)

    @precondition(lambda self: any(self.held.values()))
    @rule(pick=st.integers(0, 99))
    def a_guest_is_given_back(self, pick):
        booked = [(name, uid) for name, guests in sorted(self.held.items()) for uid in guests]
        name, uid = booked[pick % len(booked)]
        wanted, devices = self.held[name].pop(uid)
        self.books.unbook(name, wanted, uid, devices)
        self.touch(name)

    @rule()
    def a_copy_goes_its_own_way(self):
        twin = self.books.cluster.copy(self.books.tables.copy())
        for name in list(twin.row_of):
            twin.remove(name)
        twin.put(host("z", more={"new": 1}))

    @invariant()
    def the_books_are_those_of_the_ledger(self):
        cluster = self.books.cluster
        assert list(cluster.order.names) == sorted(self.hosts)
        assert len(cluster) == len(self.hosts)
        assert len(set(cluster.row_of.values())) == len(self.hosts)
        for name, machine in self.hosts.items():
            row = cluster.row_of[name]
            assert cluster.host(row) == machine
            total: Counter[str] = Counter()
            left = [device.milli for device in machine.devices]
            for wanted, devices in self.held[name].values():
                total.update({GUESTS: 1} | dict(wanted.requests))
                sizes = [request.milli for request in wanted.devices for _ in range(request.count)]
                for device, milli in zip(devices, sizes, strict=bool(devices)):
                    left[device] -= milli
            assert self.books.used(name) == dict(total)
            assert self.books.left(name) == left
            running = {uid: shape.spec for uid, shape in cluster.guests_on[row].items()}
            assert running == {uid: wanted for uid, (wanted, _) in self.held[name].items()}

    @invariant()
    def the_log_names_the_rows_that_changed(self):
        found = self.books.cluster.rows_touched_since(self.seen)
        assert found is not None
        assert set(found.tolist()) == self.touched


def test_the_books_are_those_of_a_ledger_that_adds_everything_up_again():
    run_state_machine_as_test(ClusterMachine, settings=QUICK)


def test_what_a_guest_gives_back_is_what_it_held_to_the_last_unit():
    wanted = spec(cpu=1234, memory=5, more={"fpga": 2}, gpu=(2, 300))
    books = with_hosts(host("a", gpus=3))
    books.book("a", spec(gpu=(1, 500)), "there", (2,))
    before = books.used("a"), books.left("a")
    books.book("a", wanted, "g", (0, 2))
    assert books.left("a") == [700, 1000, 200]
    books.unbook("a", wanted, "g", (0, 2))
    assert (books.used("a"), books.left("a")) == before


def test_a_booking_without_devices_holds_amounts_alone():
    books = with_hosts(host("a", gpus=1))
    books.book("a", spec(gpu=(1, 500)), "g")
    assert books.left("a") == [1000]
    assert books.used("a")["cpu"] == 1000


def test_a_booking_that_would_pass_2_to_the_62_is_foretold():
    books = with_hosts(host("a"))
    books.book("a", GuestSpec(requests=(("cpu", MAX_AMOUNT - 5),)), "big")
    row = books.cluster.row_of["a"]
    assert books.cluster.why_not_book(row, books.shape(GuestSpec(requests=(("cpu", 5),)))) is None
    assert "cpu" in str(books.cluster.why_not_book(row, books.shape(GuestSpec(requests=(("cpu", 6),)))))
    assert books.cluster.why_not_book(row, books.shape(GuestSpec(requests=(("late", MAX_AMOUNT),)))) is None


def test_devices_are_booked_again_after_they_changed():
    books = with_hosts(host("a", gpus=3))
    held = [(spec(gpu=(2, 400)), (0, 2)), (spec(gpu=(1, 100)), (1,)), (spec(), ())]
    for number, (wanted, devices) in enumerate(held):
        books.book("a", wanted, f"g{number}", devices)
    books.cluster.put(host("a", gpus=2))
    row = books.cluster.row_of["a"]
    books.cluster.rebook_devices(row, [(books.shape(wanted), devices) for wanted, devices in held])
    assert books.left("a") == [600, 900]


# -- limits -----------------------------------------------------------------------------------------------------------


@given(machine=hosts(st.just("a")), ratio=st.integers(1, 3_000_000), kept=st.integers(0, 3))
@QUICK
def test_host_may_give_its_overcommitted_size_less_the_reserve(machine, ratio, kept):
    books = with_hosts(machine)
    books.cluster.use_limit_sets([((), (), False), ((("cpu", ratio),), (("cpu", kept), ("memory", kept)), False)])
    size, own_ratio, own_kept = dict(machine.capacity), dict(machine.overcommit), dict(machine.reserve)
    for at, (ratio_now, kept_now) in enumerate(((1_000_000, 0), (ratio, kept))):
        cpu = size.get("cpu", 0) * own_ratio.get("cpu", ratio_now) // 1_000_000 - own_kept.get("cpu", kept_now)
        memory = size.get("memory", 0) - own_kept.get("memory", kept_now)
        assert books.limit("a", "cpu", at) == max(cpu, 0)
        assert books.limit("a", "memory", at) == max(memory, 0)
        assert books.limit("a", "unheard-of", at) == 0
        assert books.limit("a", GUESTS, at) == size.get(GUESTS, MAX_AMOUNT)


def test_limits_follow_a_host_that_changes_and_leave_with_it():
    books = with_hosts(host("a", cpu=4000, more={"fpga": 2}))
    books.cluster.put(host("a", cpu=3000))
    assert (books.limit("a", "cpu"), books.limit("a", "fpga")) == (3000, 0)
    books.cluster.remove("a")
    books.cluster.put(Host(name="b"))
    assert books.limit("b", "cpu") == 0


def test_limit_sets_beyond_2_to_the_62_are_rejected_and_change_nothing():
    books = with_hosts(host("a", cpu=MAX_AMOUNT))
    with pytest.raises(InputError):
        books.cluster.use_limit_sets([((("cpu", 2_000_000),), (), False)])
    assert books.limit("a", "cpu") == MAX_AMOUNT


# -- rows -------------------------------------------------------------------------------------------------------------


def test_rows_and_bookings_survive_any_growth():
    books = with_hosts(host("first", gpus=1, labels={"zone": "x"}))
    books.book("first", spec(gpu=(1, 300)), "g", (0,))
    for number in range(300):
        books.cluster.put(host(f"h{number:03}", more={f"r{number % 40}": 7}))
    books.cluster.put(host("wide", gpus=64))
    assert books.used("first") == {"guests": 1, "cpu": 1000, "memory": 2**30}
    assert books.left("first") == [700]
    assert books.limit("first", "cpu") == 4000
    assert (books.limit("h039", "r39"), books.limit("h040", "r39"), books.limit("h079", "r39")) == (7, 0, 7)
    assert books.left("wide") == [1000] * 64


def test_the_row_of_a_host_that_left_is_empty_for_the_next():
    books = with_hosts(host("a", gpus=2, labels={"zone": "x"}, cordoned=True, rank=5))
    books.book("a", spec(gpu=(1, 1000)), "g", (1,))
    row = books.cluster.row_of["a"]
    books.cluster.remove("a")
    with pytest.raises(FactError):
        books.cluster.host(row)
    assert books.cluster.put(Host(name="b", devices=(Device("gpu"),))) == row
    assert (books.used("b"), books.left("b")) == ({}, [1000])
    assert not books.cluster.marks.cordoned[row]


def test_hosts_come_back_in_the_rows_they_had_and_holes_are_filled_first():
    books = with_hosts(*(host(name) for name in NAMES))
    books.cluster.remove("b")
    twin = Cluster(books.tables)
    twin.restore(books.cluster.host_at, books.cluster.free_rows)
    assert twin.row_of == books.cluster.row_of
    assert twin.order.names == ["a", "c", "d"]
    assert twin.put(host("late")) == books.cluster.put(host("late"))


IMPOSSIBLE = [
    pytest.param(Host(name=""), id="no name"),
    pytest.param(Host(name="b", capacity=(("cpu", -1),)), id="a negative size"),
    pytest.param(Host(name="b", reserve=(("cpu", MAX_AMOUNT + 1),)), id="a reserve beyond 2^62"),
    pytest.param(Host(name="b", devices=(Device("gpu", "", 1_000_001),)), id="a device beyond a million"),
    pytest.param(Host(name="b", devices=(Device("gpu"),) * 65), id="65 devices"),
    pytest.param(Host(name="b", rank=-(2**63) - 1), id="a rank beyond 64 bits"),
]


@pytest.mark.parametrize("machine", IMPOSSIBLE)
def test_an_impossible_host_is_refused_and_changes_no_row(machine):
    books = with_hosts(host("a"))
    end = books.cluster.log_end
    with pytest.raises(FactError):
        books.cluster.put(machine)
    with pytest.raises(FactError):
        books.cluster.put_many([host("c"), machine])
    assert list(books.cluster.row_of) == books.cluster.order.names == ["a"]
    assert books.cluster.log_end == end


# -- the touch log ----------------------------------------------------------------------------------------------------


def test_a_log_that_does_not_reach_back_says_so():
    books = with_hosts(host("a"), host("b"))
    start = books.cluster.log_end
    for _ in range(100_000):
        books.cluster.touch(0)
    assert books.cluster.rows_touched_since(start) is None
    books.cluster.touch(1)
    found = books.cluster.rows_touched_since(books.cluster.log_end - 2)
    assert found is not None
    assert found.tolist() == [0, 1]


def test_the_log_grows_with_the_fleet_and_keeps_what_it_knew():
    books = with_hosts(host("a"))
    position = books.cluster.log_end
    books.cluster.touch(0)
    books.cluster.put_many([host(f"h{number:04}") for number in range(5000)])
    found = books.cluster.rows_touched_since(position)
    assert found is not None
    assert found.tolist() == sorted(books.cluster.row_of.values())


@given(moves=st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=12))
@QUICK
def test_a_copy_and_its_original_do_not_disturb_each_other(moves):
    wanted, size = spec(cpu=1, memory=1, gpu=(1, 10)), amounts({"cpu": 9, "memory": 9})
    books = with_hosts(*(Host(name=name, capacity=size, devices=(Device("gpu"),)) for name in NAMES))
    twin = NamedCluster()
    twin.tables = books.tables.copy()
    twin.shapes = books.shapes.copy(twin.tables)
    twin.cluster = books.cluster.copy(twin.tables)
    counts = [Counter[str](), Counter[str]()]
    for number, (name, here) in enumerate(moves):
        (books if here else twin).book(name, wanted, f"g{number}", (0,))
        counts[0 if here else 1][name] += 1
    for each, booked in zip((books, twin), counts, strict=True):
        assert {name: each.used(name).get("guests", 0) for name in NAMES} == {name: booked[name] for name in NAMES}
        assert {name: each.left(name) for name in NAMES} == {name: [1000 - 10 * booked[name]] for name in NAMES}


def test_device_requests_are_booked_in_their_order():
    wanted = GuestSpec(devices=(DeviceRequest("nic", 1, 100), DeviceRequest("gpu", 2, 700)))
    books = with_hosts(Host(name="a", devices=(Device("gpu"), Device("gpu"), Device("nic"))))
    books.book("a", wanted, "g", (2, 1, 0))
    assert books.left("a") == [300, 300, 900]
