"""A restore is an event: what was restored, what became of keys and tokens; for readers of the whole fleet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.cli_in_process import Result, hostler
from tests.cli.control.command_process import secret
from tests.cli.control.control_plane_thread import plane

KIND = "database.restore"


def done(*words: str | Path) -> Result:
    result = hostler(*words)
    assert result.code == 0, result.err
    return result


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give a database that nobody serves: "nightly.db" is its backup, and one key was revoked since."""
    url = f"sqlite:///{tmp_path / 'plane.db'}"
    with plane(tmp_path) as running:
        monkeypatch.setenv("HOSTLER_SERVER", running.address)
        monkeypatch.setenv("HOSTLER_KEY_FILE", str(secret(tmp_path / "admin.key", running.key)))
        made = done("key", "create", "ci", "--role", "editor", "-o", "json").json
        done("key", "create", "team", "--role", "viewer", "--in-project", "default")
        done("token", "create")
        done("backup", tmp_path / "nightly.db", "--database-url", url)
        done("key", "revoke", made["key"]["id"], "--yes")
    return url


def restored_events(folder: Path, monkeypatch: pytest.MonkeyPatch, key: str = "") -> list[str]:
    """Serve the database, and return what ``hostler events`` says of restores."""
    with plane(folder) as running:
        monkeypatch.setenv("HOSTLER_SERVER", running.address)
        if key:
            secret(folder / "admin.key", key)
        items = done("events", "-o", "json").json["items"]
        shown = done("events").out
    found = [one for one in items if one["kind"] == KIND]
    assert [one["by"] for one in found] == ["operator"] * len(found)
    assert all(one["text"] in shown for one in found)
    return [one["text"] for one in found]


def test_restore_of_a_backup_is_an_event_with_counts(saved: str, tmp_path: Path, monkeypatch) -> None:
    done("restore", tmp_path / "nightly.db", "--force", "--database-url", saved)
    assert restored_events(tmp_path, monkeypatch) == [
        "restored the database from nightly.db; 0 keys unconfirmed, 1 revoked; 1 join token void; "
        "0 agent credentials accepted, 0 revoked; sessions ended"
    ]


def test_restore_in_place_is_an_event_with_counts(saved: str, tmp_path: Path, monkeypatch) -> None:
    report = done("restore", "--in-place", "--database-url", saved, "-o", "json").json
    [text] = restored_events(tmp_path, monkeypatch, report["access"]["admin_key"])
    assert text == (
        "restored the database in place; 2 keys unconfirmed, 0 revoked; 1 join token void; "
        "0 agent credentials accepted as the backup has them, 0 revoked; sessions ended; "
        "a new administrator's key was made"
    )
    assert report["access"]["admin_key"] not in text


def test_every_restore_is_an_event_of_its_own(saved: str, tmp_path: Path, monkeypatch) -> None:
    strange = tmp_path / "odd\x1b[2J\udcff.db"
    strange.write_bytes((tmp_path / "nightly.db").read_bytes())
    done("restore", strange, "--force", "--database-url", saved)
    done("restore", "--in-place", "--confirm-key", "all", "--database-url", saved)
    first, second = restored_events(tmp_path, monkeypatch)
    assert first.startswith("restored the database from odd?[2J?.db; ")
    assert second.startswith("restored the database in place; 0 keys unconfirmed")
