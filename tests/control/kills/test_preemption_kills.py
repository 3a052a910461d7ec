"""kill -9 of the service in the middle of a preemption, and a start from a checkpoint that was taken there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.control.store import Connection, log, open_database
from hostler.control.store.log import Checkpoint
from tests.control.databases import PATIENT
from tests.control.kills.eager_service import EAGER
from tests.control.kills.preemption import Preemption
from tests.control.kills.story import run_story
from tests.control.storms.eyes import Eyes
from tests.control.storms.hosts import fleet, size_of
from tests.control.storms.service import CALM, PROGRAM, Service
from tests.wait import until


async def kill_in_the_middle(service: Service, scene: Preemption) -> Checkpoint:
    """Let a preemption begin, a bystander leave and the service die; return the checkpoint from before it left.

    The engine that decides is one that never stopped: it has seen everything that it knows.
    """
    saved: list[Checkpoint] = []

    def is_saved() -> bool:
        with Eyes(service.url) as eyes:
            found, entries = eyes.checkpoint(), eyes.entries()
        if found is None or found.seq != entries[-1].seq:
            return False
        saved[:] = [found]
        return True

    await scene.begin()
    await until(is_saved, "a checkpoint in the middle")
    await scene.let_bystander_go()

    def has_stepped() -> bool:
        with Eyes(service.url) as eyes:
            return sum(entry.kind == "step" for entry in eyes.entries() if entry.seq > saved[0].seq) > 0

    await until(has_stepped, "steps behind the checkpoint")
    service.kill()
    return saved[0]


def keep_only(url: str, checkpoint: Checkpoint) -> None:
    """Leave the database as if no other checkpoint had been saved before the service died."""

    def work(connection: Connection) -> None:
        log.replace_checkpoints(connection, checkpoint)

    database = open_database(url, limits=PATIENT)
    database.submit(work).result(60)
    database.close()


async def story(service: Service) -> None:
    await service.start()
    async with fleet([service], ["host-0"], size_of(4)) as hosts:
        scene = Preemption(service, hosts)
        keep_only(service.url, await kill_in_the_middle(service, scene))
        service.program = PROGRAM
        await service.start()
        await service.ready(leads=True)
        await scene.until_under_way()
        scene.check_once()
        scene.may_end.set()
        await scene.until("urgent", lambda vm: vm["state"] == "running")
        await scene.until("victim", lambda vm: vm["state"] == "pending")
        scene.check_once()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_kill_in_a_preemption_restarts_from_the_middle(tmp_path: Path, request: pytest.FixtureRequest, kind: str):
    url = request.getfixturevalue("sqlite_url" if kind == "sqlite" else "postgres_url")
    service = Service(tmp_path, url, options=CALM, program=EAGER)
    run_story(story(service), [service])
    told = service.log.read_text()
    assert "cannot be used" not in told, told
    assert "cannot be followed" not in told, told
