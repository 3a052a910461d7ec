"""Joint works: many items cost what one does, and none of them feels the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from sqlalchemy import Connection

from hostler.control.store import Database
from hostler.control.store.errors import NameTakenError
from hostler.control.store.rows import documents
from hostler.errors import HostlerError, InternalError
from tests.control.store.test_writer import Gate, names, put


class Putting:
    """A joint work that writes settings, and refuses those of a certain name."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def work(self, connection: Connection, items: Sequence[str]) -> list[str | HostlerError]:
        self.calls.append(list(items))
        outcomes: list[str | HostlerError] = []
        for item in items:
            if item == "refused":
                outcomes.append(NameTakenError("it is taken", hint="take another"))
            else:
                put(item)(connection)
                outcomes.append(item.upper())
        return outcomes


async def written_together(database: Database, putting: Putting, *items: str) -> list[object]:
    """Let items wait for each other, and return what became of each."""
    gate = Gate(database)
    waiting = [asyncio.ensure_future(database.write_jointly(putting.work, item)) for item in items]
    await asyncio.sleep(0)
    await asyncio.to_thread(gate.open)
    return await asyncio.gather(*waiting, return_exceptions=True)


async def test_items_that_wait_are_written_by_one_call_and_one_commit(database: Database) -> None:
    putting, before = Putting(), database.commits
    assert await written_together(database, putting, "a", "b", "c") == ["A", "B", "C"]
    assert putting.calls == [["a", "b", "c"]]
    assert database.commits - before == 2  # the gate's, and theirs
    assert names(database) == ["a", "b", "c"]


async def test_a_refused_item_is_refused_alone(database: Database) -> None:
    putting = Putting()
    outcomes = await written_together(database, putting, "a", "refused", "b")
    assert (outcomes[0], outcomes[2]) == ("A", "B")
    assert isinstance(outcomes[1], NameTakenError)
    assert len(putting.calls) == 1
    assert names(database) == ["a", "b"]


async def test_failing_item_of_joint_work_fails_alone(database: Database) -> None:
    await database.write(put("twice"))
    putting = Putting()
    outcomes = await written_together(database, putting, "a", "twice", "b")
    assert (outcomes[0], outcomes[2]) == ("A", "B")
    assert isinstance(outcomes[1], NameTakenError)
    assert putting.calls == [["a", "twice", "b"], ["a"], ["twice"], ["b"]]
    assert names(database) == ["a", "b", "twice"]


async def test_a_refusal_of_the_first_try_is_not_kept_for_the_second(database: Database) -> None:
    """A failed job undoes all; jobs that were rejected meanwhile are tried again."""
    seen: list[int] = []

    def refuse_at_first(connection: Connection, items: Sequence[str]) -> list[str | HostlerError]:
        seen.append(len(items))
        put(items[0])(connection)
        return [NameTakenError("not yet", hint="again") if len(seen) == 1 else item for item in items]

    def breaks(connection: Connection) -> None:
        raise RuntimeError("broken")

    gate = Gate(database)
    refused = asyncio.ensure_future(database.write_jointly(refuse_at_first, "a"))
    broken = asyncio.ensure_future(database.write(breaks))
    await asyncio.sleep(0)
    await asyncio.to_thread(gate.open)
    assert await refused == "a"
    with pytest.raises(RuntimeError):
        await broken
    assert names(database) == ["a"]


def test_a_work_with_too_few_outcomes_writes_nothing(database: Database) -> None:
    def forgetful(connection: Connection, items: Sequence[str]) -> list[str | HostlerError]:
        put(items[0])(connection)
        return []

    with pytest.raises(InternalError, match="0 outcomes of 1 items"):
        asyncio.run(database.write_jointly(forgetful, "a"))
    assert names(database) == []


class Reading:
    """A joint work that reads settings by name, and waits in its first call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.may_go_on = threading.Event()

    def work(self, connection: Connection, items: Sequence[str]) -> list[str | HostlerError]:
        self.calls.append(list(items))
        if len(self.calls) == 1:
            assert self.may_go_on.wait(30)
        known = {row.name for row in documents.list_all(connection, "setting")}
        return [item if item in known else NameTakenError(f"no {item}", hint="look again") for item in items]


async def test_questions_that_come_while_one_is_answered_are_answered_together(database: Database) -> None:
    await database.write(put("a"))
    reading = Reading()
    asked = [asyncio.ensure_future(database.read_jointly(reading.work, "a"))]
    await asyncio.sleep(0)
    asked += [asyncio.ensure_future(database.read_jointly(reading.work, name)) for name in ("a", "none", "a")]
    await asyncio.sleep(0)
    gone = asyncio.ensure_future(database.read_jointly(reading.work, "of a caller who leaves"))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    reading.may_go_on.set()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [one for one in outcomes if isinstance(one, str)] == ["a", "a", "a"]
    assert isinstance(outcomes[2], NameTakenError)
    assert reading.calls == [["a"], ["a", "none", "a"]]
    assert await database.read_jointly(reading.work, "a") == "a"


async def test_broken_question_fails_for_all_who_asked(database: Database) -> None:
    breaks = [True]

    def work(connection: Connection, items: Sequence[str]) -> list[str | HostlerError]:
        if breaks.pop() if breaks else False:
            raise RuntimeError("broken")
        return list(items)

    with pytest.raises(RuntimeError):
        await database.read_jointly(work, "a")
    assert await database.read_jointly(work, "b") == "b"
