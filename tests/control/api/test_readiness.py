"""Who asks whether the service is ready may be anybody: the answer has no secrets, and the log has the cause."""

from __future__ import annotations

import asyncio

from hostler.control.api.requests.context import WriteProbe
from hostler.control.api.requests.problems import problem
from hostler.control.store import open_database
from hostler.control.store.errors import DatabaseFullError, DatabaseUnavailableError
from hostler.control.store.history.log import touch
from tests.control.api.service_in_process import open_service

WHERE = 'connection to server at "10.1.2.3", port 5432 failed: Connection refused'


async def test_a_database_that_is_gone_is_no_reason_to_say_where_it_was():
    async with open_service() as service:
        await service.database.aclose()
        answer = await service.as_key("", "GET", "/readyz")
        assert (answer.status_code, answer.json()["why"]) == (503, "the database does not answer")
        assert any("not ready: the database is closed" in line for line in service.said)


async def test_a_log_that_cannot_be_followed_is_shown_in_plain_words():
    async with open_service() as service:
        service.context.books.trouble = WHERE
        answer = await service.as_key("", "GET", "/readyz")
        assert answer.status_code == 503
        assert "cannot follow" in answer.json()["why"]
        assert "10.1.2.3" not in answer.text


async def test_a_service_whose_writes_fail_is_not_ready():
    async with open_service() as service:
        service.context.writes.trouble = "the disk of the database is full"
        answer = await service.as_key("", "GET", "/readyz")
        assert (answer.status_code, answer.json()["why"]) == (503, "the disk of the database is full")


def test_readiness_problem_hides_database_address_but_shows_full_disk():
    gone = bytes(problem(DatabaseUnavailableError(WHERE), path="/v1/vms", request_id="1").body)
    assert b"the database is unavailable" in gone
    assert b"10.1.2.3" not in gone
    full = problem(DatabaseFullError("the disk is full", hint="free room"), path="/v1/vms", request_id="1")
    assert full.status_code == 503
    assert b"the disk is full" in bytes(full.body)


async def test_the_probe_of_writes_tells_once_that_they_fail(tmp_path):
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


def test_the_probe_of_writes_needs_the_disk(tmp_path):
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")
    kept = tmp_path / "control.db-wal"
    database.submit(touch).result(30)
    before = kept.stat().st_size
    database.submit(touch).result(30)
    assert kept.stat().st_size > before
    database.close()
