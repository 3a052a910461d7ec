"""Who asks whether the service is ready may be anybody: the answer has no secrets, and the log has the cause."""

from __future__ import annotations

import asyncio

from hostler.control.api.probing import WriteProbe
from hostler.control.api.problems import problem
from hostler.control.store import open_database
from hostler.control.store.errors import DatabaseFullError, DatabaseUnavailableError
from hostler.control.store.touching import touch
from tests.control.api.house import open_house

WHERE = 'connection to server at "10.1.2.3", port 5432 failed: Connection refused'


def test_a_database_that_is_gone_is_no_reason_to_say_where_it_was():
    async def story() -> None:
        async with open_house() as house:
            await house.database.aclose()
            answer = await house.as_key("", "GET", "/readyz")
            assert (answer.status_code, answer.json()["why"]) == (503, "the database does not answer")
            assert any("not ready: the database is closed" in line for line in house.said)

    asyncio.run(story())


def test_a_log_that_cannot_be_followed_is_told_in_plain_words():
    async def story() -> None:
        async with open_house() as house:
            house.context.books.trouble = WHERE
            answer = await house.as_key("", "GET", "/readyz")
            assert answer.status_code == 503
            assert "cannot follow" in answer.json()["why"]
            assert "10.1.2.3" not in answer.text

    asyncio.run(story())


def test_a_service_whose_writes_fail_is_not_ready():
    async def story() -> None:
        async with open_house() as house:
            house.context.writes.trouble = "the disk of the database is full"
            answer = await house.as_key("", "GET", "/readyz")
            assert (answer.status_code, answer.json()["why"]) == (503, "the disk of the database is full")

    asyncio.run(story())


def test_problems_do_not_say_where_the_database_is_but_do_say_that_its_disk_is_full():
    gone = bytes(problem(DatabaseUnavailableError(WHERE), path="/v1/vms", request_id="1").body)
    assert b"the database cannot do it now" in gone
    assert b"10.1.2.3" not in gone
    full = problem(DatabaseFullError("the disk is full", hint="free room"), path="/v1/vms", request_id="1")
    assert full.status_code == 503
    assert b"the disk is full" in bytes(full.body)


def test_the_probe_of_writes_tells_once_that_they_fail(tmp_path):
    async def story() -> None:
        database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
        await database.aclose()
        said: list[str] = []
        probe, stopping = WriteProbe(), asyncio.Event()
        running = asyncio.ensure_future(probe.run(database, stopping, said.append))
        async with asyncio.timeout(60):
            while not probe.trouble:
                await asyncio.sleep(0.01)
        stopping.set()
        await running
        assert probe.trouble == "the database takes no changes"
        assert [line.partition(":")[0] for line in said] == ["writes to the database fail"]

    asyncio.run(story())


def test_the_probe_of_writes_needs_the_disk(tmp_path):
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    kept = tmp_path / "control.db-wal"
    database.submit(touch).result(30)
    before = kept.stat().st_size
    database.submit(touch).result(30)
    assert kept.stat().st_size > before
    database.close()
