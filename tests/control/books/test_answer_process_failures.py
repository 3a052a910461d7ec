"""Answer processes that end, hang or cannot be started: questions end in bounded time, and later ones are answered."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from hostler.control.books.answers.answerers import MAX_WAITING_WHAT_IFS, Answerer
from hostler.control.books.answers.process import ProcessAnswerer
from hostler.engine import Engine
from hostler.errors import InternalError, UnavailableError
from tests.control.books.answer_fixtures import questions_of_tests, url  # noqa: F401 - fixtures
from tests.control.books.replica_setup import SETTINGS
from tests.control.books.test_answerers import (
    LeaderWithAnswerer,
    Warnings,
    answering,
    by_process,
    count_guests,
    say_own_process,
)
from tests.wait import GIVE_UP_S, until

SILENCE_S = 5.0  # a process on a busy machine gets its turn more often than that


def by_watched_process(warnings: Warnings) -> Answerer:
    return ProcessAnswerer(SETTINGS, warnings.append, silence_s=SILENCE_S)


# -- questions; a process gets them by name ---------------------------------------------------------------------------


def wait_in_process(engine: Engine, seq: int, *, folder: str) -> None:
    """Leave a file named after the process that answers, and wait until there is a file ``gate``."""
    Path(folder, str(os.getpid())).touch()
    deadline = time.monotonic() + GIVE_UP_S
    while not Path(folder, "gate").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def compute_longer_than_the_limit(engine: Engine, seq: int) -> str:
    end = time.monotonic() + 2 * SILENCE_S
    while time.monotonic() < end:
        sum(range(1000))
    return "answered"


def hang(engine: Engine, seq: int) -> None:
    """Keep the interpreter for good, so that no other thread of the process runs."""
    re.match(r"(a+)+$", "a" * 100 + "b")


def return_function(engine: Engine, seq: int) -> Callable[[], int]:
    """Return what cannot be sent."""
    return lambda: seq


# -- helpers ----------------------------------------------------------------------------------------------------------


async def check_unavailable(*questions: Awaitable[object]) -> None:
    """Check that all questions end, each with a 503 that has a hint."""
    async with asyncio.timeout(GIVE_UP_S):
        found = await asyncio.gather(*questions, return_exceptions=True)
    assert all(isinstance(one, UnavailableError) and one.hint for one in found), found


async def find_process(asked: LeaderWithAnswerer) -> int:
    """Return the id of the process that answers; one that is being replaced is waited for."""

    async def look() -> int:
        with suppress(UnavailableError):
            return await asked.books.explain(say_own_process)
        return 0

    return await until(look)


def fill_descriptors() -> list[int]:
    """Use up all descriptors."""
    filled: list[int] = []
    with suppress(OSError):
        while True:
            filled.append(os.dup(0))
    return filled


@contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    """Leave so many descriptors, and check that they are all free again at the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    filled: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        filled = fill_descriptors()
        for _ in range(spare):
            os.close(filled.pop())
        yield
        again = fill_descriptors()
        filled += again
        assert len(again) == spare, "descriptors were lost"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in filled:
            os.close(descriptor)


# -- tests ------------------------------------------------------------------------------------------------------------


async def test_what_ifs_of_a_process_that_ended_do_not_count(database, tmp_path):
    """The last process was killed with nine what-ifs under way, and they kept out every later one."""

    async with answering(database, by_process) as asked:
        folder = tmp_path / "processes"
        folder.mkdir()
        question = partial(wait_in_process, folder=str(folder))
        under_way = [asyncio.ensure_future(asked.books.what_if(question)) for _ in range(1 + MAX_WAITING_WHAT_IFS)]
        killed: set[Path] = set()
        for _ in range(2):  # a question is asked a second time
            [begun] = await until(lambda: set(folder.iterdir()) - killed)
            killed.add(begun)
            os.kill(int(begun.name), signal.SIGKILL)
        await check_unavailable(*under_way)
        assert (await asked.books.what_if(count_guests))[0] == 0


async def test_process_that_is_stopped_is_replaced(database):
    async with answering(database, by_watched_process) as asked:
        stopped = await find_process(asked)
        os.kill(stopped, signal.SIGSTOP)
        explanations = [asked.books.explain(count_guests) for _ in range(2)]
        await check_unavailable(*explanations, asked.books.what_if(count_guests))
        assert [line for line in asked.warnings if "no sign of life" in line], asked.warnings
        assert await find_process(asked) != stopped
        with pytest.raises(ProcessLookupError):
            os.kill(stopped, 0)


async def test_process_that_hangs_is_replaced(database):
    async with answering(database, by_watched_process) as asked:
        hung = await find_process(asked)
        await check_unavailable(asked.books.what_if(hang))
        assert await find_process(asked) != hung


async def test_long_what_if_is_no_reason_to_replace_the_process(database):
    async with answering(database, by_watched_process) as asked:
        before = await find_process(asked)
        assert await asked.books.what_if(compute_longer_than_the_limit) == "answered"
        assert await find_process(asked) == before
        assert asked.warnings == []


async def test_answer_that_cannot_be_sent_is_an_error_of_that_question(database):
    """A what-if got no answer at all, and an explanation ended the process."""

    async with answering(database, by_process) as asked:
        before = await find_process(asked)
        for ask in (asked.books.what_if, asked.books.explain):
            with pytest.raises(InternalError):
                async with asyncio.timeout(GIVE_UP_S):
                    await ask(return_function)
        assert await find_process(asked) == before


@pytest.mark.parametrize("spare", [0, 2, 4], ids=["first pipe", "second pipe", "process"])
async def test_process_that_cannot_be_started_keeps_no_descriptors(database, spare):
    asked = LeaderWithAnswerer(database, by_process)
    await asked.setup.build(1)
    await asked.books.open()  # and no more: nothing else needs descriptors meanwhile
    try:
        with few_descriptors(spare):
            for _ in range(3):
                await check_unavailable(asked.books.explain(count_guests))
        assert (await asked.books.explain(count_guests))[0] == 0
    finally:
        await asked.books.close()
