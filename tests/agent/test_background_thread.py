"""Blocking work that hangs keeps nothing but itself from going on."""

from __future__ import annotations

import asyncio
import threading

import pytest

from hostler.agent.background_thread import BackgroundThread
from tests.wait import until


async def test_results_and_errors_come_back():
    thread = BackgroundThread("work")
    assert await thread.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0)
    assert await thread.run(threading.current_thread) is not threading.current_thread()


async def test_work_that_hangs_is_left_behind_and_not_begun_again():
    ends, begun = threading.Event(), []

    def hang():
        begun.append(1)
        ends.wait(60)

    thread, other = BackgroundThread("a look"), BackgroundThread("another")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(thread.run(hang), 0.01)
    for _ in range(50):
        with pytest.raises(TimeoutError, match="a look hangs"):
            await thread.run(hang)
    assert len(begun) == 1
    assert await other.run(lambda: "works") == "works"
    ends.set()

    async def works_again():
        try:
            return await thread.run(lambda: True)
        except TimeoutError:
            return False

    await until(works_again)
