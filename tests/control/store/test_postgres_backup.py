"""PostgreSQL, backed up and restored by its own tools: what comes back is checked, and its numbers start again."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from hostler.control.restore import READERS
from hostler.control.store import open_database
from hostler.control.store.backends.postgres import SCHEMA_LOCK
from hostler.control.store.backup.backup import backup, restore, restore_in_place
from hostler.control.store.backup.restored_numbers import OF_A_BACKUP
from hostler.control.store.errors import BackupError, DatabaseInUseError, ForeignDatabaseError, NewerDatabaseError
from hostler.control.store.history import lease, log
from hostler.control.store.rows import hosts, placements, projects, vms
from hostler.control.store.rows.hosts import HostRow
from hostler.control.store.rows.placements import PlacementRow
from hostler.control.store.rows.projects import ProjectRow
from tests.control.databases import PATIENT
from tests.control.postgres import PostgresServer, nobody_connected
from tests.control.store.row_makers import fact, insert_vms, vm

pytestmark = pytest.mark.skipif(
    shutil.which("pg_dump") is None or shutil.which("pg_restore") is None,
    reason="pg_dump and pg_restore are not there (Debian package postgresql-client)",
)


@pytest.fixture
def other_url(postgres: PostgresServer) -> Iterator[str]:
    """Give the URL of a second, empty database."""
    name = postgres.new_database()
    yield postgres.address(name)
    postgres.drop_database(name)


def fill(url: str, status: bytes = b'{"id":"web","home":{"host":"h1","generation":5},"generation":7}') -> None:
    def work(connection) -> None:
        projects.insert(connection, ProjectRow(name="shop"))
        insert_vms(connection, vm("web", generation=7, status=status))
        hosts.insert(connection, HostRow(id="h1", name="north", epoch=4, generation=9, agent="a", boot="b"))
        row = PlacementRow(vm=vm("web").id, host="h1", role="home", generation=5, seq=3)
        placements.insert_many(connection, [row])
        log.append(connection, [fact(), fact(), fact()])

    database = open_database(url, limits=PATIENT)
    database.submit(work).result(30)
    database.close()
    nobody_connected(url)


@pytest.fixture
def made(postgres_url, tmp_path) -> Path:
    """Give a backup of one VM on one host."""
    fill(postgres_url)
    backup(postgres_url, tmp_path / "good.dump")
    nobody_connected(postgres_url)
    return tmp_path / "good.dump"


def begins_anew(url: str, beyond: int) -> int:
    """Check that a database is that of the backup, with numbers above a given one; return the largest now."""
    nobody_connected(url)
    database = open_database(url, limits=PATIENT)
    host = database.read_now(lambda c: hosts.get(c, "h1"))
    web = database.read_now(lambda c: vms.find(c, vm("web").id))
    [placed] = database.read_now(placements.all_rows)
    held = database.read_now(lease.read)
    head = database.read_now(log.head)
    database.close()
    nobody_connected(url)
    numbers = (host.epoch, host.generation, web.generation, placed.generation, held.epoch)
    assert min(numbers) > beyond
    assert (host.agent, host.boot, held.holder, placed.seq, head) == ("", "", "", OF_A_BACKUP, 3)
    status = msgspec.json.decode(web.status)
    assert status["home"] == {"host": "h1", "generation": web.generation, "seq": OF_A_BACKUP}
    return max(numbers)


def test_backup_made_under_use_is_restored_and_renumbered(postgres_url, other_url, tmp_path):
    fill(postgres_url)
    database = open_database(postgres_url, limits=PATIENT)
    report = backup(postgres_url, tmp_path / "saved")
    database.close()
    assert (report.vms, report.hosts, report.seq, report.path) == (1, 1, 3, str(tmp_path / "saved"))
    assert stat.S_IMODE((tmp_path / "saved").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    restored = restore(tmp_path / "saved", other_url)
    assert (restored.vms, restored.hosts, restored.seq, restored.revision) == (1, 1, 3, report.revision)
    seen = begins_anew(other_url, 10**12)
    restore(tmp_path / "saved", other_url, is_forced=True)
    begins_anew(other_url, seen)


def test_a_database_that_pg_restore_brought_back_starts_its_numbers_again_in_place(made, other_url):
    done = subprocess.run(["pg_restore", f"--dbname={other_url}", str(made)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    report = restore_in_place(other_url)
    nobody_connected(other_url)
    assert (report.vms, report.hosts, report.seq) == (1, 1, 3)
    seen = begins_anew(other_url, 10**12)
    restore_in_place(other_url)
    begins_anew(other_url, seen)


def test_nothing_is_restored_while_a_replica_is_connected(made, postgres_url):
    database = open_database(postgres_url, limits=PATIENT)
    database.submit(log.head).result(30)
    for call in (lambda: restore(made, postgres_url, is_forced=True), lambda: restore_in_place(postgres_url)):
        with pytest.raises(DatabaseInUseError) as caught:
            call()
        assert "replicas" in caught.value.hint
    assert database.read_now(lambda c: hosts.get(c, "h1")).epoch == 4
    database.close()


def test_nothing_is_restored_while_a_lease_is_held(made, postgres_url):
    database = open_database(postgres_url, limits=PATIENT)
    held = database.submit(lambda c: lease.take(c, "replica-9", 3600.0)).result(30)
    database.close()
    for call in (lambda: restore(made, postgres_url, is_forced=True), lambda: restore_in_place(postgres_url)):
        nobody_connected(postgres_url)
        with pytest.raises(DatabaseInUseError, match="replica-9 leads"):
            call()
    database = open_database(postgres_url, limits=PATIENT)
    assert held is not None
    assert database.read_now(lease.read).epoch == held.epoch
    database.submit(lambda c: lease.release(c, held)).result(30)
    database.close()
    nobody_connected(postgres_url)
    restore_in_place(postgres_url)


def test_restore_waits_for_the_lease_of_a_dead_leader(made, postgres_url):
    """A leader that was killed gives nothing back, and nobody renews what it had."""
    told: list[str] = []
    for call in (
        lambda: restore(made, postgres_url, is_forced=True, tell=told.append),
        lambda: restore_in_place(postgres_url, tell=told.append),
    ):
        database = open_database(postgres_url, limits=PATIENT)
        database.submit(lambda c: lease.take(c, "killed", 5.0)).result(30)
        database.close()
        nobody_connected(postgres_url)
        call()
    assert len(told) == 2, told
    assert all(line.startswith("killed leads or ended without notice") for line in told)


def test_nothing_is_restored_while_a_replica_starts(made, postgres_url):
    with psycopg.connect(postgres_url) as starting:
        starting.execute(f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})".encode())
        with pytest.raises(DatabaseInUseError):
            restore(made, postgres_url, is_forced=True)


def test_a_database_is_replaced_only_by_force_and_one_of_others_never(made, postgres, postgres_url, other_url):
    with pytest.raises(BackupError, match="would be replaced"):
        restore(made, postgres_url)
    with psycopg.connect(other_url, autocommit=True) as other:
        for name in ("log", "of_another_program"):
            other.execute(f"CREATE TABLE {name} (line text)".encode())
            with pytest.raises(ForeignDatabaseError, match=f"not ours: {name}$"):
                restore(made, other_url, is_forced=True)
            assert other.execute(f"SELECT count(*) FROM {name}".encode()).fetchone() == (0,)
            other.execute(f"DROP TABLE {name}".encode())


def contents(url: str) -> tuple[int, int, list[str]]:
    """Return a host's epoch, the head of the log, and the schemas of a database."""
    nobody_connected(url)
    with psycopg.connect(url) as connection:
        [epoch] = connection.execute("SELECT epoch FROM hosts").fetchone() or [0]
        [head] = connection.execute("SELECT seq FROM log_head").fetchone() or [0]
        return epoch, head, schemas(connection)


def schemas(connection: psycopg.Connection[Any]) -> list[str]:
    query = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY 1"
    return [str(row[0]) for row in connection.execute(query.encode()).fetchall()]


BAD_ROWS = {
    "a status": "UPDATE vms SET status = 'no JSON'",
    "an API key": "INSERT INTO api_keys (id, hash, body) VALUES ('k', 'h', '[]')",
    "a host": "UPDATE hosts SET body = 'no JSON'",
}


@pytest.mark.parametrize("statement", BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_forced_restore_of_bad_row_keeps_database(postgres_url, other_url, tmp_path, statement):
    """A dump that loads, and holds a row that cannot be read, replaces nothing."""
    fill(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(statement.encode())
    backup(postgres_url, tmp_path / "odd")
    fill(other_url)
    with psycopg.connect(other_url, autocommit=True) as connection:
        connection.execute("UPDATE hosts SET epoch = 5")  # so that it differs from what the backup holds
    before = contents(other_url)
    with pytest.raises(BackupError, match=r"cannot be (read|loaded)"):
        restore(tmp_path / "odd", other_url, is_forced=True)
    assert contents(other_url) == before == (5, 3, ["public"])
    open_database(other_url, limits=PATIENT).close()


def test_failed_restore_to_empty_database_leaves_it_empty(postgres_url, other_url, tmp_path):
    """Nothing is in the way of the next restore."""
    fill(postgres_url, status=b"no JSON")
    backup(postgres_url, tmp_path / "odd")
    with pytest.raises(BackupError, match=r"the status of VM .* cannot be read"):
        restore(tmp_path / "odd", other_url)
    nobody_connected(other_url)
    with psycopg.connect(other_url) as connection:
        assert connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall() == []
        assert schemas(connection) == ["public"]


def test_forced_restore_of_truncated_dump_keeps_database(made, other_url, tmp_path):
    """Wherever a dump is cut off, the database stays as it is."""
    fill(other_url)
    with psycopg.connect(other_url, autocommit=True) as connection:
        connection.execute("UPDATE hosts SET epoch = 5")  # so that it differs from what the backup holds
    before = contents(other_url)
    content = made.read_bytes()
    for length in range(100, len(content), len(content) // 12):
        (tmp_path / "cut").write_bytes(content[:length])
        with pytest.raises(BackupError):
            restore(tmp_path / "cut", other_url, is_forced=True)
        assert contents(other_url) == before


_KILLED = """
import sys, os, signal
from pathlib import Path
from sqlalchemy import event
from sqlalchemy.engine import Engine
from hostler.control.store.backup.backup import restore

left = int(sys.argv[3])

@event.listens_for(Engine, "before_cursor_execute")
def count(*_):
    global left
    left -= 1
    if left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)

restore(Path(sys.argv[1]), sys.argv[2], is_forced=True)
"""


def test_restore_killed_anywhere_leaves_old_or_new_database(made, other_url):
    """The process is killed before one statement after the other: until COMMIT all of the old database is there."""
    fill(other_url)
    with psycopg.connect(other_url, autocommit=True) as connection:
        connection.execute("UPDATE hosts SET epoch = 5")
    seen = []
    for statement in (3, 8, 20, 40, 60, 80, 100, 120, 140):
        words = [sys.executable, "-c", _KILLED, str(made), other_url, str(statement)]
        done = subprocess.run(words, capture_output=True, check=False)
        epoch, head, found = contents(other_url)
        assert (head, found) == (3, ["public"]), done.stderr
        seen.append((done.returncode, epoch if epoch < 10**12 else "new"))
        if done.returncode == 0:
            break
    assert seen[:4] == [(-9, 5)] * 4
    assert set(seen) <= {(-9, 5), (0, "new")}
    restore(made, other_url, is_forced=True)
    begins_anew(other_url, 10**12)


def test_role_that_may_not_create_schemas_is_reported_before_anything_changes(made, postgres, other_url):
    """The error names the right that is missing, and the database stays as it is."""
    fill(other_url)
    before = contents(other_url)
    postgres.sql("DROP ROLE IF EXISTS narrow")
    postgres.sql("CREATE ROLE narrow LOGIN")
    database = other_url.split("/")[3].split("?")[0]
    with psycopg.connect(other_url, autocommit=True) as connection:
        connection.execute("GRANT CREATE, USAGE ON SCHEMA public TO narrow")
        connection.execute("GRANT SELECT, UPDATE ON ALL TABLES IN SCHEMA public TO narrow")
    with pytest.raises(BackupError, match="user narrow may not create a schema") as caught:
        restore(made, other_url.replace("hostler@", "narrow@"), is_forced=True)
    assert f"GRANT CREATE ON DATABASE {database} TO narrow" in caught.value.hint
    assert contents(other_url) == before
    postgres.sql("DROP OWNED BY narrow", database)
    postgres.sql("DROP ROLE narrow")


def test_a_dump_that_is_cut_off_or_of_something_else_is_not_restored(made, postgres, other_url, tmp_path):
    cut, letter, foreign = tmp_path / "cut", tmp_path / "letter", tmp_path / "foreign"
    cut.write_bytes(made.read_bytes()[:-2000])
    letter.write_text("Dear reader, " * 100)
    with psycopg.connect(other_url, autocommit=True) as other:
        other.execute("CREATE TABLE letters (line text)")
    subprocess.run(["pg_dump", "--format=custom", f"--file={foreign}", f"--dbname={other_url}"], check=True)
    for wrong in (cut, letter, foreign, tmp_path / "missing"):
        with pytest.raises(BackupError):
            restore(wrong, other_url)
        nobody_connected(other_url)
    with pytest.raises(BackupError, match="no control plane"):
        backup(other_url, tmp_path / "copy")
    nobody_connected(other_url)
    with pytest.raises(BackupError, match="no control plane"):
        restore_in_place(other_url)
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("DELETE FROM log WHERE seq = 2", BackupError),
        ("UPDATE alembic_version SET version_num = '9999'", NewerDatabaseError),
        ("DELETE FROM alembic_version", BackupError),
    ],
)
def test_invalid_database_is_neither_backed_up_nor_restored(postgres_url, tmp_path, statement, error):
    fill(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(statement.encode())
    with pytest.raises(error):
        backup(postgres_url, tmp_path / "copy")
    nobody_connected(postgres_url)
    with pytest.raises(error):
        restore_in_place(postgres_url)
    assert list(tmp_path.iterdir()) == []


FOREIGN = {
    "a trigger": (
        "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE TRIGGER mine BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION nothing()",
    ),
    "a rule": ("CREATE RULE mine AS ON INSERT TO log DO INSTEAD NOTHING",),
}


@pytest.mark.parametrize("statements", FOREIGN.values(), ids=FOREIGN.keys())
def test_what_would_run_inside_our_transactions_is_not_restored(postgres_url, other_url, tmp_path, statements):
    fill(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())
    backup(postgres_url, tmp_path / "copy")
    nobody_connected(postgres_url)
    with pytest.raises(BackupError, match="not ours: mine"):
        restore(tmp_path / "copy", other_url)
    nobody_connected(other_url)
    with psycopg.connect(other_url) as connection:
        assert connection.execute("SELECT 1 FROM pg_tables WHERE tablename = 'log'").fetchall() == []
    with pytest.raises(BackupError, match="not ours: mine"):
        restore_in_place(postgres_url)


def test_what_the_service_could_not_read_is_not_taken_for_restored(postgres_url, other_url, tmp_path):
    fill(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute('UPDATE hosts SET body = \'{"size":"large"}\'')
    backup(postgres_url, tmp_path / "copy")
    nobody_connected(postgres_url)
    with pytest.raises(BackupError, match="host north cannot be read"):
        restore(tmp_path / "copy", other_url, readers={"host": READERS["host"]})
    nobody_connected(other_url)
    with psycopg.connect(other_url) as connection:
        assert connection.execute("SELECT 1 FROM pg_tables WHERE tablename = 'log'").fetchall() == []
    with pytest.raises(BackupError, match="host north cannot be read"):
        restore_in_place(postgres_url, readers={"host": READERS["host"]})


def test_a_backup_replaces_no_file(made, postgres_url):
    before = made.read_bytes()
    with pytest.raises(BackupError):
        backup(postgres_url, made)
    assert made.read_bytes() == before


def test_missing_tools_and_tools_that_are_too_old_are_named(postgres_url, tmp_path, monkeypatch):
    fill(postgres_url)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackupError, match="pg_dump is not installed") as caught:
        backup(postgres_url, tmp_path / "copy")
    assert "postgresql-client" in caught.value.hint
    tool(tmp_path / "pg_dump", 'echo "pg_dump (PostgreSQL) 9.6.1"')
    with pytest.raises(BackupError, match="of release 9") as caught:
        backup(postgres_url, tmp_path / "copy")
    assert "postgresql-client-" in caught.value.hint


def test_tools_get_the_password_by_environment_only(postgres_url, tmp_path, monkeypatch):
    fill(postgres_url)
    seen = tmp_path / "seen"
    text = (
        f'[ "$1" = --version ] && {{ echo "pg_dump (PostgreSQL) 99.1"; exit; }}; echo "$PGPASSWORD $@" > {seen}; exit 1'
    )
    for name in ("pg_dump", "pg_restore"):
        tool(tmp_path / "bin" / name, text)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with pytest.raises(BackupError, match="pg_dump failed") as caught:
        backup(postgres_url.replace("hostler@", "hostler:open-sesame@"), tmp_path / "copy")
    word, *arguments = seen.read_text().split()
    assert word == "open-sesame"
    assert arguments
    assert not any("sesame" in argument for argument in arguments)
    assert "sesame" not in f"{caught.value.message} {caught.value.hint}"


def tool(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
