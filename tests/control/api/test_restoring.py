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
from hostler.control.restoring import READERS
from hostler.control.store import Connection
from hostler.control.store.backup import backup, restore, restore_in_place
from hostler.control.store.errors import BackupError
from tests.control.api.house import House, fake_random, open_house

# What is damaged, and how that row is called; what is written there is JSON.
DAMAGES = {
    "a fact": ("log SET body = '{\"type\":\"Nonsense\"}' WHERE kind = 'fact'", r"entry \d+ of the log"),
    "a step": ("log SET body = '{\"now\":\"noon\"}' WHERE kind = 'step'", r"entry \d+ of the log"),
    "news": ("log SET body = '{\"vms\":7}' WHERE subject = 'news'", r"entry \d+ of the log"),
    "an event": ("log SET body = '{\"what\":7}' WHERE kind = 'note' AND subject <> 'news'", r"entry \d+ of the log"),
    "a project": ("projects SET body = '{\"labels\":[]}'", "project default"),
    "a spec": ("vms SET spec = '{\"cpu\":{}}'", "the spec of VM "),
    "a VM": ("vms SET status = '{\"id\":7}'", "the status of VM "),
    "a host": ('hosts SET body = \'{"size":"large"}\'', "host north"),
    "a key": ("api_keys SET body = '{\"scopes\":7}'", "API key "),
    "an operation": ("operations SET body = '{\"error\":7}'", "operation "),
    "a quota": ('quotas SET body = \'{"max":"all"}\'', "the quota of project default"),
    "a reservation": ("reservations SET body = '{\"name\":7}'", "reservation kept of project default"),
    "a gang": ('gangs SET body = \'{"min_count":"two"}\'', "gang crew of project default"),
    "the secret": ("settings SET body = '{\"secret\":7}' WHERE name = 'session-secret'", "setting session-secret"),
    "a time": ("settings SET body = '{\"reached_ns\":\"x\"}' WHERE name = 'history-time'", "setting history-time"),
    "who is heard": ("settings SET body = '{\"h\":\"x\"}' WHERE project = 'presence'", "setting replica"),
    "decision state": ("checkpoints SET body = x'80'", r"the checkpoint at \d+"),
    "its format": ("checkpoints SET format = 'another'", r"the checkpoint at \d+"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a backup of a service that has something of everything."""
    path = tmp_path_factory.mktemp("backup") / "saved.db"

    async def story() -> None:
        async with open_house() as house:
            await fill(house)
            await asyncio.to_thread(backup, f"sqlite:///{house.database.name}", path)

    asyncio.run(story())
    return path


async def fill(house: House) -> None:
    await house.add_hosts("north")
    asked = {
        "/v1/gangs": {"name": "crew", "min_count": 2},
        "/v1/quotas": {"project": "default", "max": {"cpu": "100"}},
        "/v1/reservations": {"name": "kept", "amounts": {"cpu": "1"}},
    }
    for path, body in asked.items():
        answer = await house.ask("POST", path, json=body)
        assert answer.status_code == 201, answer.text
    assert (await house.create("web")).status_code == 202
    await house.settle()
    await house.database.write(_settings)
    held = house.context.books.leadership.held
    assert held is not None
    await house.context.books._save_checkpoint(held)


def _settings(connection: Connection) -> None:
    signing_secret(connection, 1, fake_random)
    advance(connection, time.time_ns(), 0)
    publish(connection, "replica", {"north": 1}, 1)


def test_what_a_service_wrote_is_restored(saved, tmp_path):
    url = f"sqlite:///{tmp_path / 'target.db'}"
    assert restore(saved, url, readers=READERS).vms == 1
    assert restore_in_place(url, readers=READERS).vms == 1


@pytest.mark.parametrize(("change", "name"), DAMAGES.values(), ids=DAMAGES.keys())
def test_what_the_service_could_not_read_is_not_restored(saved, tmp_path, change, name):
    copy = tmp_path / "copy.db"
    shutil.copy(saved, copy)
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        assert connection.execute(f"UPDATE {change}").rowcount > 0
    with pytest.raises(BackupError, match=f"{name}.* cannot be read"):
        restore(copy, f"sqlite:///{tmp_path / 'target.db'}", readers=READERS)
    with pytest.raises(BackupError, match=f"{name}.* cannot be read"):
        restore_in_place(f"sqlite:///{copy}", readers=READERS)
    assert not (tmp_path / "target.db").exists()
