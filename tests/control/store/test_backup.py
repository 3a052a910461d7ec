"""A backup is whole or does not exist; a restore replaces nothing by accident."""

from __future__ import annotations

import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from hostler.control.store import Database, open_database
from hostler.control.store.backup.backup import backup, restore, restore_in_place, verify
from hostler.control.store.backup.restored_numbers import OF_A_BACKUP
from hostler.control.store.errors import BackupError, DamagedDatabaseError, DatabaseInUseError, NewerDatabaseError
from hostler.control.store.history import lease, log
from hostler.control.store.rows import documents, hosts, placements, projects, vms
from hostler.control.store.rows.hosts import HostRow
from hostler.control.store.rows.placements import PlacementRow
from hostler.control.store.rows.projects import ProjectRow
from hostler.errors import InputError
from tests.control.store.row_makers import fact, insert_vms, vm


def fill(database: Database, count: int) -> None:
    def work(connection) -> None:
        projects.insert(connection, ProjectRow(name="shop"))
        for number in range(count):
            insert_vms(connection, vm(f"web{number}"))
            log.append(connection, [fact()])

    database.submit(work).result(30)


@pytest.fixture
def made(sqlite_url, tmp_path) -> Path:
    """Give a backup of three VMs."""
    database = open_database(sqlite_url)
    fill(database, 3)
    backup(sqlite_url, tmp_path / "good.db")
    database.close()
    return tmp_path / "good.db"


def damage(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def test_a_backup_made_while_others_write_is_whole_and_of_one_moment(sqlite_url, tmp_path):
    database = open_database(sqlite_url)
    fill(database, 50)
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            database.submit(lambda connection: log.append(connection, [fact(), fact()])).result(30)

    thread = threading.Thread(target=write)
    thread.start()
    reports = [backup(sqlite_url, tmp_path / f"{number}.db") for number in range(3)]
    ended.set()
    thread.join()
    database.close()
    for report in reports:
        assert report.vms == 50
        assert report.seq >= 50
        assert verify(Path(report.path)) == report
        assert stat.S_IMODE(Path(report.path).stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir() if "control" not in path.name) == ["0.db", "1.db", "2.db"]


def test_a_restored_database_is_the_one_that_was_saved(made, tmp_path):
    url = f"sqlite:///{tmp_path / 'new' / 'control.db'}"
    report = restore(made, url)
    assert (report.vms, report.seq) == (3, 3)
    database = open_database(url)
    assert database.read_now(lambda c: vms.count(c, vms.VmFilter())) == 3
    assert database.submit(lambda c: log.append(c, [fact()])).result(30) == [4]
    database.close()
    assert verify(made).seq == 3


def test_all_numbers_that_agents_compare_are_newer_after_each_restore(sqlite_url, tmp_path):
    def make(connection) -> None:
        projects.insert(connection, ProjectRow(name="shop"))
        status = b'{"id":"web","home":{"host":"h1","name":"north","generation":5},"generation":7,"x":[1]}'
        insert_vms(connection, vm("web", generation=7, status=status), vm("new", status=b'{"id":"new"}'))
        hosts.insert(connection, HostRow(id="h1", name="north", epoch=4, generation=9, agent="a", boot="b"))
        row = PlacementRow(vm=vm("web").id, host="h1", role="home", generation=5, seq=3)
        placements.insert_many(connection, [row])
        assert lease.take(connection, "me", 60.0).epoch == 1

    database = open_database(sqlite_url)
    database.submit(make).result(30)
    backup(sqlite_url, tmp_path / "saved")
    database.close()
    seen = [0]
    for _ in range(2):
        restore(tmp_path / "saved", sqlite_url, is_forced=True)
        database = open_database(sqlite_url)
        host = database.read_now(lambda c: hosts.get(c, "h1"))
        web = database.read_now(lambda c: vms.find(c, vm("web").id))
        new = database.read_now(lambda c: vms.find(c, vm("new").id))
        [placed] = database.read_now(placements.all_rows)
        held = database.read_now(lease.read)
        database.close()
        numbers = [host.epoch, host.generation, web.generation, new.generation, placed.generation, held.epoch]
        assert min(numbers) > max(seen)
        seen = numbers
        assert (host.agent, host.boot, held.holder, placed.seq) == ("", "", "", OF_A_BACKUP)
        status = msgspec.json.decode(web.status)
        assert status["home"] == {"host": "h1", "name": "north", "generation": web.generation, "seq": OF_A_BACKUP}
        assert (status["generation"], status["x"]) == (web.generation, [1])
        assert msgspec.json.decode(new.status) == {"id": "new", "generation": new.generation}


def test_database_is_replaced_only_by_force_and_completely(made, sqlite_url):
    database = open_database(sqlite_url)
    database.submit(lambda c: log.append(c, [fact(), fact()])).result(30)
    database.close()
    with pytest.raises(BackupError) as caught:
        restore(made, sqlite_url)
    assert caught.value.hint
    database = open_database(sqlite_url)
    assert database.read_now(log.head) == 5
    database.close()
    restore(made, sqlite_url, is_forced=True)
    database = open_database(sqlite_url)
    assert database.read_now(log.head) == 3
    database.close()


def test_leftover_write_ahead_log_does_not_reach_restored_database(made, sqlite_url):
    from tests.control.store.test_log import start_writer

    with start_writer(sqlite_url, "late", 2, 10_000) as writer:
        assert writer.stdout is not None
        for _ in range(20):
            writer.stdout.readline()
        writer.kill()
        writer.stdout.readlines()
    restore(made, sqlite_url, is_forced=True)
    database = open_database(sqlite_url)
    assert [entry.seq for entry in database.read_now(lambda c: log.read_after(c, 0, 100))] == [1, 2, 3]
    database.close()


def test_a_database_in_use_is_not_replaced(made, sqlite_url):
    database = open_database(sqlite_url)
    with pytest.raises(DatabaseInUseError):
        restore(made, sqlite_url, is_forced=True)
    assert database.read_now(log.head) == 3
    database.close()


def test_a_backup_replaces_no_file(made, sqlite_url):
    before = made.read_bytes()
    with pytest.raises(BackupError):
        backup(sqlite_url, made)
    assert made.read_bytes() == before


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("DELETE FROM log WHERE seq = 2", BackupError),
        ("DELETE FROM log WHERE seq = 3", BackupError),
        ("UPDATE log_head SET seq = 2", BackupError),
        ("INSERT INTO vm_labels VALUES ('nobody', 'a', 'b')", BackupError),
        ("DROP TABLE log", BackupError),
        ("UPDATE alembic_version SET version_num = '9999'", NewerDatabaseError),
    ],
)
def test_a_backup_that_is_wrong_is_not_restored(made, tmp_path, statement, error):
    damage(made, statement)
    target = tmp_path / "target.db"
    with pytest.raises(error):
        restore(made, f"sqlite:///{target}")
    assert not target.exists()


def test_a_backup_with_broken_pages_is_not_restored(made, tmp_path):
    content = bytearray(made.read_bytes())
    for start in range(4096 * 3, len(content), 4096):
        content[start : start + 200] = b"\xff" * 200
    made.write_bytes(bytes(content))
    with pytest.raises(BackupError):
        restore(made, f"sqlite:///{tmp_path / 'target.db'}")


def test_what_is_no_database_is_no_backup(tmp_path):
    path = tmp_path / "letter"
    path.write_text("Dear reader, " * 100)
    for wrong in (path, tmp_path / "missing", tmp_path):
        with pytest.raises(BackupError):
            verify(wrong)
    with pytest.raises(BackupError):
        backup(f"sqlite:///{tmp_path / 'missing.db'}", tmp_path / "copy.db")
    with pytest.raises(BackupError):
        backup(f"sqlite:///{path}", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_a_restore_keeps_the_log_whole_when_old_entries_were_forgotten(sqlite_url, tmp_path):
    database = open_database(sqlite_url)
    fill(database, 5)

    def forget(connection) -> int:
        for seq in (4, 5):
            log.save_checkpoint(connection, log.StoredCheckpoint(seq=seq, at_ns=1, format="1", body=b"x"))
        return log.forget_before(connection, 4)

    database.submit(forget).result(30)
    assert backup(sqlite_url, tmp_path / "a.db").seq == 5
    database.submit(lambda connection: log.forget_before(connection, 100)).result(30)
    assert backup(sqlite_url, tmp_path / "b.db").seq == 5
    database.close()


def test_a_file_that_was_put_back_by_other_means_starts_its_numbers_again_in_place(made, sqlite_url, tmp_path):
    before = open_database(sqlite_url)
    epoch = before.read_now(lease.read).epoch
    with pytest.raises(DatabaseInUseError):
        restore_in_place(sqlite_url)
    before.close()
    assert restore_in_place(sqlite_url).vms == 3
    database = open_database(sqlite_url)
    assert database.read_now(lease.read).epoch > epoch
    assert database.read_now(lambda c: vms.find(c, vm("web0").id)).generation > 10**12
    database.close()
    with pytest.raises(BackupError) as caught:
        restore_in_place(f"sqlite:///{tmp_path / 'missing.db'}")
    assert "--database-url" in caught.value.hint
    assert not (tmp_path / "missing.db").exists()


def test_what_is_no_file_is_not_replaced_by_a_restore(made, tmp_path):
    path = tmp_path / "socket"
    with closing(socket.socket(socket.AF_UNIX)) as there:
        there.bind(str(path))
        with pytest.raises(InputError, match="no regular file"):
            restore(made, f"sqlite:///{path}", is_forced=True)
    assert path.is_socket()


DAMAGES = {
    "a host": ("UPDATE hosts SET body = x'00'", "host alpha cannot be read"),
    "the log": ("UPDATE log SET body = x'7b' WHERE seq = 2", "entry 2 of the log cannot be read"),
    "letters": ("UPDATE log SET body = x'7b2261223a2022ff227d' WHERE seq = 3", "entry 3 of the log cannot be read"),
    "a checkpoint": ("UPDATE checkpoints SET body = x'c1'", "the checkpoint at 3 cannot be read"),
    "the secret": ("UPDATE settings SET body = x'7b7d'", "setting session-secret cannot be read"),
    "a number": ("UPDATE vms SET cpu_millis = 'much' WHERE id LIKE '%web0%'", r"cpu_millis of vms \(vm-shop-web0-0\)"),
    "a flag": ("UPDATE hosts SET is_cordoned = 0.5", r"is_cordoned of hosts \(h\) has a value of another type"),
    "bytes": ("UPDATE hosts SET body = CAST('{}' AS TEXT)", r"column body of hosts \(h\)"),
    "a name": ("UPDATE hosts SET state = x'7570'", r"column state of hosts \(h\)"),
    "no letters": ("UPDATE hosts SET boot = CAST(x'ff' AS TEXT)", "damaged: Could not decode .* 'boot'"),
    "no JSON": ("UPDATE hosts SET body = CAST('no JSON' AS BLOB)", "host alpha cannot be read"),
    "the head": ("UPDATE log_head SET forgotten = 'none'", "numbers of the log are not numbers"),
    "a trigger": ("CREATE TRIGGER mine AFTER INSERT ON log BEGIN DELETE FROM api_keys; END", "triggers .*: mine"),
}


@pytest.mark.parametrize(("statement", "words"), DAMAGES.values(), ids=DAMAGES.keys())
def test_what_could_not_be_read_later_is_not_restored(sqlite_url, tmp_path, statement, words):
    database = open_database(sqlite_url)
    fill(database, 3)

    def more(connection) -> None:
        hosts.insert(connection, HostRow(id="h", name="alpha"))
        log.save_checkpoint(connection, log.StoredCheckpoint(seq=3, at_ns=1, format="test", body=b"\x80"))
        secret = documents.DocumentRow(project="", name="session-secret", body=b'{"secret":"aaaa"}')
        documents.insert(connection, "setting", secret)

    database.submit(more).result(30)
    database.close()
    copy = tmp_path / "copy.db"
    backup(sqlite_url, copy)
    damage(copy, statement)
    target = tmp_path / "target.db"
    with pytest.raises(BackupError, match=words):
        restore(copy, f"sqlite:///{target}")
    assert not target.exists()


def test_a_database_that_was_cut_off_is_damaged_and_no_bug(made, tmp_path):
    half = tmp_path / "half.db"
    half.write_bytes(made.read_bytes()[: made.stat().st_size // 2])
    with pytest.raises(DamagedDatabaseError, match="the database is damaged") as caught:
        open_database(f"sqlite:///{half}")
    assert "restore a backup" in caught.value.hint


_KILLED = """
import sys, os, signal
from pathlib import Path
from hostler.control.store.backup.backup import restore

step = int(sys.argv[3])
steps = 0

def trace(frame, event, argument):
    global steps
    if event == "call" and "/control/store/" in frame.f_code.co_filename:
        steps += 1
        if steps == step:
            os.kill(os.getpid(), signal.SIGKILL)

sys.setprofile(trace)
restore(Path(sys.argv[1]), sys.argv[2], is_forced=True)
"""


def test_restore_killed_anywhere_leaves_old_or_new_file(made, sqlite_url, tmp_path):
    """The process is killed at one call after the other: the file is the old database or the new one, whole."""
    database = open_database(sqlite_url)
    database.submit(lambda c: log.append(c, [fact(), fact()])).result(30)
    database.close()
    seen = set()
    for step in (1, 5, 10, 20, 40, 60, 90, 130, 200, 400, 600, 1000, 2000, 4000):
        done = subprocess.run([sys.executable, "-c", _KILLED, str(made), sqlite_url, str(step)], capture_output=True)
        verify(tmp_path / "control.db")
        database = open_database(sqlite_url)
        head = database.read_now(log.head)
        database.close()
        assert done.returncode in (-9, 0), done.stderr
        assert head == (5 if done.returncode else 3)
        seen.add(done.returncode)
        assert not list(tmp_path.glob(".control.db.*")), "the next start removes what was left"
        if done.returncode == 0:
            break
    assert seen == {-9, 0}


def test_next_restore_removes_scratch_file_of_killed_one(made, sqlite_url, tmp_path):
    """What a killed restore left does not fill the disk."""
    for name in (".control.db.restore-abc", ".control.db.restore-abc-journal", ".control.db.mine"):
        (tmp_path / name).write_bytes(b"x")
    restore(made, sqlite_url, is_forced=True)
    assert [path.name for path in tmp_path.glob(".control.db.*")] == [".control.db.mine"]


def test_forced_restore_of_bad_row_keeps_the_file(made, sqlite_url, tmp_path):
    """A backup that is whole, and holds a row that cannot be read, replaces nothing."""
    before = (tmp_path / "control.db").read_bytes()
    damage(made, "UPDATE vms SET status = CAST('no JSON' AS BLOB)")
    with pytest.raises(BackupError, match=r"the status of VM .* cannot be read"):
        restore(made, sqlite_url, is_forced=True)
    assert (tmp_path / "control.db").read_bytes() == before


def test_forced_restore_replaces_a_damaged_database(made, sqlite_url, tmp_path):
    """What cannot be read cannot be compared with, and is not in the way."""
    (tmp_path / "control.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 9000)
    report = restore(made, sqlite_url, is_forced=True)
    assert report.access is not None
    assert not report.access.is_compared
    open_database(sqlite_url).close()
