"""Answers to questions, the same by threads of the service and by a process of its own."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from hostler.control.books.answers.answerers import MAX_WAITING_WHAT_IFS, Answerer, ThreadAnswerer
from hostler.control.books.answers.process import ProcessAnswerer
from hostler.control.books.books import Books
from hostler.control.store import Database
from hostler.control.store.errors import NotFoundError
from hostler.engine import Engine
from hostler.errors import InternalError, UnavailableError
from tests.control.books.answer_fixtures import questions_of_tests, url  # noqa: F401 - fixtures
from tests.control.books.replica_setup import SETTINGS, BooksReplica, ReplicaSetup, all_placed, at_rest
from tests.wait import GIVE_UP_S, until

Warnings = list[str]


def by_process(warnings: Warnings) -> Answerer:
    return ProcessAnswerer(SETTINGS, warnings.append)


ANSWERERS: dict[str, Callable[[Warnings], Answerer]] = {"thread": lambda _: ThreadAnswerer(), "process": by_process}
answerers = pytest.mark.parametrize("make", ANSWERERS.values(), ids=ANSWERERS)


# -- questions; a process gets them by name ---------------------------------------------------------------------------


def count_guests(engine: Engine, seq: int) -> tuple[int, int]:
    return sum(1 for _ in engine.guests()), seq


def write_checkpoint(engine: Engine, seq: int) -> bytes:
    return engine.checkpoint()


def wait_for(engine: Engine, seq: int, *, path: str) -> int:
    """Say that it has begun, and wait until it may end."""
    Path(f"{path}.begun").touch()
    deadline = time.monotonic() + GIVE_UP_S
    while not Path(path).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return seq


def find_nothing(engine: Engine, seq: int) -> None:
    raise NotFoundError("there is no such VM", hint="look at the list")


def divide_by_zero(engine: Engine, seq: int) -> float:
    return seq / 0


def kill_process(engine: Engine, seq: int, *, path: str) -> str:
    """End the process that answers, the first time."""
    if Path(path).exists():
        return "answered"
    Path(path).touch()
    os.kill(os.getpid(), signal.SIGKILL)
    return "not reached"


def say_own_process(engine: Engine, seq: int) -> int:
    return os.getpid()


# -- a replica around an answerer -------------------------------------------------------------------------------------


class LeaderWithAnswerer:
    """A replica that leads, with its answerer."""

    def __init__(self, database: Database, make: Callable[[Warnings], Answerer]) -> None:
        self.setup = ReplicaSetup(database)
        self.warnings: Warnings = []
        self.answerer = make(self.warnings)
        self.books = Books(database, SETTINGS, self.answerer, replica="a", clock=self.setup.clock)
        self.replica = BooksReplica(self.books)


@asynccontextmanager
async def answering(database: Database, make: Callable[[Warnings], Answerer]) -> AsyncIterator[LeaderWithAnswerer]:
    """Yield a leader whose questions this kind of answerer answers."""
    asked = LeaderWithAnswerer(database, make)
    await asked.setup.build(3)
    await asked.replica.start()
    try:
        yield asked
    finally:
        await asked.replica.stop()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """Open at the end, so that no question waits for a test that failed."""
    path = tmp_path / "gate"
    yield path
    path.touch()


@answerers
async def test_question_sees_every_entry_that_was_read_before(database, make):
    async with answering(database, make) as asked:
        for number in range(1, 5):
            await asked.setup.create(f"vm-{number}")
            await until(lambda: asked.books.tried_at(f"vm-{number}") > 0)  # noqa: B023 - awaited here
            known = asked.books.seq
            guests, seq = await asked.books.explain(count_guests)
            assert guests == number
            assert seq >= known


@answerers
async def test_twin_is_bit_for_bit_that_of_the_engine(database, make):
    """Also after steps that the answerer repeats, and with a VM that finds no room."""

    async with answering(database, make) as asked:
        await asked.books.explain(count_guests)  # so that a process follows from here on
        for number in range(6):
            await asked.setup.create(f"vm-{number}", cpu=1 + number % 3)
        await asked.setup.create("large", cpu=100)
        await all_placed(asked.setup, *(f"vm-{number}" for number in range(6)))
        await at_rest(asked.setup, asked.books)
        checkpoint = await asked.books.what_if(write_checkpoint)
        assert checkpoint == (await asked.books.ask(lambda engine: engine.checkpoint()))[0]
        assert asked.warnings == []


@answerers
async def test_explanation_does_not_wait_for_a_what_if(database, make, gate):
    async with answering(database, make) as asked:
        slow = asyncio.ensure_future(asked.books.what_if(partial(wait_for, path=str(gate))))
        await until(Path(f"{gate}.begun").exists)
        await asked.setup.create("web")
        await all_placed(asked.setup, "web")
        guests, seq = await asked.books.explain(count_guests)
        assert guests == 1
        gate.touch()
        assert await slow < seq  # its twin is as the engine was when it was asked


@answerers
async def test_few_what_ifs_wait_and_one_more_is_rejected(database, make, gate):
    async with answering(database, make) as asked:
        question = partial(wait_for, path=str(gate))
        first = asyncio.ensure_future(asked.books.what_if(question))
        await until(Path(f"{gate}.begun").exists)
        waiting = [asyncio.ensure_future(asked.books.what_if(question)) for _ in range(MAX_WAITING_WHAT_IFS)]
        await asyncio.sleep(0.1)  # until all of them have come so far as to wait
        with pytest.raises(UnavailableError) as rejected:
            async with asyncio.timeout(GIVE_UP_S):
                await asked.books.what_if(question)
        assert rejected.value.hint
        gate.touch()
        assert len(await asyncio.gather(first, *waiting)) == 1 + MAX_WAITING_WHAT_IFS
        await asked.books.what_if(question)


@answerers
async def test_error_of_a_question_keeps_its_kind_and_hint(database, make):
    async with answering(database, make) as asked:
        with pytest.raises(NotFoundError) as raised:
            await asked.books.explain(find_nothing)
        assert (raised.value.message, raised.value.hint) == ("there is no such VM", "look at the list")
        with pytest.raises((ZeroDivisionError, InternalError)):
            await asked.books.what_if(divide_by_zero)
        assert (await asked.books.explain(count_guests))[0] == 0


@answerers
async def test_question_that_waits_when_the_service_stops_is_reported_so(database, make, gate):
    asked = LeaderWithAnswerer(database, make)
    await asked.setup.build(1)
    await asked.books.open()
    question = partial(wait_for, path=str(gate))
    first = asyncio.ensure_future(asked.books.what_if(question))
    await until(Path(f"{gate}.begun").exists)
    second = asyncio.ensure_future(asked.books.what_if(question))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(asked.books.close())
    await asyncio.sleep(0.1)
    gate.touch()
    await closing
    await asyncio.gather(first, return_exceptions=True)
    with pytest.raises(UnavailableError):
        await second
    with pytest.raises(UnavailableError):
        await asked.books.explain(count_guests)


# -- the process ------------------------------------------------------------------------------------------------------


async def test_process_is_another_one_and_ends_with_the_service(database):
    async with answering(database, by_process) as asked:
        found = [await asked.books.explain(say_own_process) for _ in range(2)]
    assert found[0] == found[1] != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(found[0], 0)


async def test_question_that_kills_its_process_is_asked_again(database, tmp_path):
    async with answering(database, by_process) as asked:
        question = partial(kill_process, path=str(tmp_path / "killed"))
        assert await asked.books.what_if(question) == "answered"
        assert any("exit code -9" in line for line in asked.warnings), asked.warnings


async def test_process_that_was_killed_follows_again(database):
    async with answering(database, by_process) as asked:
        os.kill(await asked.books.explain(say_own_process), signal.SIGKILL)
        await asked.setup.create("web")
        await all_placed(asked.setup, "web")
        assert (await asked.books.explain(count_guests))[0] == 1


async def test_process_that_missed_entries_begins_again(database):
    async with answering(database, by_process) as asked:
        await asked.books.explain(count_guests)
        await asked.setup.create("web")
        await all_placed(asked.setup, "web")
        entry = (await asked.setup.entries())[-1]
        asked.answerer.read([msgspec.structs.replace(entry, seq=entry.seq + 5)])
        assert (await asked.books.explain(count_guests))[0] == 1
        assert any("begins again" in line for line in asked.warnings), asked.warnings


async def test_engine_that_is_read_again_is_the_one_that_answers(database):
    async with answering(database, by_process) as asked:
        await asked.books.explain(count_guests)
        await asked.setup.create("web")
        await all_placed(asked.setup, "web")
        await at_rest(asked.setup, asked.books)
        await asked.books._rebuild()
        assert (await asked.books.explain(count_guests))[0] == 1
        assert asked.warnings == []


async def test_question_that_cannot_be_sent_fails_alone(database):
    async with answering(database, by_process) as asked:
        with pytest.raises((pickle.PicklingError, AttributeError)):
            await asked.books.explain(lambda engine, seq: seq)
        assert (await asked.books.explain(count_guests))[0] == 0
