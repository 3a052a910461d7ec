"""The thread of the engine: one piece of work after the other, and an end that hung work cannot keep up."""

import asyncio
import subprocess
import sys
import threading
from functools import partial

import pytest

from hostler.errors import InternalError, UnavailableError
from hostler.runtime.engine_thread import EngineThread, InlineExecutor

HUNG = """
import asyncio, threading
from hostler.runtime.engine_thread import EngineThread

async def main():
    executor, has_begun = EngineThread(), threading.Event()
    hung = asyncio.ensure_future(executor.run(lambda: (has_begun.set(), threading.Event().wait())))
    await asyncio.to_thread(has_begun.wait)
    hung.cancel()
    executor.close()
    print("last words", flush=True)

asyncio.run(main())
"""


def test_work_that_never_ends_does_not_keep_the_process():
    ended = subprocess.run([sys.executable, "-c", HUNG], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "last words\n", "")


async def test_work_is_done_in_order_in_one_thread_and_what_it_raises_comes_back():
    executor, done = EngineThread(), []

    def work(number: int) -> int:
        done.append(number)
        return threading.get_ident()

    threads = await asyncio.gather(*(executor.run(partial(work, n)) for n in range(50)))
    assert done == list(range(50))
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await executor.run(lambda: 1 // 0)
    executor.close()


async def test_the_work_at_hand_is_finished_and_the_rest_is_cancelled_at_the_end():
    executor, has_begun, may_end = EngineThread(), threading.Event(), threading.Event()

    def work() -> bool:
        has_begun.set()
        return may_end.wait()

    at_hand = asyncio.ensure_future(executor.run(work))
    await asyncio.to_thread(has_begun.wait)
    rest = asyncio.ensure_future(executor.run(lambda: None))
    await asyncio.sleep(0)
    may_end.set()
    executor.close()
    assert await at_hand is True
    with pytest.raises(asyncio.CancelledError):
        await rest
    with pytest.raises(InternalError):
        await executor.run(lambda: None)


async def test_the_engines_thread_tells_how_long_others_wait_for_it():
    thread, may_end = EngineThread(), threading.Event()
    working = [asyncio.ensure_future(thread.run(may_end.wait)) for _ in range(2)]
    while (seen := thread.longest_stall_s()) <= 0:
        await asyncio.sleep(0.01)
    may_end.set()
    await asyncio.gather(*working)
    assert thread.longest_stall_s() >= seen
    thread.close()


async def test_late_work_gets_the_error_that_its_front_chose():
    thread = EngineThread(late_work=lambda: UnavailableError("the service is stopping"), last_work_s=None)
    thread.check_open()
    thread.close()
    with pytest.raises(UnavailableError, match="stopping"):
        thread.check_open()
    with pytest.raises(UnavailableError, match="stopping"):
        await thread.run(lambda: None)


async def test_inline_work_is_done_at_once_and_never_stalls():
    executor, here = InlineExecutor(), threading.get_ident()
    assert await executor.run(threading.get_ident) == here
    assert executor.longest_stall_s() == 0
