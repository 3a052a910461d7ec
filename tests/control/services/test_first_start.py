"""The first start: one project and one key, once."""

from __future__ import annotations

from pathlib import Path

from hostler.control.access import keys
from hostler.control.services import first_start
from hostler.control.store import Database, open_database
from hostler.control.store.rows import projects
from tests.control.api.service_in_process import fake_random
from tests.control.services.conftest import NOW, Write


def test_the_first_start_makes_a_project_and_a_key_that_may_do_everything(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'x.db'}")
    try:
        secret = database.submit(lambda c: first_start.prepare(c, NOW, fake_random)).result()
        assert secret is not None
        principal = database.read_now(lambda c: keys.authenticate(c, secret, NOW))
        assert (principal.role, principal.project) == ("admin", "")
        assert database.read_now(lambda c: projects.get(c, "default")).created_ns == NOW
    finally:
        database.close()


def test_later_starts_make_nothing(write: Write) -> None:
    assert write(lambda c: first_start.prepare(c, NOW + 1, fake_random)) is None


def test_a_default_project_that_was_deleted_stays_deleted(database: Database, write: Write) -> None:
    write(lambda c: projects.drop(c, projects.get(c, "default")))
    write(lambda c: first_start.prepare(c, NOW + 1, fake_random))
    assert database.read_now(lambda c: projects.find(c, "default")) is None
