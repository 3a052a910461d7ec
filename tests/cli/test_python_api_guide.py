"""The guide to the Python API is true: its code runs as it stands, and gives what the text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

import hostler
from hostler.model import Action

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "python-api.md"
SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def guide() -> dict[str, Any]:
    """Run all Python blocks of the guide in order, as one program."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL))
    names: dict[str, Any] = {}
    exec(compile(code, str(GUIDE), "exec"), names)
    return names


def test_two_are_bound_and_the_third_is_held(guide):
    assert [(type(action).__name__, action.guest) for action in guide["first"]] == [
        ("Bind", "one"),
        ("Bind", "two"),
        ("Hold", "three"),
    ]
    assert [action.host for action in guide["first"][:2]] == ["north", "south"]


def test_times_are_nanoseconds(guide):
    assert guide["due"] == 300 * SECOND
    with pytest.raises(hostler.HostlerError, match="nanoseconds"):
        guide["engine"].step(now=1.5)


def test_answers_change_the_state(guide):
    assert guide["states"] == {"one": "bound", "two": "backoff", "three": "waiting"}


def test_the_loop_binds_again_after_the_backoff(guide):
    assert guide["placed"] == {"two": "south", "five": "east", "urgent": "attic"}


def test_the_loop_evicts_and_then_binds(guide):
    assert guide["ended"] == ["old"]
    assert guide["full"].decision("urgent").state == "bound"


def test_the_explanation_says_why_and_what_would_help(guide):
    assert guide["reasons"] == {"insufficient: cpu": 2}
    assert guide["help_needed"] == ["ask for 2 cpu less (at most 1)"]


def test_view_shows_where_guests_are_and_who_waits(guide):
    assert guide["where"] == {"one": "north", "two": "south", "four": ""}
    assert guide["left"] == 1000
    assert guide["waiting"] == [("four", "waiting")]


def test_a_fork_disturbs_nobody(guide):
    assert guide["what_if"] == [("four", "west")]


def test_what_is_restored_decides_the_same(guide):
    one, other = guide["both"]
    assert one == other
    assert [action.host for action in one] == ["west"]


def test_the_journal_replays_with_and_without_names(guide):
    assert guide["again"].difference is None
    assert hostler.replay(guide["redacted"]).difference is None
    assert b"east" in guide["lines"][1]
    assert not any(b"east" in line for line in guide["lines"][len(guide["journal"].entries) + 1 :])


def test_every_action_and_fact_that_the_tables_name_exists(guide):
    rows = re.findall(r"^\| `([A-Z][a-z]+)` \|.*\| (.*) \|$", GUIDE.read_text(), re.MULTILINE)
    named = {name for action, answers in rows for name in (action, *re.findall(r"`([A-Za-z]+)`", answers))}
    assert {"Bind", "GuestBound", "BindFailed", "Prepared", "Answered"} <= named
    assert named <= set(hostler.__all__)


def test_the_table_of_actions_is_complete():
    rows = re.findall(r"^\| `([A-Z][a-z]+)` \|", GUIDE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(action.__name__ for action in get_args(Action))
