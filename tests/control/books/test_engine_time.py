"""Clocks are set forward and back, and differ between machines: decisions go on, and the log has the clock's time."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.control.books.engine_time import EngineTime
from hostler.control.store import Database
from tests.control.books.town import SECOND, Replica, Town, all_placed, at_rest
from tests.wait import until

HOUR = 3600 * SECOND
NOON = 1_700_000_000 * SECOND


class Clocks:
    """A clock that is set, and one that nobody sets."""

    def __init__(self) -> None:
        self.wall, self.steady = NOON, 5
        self.time = EngineTime(lambda: self.wall, lambda: self.steady)

    def pass_by(self, ns: int) -> None:
        self.wall += ns
        self.steady += ns


def test_an_engine_that_is_not_ahead_has_the_time_of_the_clock():
    clocks = Clocks()
    assert clocks.time.now(0) == NOON
    clocks.wall += HOUR
    assert clocks.time.now(NOON) == NOON + HOUR
    clocks.wall -= HOUR  # the engine was not told of that hour
    assert clocks.time.now(NOON) == NOON


def test_an_engine_that_is_ahead_goes_on_at_half_the_pace_until_the_clock_has_caught_up():
    clocks = Clocks()
    ahead = NOON + HOUR
    assert clocks.time.now(ahead) == ahead
    clocks.pass_by(HOUR)
    assert clocks.time.now(ahead) == ahead + HOUR // 2
    assert clocks.time.now(ahead + HOUR // 2) == ahead + HOUR // 2
    clocks.pass_by(HOUR - 2)
    assert clocks.time.now(ahead + HOUR // 2) == ahead + HOUR - 1
    clocks.pass_by(4)
    assert clocks.time.now(ahead + HOUR - 1) == clocks.wall == NOON + 2 * HOUR + 2


def test_an_engine_that_another_leader_took_further_goes_on_from_there():
    clocks = Clocks()
    assert clocks.time.now(NOON + 10 * SECOND) == NOON + 10 * SECOND
    clocks.pass_by(SECOND)
    assert clocks.time.now(NOON + HOUR) == NOON + HOUR
    clocks.pass_by(SECOND)
    assert clocks.time.now(NOON + HOUR) == NOON + HOUR + SECOND // 2


@pytest.mark.parametrize("is_stopped", [False, True], ids=["while it leads", "between two lives"])
def test_after_the_clock_was_an_hour_ahead_vms_are_placed_and_the_log_has_the_right_time(
    database: Database, is_stopped: bool
) -> None:
    async def story() -> None:
        town = Town(database)
        await town.build(2)
        town.now += HOUR
        replica = await Replica(town.books("first")).start()
        await town.create("early")
        await all_placed(town, "early")
        if is_stopped:
            await replica.stop()
        town.now -= HOUR
        if is_stopped:
            replica = await Replica(town.books("second")).start()
        before = town.clock()
        await town.create("late")
        await all_placed(town, "late")
        steps = [entry for entry in await town.entries() if entry.kind == "step"]
        assert before < steps[-1].at_ns <= town.clock()
        times = [msgspec.json.decode(step.body)["now"] for step in steps]
        assert times == sorted(times), "only the engine's own time never goes back"
        await replica.stop()

    asyncio.run(story())


def test_a_replica_whose_clock_is_an_hour_ahead_takes_nobody_with_it(database: Database) -> None:
    async def story() -> None:
        town = Town(database)
        await town.build(2)
        leader = await Replica(town.books("first")).start()
        await until(lambda: leader.books.is_leader)
        other = await Replica(town.books("second")).start()
        await town.create("large", cpu=100, ahead_ns=HOUR)
        await town.create("small", ahead_ns=HOUR)
        await all_placed(town, "small")
        await at_rest(town, leader.books, other.books)
        for replica in (leader, other):
            reached, _ = await replica.books.ask(lambda engine: engine.now)
            assert reached <= town.clock()
        await other.stop()
        await leader.stop()

    asyncio.run(story())
