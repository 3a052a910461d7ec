"""``hostler rebuild`` on the command line: what it refuses, asks and prints."""

from __future__ import annotations

import json

from hostler.cli.main import main
from hostler.control.engine_rebuild import LOST
from hostler.control.store import open_database


def test_rebuild_needs_a_database_and_a_yes(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'control.db'}"
    assert main(["rebuild", "--yes", "--database-url", url]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert not (tmp_path / "control.db").exists()
    database = open_database(url)
    assert main(["rebuild", "--yes", "--database-url", url]) == 4
    assert "stop the service first" in capsys.readouterr().err
    database.close()
    assert main(["rebuild", "--database-url", url]) == 2, "nobody can be asked in a test"
    assert "--yes" in capsys.readouterr().err


def test_rebuild_prints_what_is_lost(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'control.db'}"
    open_database(url).close()
    assert main(["rebuild", "--yes", "--database-url", url]) == 0
    told = capsys.readouterr().out
    assert all(one in told for one in LOST)
    assert "0 VMs with room, 0 waiting, 0 hosts" in told
    assert main(["rebuild", "--yes", "--database-url", url, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["seq"] == 2
