"""kill -9 of the service in the middle of a preemption, and a start from a checkpoint that was taken there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.control.store import Connection, open_database
from hostler.control.store.history import log
from hostler.control.store.history.log import StoredCheckpoint
from tests.control.databases import PATIENT
from tests.control.kills.eager_service import EAGER
from tests.control.kills.preemption import Preemption
from tests.control.kills.story import run_story
from tests.control.storms.database_audit import DatabaseReader
from tests.control.storms.hosts import fleet, size_of
from tests.control.storms.service import CALM, PROGRAM, ServiceProcess
from tests.wait import until

pytestmark = pytest.mark.early


async def kill_in_the_middle(service: ServiceProcess, scenario: Preemption) -> StoredCheckpoint:
    """Let a preemption begin, a bystander leave and the service die; return the checkpoint from before it left.

    The engine that decides is one that never stopped: it has seen everything that it knows.
    """
    saved: list[StoredCheckpoint] = []

    def is_saved() -> bool:
        with DatabaseReader(service.url) as reader:
            found, entries = reader.checkpoint(), reader.entries()
        if found is None or found.seq != entries[-1].seq:
            return False
        saved[:] = [found]
        return True

    await scenario.begin()
    await until(is_saved, "a checkpoint in the middle")
    await scenario.let_bystander_go()

    def has_stepped() -> bool:
        with DatabaseReader(service.url) as reader:
            return sum(entry.kind == "step" for entry in reader.entries() if entry.seq > saved[0].seq) > 0

    await until(has_stepped, "steps behind the checkpoint")
    service.kill()
    return saved[0]


def keep_only(url: str, checkpoint: StoredCheckpoint) -> None:
    """Leave the database as if no other checkpoint had been saved before the service died."""

    def work(connection: Connection) -> None:
        log.replace_checkpoints(connection, checkpoint)

    database = open_database(url, limits=PATIENT)
    database.submit(work).result(60)
    database.close()


async def story(service: ServiceProcess) -> None:
    await service.start()
    async with fleet([service], ["host-0"], size_of(4)) as hosts:
        scenario = Preemption(service, hosts)
        keep_only(service.url, await kill_in_the_middle(service, scenario))
        service.program = PROGRAM
        await service.start()
        await service.ready(leads=True)
        await scenario.until_under_way()
        scenario.check_once()
        scenario.may_end.set()
        await scenario.until("urgent", lambda vm: vm["state"] == "running")
        await scenario.until("victim", lambda vm: vm["state"] == "pending")
        scenario.check_once()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_kill_in_a_preemption_restarts_from_the_middle(tmp_path: Path, request: pytest.FixtureRequest, kind: str):
    url = request.getfixturevalue("sqlite_url" if kind == "sqlite" else "postgres_url")
    service = ServiceProcess(tmp_path, url, options=CALM, program=EAGER)
    run_story(story(service), [service])
    told = service.log.read_text()
    assert "cannot be used" not in told, told
    assert "cannot be followed" not in told, told
