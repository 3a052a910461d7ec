"""Facts about hosts: identity and version, hosts that leave, come back, change, and bring new names."""

from __future__ import annotations

from hostler.model import GuestLeft, HostChanged, HostJoined, HostLeft, HostsJoined, Taint, amounts
from tests.engine.fleet import GIB, arrive, books, devices_left, engine_with, guest, host, place, reasons, used
from tests.engine.traces import ONE, refused, unheard


def test_the_same_fact_about_a_host_again_changes_nothing():
    engine = engine_with([host("a", version=3)])
    unheard(engine, HostJoined(host=host("a", version=3)))
    unheard(engine, HostChanged(host=host("a", version=3)))
    unheard(engine, HostsJoined(hosts=(host("a", version=3),)))


def test_an_older_fact_about_a_host_changes_nothing():
    engine = engine_with([host("a", version=3)])
    unheard(engine, HostChanged(host=host("a", cpu=1, version=2)))
    unheard(engine, HostsJoined(hosts=(host("a", cpu=1, version=2),)))


def test_a_contradictory_fact_of_equal_version_about_a_host_is_refused():
    engine = engine_with([host("a", version=3)])
    error = refused(engine, HostChanged(host=host("a", cpu=1, version=3)))
    assert "'a'" in error.message
    assert error.code == "impossible_fact"
    refused(engine, HostsJoined(hosts=(host("new"), host("a", cpu=1, version=3))))


def test_a_host_without_a_version_is_always_news():
    engine = engine_with([host("a")])
    engine.apply(HostChanged(host=host("a", cpu=1)))
    assert next(engine.hosts()).capacity == amounts({"cpu": 1, "memory": 4 * GIB})


def test_a_host_of_another_uid_is_another_host_whatever_its_version():
    engine = engine_with([host("a", uid="first", version=7)])
    engine.apply(HostJoined(host=host("a", cpu=1, uid="second", version=1)))
    assert next(engine.hosts()).uid == "second"


def test_a_late_fact_about_a_replaced_host_changes_nothing():
    engine = engine_with([host("a", uid="first", version=1)])
    engine.apply(HostJoined(host=host("a", uid="second", version=5)))
    unheard(engine, HostChanged(host=host("a", cpu=1, uid="first", version=2)))


def test_a_late_fact_about_a_host_that_left_changes_nothing():
    engine = engine_with([host("a", uid="first", version=2)])
    engine.apply(HostLeft(name="a", uid="first"))
    unheard(engine, HostJoined(host=host("a", uid="first", version=1)))
    unheard(engine, HostJoined(host=host("a", uid="first", version=2)))
    assert not list(engine.hosts())


def test_the_end_of_a_host_that_was_replaced_does_not_end_its_successor():
    engine = engine_with([host("a", uid="first", version=1)])
    engine.apply(HostJoined(host=host("a", uid="second", version=2)))
    engine.apply(HostLeft(name="a", uid="first"))
    assert [h.uid for h in engine.hosts()] == ["second"]
    unheard(engine, HostJoined(host=host("a", uid="first", version=1)))


def test_the_end_of_an_unknown_host_changes_no_books():
    engine = engine_with([host("a")])
    before = books(engine)
    engine.apply(HostLeft(name="nobody"))
    assert books(engine) == before


def test_parked_guests_are_booked_too_when_many_hosts_join_at_once():
    engine = engine_with()
    arrive(engine, guest("g", host="a"), guest("h", host="b"))
    engine.apply(HostsJoined(hosts=(host("a"), host("b"))))
    assert used(engine, "a") == used(engine, "b") == ONE


def test_a_host_that_leaves_parks_its_guests_and_gets_them_back():
    engine = engine_with([host("a", gpus=2)])
    place(engine, guest("g", gpu=(1, 300)))
    engine.apply(HostLeft(name="a"))
    assert engine.decision("g").state == "parked"
    engine.apply(HostJoined(host=host("a", gpus=2)))
    assert used(engine, "a") == ONE
    assert devices_left(engine, "a") == [700, 1000]


def test_a_host_comes_back_with_another_size():
    engine = engine_with([host("a", version=1, gpus=2)])
    place(engine, guest("g", gpu=(2, 1000), cpu=3000))
    engine.apply(HostLeft(name="a"))
    engine.apply(HostJoined(host=host("a", cpu=2000, version=2, gpus=4)))
    assert used(engine, "a") == {"guests": 1, "cpu": 3000, "memory": GIB}  # a fact, although it exceeds the limit
    assert devices_left(engine, "a") == [0, 0, 1000, 1000]
    assert place(engine, guest("h", cpu=1000), guest("i", cpu=0)) == ["", "a"]


def test_host_that_comes_back_smaller_forgets_its_lost_devices():
    engine = engine_with([host("a", gpus=2)])
    place(engine, guest("g", gpu=(2, 1000)))
    engine.apply(HostLeft(name="a"))
    engine.apply(HostJoined(host=host("a", gpus=1)))
    assert len(devices_left(engine, "a")) == 1
    engine.apply(GuestLeft(uid="g"))
    assert devices_left(engine, "a") == [1000]
    assert used(engine, "a") == {}


def test_running_host_that_regains_a_device_keeps_its_bookings():
    engine = engine_with([host("a", gpus=3)])
    arrive(engine, guest("g", gpu=(1, 1000), host="a", on_devices=(2,)))
    engine.apply(HostChanged(host=host("a", gpus=1)))
    assert devices_left(engine, "a") == [1000]
    engine.apply(HostChanged(host=host("a", gpus=3)))
    assert devices_left(engine, "a") == [1000, 1000, 0]
    engine.apply(GuestLeft(uid="g"))
    assert devices_left(engine, "a") == [1000, 1000, 1000]


def test_the_row_of_a_host_that_left_holds_nothing_for_the_next_host():
    engine = engine_with([host("a", gpus=2, labels={"zone": "x"}, taints=(Taint("t"),), cordoned=True)])
    arrive(engine, guest("g", gpu=(2, 1000), host="a"))
    engine.apply(HostLeft(name="a"))
    engine.apply(HostJoined(host=host("b", gpus=2)))
    assert used(engine, "b") == {}
    assert place(engine, guest("h", gpu=(2, 1000))) == ["b"]
    engine.apply(GuestLeft(uid="g"))
    assert used(engine, "b") == ONE


def test_a_cordoned_host_takes_nobody_and_keeps_what_it_has():
    engine = engine_with([host("a"), host("b")])
    assert place(engine, guest("g")) == ["a"]
    engine.apply(HostChanged(host=host("a", cordoned=True)))
    assert used(engine, "a") == ONE
    assert place(engine, guest("h"), guest("i")) == ["b", "b"]
    assert reasons(engine.decision("h")) == {"cordon: cordoned": 1}
    engine.apply(HostChanged(host=host("a")))
    assert place(engine, guest("j")) == ["a"]


def test_counts_add_up_to_the_hosts_after_every_join_and_leave():
    engine = engine_with([host(name) for name in "abc"])
    for at, change in enumerate(["+d", "+e", "-a", "+f", "-c", "+a", "-b", "+g", "+h"]):
        name = change[1]
        engine.apply(HostJoined(host=host(name)) if change[0] == "+" else HostLeft(name=name))
        place(engine, guest(f"g{at}", cpu=10, memory=10))
        decision = engine.decision(f"g{at}")
        assert (decision.hosts, decision.feasible) == (len(list(engine.hosts())),) * 2


def test_a_host_may_bring_any_number_of_resources():
    engine = engine_with([host("a")])
    place(engine, guest("first"))
    engine.apply(HostJoined(host=host("b", more={f"r{i}": 2 for i in range(30)})))
    assert place(engine, guest("g", more={"r29": 2}), guest("h", more={"r29": 1})) == ["b", ""]


def test_order_of_many_names_stays_right_in_any_order_of_joining():
    engine = engine_with((), "first_fit")
    names = [f"{i:03}" for i in range(120)]
    for name in reversed(names):
        engine.apply(HostJoined(host=host(name, cpu=1000)))
    assert [h.name for h in engine.hosts()] == names
    assert place(engine, *(guest(f"g{i:03}") for i in range(120))) == names


def test_hosts_that_join_at_once_are_as_good_as_hosts_that_join_one_by_one():
    hosts = [host(f"h{i:02}", cpu=1000 * (1 + i % 3)) for i in (5, 2, 9, 1, 7, 3)]
    one = engine_with(hosts)
    many = engine_with()
    many.apply_many(HostsJoined(hosts=tuple(hosts)))
    assert books(one) == books(many)
    guests = [guest(f"g{i}") for i in range(12)]
    assert place(one, *guests) == place(many, *guests)
