"""The log has no gaps and follows the order of commits, whichever replica writes and whatever dies."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hostler.control.store import Database, open_database
from hostler.control.store.errors import LogForgottenError
from hostler.control.store.history import log
from hostler.control.store.history.log import StoredCheckpoint, StoredEntry
from hostler.errors import InputError
from tests.control.databases import PATIENT
from tests.control.store.row_makers import fact, note
from tests.control.store.test_writer import Gate
from tests.wait import GIVE_UP_S, wait_until

WRITER = Path(__file__).with_name("log_writer.py")


def append(database: Database, *entries: log.NewEntry) -> list[int]:
    return database.submit(lambda connection: log.append(connection, entries)).result(30)


def entries_after(database: Database, seq: int, limit: int = 100_000, **rest) -> list[StoredEntry]:
    return database.read_now(lambda connection: log.read_after(connection, seq, limit, **rest))


def start_writer(url: str, who: str, threads: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), url, who, str(threads), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def read_acknowledged(lines: list[str]) -> dict[int, str]:
    """Return what a writer said is on disk; a line that was cut off by its death does not count."""
    found = {}
    for line in lines:
        words = line.split()
        if line.endswith("\n") and len(words) == 2:
            found[int(words[0])] = words[1]
    return found


def check_gapless(database: Database, acknowledged: dict[int, str]) -> int:
    found = entries_after(database, 0)
    assert [entry.seq for entry in found] == list(range(1, len(found) + 1))
    assert database.read_now(log.head) == len(found)
    bodies = {entry.seq: entry.body.decode() for entry in found}
    assert {seq: bodies.get(seq) for seq in acknowledged} == acknowledged
    assert len(set(bodies.values())) == len(bodies)
    return len(found)


def test_entries_are_numbered_from_one_and_read_back_whole(database):
    assert append(database, fact(b"a", project="shop", subject="vm-1"), note(b"b")) == [1, 2]
    assert append(database) == []
    assert append(database, fact(b"c")) == [3]
    expected = StoredEntry(seq=1, at_ns=1, kind="fact", body=b"a", actor="test", project="shop", subject="vm-1")
    found = entries_after(database, 0)
    assert found[0] == expected
    assert [entry.seq for entry in found] == [1, 2, 3]
    assert [entry.seq for entry in entries_after(database, 1, limit=1)] == [2]
    assert entries_after(database, 3) == []


def test_entries_can_be_chosen_by_kind_project_and_subject(database):
    append(database, fact(project="shop", subject="a"), note(project="shop", subject="b"), fact(project="bank"))
    assert [entry.seq for entry in entries_after(database, 0, kinds=("fact",))] == [1, 3]
    assert [entry.seq for entry in entries_after(database, 0, project="shop")] == [1, 2]
    assert [entry.seq for entry in entries_after(database, 0, subject="b")] == [2]


def test_a_work_that_fails_leaves_no_gap(database):
    def failing(connection) -> None:
        log.append(connection, [fact(), fact()])
        raise ZeroDivisionError

    append(database, fact())
    assert isinstance(database.submit(failing).exception(30), ZeroDivisionError)
    assert append(database, fact()) == [2]


def test_eight_writers_in_two_processes_leave_no_gap(postgres_url):
    database = open_database(postgres_url, limits=PATIENT)
    writers = [start_writer(postgres_url, who, 4, 40) for who in ("p", "q")]
    acknowledged: dict[int, str] = {}
    for writer in writers:
        output, _ = writer.communicate(timeout=GIVE_UP_S)
        assert writer.returncode == 0
        acknowledged |= read_acknowledged(output.splitlines(keepends=True))
    assert check_gapless(database, acknowledged) == len(acknowledged) == 320
    database.close()


def test_a_reader_that_follows_while_two_processes_write_misses_nothing(postgres_url):
    database = open_database(postgres_url, limits=PATIENT)
    writers = [start_writer(postgres_url, who, 4, 40) for who in ("p", "q")]
    seen: list[int] = []
    while len(seen) < 320:
        seen += [entry.seq for entry in entries_after(database, seen[-1] if seen else 0)]
    assert seen == list(range(1, 321))
    for writer in writers:
        writer.communicate(timeout=GIVE_UP_S)
    database.close()


def test_eight_threads_leave_no_gap(sqlite_url):
    database = open_database(sqlite_url)
    acknowledged: dict[int, str] = {}

    def run(number: int) -> None:
        for turn in range(40):
            body = f"{number}-{turn}"
            (seq,) = append(database, fact(body.encode()))
            acknowledged[seq] = body

    gate = Gate(database)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: database.waiting >= 8)
    gate.open()
    for thread in threads:
        thread.join()
    assert check_gapless(database, acknowledged) == len(acknowledged) == 320
    assert database.commits < 320
    database.close()


@pytest.mark.parametrize("lines", [1, 37, 150])
def test_a_process_that_is_killed_loses_nothing_that_it_acknowledged(url, lines):
    # Twice, so that a database which a killed process left behind is written to by a process that is killed.
    acknowledged: dict[int, str] = {}
    for who in ("first", "second"):
        with start_writer(url, who, 8, 100_000) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            heard = [writer.stdout.readline() for _ in range(lines)]
            writer.kill()
            heard += writer.stdout.readlines()
        acknowledged |= read_acknowledged(heard)
    assert len(acknowledged) >= 2 * lines
    database = open_database(url, limits=PATIENT)
    count = check_gapless(database, acknowledged)
    assert append(database, fact(b"after")) == [count + 1]
    database.close()


def save(database: Database, seq: int, body: bytes = b"state") -> None:
    checkpoint = StoredCheckpoint(seq=seq, at_ns=5, format="1", body=body)
    database.submit(lambda connection: log.save_checkpoint(connection, checkpoint)).result(30)


def test_the_checkpoint_before_is_found_and_one_older_is_kept(database):
    append(database, *[fact() for _ in range(9)])
    assert database.read_now(log.checkpoint_before) is None
    for seq in (2, 5, 7):
        save(database, seq, f"at {seq}".encode())
    found = database.read_now(log.checkpoint_before)
    assert (found.seq, found.body, found.format) == (7, b"at 7", "1")
    save(database, 7, b"again")
    assert database.read_now(log.checkpoint_before).body == b"again"
    with pytest.raises(InputError):
        save(database, 10)


def forget(database: Database, seq: int) -> int:
    return database.submit(lambda connection: log.forget_before(connection, seq)).result(30)


def test_log_is_never_forgotten_beyond_the_older_checkpoint(database):
    append(database, *[fact() for _ in range(9)])
    assert forget(database, 9) == 0
    save(database, 6)
    assert forget(database, 9) == 0, "a start that cannot use the only checkpoint needs the whole log"
    save(database, 8)
    assert forget(database, 4) == 3
    with pytest.raises(LogForgottenError):
        entries_after(database, 2)
    assert [entry.seq for entry in entries_after(database, 3)] == [4, 5, 6, 7, 8, 9]
    assert forget(database, 100) == 3
    assert [entry.seq for entry in entries_after(database, 6)] == [7, 8, 9]
    assert forget(database, 2) == 0
    with pytest.raises(LogForgottenError):
        entries_after(database, 5)
    assert append(database, fact()) == [10]


def test_unusable_checkpoints_go_when_another_is_saved(database):
    append(database, *[fact() for _ in range(9)])
    for seq in (2, 5, 7):
        save(database, seq)
    kept = StoredCheckpoint(seq=9, at_ns=5, format="1", body=b"good")
    database.submit(lambda connection: log.save_checkpoint(connection, kept, unusable=(7,))).result(30)
    assert database.read_now(log.checkpoint_before) == kept
    assert database.read_now(lambda connection: log.checkpoint_before(connection, 9)).seq == 5
    assert database.read_now(lambda connection: log.checkpoint_before(connection, 5)) is None


def test_newest_entry_is_never_forgotten(database):
    append(database, fact(), fact())
    save(database, 1)
    save(database, 2)
    assert forget(database, 100) == 1
    assert [entry.seq for entry in entries_after(database, 1)] == [2]
    assert append(database, fact()) == [3]
