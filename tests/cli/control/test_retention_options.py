"""How long ``hostler serve`` keeps things, and how that is backed up and restored, as options and commands."""

from __future__ import annotations

import json
import secrets

import pytest

from hostler.cli.main import main
from hostler.control.access.keys import make_admin_key
from hostler.control.fleet.retention import forget_batch
from hostler.control.settings import ControlSettings
from hostler.control.store import Connection, open_database
from hostler.control.store.history import log
from hostler.control.store.history.log import NewEntry, StoredCheckpoint
from hostler.control.store.rows import operations, projects, vms
from hostler.control.store.rows.operations import OperationRow
from hostler.control.store.rows.projects import ProjectRow
from hostler.control.store.rows.vms import VmRow
from tests.cli.control.test_serve_options import set_by

MINUTE = 60 * 1_000_000_000
NOON = 1_700_000_000 * 1_000_000_000


@pytest.mark.parametrize("option", ["--keep-events", "--keep-operations", "--keep-idempotency-keys"])
@pytest.mark.parametrize(
    ("value", "said"), [("59s", "keep it for 1m at least"), ("7 days", "is not a duration"), ("1.5s", "whole number")]
)
def test_a_time_that_is_too_short_or_none_stops_the_start(option, value, said, capsys):
    assert main(["serve", option, value, "--database-url", "sqlite:////nowhere/at/all.db"]) == 2
    error = capsys.readouterr().err
    assert option in error
    assert said in error


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ("--keep-events", "keep_events_s"),
        ("--keep-operations", "keep_operations_s"),
        ("--keep-idempotency-keys", "keep_idempotency_s"),
    ],
)
def test_each_retention_option_sets_only_its_own_setting(option, place):
    before, after = set_by(), set_by(option, "90m")
    told = {name: getattr(after, name) for name in after.__struct_fields__}
    assert told == {name: getattr(before, name) for name in before.__struct_fields__} | {place: 5400.0}
    assert getattr(before, place) == getattr(ControlSettings(), place), "the default in help is that of the service"


def test_what_is_older_than_the_options_say_goes_and_what_is_younger_stays(tmp_path):
    settings = set_by("--keep-events", "1h", "--keep-operations", "2h")
    database = open_database(f"sqlite:///{tmp_path / 'control.db'}")

    def fill(connection: Connection) -> None:
        projects.insert(connection, ProjectRow(name="shop"))
        for minutes in (121, 119, 61, 59):
            at_ns, name = NOON - minutes * MINUTE, f"ended {minutes}m ago"
            operations.add_many(connection, [OperationRow(id=name, kind="vm.create", finished_ns=at_ns)])
            row = VmRow(id=name, project="shop", name=name, power="absent", created_ns=at_ns, deleted_ns=at_ns)
            vms.insert_many(connection, [row])
            log.append(connection, [NewEntry(at_ns=at_ns, kind="note", body=name.encode())])
        for seq in (3, 4):
            log.save_checkpoint(connection, StoredCheckpoint(seq=seq, at_ns=NOON, format="x", body=b""))

    def left(connection: Connection) -> tuple[list[str], list[str], int]:
        kept = vms.list_page(connection, vms.VmFilter(with_deleted=True)).items
        done = operations.list_page(connection, operations.OperationFilter()).items
        return [row.id for row in kept], sorted(row.id for row in done), len(log.oldest(connection, 9))

    database.submit(fill).result(30)
    database.submit(lambda connection: forget_batch(connection, settings, NOON, at_once=100)).result(30)
    found = database.read_now(left)
    database.close()
    assert found == (["ended 59m ago"], ["ended 119m ago", "ended 59m ago", "ended 61m ago"], 1)


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


def test_restore_reports_unconfirmed_keys_and_a_way_in(tmp_path, capsys):
    """Table and JSON list what is disabled; the new administrator's key is shown once, or only in its file."""
    url = f"sqlite:///{tmp_path / 'control.db'}"
    database = open_database(url)
    row, _ = database.submit(
        lambda c: make_admin_key(c, name="lost one", now_ns=NOON, random=secrets.token_bytes)
    ).result(30)
    database.close()
    assert main(["restore", "--in-place", "--database-url", url]) == 0
    told = capsys.readouterr()
    assert "sessions of the dashboard have ended; 0 open join tokens void" in told.out
    assert f"key {row.id} (lost one), admin in all projects: disabled until" in told.out
    assert f"hostler key confirm {row.id}" in told.out
    assert told.out.splitlines()[-1].startswith(
        "start the service again; VMs get orders when every host has registered"
    )
    assert "shown only once: hk_" in told.err
    key_file = tmp_path / "admin.key"
    words = ["restore", "--in-place", "--database-url", url, "-o", "json"]
    assert main([*words, "--admin-key-file", str(key_file)]) == 0
    found = json.loads(capsys.readouterr().out)["access"]
    assert [(key["name"], key["state"]) for key in found["keys"]] == [
        ("lost one", "unconfirmed"),
        ("administrator after a restore", "unconfirmed"),
    ]
    assert found["admin_key"] == ""
    assert key_file.read_text().startswith("hk_")
    assert main([*words, "--confirm-key", row.id]) == 0
    found = json.loads(capsys.readouterr().out)["access"]
    assert found["keys"][0]["state"] == "accepted"
    assert found["admin_key"] == ""
