"""Journals, databases and configuration files of earlier versions are read, with the results of then."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cli_in_process import hostler
from tests.control.postgres import PostgresServer
from tests.control.storms.service import CALM, ServiceProcess
from tests.formats.record import client_of, contents_of, unpack

DATA = Path(__file__).parent / "data"
VERSIONS = sorted(path.name for path in DATA.iterdir() if path.is_dir())
JOURNALS = [path for name in VERSIONS for path in sorted((DATA / name).glob("*.journal.gz"))]

# The data grows old: what happened then must not be forgotten because a year has passed.
OPTIONS = (*CALM, "--keep-events", "876000h", "--keep-operations", "876000h")

every_version = pytest.mark.parametrize("folder", [DATA / name for name in VERSIONS], ids=VERSIONS)


def named(path: Path) -> str:
    return str(path.relative_to(DATA))


@pytest.mark.parametrize("path", JOURNALS, ids=named)
def test_recorded_journal_replays_identically(path, tmp_path):
    file = unpack(path, tmp_path / "run.journal")
    result = hostler("journal", "replay", file, "-o", "json")
    assert result.code == 0, result.err
    assert result.json["identical"] is True
    assert result.json["decisions"] > 0


async def served(service: ServiceProcess, key: str) -> dict[str, Any]:
    """Return what a service says about everything once it decides."""
    await service.start()
    try:
        await service.ready(leads=True)
        async with client_of(service, key) as client:
            return await contents_of(client)
    finally:
        service.stop()


def expected_of(folder: Path, name: str) -> tuple[str, dict[str, Any]]:
    recorded = json.loads((folder / f"{name}.json").read_text())
    return recorded["key"], recorded["contents"]


@every_version
def test_recorded_sqlite_database_is_served_as_it_was(folder, tmp_path):
    """Its service was killed: the write-ahead log has what was committed last, and the engine follows the log."""
    for name in ("control.db", "control.db-wal"):
        unpack(folder / f"{name}.gz", tmp_path / name)
    key, contents = expected_of(folder, "sqlite")
    service = ServiceProcess(tmp_path, f"sqlite:///{tmp_path / 'control.db'}", options=OPTIONS)
    assert without_texts(asyncio.run(served(service, key))) == without_texts(contents)
    assert "cannot be used" not in service.log.read_text()


@every_version
def test_recorded_backup_of_postgresql_is_restored(folder, tmp_path, postgres: PostgresServer):
    """A restore changes what must change: keys wait to be confirmed, hosts to register, operations of then are over."""
    url = postgres.address(postgres.new_database())
    result = hostler("restore", folder / "postgresql.backup", "--database-url", url, "--confirm-key", "all")
    assert result.code == 0, result.err
    key, contents = expected_of(folder, "postgresql")
    found = asyncio.run(served(ServiceProcess(tmp_path, url, options=OPTIONS), key))
    for page in ("projects", "gangs", "quotas", "reservations"):
        assert without_texts(found[page]) == without_texts(contents[page]), page
    for page, fields in (
        ("vms", ("id", "name", "project", "spec", "host")),
        ("hosts", ("id", "name", "labels", "size")),
    ):
        assert chosen(found[page], fields) == chosen(contents[page], fields), page


def without_texts(value: Any) -> Any:
    """Return an answer without what people read: its wording is no format."""
    if isinstance(value, dict):
        return {key: without_texts(inner) for key, inner in value.items() if key not in ("message", "note")}
    return [without_texts(inner) for inner in value] if isinstance(value, list) else value


def chosen(items: list[dict[str, Any]], fields: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{name: item[name] for name in fields} for item in items]


@every_version
def test_recorded_configurations_are_valid(folder):
    result = hostler("config", "validate", *sorted((folder / "configuration").iterdir()))
    assert result.code == 0, result.err
