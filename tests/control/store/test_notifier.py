"""Waiting for the log to grow: no notice is lost between two looks."""

from __future__ import annotations

import asyncio
import threading

from hostler.control.store import Notifier
from hostler.control.store.history import log
from tests.control.store.row_makers import fact


async def test_a_notice_from_another_thread_wakes_all_who_wait():
    notifier = Notifier()
    waiting = [asyncio.create_task(notifier.wait(30)) for _ in range(3)]
    await asyncio.sleep(0)
    threading.Thread(target=notifier.poke).start()
    assert await asyncio.gather(*waiting) == [1, 1, 1]


async def test_a_notice_that_came_before_the_wait_counts():
    notifier = Notifier()
    seen = notifier.count
    notifier.poke()
    async with asyncio.timeout(30):
        assert await notifier.wait(3600, since=seen) == 1
    assert await notifier.wait(0, since=1) == 1


async def test_without_a_notice_waiting_ends_by_itself():
    notifier = Notifier()
    assert await notifier.wait(0.01) == 0
    task = asyncio.create_task(notifier.wait(30))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    notifier.poke()


async def test_waiter_in_a_loop_that_ended_blocks_no_other():
    notifier = Notifier()

    task = asyncio.ensure_future(notifier.wait(30))
    await asyncio.sleep(0)
    task.cancel()
    notifier.poke()
    assert notifier.count == 1


async def test_a_write_to_the_log_is_a_notice_and_another_write_is_none(database):
    seen = database.notifier.count
    await database.write(lambda connection: None)
    assert database.notifier.count == seen
    await database.write(lambda connection: log.append(connection, [fact()]))
    assert await database.notifier.wait(30, since=seen) > seen
