"""A clock that is wrong by days takes no history with it; one that was right all the same is believed in the end."""

from __future__ import annotations

import asyncio
import time

import pytest

from hostler.control.fleet.history_time import advance
from hostler.control.fleet.tidying import tidy_all
from hostler.control.store import open_database, operations
from hostler.control.store.operations import OperationRow
from tests.control.databases import PATIENT
from tests.control.fleet.scene import Scene, scene
from tests.control.fleet.test_tidying import DAY, SETTINGS, SMALL
from tests.wait import until

HOUR = DAY // 24
MINUTE = HOUR // 60
START = 1000 * DAY


@pytest.fixture
def go_on(either_url):
    """Give a way to let time pass for forgetting, by a clock that says something."""
    database = open_database(either_url, limits=PATIENT)
    yield lambda clock_ns, passed_ns: database.submit(
        lambda connection: advance(connection, clock_ns, passed_ns)
    ).result(60)
    database.close()


def test_a_clock_that_goes_as_time_does_is_followed(go_on):
    assert go_on(START, 0) == START, "a database that nobody tidied yet"
    for minutes in range(1, 5):
        assert go_on(START + minutes * MINUTE, MINUTE) == START + minutes * MINUTE


def test_a_leap_of_days_costs_hours_in_the_first_hour_and_is_believed_after_days(go_on):
    leap = 10 * DAY
    go_on(START, 0)
    reached = START
    for minutes in range(1, 61):
        reached = go_on(START + leap + minutes * MINUTE, MINUTE)
    assert 9 * HOUR < reached - START - HOUR < 10 * HOUR
    for days in range(1, 11):
        reached = go_on(START + leap + days * DAY, DAY)
    assert reached == START + leap + 10 * DAY


def test_a_process_that_starts_by_a_clock_that_leapt_goes_on_where_forgetting_was(go_on):
    go_on(START, 0)
    assert go_on(START + 30 * DAY, 0) == START


def test_a_clock_that_was_set_right_is_followed_back(go_on):
    go_on(START, 0)
    go_on(START + 30 * DAY, HOUR)
    assert go_on(START + 2 * HOUR, HOUR) == START + 2 * HOUR
    assert go_on(START + 3 * HOUR, HOUR) == START + 3 * HOUR


async def finish(world: Scene, name: str, at_ns: int) -> None:
    row = OperationRow(id=name, kind="vm.create", finished_ns=at_ns)
    await world.database.write(lambda connection: operations.add_many(connection, [row]))


async def is_kept(world: Scene, name: str) -> bool:
    return await world.database.read(lambda connection: operations.find(connection, name)) is not None


def test_a_leader_whose_clock_is_days_ahead_of_the_database_forgets_nothing_for_it(shared_url):
    async def story() -> None:
        async with scene(shared_url, settings=SETTINGS, times=SMALL) as world:
            first, fast = world.leader, await world.add_replica(ahead_s=30 * 86400.0)
            await finish(world, "young", time.time_ns())
            await finish(world, "old", time.time_ns() - 2 * DAY)
            await first.stop()
            world.replicas.remove(first)
            await until(lambda: fast.books.is_leader)
            await tidy_all(fast.fleet, asyncio.Event())
            assert (await is_kept(world, "young"), await is_kept(world, "old")) == (True, False)

    asyncio.run(story())


def test_while_the_clock_is_not_believed_young_things_stay_and_the_log_says_so_once(url):
    async def story() -> None:
        async with scene(url, settings=SETTINGS, times=SMALL) as world:
            leapt = time.time_ns() - 30 * DAY  # the clock leaps by a month from then
            await world.database.write(lambda connection: advance(connection, leapt, 0))
            await finish(world, "yesterday", leapt - HOUR)
            await finish(world, "old", leapt - 2 * DAY)
            for _ in range(2):
                await tidy_all(world.leader.fleet, asyncio.Event())
            assert (await is_kept(world, "yesterday"), await is_kept(world, "old")) == (True, False)
            [line] = world.leader.told
            assert "30 days ahead" in line
            world.clock.jump(86400.0)
            await tidy_all(world.leader.fleet, asyncio.Event())
            assert not await is_kept(world, "yesterday"), "a day has passed, so the clock is believed"

    asyncio.run(story())
