"""The log lines about decisions: what they say, who writes them, and how many there may be."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest

from hostler.control.books.books import Books
from hostler.control.books.decision_log import DecisionLine, DecisionLog
from hostler.telemetry.log import Log
from tests.control.books.replica_setup import (
    SETTINGS,
    BooksReplica,
    FaultyDatabase,
    ReplicaSetup,
    all_placed,
    at_rest,
    deposed,
)
from tests.wait import until


class LoggedLines:
    """JSON log lines of one replica, at a time that the test sets."""

    def __init__(self, most: int = 1000) -> None:
        self.at = 1_800_014_400_000_000_000
        self.text: list[str] = []
        self.decisions = DecisionLog(Log(self.text.append, form="json", now=lambda: self.at), most)

    def about(self, message: str) -> list[dict[str, object]]:
        return [line for line in map(json.loads, self.text) if line["message"] == message]

    def __iter__(self) -> Iterator[dict[str, object]]:
        return map(json.loads, self.text)


def replica(setup: ReplicaSetup, name: str, lines: LoggedLines, database=None, **settings) -> Books:
    return Books(
        database or setup.database,
        msgspec.structs.replace(SETTINGS, **settings),
        replica=name,
        clock=setup.clock,
        tell=setup.said.append,
        decisions=lines.decisions,
    )


async def test_decision_log_says_where_each_vm_was_placed_and_why(database):
    setup, lines = ReplicaSetup(database), LoggedLines()
    await setup.build(3)
    books = await BooksReplica(replica(setup, "a", lines)).start()
    await setup.create("web", cpu=2, memory="4Gi")
    await all_placed(setup, "web")
    [home] = (await setup.where("web")).values()
    await until(lambda: lines.about("VM placed"))
    [line] = lines.about("VM placed")
    score = line.pop("score")
    assert isinstance(score, float)
    assert {key: line[key] for key in line if key != "time"} == {
        "level": "info",
        "message": "VM placed",
        "vm": "default/web",
        "id": "web",
        "strategy": "least_loaded",
        "host": home,
        "candidates": 3,
        "hosts": 3,
        "attempt": 1,
    }
    await books.stop()


async def test_decision_log_gives_the_reason_of_a_vm_without_host(database):
    setup, lines = ReplicaSetup(database), LoggedLines()
    await setup.build(2)
    books = await BooksReplica(replica(setup, "a", lines)).start()
    await setup.create("huge", cpu=64, strategy="best_fit")
    [line] = await until(lambda: lines.about("VM not placed"))
    assert (line["vm"], line["strategy"], line["candidates"], line["hosts"]) == ("default/huge", "best_fit", 0, 2)
    assert line["why"] == (await setup.vm("huge")).why
    assert "cpu" in str(line["why"])
    assert "host" not in line
    await books.stop()


async def test_decision_log_names_the_vm_that_makes_room(database):
    setup, lines = ReplicaSetup(database), LoggedLines()
    await setup.build(1)
    books = await BooksReplica(replica(setup, "a", lines)).start()
    await setup.create("low", cpu=8)
    await all_placed(setup, "low")
    await setup.create("high", cpu=8, priority=10)
    [line] = await until(lambda: lines.about("VM evicted"))
    assert (line["vm"], line["host"]) == ("default/low", "host-0")
    assert "makes room for high" in str(line["why"])
    await books.stop()


async def test_decision_log_is_written_by_the_leader_only(database):
    setup, led, followed = ReplicaSetup(database), LoggedLines(), LoggedLines()
    await setup.build(2)
    leader = await BooksReplica(replica(setup, "a", led)).start()
    await until(lambda: leader.books.is_leader)
    follower = await BooksReplica(replica(setup, "b", followed)).start()
    names = [f"vm-{number}" for number in range(5)]
    for name in names:
        await setup.create(name)
    await all_placed(setup, *names)
    await at_rest(setup, leader.books, follower.books)
    assert sorted(str(line["id"]) for line in led.about("VM placed")) == names
    assert list(followed) == []
    await follower.stop()
    await leader.stop()


async def test_decision_that_was_not_written_is_not_logged(database):
    """A deposed leader decides once more, and the transaction of that step fails."""
    setup, lines = ReplicaSetup(database), LoggedLines()
    await setup.build(2)
    faulty = FaultyDatabase(database)
    books = await BooksReplica(replica(setup, "a", lines, faulty)).start()
    await until(lambda: books.books.is_leader)
    faulty.script.append(("before", deposed()))
    await setup.create("web")
    await all_placed(setup, "web")
    assert faulty.played == 1
    await until(lambda: lines.about("VM placed"))
    assert len(lines.about("VM placed")) == 1
    await books.stop()


async def test_decision_log_counts_the_lines_beyond_its_bound(database):
    setup, lines = ReplicaSetup(database), LoggedLines(most=3)
    await setup.build(4)
    names = [f"vm-{number}" for number in range(8)]
    for name in names:
        await setup.create(name)
    await setup.create("huge", cpu=64)
    books = await BooksReplica(replica(setup, "a", lines)).start()
    await all_placed(setup, *names)
    await until(lambda: lines.about("VM not placed"))
    assert len(lines.about("VM placed")) == 3
    lines.at += 11_000_000_000
    [left_out] = await until(lambda: [line for line in lines if "left out" in str(line["message"])])
    assert (left_out["message"], left_out["lines"]) == ("VM placed: so many more lines were left out", 5)
    await books.stop()


async def test_decision_log_can_be_switched_off(database):
    setup, lines = ReplicaSetup(database), LoggedLines(most=0)
    await setup.build(1)
    books = await BooksReplica(replica(setup, "a", lines)).start()
    await setup.create("web")
    await all_placed(setup, "web")
    await books.stop()
    assert list(lines) == []


@pytest.mark.parametrize("strategy", ["round_robin", "random", "first_fit"])
async def test_decision_log_has_no_score_if_the_strategy_gives_none(database, strategy):
    setup, lines = ReplicaSetup(database), LoggedLines()
    await setup.build(2)
    books = await BooksReplica(replica(setup, "a", lines, strategy=strategy)).start()
    await setup.create("web")
    [line] = await until(lambda: lines.about("VM placed"))
    assert line["strategy"] == strategy
    assert "score" not in line
    await books.stop()


def test_omitted_decisions_are_reported_when_their_window_is_over():
    lines = LoggedLines(most=1)
    for _ in range(4):
        lines.decisions.write([DecisionLine("VM placed", {"vm": "default/web"})])
    lines.at += 11_000_000_000
    lines.decisions.report_omissions()
    assert [line.get("lines") for line in lines] == [None, 3]
