"""Tasks of a process: how the parts of one end, and what is reported about it."""

from __future__ import annotations

import asyncio

import pytest

from hostler.errors import InputError
from hostler.runtime.tasks import TaskFailures, end_tasks, finish_before, run_parts, start_task, unexpected_end


async def fail(error: Exception) -> None:
    await asyncio.sleep(0)
    raise error


async def note_end(ended: list[str], name: str) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        ended.append(name)


async def test_parts_end_when_the_stop_comes():
    ended: list[str] = []
    stop = asyncio.Event()
    asyncio.get_running_loop().call_soon(stop.set)
    await run_parts({"one": note_end(ended, "one"), "two": note_end(ended, "two"), "stop": stop.wait()})
    assert ended == ["one", "two"]


async def test_part_that_fails_ends_the_others_and_is_raised():
    ended: list[str] = []
    with pytest.raises(InputError, match="broken"):
        await run_parts({"bad": fail(InputError("broken")), "good": note_end(ended, "good")})
    assert ended == ["good"]


async def test_cancelled_run_waits_for_its_parts():
    ended: list[str] = []
    running = asyncio.ensure_future(run_parts({"one": note_end(ended, "one")}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await end_tasks([running])
    assert running.cancelled()
    assert ended == ["one"]


async def test_work_is_cancelled_when_the_stop_comes_first():
    ended: list[str] = []
    stopping = asyncio.ensure_future(asyncio.sleep(0))
    assert not await finish_before(stopping, note_end(ended, "work"))
    assert ended == ["work"]


async def test_work_that_ends_before_the_stop_is_done():
    stopping = asyncio.ensure_future(asyncio.Event().wait())
    assert await finish_before(stopping, asyncio.sleep(0))
    await end_tasks([stopping])


async def test_first_failure_of_many_tasks_is_raised():
    failures = TaskFailures()
    for error in (InputError("first"), InputError("second")):
        task = start_task("action", fail(error))
        task.add_done_callback(failures.note)
    with pytest.raises(InputError, match="first"):
        await failures.wait()


async def test_unexpected_end_names_the_part_and_the_reason():
    task = start_task("comparing", fail(InputError("no such thing")))
    await asyncio.wait([task])
    error = unexpected_end(task, "please report it")
    assert error.message == "comparing ended: no such thing"
    assert error.hint == "please report it"
    quiet = start_task("listing", asyncio.sleep(0))
    await quiet
    assert unexpected_end(quiet, "").message == "listing ended: no stop was requested"
