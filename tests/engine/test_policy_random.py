"""Random: every host and device in time, and the same draws for the same seed."""

from __future__ import annotations

from collections import Counter

from hostler.engine import Engine
from hostler.model import BindFailed
from tests.engine.fleet import MIB, due, engine_with, guest, host, place


def roomy(names: str, *policies: str, **fields) -> Engine:
    return engine_with([host(name, 10**6, 10**6 * MIB) for name in names], *policies, **fields)


def test_random_takes_one_of_two():
    assert place(roomy("12", "random"), guest("g"))[0] in ("1", "2")


def test_random_takes_every_host_about_as_often():
    counts = Counter(place(roomy("123", "random", seed=7), *(guest(f"g{i}", cpu=1, memory=1) for i in range(300))))
    assert set(counts) == {"1", "2", "3"}
    assert min(counts.values()) > 70


def test_random_is_the_same_for_the_same_seed_and_another_for_another():
    guests = [guest(f"g{i}", cpu=1, memory=1) for i in range(40)]
    assert place(roomy("123", "random", seed=1), *guests) == place(roomy("123", "random", seed=1), *guests)
    assert place(roomy("123", "random", seed=1), *guests) != place(roomy("123", "random", seed=2), *guests)


def test_a_random_choice_does_not_depend_on_what_was_chosen_before():
    guests = [guest(f"g{i}", cpu=1, memory=1) for i in range(20)]
    forwards = dict(zip(guests, place(roomy("123", "random"), *guests), strict=True))
    backwards = dict(zip(guests[::-1], place(roomy("321", "random"), *guests[::-1]), strict=True))
    assert forwards == backwards


def test_another_attempt_is_another_draw():
    engine = roomy("123456789", "random")
    taken = set()
    place(engine, guest("g"), now=0)
    for _ in range(12):
        taken.add(engine.decision("g").host)
        engine.apply(BindFailed(uid="g", host=engine.decision("g").host))
        engine.step(due(engine))
    assert len(taken) > 3


def test_random_devices_are_all_taken_in_time():
    engine = engine_with([host("a", 10**6, 10**12, gpus=4)], "random")
    place(engine, *(guest(f"g{i}", cpu=1, memory=1, gpu=(1, 10)) for i in range(60)))
    counts = Counter(engine.decision(f"g{i}").devices for i in range(60))
    assert set(counts) == {(0,), (1,), (2,), (3,)}
