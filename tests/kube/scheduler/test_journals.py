"""The journal of a process that loses its lease: each term has a file of its own that can be replayed."""

from contextlib import closing

from hostler.engine import Engine, find_policy
from hostler.engine.journals.journal import Recorder
from hostler.kube.scheduler.journal_files import JournalFiles
from hostler.model import Host, HostJoined, amounts


def _term(files: JournalFiles, host: str) -> None:
    files.start_over()
    recorder = Recorder(Engine([find_policy("kubernetes")]), files.write)
    files.recorder = recorder
    recorder.apply(HostJoined(host=Host(name=host, capacity=amounts({"cpu": 1000}))))
    recorder.step(0)


def test_every_term_begins_a_file_of_its_own(tmp_path):
    path = tmp_path / "live.journal"
    with closing(JournalFiles(path)) as files:
        _term(files, "first")
        _term(files, "second")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["live.journal", "live.journal.1"]
    for file, host, other in ((path, b"second", b"first"), (tmp_path / "live.journal.1", b"first", b"second")):
        content = file.read_bytes()
        assert host in content
        assert other not in content
        assert content.count(b'"entry":"opened"') == 1


def test_a_term_begins_no_file_where_nothing_was_written(tmp_path):
    path = tmp_path / "live.journal"
    with closing(JournalFiles(path)) as files:
        files.start_over()
        _term(files, "first")
    assert [one.name for one in tmp_path.iterdir()] == ["live.journal"]
