"""How long ``hostler serve`` keeps things, and how that is backed up and restored, as options and commands."""

from __future__ import annotations

import pytest

from hostler.cli.main import main
from hostler.control.store import open_database


@pytest.mark.parametrize("option", ["--keep-events", "--keep-operations", "--keep-idempotency-keys"])
@pytest.mark.parametrize(
    ("value", "said"), [("59s", "keep it for 1m at least"), ("7 days", "is not a duration"), ("1.5s", "whole number")]
)
def test_a_time_that_is_too_short_or_none_stops_the_start(option, value, said, capsys):
    assert main(["serve", option, value, "--database-url", "sqlite:////nowhere/at/all.db"]) == 2
    error = capsys.readouterr().err
    assert option in error
    assert said in error


@pytest.mark.parametrize("words", [["restore"], ["restore", "a.backup", "--in-place"]])
def test_a_restore_is_of_a_file_or_in_place(words, capsys):
    assert main(words) == 2
    assert "either FILE or --in-place" in capsys.readouterr().err


def test_a_backup_is_restored_and_restored_in_place_by_the_command_line(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'control.db'}"
    open_database(url).close()
    assert main(["backup", str(tmp_path / "saved"), "--database-url", url]) == 0
    assert main(["restore", str(tmp_path / "saved"), "--database-url", url]) == 2
    assert main(["restore", str(tmp_path / "saved"), "--database-url", url, "--force"]) == 0
    assert main(["restore", "--in-place", "--database-url", url]) == 0
    told = capsys.readouterr()
    assert f"backed up {tmp_path / 'control.db'} to {tmp_path / 'saved'} (" in told.out
    assert "replace it with --force" in told.err
    assert f"restored in place: {tmp_path / 'control.db'} (" in told.out
