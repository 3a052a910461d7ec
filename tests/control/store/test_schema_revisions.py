"""The revisions are read before a transaction begins: PostgreSQL ends sessions that stand still in one for long."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.engine import make_url

from hostler.control.store import DatabaseLimits, schema
from hostler.control.store.backends.sqlite import SqliteBackend


class Noting(SqliteBackend):
    """A database that notes when a migration is in its transaction."""

    def __init__(self, path: Path, happened: list[str]) -> None:
        super().__init__(make_url(f"sqlite:///{path}"), DatabaseLimits())
        self._happened = happened

    def lock_schema(self, connection: Connection) -> None:
        """Note it."""
        self._happened.append("in the transaction")


def test_revisions_are_loaded_once_and_before_the_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    load = ScriptDirectory._load_revisions

    def noted(self: ScriptDirectory) -> Sequence[Any]:
        happened.append("loaded")
        return list(load(self))

    monkeypatch.setattr(ScriptDirectory, "_load_revisions", noted)
    schema._scripts.cache_clear()
    backend = Noting(tmp_path / "control.db", happened)
    schema.migrate(backend)
    schema.migrate(backend)
    backend.close()
    assert happened == ["loaded", "in the transaction", "in the transaction"]
