"""``hostler serve`` started after PostgreSQL lost commits: it does not serve, says what to do, and does so after it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from hostler.cli.main import main
from tests.control.postgres import PostgresServer, nobody_connected
from tests.control.store.test_history import Standby
from tests.control.store.test_known_heads import known_seq
from tests.control.storms.service import CALM, ServiceProcess
from tests.wait import GIVE_UP_S, until


async def create_project(service: ServiceProcess, name: str) -> None:
    headers = {"Authorization": f"Bearer {service.key}"}
    async with httpx.AsyncClient(base_url=service.address, headers=headers, timeout=GIVE_UP_S) as client:
        (await client.post("/v1/projects", json={"name": name})).raise_for_status()


async def story(service: ServiceProcess, postgres: PostgresServer) -> None:
    folder = service.state / "hostler"
    await service.start()
    await service.ready(leads=True)
    service.stop()
    nobody_connected(service.url)
    before = known_seq(folder)
    standby = Standby(postgres, urlsplit(service.url).path.removeprefix("/"))
    await service.start()
    await create_project(service, "lost")
    await until(lambda: known_seq(folder) > before, "the file has the project", saw=lambda: known_seq(folder))
    service.kill()
    standby.promote()
    for _ in range(2):
        service.exec()
        await until(lambda: service.exit_code() is not None, "it ended", saw=service.log.read_text)
        assert service.exit_code() == 3, service.log.read_text()
        service.kill()
    said = service.log.read_text()
    assert said.count("error: the database lost changes that were committed: its log ends at entry ") == 2
    assert said.count("run 'hostler restore --in-place'") == 2
    nobody_connected(service.url)
    assert main(["restore", "--in-place", "--confirm-key", "all", "--database-url", service.url]) == 0
    await service.start()
    await service.ready(leads=True)
    await create_project(service, "lost")  # it is not there
    service.stop()


def test_serve_after_lost_commits_ends_until_it_is_restored(
    tmp_path: Path, postgres: PostgresServer, postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    service = ServiceProcess(tmp_path, postgres_url, options=CALM)
    name = urlsplit(postgres_url).path.removeprefix("/")
    try:
        asyncio.run(story(service, postgres))
    finally:
        service.kill()
        for left in (f"{name}_standby", f"{name}_former"):
            postgres.drop_database(left)
