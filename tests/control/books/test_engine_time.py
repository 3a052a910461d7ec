"""Clocks are set forward and back, and differ between machines: decisions go on, and the log has the clock's time."""

from __future__ import annotations

import msgspec
import pytest

from hostler.control.books.leadership import EngineTime
from hostler.control.store import Database
from tests.control.books.replica_setup import SECOND, BooksReplica, ReplicaSetup, all_placed, at_rest
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


def test_engine_time_ahead_runs_at_half_speed_until_clock_catches_up():
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
async def test_vms_are_placed_after_clock_was_an_hour_ahead(database: Database, is_stopped: bool) -> None:
    setup = ReplicaSetup(database)
    await setup.build(2)
    setup.now += HOUR
    replica = await BooksReplica(setup.books("first")).start()
    await setup.create("early")
    await all_placed(setup, "early")
    if is_stopped:
        await replica.stop()
    setup.now -= HOUR
    if is_stopped:
        replica = await BooksReplica(setup.books("second")).start()
    before = setup.clock()
    await setup.create("late")
    await all_placed(setup, "late")
    steps = [entry for entry in await setup.entries() if entry.kind == "step"]
    assert before < steps[-1].at_ns <= setup.clock()
    times = [msgspec.json.decode(step.body)["now"] for step in steps]
    assert times == sorted(times), "only the engine's own time never goes back"
    await replica.stop()


async def test_a_replica_whose_clock_is_an_hour_ahead_takes_nobody_with_it(database: Database) -> None:
    setup = ReplicaSetup(database)
    await setup.build(2)
    leader = await BooksReplica(setup.books("first")).start()
    await until(lambda: leader.books.is_leader)
    other = await BooksReplica(setup.books("second")).start()
    await setup.create("large", cpu=100, ahead_ns=HOUR)
    await setup.create("small", ahead_ns=HOUR)
    await all_placed(setup, "small")
    await at_rest(setup, leader.books, other.books)
    for replica in (leader, other):
        reached, _ = await replica.books.ask(lambda engine: engine.now)
        assert reached <= setup.clock()
    await other.stop()
    await leader.stop()
