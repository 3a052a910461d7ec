"""The lines of a scheduler's log, for people and for programs."""

import json

import pytest

from hostler.telemetry.log import QUIET, Log

NOON = 1_800_014_400_123_456_789
SECOND = 1_000_000_000


class Lines:
    """A log into a list, at a time that the test sets."""

    def __init__(self, **options):
        self.lines: list[str] = []
        self.at = NOON
        self.log = Log(self.lines.append, now=lambda: self.at, **options)


def test_a_line_has_time_level_message_and_fields():
    lines = Lines()
    lines.log.info("evicted", pod="default/low", why="preempted by high", seconds=1.5, nothing="")
    lines.log.warn("lost")
    assert lines.lines == [
        '2027-01-15T12:00:00.123Z INFO  evicted pod=default/low why="preempted by high" seconds=1.5 nothing=""',
        "2027-01-15T12:00:00.123Z WARN  lost",
    ]


def test_a_stranger_cannot_begin_a_line_of_his_own():
    lines = Lines()
    lines.log.info("refused", why='a\nb=\x1b[2J"')
    assert lines.lines == [r'2027-01-15T12:00:00.123Z INFO  refused why="a\nb=\u001b[2J\""']


def test_programs_read_the_same_as_json():
    lines = Lines(form="json")
    lines.log.info("evicted", pod="default/low", seconds=1.5, host=None)
    assert json.loads(lines.lines[0]) == {
        "time": "2027-01-15T12:00:00.123Z",
        "level": "info",
        "message": "evicted",
        "pod": "default/low",
        "seconds": 1.5,
        "host": "None",
    }


def test_details_and_facts_are_told_only_to_those_who_ask():
    told = {}
    for verbosity in range(3):
        lines = Lines(verbosity=verbosity)
        lines.log.info("one")
        lines.log.detail("two")
        lines.log.fact("three")
        told[verbosity] = [line.split()[-1] for line in lines.lines]
    assert told == {0: ["one"], 1: ["one", "two"], 2: ["one", "two", "three"]}


def test_repeated_message_is_limited_and_omissions_are_counted():
    lines = Lines()
    for number in range(250):
        lines.log.warn("bind refused", pod=number)
    lines.log.info("another")
    assert len(lines.lines) == 21
    lines.at += 11 * SECOND
    lines.log.info("later")
    assert lines.lines[-2].endswith("WARN  bind refused: so many more lines were left out lines=230")
    lines.log.warn("bind refused", pod=251)
    assert lines.lines[-1].endswith("bind refused pod=251")


def test_a_quiet_log_says_nothing():
    QUIET.info("a")
    QUIET.detail("b")
    assert not QUIET.has_details


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_strangers_text_with_half_a_character_is_written_all_the_same(form):
    lines = Lines(form=form)
    lines.log.warn("odd \udc80", why="half \udc80", error=ValueError("\ud800"))
    (line,) = lines.lines
    assert line.encode().count(rb"\udc80") == 2
    assert rb"\ud800" in line.encode()


def test_a_clock_that_is_set_back_does_not_silence_a_message():
    lines = Lines()
    for number in range(25):
        lines.log.warn("bind refused", pod=number)
    lines.at -= 3600 * SECOND
    lines.log.warn("bind refused", pod="late")
    assert lines.lines[-2].endswith("bind refused: so many more lines were left out lines=5")
    assert lines.lines[-1].endswith("bind refused pod=late")


def test_what_was_left_out_last_is_reported_at_the_end():
    lines = Lines()
    for number in range(25):
        lines.log.warn("bind refused", pod=number)
    lines.log.finish()
    assert lines.lines[-1].endswith("WARN  bind refused: so many more lines were left out lines=5")
    lines.log.finish()
    assert len(lines.lines) == 21


HOSTILE = {
    "line break": "a\nb",
    "carriage return": "a\rb",
    "ANSI escape": "a\x1b[2Jb",
    "C1 control": "a\x9b2Jb",
    "delete": "a\x7fb",
    "line separator": "a\u2028b",
    "paragraph separator": "a\u2029b",
    "next line": "a\x85b",
    "bidi override": "a\u202eb",
    "bidi isolate": "a\u2066b",
    "zero width": "a\u200bb",
    "tag letter": "a\U000e0041b",
    "half a character": "a\udc9bb",
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("form", ["text", "json"])
def test_log_line_holds_printable_characters_only(hostile, form):
    """In a message, a value, a field's name and the text of an error; also in the line about what was left out."""
    lines = Lines(form=form)
    for _ in range(30):
        lines.log.info(f"refused {hostile}", why=hostile, error=ValueError(hostile), **{hostile: 1})
    lines.log.finish()
    assert len(lines.lines) == 21
    for line in lines.lines:
        assert line.isprintable(), ascii(line)
    if form == "json" and hostile.isascii():
        assert json.loads(lines.lines[0])["why"] == hostile


@pytest.mark.parametrize("form", ["text", "json"])
def test_log_line_keeps_letters_of_all_scripts(form):
    lines = Lines(form=form)
    lines.log.info("größer 日本 مرحبا", name="Ünïcode 🖥")
    assert "größer 日本 مرحبا" in lines.lines[0]
    assert "Ünïcode 🖥" in lines.lines[0]


def test_log_without_failures_leaves_out_what_cannot_be_written():
    lines, is_full = [], True

    def write(line):
        if is_full:
            raise OSError(28, "No space left on device")
        lines.append(line)

    log = Log(write, now=lambda: NOON, form="json").without_failures()
    log.warn("lost")
    is_full = False
    log.info("written")
    assert [json.loads(line)["message"] for line in lines] == ["written"]
