"""``hostler rebuild``: an engine from rows, in the middle of a preemption, when no checkpoint and no log is of use."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from hostler.cli.main import main
from hostler.control.engine_rebuild import LOST
from hostler.control.store import Connection, open_database
from hostler.control.store.history import lease, log
from tests.control.databases import PATIENT
from tests.control.kills.preemption import Preemption
from tests.control.storms.database_audit import DatabaseReader
from tests.control.storms.hosts import fleet, size_of
from tests.control.storms.service import CALM, ServiceProcess
from tests.wait import until

pytestmark = pytest.mark.early


def spoil(url: str) -> None:
    """Leave nothing to begin with: checkpoints that cannot be read, and a log without its beginning."""

    def work(connection: Connection) -> None:
        head = log.head(connection)
        for seq in (head - 1, head):
            log.save_checkpoint(
                connection, log.StoredCheckpoint(seq=seq, at_ns=1, format="hostler-engine-1", body=b"x")
            )
        log.forget_before(connection, head + 1)

    database = open_database(url, limits=PATIENT)
    database.submit(work).result(60)
    database.close()


async def story(service: ServiceProcess, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    await service.start()
    async with fleet([service], ["host-0"], size_of(4)) as hosts:
        scenario = Preemption(service, hosts)
        await scenario.begin()
        service.kill()
        spoil(service.url)
        service.exec()

        async def is_stuck() -> bool:
            return "the log cannot be followed" in service.log.read_text()

        await until(is_stuck, "it cannot follow the log", saw=service.log.read_text)
        await scenario.until("victim", lambda vm: vm["state"] == "stopping")  # users read
        explained = await scenario.decision("victim")  # which has a place, so "not decided" would be wrong
        assert (explained.status_code, "cannot follow the log" in explained.text) == (503, True), explained.text
        await scenario.create("late", priority=50)  # and write
        await scenario.until("late", lambda vm: vm["state"] == "pending")
        assert service.exit_code() is None
        if not service.url.startswith("postgresql"):
            assert main(words) == 4
            assert "stop the service first" in capsys.readouterr().err
        service.stop()
        assert main(words) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["hosts"], report["vms_with_room"], report["vms_waiting"]) == (1, 2, 2)
        assert report["lost"] == list(LOST)
        await service.start()
        await service.ready(leads=True)
        await scenario.until("bystander", lambda vm: vm["state"] == "running")
        await scenario.until("late", lambda vm: vm["state"] == "running")
        await scenario.until_under_way()
        scenario.check_once()
        scenario.may_end.set()
        await scenario.until("urgent", lambda vm: vm["state"] == "running")
        await scenario.until("victim", lambda vm: vm["state"] == "pending")
        scenario.check_once()
    service.stop()
    with DatabaseReader(service.url) as reader:
        assert any(entry.subject == "engine.rebuilt" for entry in reader.entries())
    await service.start()  # from the checkpoint that it saved since
    await service.ready(leads=True)
    service.stop()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_rebuilt_engine_leaves_vms_and_decides_the_rest(tmp_path: Path, request: pytest.FixtureRequest, kind, capsys):
    url = request.getfixturevalue("sqlite_url" if kind == "sqlite" else "postgres_url")
    service = ServiceProcess(tmp_path, url, options=CALM)
    words = ["rebuild", "--yes", "--database-url", url, "-o", "json"]
    try:
        asyncio.run(story(service, words, capsys))
    finally:
        service.kill()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_rebuild_waits_for_the_lease_of_a_dead_leader(request: pytest.FixtureRequest, kind, capsys):
    """Of a file the leader is known to be dead, since one process has it at a time: its lease is not waited for."""
    url = request.getfixturevalue("sqlite_url" if kind == "sqlite" else "postgres_url")
    database = open_database(url, limits=PATIENT)
    ttl_s = 3600.0 if kind == "sqlite" else 5.0
    database.submit(lambda connection: lease.take(connection, "killed", ttl_s)).result(60)
    database.close()
    assert main(["rebuild", "--yes", "--database-url", url]) == 0
    waits = "note: killed leads or ended without notice; its lease lasts "
    assert (waits in capsys.readouterr().err) == (kind == "postgresql")


def test_rebuild_is_rejected_as_soon_as_a_lease_is_renewed(postgres_url, capsys):
    database = open_database(postgres_url, limits=PATIENT)
    held = database.submit(lambda connection: lease.take(connection, "alive", 40.0)).result(60)
    assert held is not None
    stopping = threading.Event()

    def renew() -> None:
        while not stopping.wait(0.05):
            database.submit(lambda connection: lease.renew(connection, held)).result(60)

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        assert main(["rebuild", "--yes", "--database-url", postgres_url]) == 4
    finally:
        stopping.set()
        renewing.join()
        database.close()
    said = capsys.readouterr().err
    assert "in use: alive leads, and renews its lease" in said
    assert "stop the service first" in said
