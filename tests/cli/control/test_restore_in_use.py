"""``hostler restore`` of a database that is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.control.store import open_database
from tests.cli.cli_in_process import hostler


@pytest.mark.parametrize("words", [("saved", "--force"), ("--in-place",)], ids=["a file", "in place"])
def test_who_restores_while_the_service_runs_is_asked_to_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'control.db'}"
    database = open_database(url)
    try:
        assert hostler("backup", "saved", "--database-url", url).code == 0
        result = hostler("restore", *words, "--database-url", url)
        assert result.code == 4
        assert "is in use by process" in result.error
        assert result.hint.startswith("stop the service first")
        assert "PostgreSQL" not in result.hint
    finally:
        database.close()
