"""A clock that is wrong by days takes no history with it; one that was right all the same is believed in the end."""

from __future__ import annotations

import asyncio
import time

import pytest

from hostler.control.fleet.history_time import advance
from hostler.control.fleet.retention import forget_all
from hostler.control.store import open_database
from hostler.control.store.rows import operations
from hostler.control.store.rows.operations import OperationRow
from tests.control.databases import PATIENT
from tests.control.fleet.control_plane import ControlPlane, run_control_plane
from tests.control.fleet.test_retention import DAY, SETTINGS, SMALL
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


def test_clock_leap_of_days_is_made_up_for_gradually(go_on):
    leap = 10 * DAY
    go_on(START, 0)
    reached = START
    for minutes in range(1, 61):
        reached = go_on(START + leap + minutes * MINUTE, MINUTE)
    assert 9 * HOUR < reached - START - HOUR < 10 * HOUR
    for days in range(1, 11):
        reached = go_on(START + leap + days * DAY, DAY)
    assert reached == START + leap + 10 * DAY


def test_retention_continues_after_start_with_leapt_clock(go_on):
    go_on(START, 0)
    assert go_on(START + 30 * DAY, 0) == START


def test_a_clock_that_was_set_right_is_followed_back(go_on):
    go_on(START, 0)
    go_on(START + 30 * DAY, HOUR)
    assert go_on(START + 2 * HOUR, HOUR) == START + 2 * HOUR
    assert go_on(START + 3 * HOUR, HOUR) == START + 3 * HOUR


async def finish(control: ControlPlane, name: str, at_ns: int) -> None:
    row = OperationRow(id=name, kind="vm.create", finished_ns=at_ns)
    await control.database.write(lambda connection: operations.add_many(connection, [row]))


async def is_kept(control: ControlPlane, name: str) -> bool:
    return await control.database.read(lambda connection: operations.find(connection, name)) is not None


async def test_leader_with_clock_days_ahead_forgets_nothing_early(shared_url):
    async with run_control_plane(shared_url, settings=SETTINGS, times=SMALL) as control:
        first, fast = control.leader, await control.add_replica(ahead_s=30 * 86400.0)
        await finish(control, "young", time.time_ns())
        await finish(control, "old", time.time_ns() - 2 * DAY)
        await first.stop()
        control.replicas.remove(first)
        await until(lambda: fast.books.is_leader)
        await forget_all(fast.fleet, asyncio.Event())
        assert (await is_kept(control, "young"), await is_kept(control, "old")) == (True, False)


async def test_recent_history_stays_while_clock_is_doubted(url):
    async with run_control_plane(url, settings=SETTINGS, times=SMALL) as control:
        leapt = time.time_ns() - 30 * DAY  # the clock leaps by a month from then
        await control.database.write(lambda connection: advance(connection, leapt, 0))
        await finish(control, "yesterday", leapt - HOUR)
        await finish(control, "old", leapt - 2 * DAY)
        for _ in range(2):
            await forget_all(control.leader.fleet, asyncio.Event())
        assert (await is_kept(control, "yesterday"), await is_kept(control, "old")) == (True, False)
        [line] = control.leader.told
        assert "30 days ahead" in line
        control.clock.jump(86400.0)
        await forget_all(control.leader.fleet, asyncio.Event())
        assert not await is_kept(control, "yesterday"), "a day has passed, so the clock is believed"
