"""What this machine knows of the log, in a file: a process that starts after commits were lost does not serve."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hostler.control.store import Database, open_database
from hostler.control.store.backup.backup import backup, restore, restore_in_place
from hostler.control.store.errors import LogWentBackError
from hostler.control.store.history import log
from hostler.control.store.history.continuity import Tip
from hostler.control.store.history.known_heads import HeadFile, read_identity
from tests.control.databases import PATIENT
from tests.control.postgres import nobody_connected
from tests.control.store.test_history import OTHER_PASTS, Standby, append, bodies, elsewhere
from tests.wait import wait_until


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Give the state folder of a machine."""
    return tmp_path / "state"


def serve(url: str, state: Path | None, told: list[str] | None = None) -> Database:
    """Open a database as a service does that keeps its state in a folder."""
    return open_database(url, limits=PATIENT, state=state, tell=(told if told is not None else []).append)


def leave(database: Database, url: str) -> None:
    database.close()
    if url.startswith("postgresql"):
        nobody_connected(url)


def add(database: Database, *names: str) -> list[int]:
    """Append entries that a restore can read."""
    return append(database, *[json.dumps({"name": name}).encode() for name in names])


def file_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


def head_files(state: Path) -> list[Path]:
    return sorted((state / "known-heads").glob("*.json"))


def known_seq(state: Path) -> int:
    """Return the newest entry in any file; a slot that is empty or damaged counts for nothing."""
    found = [0]
    for line in (line for path in head_files(state) for line in path.read_bytes().splitlines()):
        with suppress(ValueError):
            found.append(json.loads(line)["seq"])
    return max(found)


@pytest.fixture
def standby(postgres, postgres_url, state):
    """Give a standby that has the first three entries of the log; this machine served the database before."""
    name = urlsplit(postgres_url).path.removeprefix("/")
    database = serve(postgres_url, state)
    add(database, "1", "2", "3")
    leave(database, postgres_url)
    yield Standby(postgres, name)
    for left in (f"{name}_standby", f"{name}_former"):
        postgres.drop_database(left)


@pytest.mark.parametrize(("other", "why"), OTHER_PASTS)
def test_process_started_after_lost_commits_does_not_serve(postgres_url, standby, state, other, why):
    database = serve(postgres_url, state)
    add(database, "4", "5")
    database.close()
    elsewhere(standby, *other)
    standby.promote()
    for _ in range(2):
        with pytest.raises(LogWentBackError, match=why) as caught:
            serve(postgres_url, state)
    [file] = head_files(state)
    assert f"known from {file}" in caught.value.message
    assert "hostler restore --in-place" in caught.value.hint
    assert (caught.value.exit_code, caught.value.retryable) == (3, False)
    database = serve(postgres_url, None)
    assert len(bodies(database)) == 3 + len(other), "nothing was written"
    database.close()


def test_killed_process_leaves_what_it_committed_last(postgres_url, standby, state):
    """The kill follows the answer at once: no thread had a second to write the file."""
    words = "import sys, time; from pathlib import Path; from hostler.control.store import open_database\n"
    words += "from hostler.control.store.history import log\n"
    words += "from tests.control.store.row_makers import fact\n"
    words += "database = open_database(sys.argv[1], state=Path(sys.argv[2]))\n"
    words += "database.submit(lambda c: log.append(c, [fact(b'4'), fact(b'5')])).result()\n"
    words += "print('committed', flush=True); time.sleep(600)\n"
    root = Path(__file__).resolve().parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", words, postgres_url, str(state)],
        env=os.environ | {"PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"committed\n"
        finally:
            process.send_signal(signal.SIGKILL)
    assert known_seq(state) == 5
    standby.promote()
    with pytest.raises(LogWentBackError, match="ends at entry 3, and entry 5 was committed"):
        serve(postgres_url, state)


@pytest.mark.parametrize("how", ["in place", "of a backup"])
def test_restored_database_is_served_by_machines_that_knew_more(postgres_url, standby, state, how, tmp_path):
    database = serve(postgres_url, state)
    add(database, "4")
    leave(database, postgres_url)
    if how == "of a backup":
        backup(postgres_url, tmp_path / "saved")
    database = serve(postgres_url, state)
    add(database, "5")
    leave(database, postgres_url)
    standby.promote()
    with pytest.raises(LogWentBackError):
        serve(postgres_url, state)
    nobody_connected(postgres_url)
    if how == "in place":
        restore_in_place(postgres_url)
    else:
        restore(tmp_path / "saved", postgres_url, is_forced=True)
    for _ in range(2):
        database = serve(postgres_url, state)
        add(database, "x")
        leave(database, postgres_url)
    assert len(head_files(state)) == 2, "the log has a new identity"


def test_former_server_that_has_everything_is_served_again(postgres, postgres_url, standby, state):
    """What the guide says first: give the replicas the server that lost nothing."""
    database = serve(postgres_url, state)
    add(database, "4", "5")
    leave(database, postgres_url)
    standby.promote()
    with pytest.raises(LogWentBackError):
        serve(postgres_url, state)
    nobody_connected(postgres_url)
    name = urlsplit(postgres_url).path.removeprefix("/")
    postgres.sql(f"ALTER DATABASE {name} RENAME TO {name}_standby")
    postgres.sql(f"ALTER DATABASE {name}_former RENAME TO {name}")
    postgres.sql(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
    database = serve(postgres_url, state)
    assert add(database, "6") == [6]
    leave(database, postgres_url)


def test_file_older_than_the_log_is_normal(url, state):
    database = serve(url, state)
    add(database, "1")
    leave(database, url)
    database = serve(url, None)  # another machine
    add(database, "2", "3")
    leave(database, url)
    assert known_seq(state) == 1
    database = serve(url, state)
    assert add(database, "4") == [4]
    leave(database, url)
    assert known_seq(state) == 4


def test_file_about_a_forgotten_entry_is_normal(url, state):
    database = serve(url, state)
    add(database, "1")
    leave(database, url)

    def forget(connection) -> None:
        log.append(connection, [])
        for seq in (4, 5):
            log.save_checkpoint(connection, log.StoredCheckpoint(seq=seq, at_ns=1, format="1", body=b""))
        assert log.forget_before(connection, 100) == 4

    database = serve(url, None)
    add(database, *["x"] * 4)
    database.submit(forget).result(30)
    leave(database, url)
    leave(serve(url, state), url)


def test_replicas_of_one_machine_share_a_file(postgres_url, state):
    one, two = serve(postgres_url, state), serve(postgres_url, state)
    for number, database in enumerate((one, two, one, one, two)):
        add(database, str(number))
    two.close()
    add(one, "5")
    one.close()
    assert len(head_files(state)) == 1
    assert known_seq(state) == 6
    database = serve(postgres_url, state)
    assert len(bodies(database)) == 6
    database.close()


def test_file_put_back_by_hand_is_not_served(sqlite_url, state, tmp_path):
    """A copy of yesterday in the place of an embedded database, without 'hostler restore'."""
    database = serve(sqlite_url, state)
    add(database, "1", "2")
    database.close()
    path = Path(file_of(sqlite_url))
    shutil.copy(path, tmp_path / "yesterday.db")
    database = serve(sqlite_url, state)
    add(database, "3")
    database.close()
    shutil.copy(tmp_path / "yesterday.db", path)
    with pytest.raises(LogWentBackError, match="ends at entry 2, and entry 3 was committed"):
        serve(sqlite_url, state)
    restore_in_place(sqlite_url)
    serve(sqlite_url, state).close()


def test_copy_without_an_identity_is_not_served(sqlite_url, state, tmp_path):
    """The file alone was copied, from a time when the identity stood in the write-ahead log beside it only."""
    path = Path(file_of(sqlite_url))
    database = serve(sqlite_url, None)
    add(database, "1")
    database.close()
    shutil.copy(path, tmp_path / "copy.db")
    database = serve(sqlite_url, state)
    add(database, "2", "3")
    database.close()
    shutil.copy(tmp_path / "copy.db", path)
    for _ in range(2):
        with pytest.raises(LogWentBackError, match="ends at entry 1, and entry 3 was committed"):
            serve(sqlite_url, state)
    restore_in_place(sqlite_url)
    serve(sqlite_url, state).close()


def test_new_database_at_a_known_place_is_served(sqlite_url, state):
    """A test that removes the file starts over."""
    for _ in range(2):
        database = serve(sqlite_url, state)
        assert add(database, "1", "2") == [1, 2]
        database.close()
        Path(file_of(sqlite_url)).unlink()


def test_copy_at_another_place_does_not_disturb_the_original(sqlite_url, state, tmp_path):
    database = serve(sqlite_url, state)
    add(database, "1")
    database.close()
    shutil.copy(file_of(sqlite_url), tmp_path / "copy.db")
    copy = serve(f"sqlite:///{tmp_path / 'copy.db'}", state)
    add(copy, "2", "3")
    copy.close()
    database = serve(sqlite_url, state)
    assert add(database, "other") == [2]
    database.close()


def flip_bits(content: bytes, *bits: int) -> bytes:
    damaged = bytearray(content)
    for bit in bits:
        damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def test_damaged_file_accuses_no_database(sqlite_url, state):
    """A bit that the disk lost: the other slot counts. If both lost one, it is reported, and the file is rewritten."""
    database = serve(sqlite_url, state)
    add(database, "1", "2")
    identity = database.read_now(read_identity)
    database.close()
    [path] = head_files(state)
    file = HeadFile(state, identity, file_of(sqlite_url))
    newest = file.read()
    older = Tip(newest.seq - 1, bytes(16))
    file.sync()
    file.write(older)
    file.close()
    good = path.read_bytes()
    assert file.read() == newest
    used = 8 * len(good.split(b"\n")[0].rstrip())
    rng = random.Random(16)
    for bit in rng.sample(range(used), 60):
        path.write_bytes(flip_bits(good, 8 * 4096 + bit))
        assert file.read() == newest
        path.write_bytes(flip_bits(good, bit))
        assert file.read() == older
        path.write_bytes(flip_bits(good, bit, 8 * 4096 + bit))
        with pytest.raises(ValueError):  # noqa: PT011 - msgspec's own, or ours
            file.read()
    told: list[str] = []
    for name in ("3", "4"):
        database = serve(sqlite_url, state, told)
        add(database, name)
        database.close()
    assert len(told) == 1
    assert "a loss of commits is not noticed after a restart" in told[0]
    assert known_seq(state) == 4


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_link_to_zeros(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_sparse(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(8192))
        file.truncate(2**40)


def write_long_number(path: Path) -> None:
    line = b'{"database":"x","seq":1%s,"digest":"00","check":"00"}' % (b"0" * 100)
    path.write_bytes(line.ljust(4096) + line.ljust(4096))


ODD_FILES = {
    "fifo": make_fifo,
    "link": make_link_to_zeros,
    "folder": make_folder,
    "sparse": make_sparse,
    "long number": write_long_number,
    "zeros": lambda path: path.write_bytes(bytes(8192)),
    "noise": lambda path: path.write_bytes(random.Random(16).randbytes(8192)),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ODD_FILES)
def test_odd_file_is_reported_and_ends_nothing(sqlite_url, state, kind):
    """Reading a pipe would block, a device has no end, and a number of 100 digits was a bug of ours."""
    database = serve(sqlite_url, state)
    add(database, "1")
    database.close()
    [path] = head_files(state)
    ODD_FILES[kind](path)
    told: list[str] = []
    database = serve(sqlite_url, state, told)
    assert add(database, "2") == [2]
    database.close()
    assert len(told) >= 1
    assert "a loss of commits is not noticed after a restart" in told[0]


@pytest.mark.parametrize("kind", ["sparse", "long number", "zeros", "noise"])
def test_damaged_file_is_good_again_after_a_commit(sqlite_url, state, kind, tmp_path):
    database = serve(sqlite_url, state)
    add(database, "1")
    database.close()
    shutil.copy(file_of(sqlite_url), tmp_path / "yesterday.db")
    [path] = head_files(state)
    ODD_FILES[kind](path)
    database = serve(sqlite_url, state)
    add(database, "2")
    database.close()
    shutil.copy(tmp_path / "yesterday.db", file_of(sqlite_url))
    with pytest.raises(LogWentBackError, match="ends at entry 1, and entry 2 was committed"):
        serve(sqlite_url, state)


def test_file_without_room_at_first_keeps_both_slots(state):
    """A disk that was full left a file without its blanks; bytes between its slots are zeros then."""
    file = HeadFile(state, "log", "there")
    file.path.parent.mkdir(parents=True)
    file.path.write_bytes(b"\n")
    for seq in (1, 2, 3):
        file.write(Tip(seq, bytes(16)))
        assert file.read() == Tip(seq, bytes(16))
        file.sync()
    file.close()


def test_place_need_not_be_utf8(tmp_path, state):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.db")
    for name in ("1", "2"):
        database = serve(f"sqlite:///{path}", state)
        add(database, name)
        database.close()
    assert known_seq(state) == 2


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_file_replaced_under_a_running_service_takes_no_writes(sqlite_url, state, how, tmp_path):
    """SQLite goes on writing to the file that it opened, so commits that were confirmed were lost."""
    database = serve(sqlite_url, state)
    add(database, "1")
    path = Path(file_of(sqlite_url))
    if how == "replaced":
        shutil.copy(path, tmp_path / "copy.db")
        (tmp_path / "copy.db").replace(path)
    else:
        path.rename(tmp_path / "elsewhere.db")
    for _ in range(2):
        with pytest.raises(LogWentBackError, match=f"was {how}"):
            add(database, "2")
    database.close()


def test_file_is_overwritten_in_place(sqlite_url, state):
    """A file that is replaced frees blocks; where those are discarded, commits of the database wait for it."""
    database = serve(sqlite_url, state)
    add(database, "1")
    [path] = head_files(state)
    before = path.stat()
    for number in range(2, 12):
        add(database, str(number))
        assert known_seq(state) == number
    database.close()
    after = path.stat()
    assert (after.st_ino, after.st_size, after.st_blocks) == (before.st_ino, before.st_size, before.st_blocks)


def test_folder_that_cannot_be_written_to_is_reported_once(sqlite_url, state):
    state.write_text("a file where a folder should be")
    told: list[str] = []
    database = serve(sqlite_url, state, told)
    add(database, "1")
    wait_until(lambda: bool(told), "it is reported")
    add(database, "2")
    database.close()
    assert len(told) == 1
    assert str(state) in told[0]


def test_files_are_for_their_owner_only_and_leave_nothing_beside(sqlite_url, state):
    database = serve(sqlite_url, state)
    add(database, "1")
    database.close()
    folder = state / "known-heads"
    assert [path.suffix for path in folder.iterdir()] == [".json"]
    assert [path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())] == [0o700, 0o600]
    assert HeadFile(state, "another log", "there").read() == Tip()
