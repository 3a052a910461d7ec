"""``hostler journal``: replay, show, diff and redact."""

from __future__ import annotations

import os

import msgspec
import pytest

from hostler.cli.files import atomic_file
from hostler.engine import BUILT_IN, Engine
from hostler.engine.journals.journal import FactEntry, Recorder, StepEntry, encode_entry, read_journal, write_journal
from hostler.model import Guest, GuestArrived, GuestLeft, GuestsArrived, GuestSpec, Host, HostJoined
from tests.cli.cli_in_process import DEMO_FILES, hostler


@pytest.fixture
def run(tmp_path):
    """Return the journal of the demo."""
    path = tmp_path / "run.journal"
    assert hostler("place", *DEMO_FILES, "--policy", "random", "--journal", path).code == 0
    return path


def rewritten(path, change):
    """Write the journal again, with another fact in place of each arrival of many guests."""
    journal = read_journal(path.read_bytes().splitlines(keepends=True))
    entries = tuple(
        msgspec.structs.replace(entry, event=change(entry.event))
        if isinstance(entry, FactEntry) and isinstance(entry.event, GuestsArrived)
        else entry
        for entry in journal.entries
    )
    with path.open("wb") as stream:
        write_journal(msgspec.structs.replace(journal, entries=entries), stream.write)
    return path


@pytest.fixture
def forged(run, tmp_path):
    """Return the same journal, with one guest on another host than it was put on."""
    journal = read_journal(run.read_bytes().splitlines(keepends=True))
    entries = list(journal.entries)
    at = next(i for i, entry in enumerate(entries) if isinstance(entry, StepEntry))
    step = entries[at]
    assert isinstance(step, StepEntry)
    first = msgspec.structs.replace(step.actions[0], host="elsewhere")
    entries[at] = msgspec.structs.replace(step, actions=(first, *step.actions[1:]))
    path = tmp_path / "forged.journal"
    with path.open("wb") as stream:
        write_journal(msgspec.structs.replace(journal, entries=tuple(entries)), stream.write)
    return path


def test_a_replay_says_that_it_is_identical(run):
    result = hostler("journal", "replay", run)
    assert result.code == 0
    assert result.lines == ["4 entries, 1 step, 34 decisions: identical"]


def test_a_replay_can_come_from_standard_input(run):
    assert hostler("journal", "replay", "-", stdin=run.read_text()).code == 0


def test_a_replay_that_differs_shows_both_sides_and_leaves_with_1(forged):
    result = hostler("journal", "replay", forged)
    assert result.code == 1
    assert result.lines[0].startswith("differs at entry 4 of 4")
    assert '"host":"elsewhere"' in result.lines[1]
    assert result.lines[1].startswith("  journal: ")
    assert result.lines[2].startswith("  replay:  ")


def test_a_replay_as_json(run, forged):
    same, other = (hostler("journal", "replay", path, "-o", "json").json for path in (run, forged))
    assert same == {"entries": 4, "steps": 1, "decisions": 34, "identical": True, "difference": None}
    assert other["identical"] is False
    assert other["difference"]["entry"] == 4


def test_show_has_a_line_for_each_fact_and_each_action_and_a_summary(run):
    lines = hostler("journal", "show", run).lines
    assert "policies random, seed 0" in lines[0]
    assert lines[2].split() == ["ENTRY", "AFTER", "KIND", "WHO", "WHERE", "WHY"]
    assert lines[3].split()[:4] == ["1", "+0.000s", "hosts", "joined"]
    assert lines[3].endswith("12 hosts")
    bound = [line.split() for line in lines if line.split()[:3] == ["4", "+0.000s", "bind"]]
    assert len(bound) == 34
    assert ["database-0"] in [line[3:4] for line in bound]
    assert lines[-2] == "4 entries in 0.000s: 3 facts, 1 step."
    assert lines[-1] == "By kind: bind 34, guests arrived 2, hosts joined 1."


@pytest.fixture
def eventful(tmp_path):
    """Return the journal of a run with a calendar: an arrival, a refusal, a change and a departure."""
    path = tmp_path / "eventful.journal"
    start = 1_769_860_800_000_000_000
    web = Guest(name="web", uid="u1", spec=GuestSpec(namespace="shop", requests=(("cpu", 1000),)))
    with path.open("wb") as stream:
        recorder = Recorder(Engine([BUILT_IN["pack"]], start, 0), stream.write)
        host = Host(name="a", uid="a", capacity=(("cpu", 4000), ("guests", 1)))
        recorder.apply(HostJoined(host=host, at=start))
        recorder.apply(GuestArrived(guest=web, at=start))
        recorder.step(start + 1_500_000_000)
        recorder.apply(GuestArrived(guest=Guest(name="db", uid="u2", spec=web.spec), at=start + 90_000_000_000))
        recorder.step(start + 90_000_000_000)
        recorder.apply(GuestLeft(uid="u1", at=start + 7_384_000_000_000))
    return path


def test_show_tells_when_who_where_and_why(eventful):
    lines = [" ".join(line.split()) for line in hostler("journal", "show", eventful).lines]
    assert lines[3:-3] == [
        "1 +0.000s 2026-01-31T12:00:00.000Z host joined a - cpu 4, guests 1",
        "2 +0.000s 2026-01-31T12:00:00.000Z guest arrived shop/web - cpu 1",
        "3 +1.500s 2026-01-31T12:00:01.500Z bind shop/web a",
        "4 +1m30s 2026-01-31T12:01:30.000Z guest arrived shop/db - cpu 1",
        "5 +1m30s 2026-01-31T12:01:30.000Z hold shop/db - 0 of 1 host: 1 too many guests",
        "6 +2h03m04s 2026-01-31T14:03:04.000Z guest left shop/web -",
    ]


def test_show_may_be_about_one_guest_or_some_kinds(eventful):
    def shown(*words):
        rows = [line.split() for line in hostler("journal", "show", eventful, *words).lines[3:-3]]
        return [int(row[0]) for row in rows]

    assert shown("--guest", "web") == shown("--guest", "u1") == shown("--guest", "shop/web") == [2, 3, 6]
    assert shown("--kind", "bind", "--kind", "guest_left") == [3, 6]
    assert shown("--kind", "guest-left", "--guest", "db") == []
    assert hostler("journal", "show", eventful, "--kind", "bind").lines[-1] == "Shown are 1 of 6 lines: bind 1."


def test_show_as_json_may_be_filtered_too(eventful):
    data = hostler("journal", "show", eventful, "--json", "--guest", "db").json
    assert [(entry["number"], entry["entry"]) for entry in data["entries"]] == [(4, "applied"), (5, "stepped")]


def test_show_of_a_guest_or_kind_that_is_not_there_is_an_error(eventful):
    assert hostler("journal", "show", eventful, "--guest", "wob").hint == "did you mean 'web'?"
    assert hostler("journal", "show", eventful, "--kind", "binds").hint == "did you mean 'bind'?"


def test_show_as_json_holds_everything(run):
    data = hostler("journal", "show", run, "-o", "json").json
    assert data["header"]["seed"] == 0
    assert [entry["entry"] for entry in data["entries"]] == ["applied", "applied", "applied", "stepped"]


def test_diff_of_a_journal_with_itself_is_nothing(run):
    result = hostler("journal", "diff", run, run)
    assert (result.code, result.out) == (0, "identical\n")


def test_diff_names_the_entry(run, forged):
    result = hostler("journal", "diff", run, forged)
    assert result.code == 1
    was = next(line for line in run.read_text().splitlines() if '"stepped"' in line).split('"host":"')[1].split('"')[0]
    assert result.lines[0].endswith(f": {was} versus elsewhere")
    assert result.lines[0].startswith("entry 4: ")
    assert len(result.lines) == 1


def test_diff_of_runs_with_other_seeds_and_other_input(run, tmp_path):
    other, fewer = tmp_path / "other.journal", tmp_path / "fewer.journal"
    hostler("place", *DEMO_FILES, "--policy", "random", "--seed", "1", "--journal", other)
    hostler("place", *DEMO_FILES[:2], "--policy", "random", "--journal", fewer)
    lines = hostler("journal", "diff", run, other).lines
    assert lines[0] == "header: seed differs"
    assert " versus " in lines[1]
    assert "{" not in lines[1]
    lines = hostler("journal", "diff", run, fewer).lines
    assert lines[-1].startswith("entry ")
    assert "{" not in lines[-1]


def test_redact_says_what_is_kept():
    text = " ".join(hostler("journal", "redact", "--help").out.split())
    for kept in ("resources", "kinds and models of devices", "policies and plugins", "whole numbers in labels"):
        assert kept in text


def test_a_redacted_journal_has_no_names_and_replays(run, tmp_path):
    shared = tmp_path / "shared.journal"
    assert hostler("journal", "redact", run, "-o", shared).code == 0
    text = shared.read_text()
    for name in ("north", "south", "web", "database", "zone", "ssd"):
        assert name in run.read_text()
        assert name not in text
    assert hostler("journal", "replay", shared).code == 0
    assert "redacted" in hostler("journal", "show", shared).lines[0]


def test_redact_says_what_it_wrote(run, tmp_path):
    shared = tmp_path / "shared.journal"
    entries = len(run.read_text().splitlines()) - 1  # the first line is the header
    result = hostler("journal", "redact", run, "-o", shared)
    assert result.out == f"wrote {shared}: {entries} entries, {shared.stat().st_size:,} bytes\n"


def test_a_redacted_journal_can_go_to_standard_output(run, tmp_path):
    result = hostler("journal", "redact", run, "-o", "-")
    assert result.code == 0
    assert hostler("journal", "replay", "-", stdin=result.out).code == 0


def test_a_forged_journal_is_not_redacted(forged, tmp_path):
    result = hostler("journal", "redact", forged, "-o", tmp_path / "out")
    assert result.code == 2
    assert not (tmp_path / "out").exists()


def test_a_torn_tail_is_noted_and_the_rest_is_good(run):
    journal = read_journal(run.read_bytes().splitlines(keepends=True))
    run.write_bytes(run.read_bytes() + encode_entry(journal.entries[-1])[:-10])
    result = hostler("journal", "replay", run)
    assert result.code == 0
    assert "was lost" in result.err


def test_a_journal_without_a_step_has_nothing_to_replay(run):
    run.write_bytes(b"".join(run.read_bytes().splitlines(keepends=True)[:-1]))
    result = hostler("journal", "replay", run)
    assert result.code == 2
    assert result.error == f"{run}: nothing to replay"


def test_damage_in_the_middle_is_an_error(run):
    lines = run.read_bytes().splitlines(keepends=True)
    run.write_bytes(lines[0] + b"x" + lines[1] + lines[2])
    result = hostler("journal", "show", run)
    assert result.code == 2
    assert "damaged" in result.error


@pytest.mark.parametrize("content", [b"", b"hello\n", b"hello\nworld\n", b"\x00" * 100, encode_entry(StepEntry(0))])
def test_what_is_no_journal_is_refused(tmp_path, content):
    path = tmp_path / "x"
    path.write_bytes(content)
    for words in (["replay", path], ["show", path], ["diff", path, path], ["redact", path, "-o", tmp_path / "out"]):
        result = hostler("journal", *words)
        assert result.code == 2
        assert result.error.startswith(str(path))


@pytest.mark.parametrize("name", [".", "missing"])
def test_what_cannot_be_read_is_named(tmp_path, name):
    result = hostler("journal", "show", tmp_path / name)
    assert result.code == 2
    assert str(tmp_path) in result.error


def test_redacting_into_a_link_keeps_the_link(tmp_path):
    target = tmp_path / "target.journal"
    target.write_text("old")
    link = tmp_path / "link.journal"
    link.symlink_to(target)
    with atomic_file(str(link)) as write:
        write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_what_is_no_plain_file_is_written_to_and_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with atomic_file(str(pipe)) as write:
            write(b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("words", [(), ("--json",), ("--guest", "web-0")], ids=["table", "json", "guest"])
@pytest.mark.parametrize(
    "change",
    [
        {"specs": ()},
        {"spec_of": (-1,) * 40},
        {"spec_of": (0,)},
        {"uids": ("one",)},
        {"hosts": ("one",)},
    ],
    ids=["no spec", "a spec before the first", "too few specs", "too few uids", "too few hosts"],
)
def test_guests_that_a_journal_names_and_does_not_describe_are_its_fault(run, change, words):
    path = rewritten(run, lambda event: msgspec.structs.replace(event, **change))
    result = hostler("journal", "show", path, *words)
    assert result.code == 2
    assert "guests that it does not describe" in result.error
    assert "journal replay" in result.hint
