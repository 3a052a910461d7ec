import asyncio
import contextlib

import pytest

from hostler.kube.memory.virtual_time import (
    START_NS,
    DeadlockError,
    LeftoverError,
    LivelockError,
    SimClock,
    run_simulation,
)


def test_an_hour_of_sleep_takes_no_time_and_is_counted():
    async def main():
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time(), SimClock().now()

    assert run_simulation(main, 1) == (3600.0, START_NS + 3600 * 10**9)


def _order(seed, **options):
    async def main():
        seen = []

        async def worker(name):
            for step in range(3):
                await asyncio.sleep(0)
                seen.append((name, step))

        await asyncio.gather(*(worker(name) for name in "abcd"))
        return seen

    return run_simulation(main, seed, **options)


def test_the_same_seed_gives_the_same_order_and_other_seeds_others():
    assert _order(1) == _order(1)
    assert len({tuple(_order(seed)) for seed in range(20)}) > 10


def test_without_shuffling_the_order_is_asyncio_s():
    assert _order(1, shuffle=False) == asyncio.run(_plain()) == _order(2, shuffle=False)


async def _plain():
    seen = []

    async def worker(name):
        for step in range(3):
            await asyncio.sleep(0)
            seen.append((name, step))

    await asyncio.gather(*(worker(name) for name in "abcd"))
    return seen


@pytest.mark.parametrize("seed", range(10))
def test_the_tools_of_asyncio_work(seed):
    async def main():
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)
        lock = asyncio.Lock()
        ready = asyncio.Event()
        got = []

        async def produce():
            for item in range(5):
                await queue.put(item)
            ready.set()

        async def consume():
            while True:
                item = await queue.get()
                async with lock:
                    await asyncio.sleep(0.1)
                    got.append(item)
                queue.task_done()

        async with asyncio.TaskGroup() as group:
            consumers = [group.create_task(consume()) for _ in range(2)]
            group.create_task(produce())
            await ready.wait()
            await queue.join()
            for consumer in consumers:
                consumer.cancel()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(9), 1)
        assert await asyncio.to_thread(lambda: 7) == 7
        return sorted(got)

    assert run_simulation(main, seed) == [0, 1, 2, 3, 4]


def test_a_deadlock_names_who_waits():
    async def main():
        await asyncio.gather(asyncio.create_task(asyncio.Event().wait(), name="the sleeper"))

    with pytest.raises(DeadlockError, match="the sleeper"):
        run_simulation(main, 1)


def test_a_loop_that_spins_is_found():
    async def main():
        while True:
            await asyncio.sleep(0)

    with pytest.raises(LivelockError, match="more than 500 steps"):
        run_simulation(main, 1, limit_steps=500)


def test_a_loop_that_retries_for_ever_is_found():
    async def main():
        while True:
            await asyncio.sleep(1)

    with pytest.raises(LivelockError, match="60 s of virtual time"):
        run_simulation(main, 1, limit_s=60)


def test_tasks_left_behind_are_cancelled_and_may_tidy_up():
    ends = []

    async def tidy():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            ends.append("tidy")

    async def main():
        task = asyncio.create_task(tidy())
        await asyncio.sleep(0.1)
        return task

    assert run_simulation(main, 1).cancelled()
    assert ends == ["tidy"]


def test_a_failure_that_nobody_looked_at_fails_the_run():
    async def fail():
        raise ValueError("unseen")

    async def main():
        task = asyncio.create_task(fail())
        await asyncio.sleep(1)
        del task

    with pytest.raises(LeftoverError, match="unseen"):
        run_simulation(main, 1)


def test_a_task_that_ignores_its_cancellation_fails_the_run():
    async def stubborn():
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1)

    async def main():
        task = asyncio.create_task(stubborn(), name="stubborn")
        await asyncio.sleep(0.5)
        return task.get_name()

    with pytest.raises(LeftoverError, match="stubborn"):
        run_simulation(main, 1)


def test_the_error_of_main_comes_out():
    async def main():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_simulation(main, 1)
