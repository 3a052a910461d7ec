"""Journal files: each replayable alone, limited in number, and a full disk ends only the recording."""

from __future__ import annotations

import os
import resource
import socket
from pathlib import Path

import pytest

from hostler.cli.files import load_journal
from hostler.engine import Engine, find_policy
from hostler.engine.journals.journal import Recorder, replay
from hostler.errors import InputError
from hostler.kube.scheduler.journal_files import JournalFiles
from hostler.model import Guest, GuestArrived, GuestLeft, GuestSpec, Host, HostJoined, amounts


def run(files, guests=60):
    """Let guests come and go on four hosts, and return all decisions."""
    recorder = Recorder(Engine([find_policy("spread")]), files.write)
    files.recorder = recorder
    for number in range(4):
        recorder.apply(HostJoined(host=Host(name=f"h{number}", capacity=amounts({"cpu": 4000}))))
    decided = []
    for number in range(guests):
        spec = GuestSpec(requests=amounts({"cpu": 1000}))
        recorder.apply(GuestArrived(guest=Guest(name=f"g{number}", uid=f"g{number}", spec=spec), at=number))
        decided += [(action.uid, getattr(action, "host", "")) for action in recorder.step(number)]
        if number >= 10:
            recorder.apply(GuestLeft(uid=f"g{number - 10}", at=number))
    return decided


def replayed(path):
    """Replay a file, and return its decisions."""
    found = load_journal(str(path))
    result = replay(found)
    assert result.difference is None, result.difference
    assert result.steps > 0
    return [
        (action.uid, getattr(action, "host", "")) for entry in found.entries for action in getattr(entry, "actions", ())
    ]


def in_order(folder):
    """Return the files of a journal, the oldest first."""
    numbered = sorted(folder.glob("run.journal.*"), key=lambda path: int(path.suffix[1:]))
    return [*numbered, *folder.glob("run.journal")]


def test_without_a_limit_there_is_one_file(tmp_path):
    files = JournalFiles(tmp_path / "run.journal")
    decided = run(files)
    files.close()
    assert in_order(tmp_path) == [tmp_path / "run.journal"]
    assert replayed(tmp_path / "run.journal") == decided


def test_full_files_get_a_number_and_each_is_replayed_alone(tmp_path):
    files = JournalFiles(tmp_path / "run.journal", limit=4000, keep=0)
    decided = run(files)
    files.close()
    found = in_order(tmp_path)
    assert len(found) > 3
    assert [one for path in found for one in replayed(path)] == decided


def test_a_file_ends_with_a_step_however_many_facts_come_before_it(tmp_path):
    files = JournalFiles(tmp_path / "run.journal", limit=500, keep=0)
    recorder = files.recorder = Recorder(Engine([find_policy("spread")]), files.write)
    for number in range(50):
        recorder.apply(HostJoined(host=Host(name=f"h{number}", capacity=amounts({"cpu": 4000}))))
    for number in range(50):
        spec = GuestSpec(requests=amounts({"cpu": 1000}))
        recorder.apply(GuestArrived(guest=Guest(name=f"g{number}", uid=f"g{number}", spec=spec)))
    recorder.step(1)
    files.close()
    assert len(replayed(tmp_path / "run.journal")) == 50


def test_recording_that_ends_with_a_full_file_has_the_requested_name(tmp_path):
    finished: list[Path] = []
    files = JournalFiles(tmp_path / "run.journal", limit=1, current=tmp_path / ".run", finished=finished.append)
    decided = run(files, guests=3)
    files.close()
    assert files.files == in_order(tmp_path) == [tmp_path / "run.journal.1", tmp_path / "run.journal.2", files.path]
    assert sorted(tmp_path.iterdir()) == sorted(files.files)
    assert [one for path in files.files for one in replayed(path)] == decided
    assert len(finished) == 3


def test_a_file_has_its_final_name_only_when_it_is_finished(tmp_path):
    named: list[list[Path]] = []
    current = tmp_path / ".run"
    files = JournalFiles(
        tmp_path / "run.journal", limit=4000, current=current, finished=lambda file: named.append([file, *files.files])
    )
    run(files)
    files.close()
    assert len(named) == len(files.files) > 2
    assert [one[0] for one in named] == [current] * len(named)
    assert [one[1:] for one in named[:2]] == [[], [tmp_path / "run.journal.1"]]


def test_only_so_many_full_files_are_kept(tmp_path):
    files = JournalFiles(tmp_path / "run.journal", limit=2000, keep=2)
    decided = run(files)
    files.close()
    numbers = [int(path.suffix[1:]) for path in tmp_path.glob("run.journal.*")]
    assert len(numbers) == 2
    assert max(numbers) > 2
    assert files.files == in_order(tmp_path)
    tail = [one for path in in_order(tmp_path) for one in replayed(path)]
    assert tail == decided[-len(tail) :]


def test_a_journal_of_an_earlier_process_is_set_aside(tmp_path):
    for _ in range(2):
        files = JournalFiles(tmp_path / "run.journal")
        decided = run(files, guests=3)
        files.close()
    assert [path.name for path in in_order(tmp_path)] == ["run.journal.1", "run.journal"]
    assert all(replayed(path) == decided for path in in_order(tmp_path))
    assert files.earlier == tmp_path / "run.journal.1"
    assert files.files == [tmp_path / "run.journal"]


def test_full_disk_ends_the_recording_with_one_message_only(tmp_path):
    warnings: list[str] = []
    good = JournalFiles(tmp_path / "good.journal")
    decided = run(good)
    good.close()
    full = JournalFiles(tmp_path / "full.journal", warn=warnings.append)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        assert run(full) == decided
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    full.close()
    assert full.is_stopped
    assert warnings == [f"the journal {full.path} ends here; scheduling continues: file too large"]


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (Path.mkdir, "a folder"),
        (make_pipe, "a pipe"),
        (make_socket, "a socket"),
        (lambda path: path.symlink_to("/dev/full"), "a device"),
    ],
)
def test_what_is_no_file_is_refused_before_anything_begins(tmp_path, make, kind):
    path = tmp_path / "run.journal"
    make(path)
    with pytest.raises(InputError, match=f"is {kind}; a journal must be a regular file") as caught:
        JournalFiles(path)
    assert caught.value.hint


def test_a_folder_that_vanishes_ends_the_recording_too(tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    warnings: list[str] = []
    files = JournalFiles(folder / "run.journal", limit=2000, warn=warnings.append)
    (folder / "run.journal").unlink()
    folder.rmdir()
    assert len(run(files)) == 60
    files.close()
    assert files.is_stopped
    assert len(warnings) == 1


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        JournalFiles(tmp_path / "nowhere" / "run.journal")


def test_only_the_owner_reads_a_journal(tmp_path):
    files = JournalFiles(tmp_path / "run.journal")
    files.close()
    assert (tmp_path / "run.journal").stat().st_mode & 0o077 == 0
