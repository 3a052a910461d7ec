"""A restore reads rows as the service would: what is whole JSON, and nothing that the service knows, is refused."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from hostler.control.access.sessions import signing_secret
from hostler.control.fleet.history_time import advance
from hostler.control.fleet.presence import publish
from hostler.control.restore import READERS
from hostler.control.store import Connection
from hostler.control.store.backup.backup import backup, restore, restore_in_place
from hostler.control.store.errors import BackupError
from tests.control.api.service_in_process import InProcessService, fake_random, open_service

ENTRY = r"entry \d+ of the log"
# By what is damaged: the column with its rows, what is written there, and how the error calls that row.
DAMAGES: dict[str, tuple[str, str, bytes | str, str]] = {
    "a fact": ("log.body", "kind = 'fact'", b'{"type":"Nonsense"}', ENTRY),
    "a step": ("log.body", "kind = 'step'", b'{"now":"noon"}', ENTRY),
    "news": ("log.body", "subject = 'news'", b'{"vms":7}', ENTRY),
    "an event": ("log.body", "kind = 'note' AND subject <> 'news'", b'{"what":7}', ENTRY),
    "a project": ("projects.body", "true", b'{"labels":[]}', "project default"),
    "a VM": ("vms.status", "true", b'{"id":7}', "the status of VM "),
    "a host": ("hosts.body", "true", b'{"size":"large"}', "host north"),
    "a key": ("api_keys.body", "true", b'{"scopes":7}', "API key "),
    "an operation": ("operations.body", "true", b'{"error":7}', "operation "),
    "a quota": ("quotas.body", "true", b'{"max":"all"}', "the quota of project default"),
    "a reservation": ("reservations.body", "true", b'{"name":7}', "reservation kept of project default"),
    "a gang": ("gangs.body", "true", b'{"min_count":"two"}', "gang crew of project default"),
    "the secret": ("settings.body", "name = 'session-secret'", b'{"secret":7}', "setting session-secret"),
    "a time": ("settings.body", "name = 'history-time'", b'{"reached_ns":"x"}', "setting history-time"),
    "who is heard": ("settings.body", "project = 'presence'", b'{"h":"x"}', "setting replica"),
    "decision state": ("checkpoints.body", "true", b"\x80", r"the checkpoint at \d+"),
    "its format": ("checkpoints.format", "true", "another", r"the checkpoint at \d+"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a backup of a service that has something of everything."""
    path = tmp_path_factory.mktemp("backup") / "saved.db"

    async def story() -> None:
        async with open_service() as service:
            await fill(service)
            await asyncio.to_thread(backup, f"sqlite:///{service.database.name}", path)

    asyncio.run(story())
    return path


async def fill(service: InProcessService) -> None:
    await service.add_hosts("north")
    asked = {
        "/v1/gangs": {"name": "crew", "min_count": 2},
        "/v1/quotas": {"project": "default", "max": {"cpu": "100"}},
        "/v1/reservations": {"name": "kept", "amounts": {"cpu": "1"}},
    }
    for path, body in asked.items():
        answer = await service.ask("POST", path, json=body)
        assert answer.status_code == 201, answer.text
    assert (await service.create("web")).status_code == 202
    await service.settle()
    await service.database.write(_settings)
    held = service.context.books.leadership.held
    assert held is not None
    await service.context.books._save_checkpoint(held)


def _settings(connection: Connection) -> None:
    signing_secret(connection, 1, fake_random)
    advance(connection, time.time_ns(), 0)
    publish(connection, "replica", {"north": 1}, 1)


def test_what_a_service_wrote_is_restored(saved, tmp_path):
    url = f"sqlite:///{tmp_path / 'target.db'}"
    assert restore(saved, url, readers=READERS).vms == 1
    assert restore_in_place(url, readers=READERS).vms == 1


@pytest.mark.parametrize(("place", "rows", "value", "name"), DAMAGES.values(), ids=DAMAGES.keys())
def test_unreadable_row_is_not_restored(saved, tmp_path, place, rows, value, name):
    copy = tmp_path / "copy.db"
    shutil.copy(saved, copy)
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        table, column = place.split(".")
        assert connection.execute(f"UPDATE {table} SET {column} = ? WHERE {rows}", (value,)).rowcount > 0
    with pytest.raises(BackupError, match=f"{name}.* cannot be read"):
        restore(copy, f"sqlite:///{tmp_path / 'target.db'}", readers=READERS)
    with pytest.raises(BackupError, match=f"{name}.* cannot be read"):
        restore_in_place(f"sqlite:///{copy}", readers=READERS)
    assert not (tmp_path / "target.db").exists()
