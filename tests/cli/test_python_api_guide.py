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
        ("Defer", "three"),
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


def test_set_is_placed_and_the_summary_counts_it(guide):
    assert guide["hosts_of"] == {"web": "north", "db": "south", "batch": ""}
    assert guide["refusal"] == ["insufficient: cpu"]
    assert guide["placement"].summary.placed == 2


def test_explanation_of_a_set_names_shortfalls_and_advice(guide):
    assert guide["shortfalls"] == {"north": "insufficient: cpu", "south": "insufficient: cpu"}
    assert guide["advice"] == ["ask for 1 cpu less (at most 1)"]
    assert guide["recorded"].decision.host == "east"


def test_counts_say_how_many_copies_fit_and_hosts_are_needed(guide):
    assert (guide["fit"].count, guide["fit"].per_host) == (4, (("north", 2), ("south", 2)))
    assert guide["fit"].next.reasons
    assert (guide["fleet"].hosts, guide["fleet"].lower_bound) == (3, 2)


def test_run_until_idle_binds_who_waited(guide):
    assert guide["decided"] == [("Bind", "web"), ("Bind", "db"), ("Defer", "batch")]
    assert guide["live"].decision("batch").state == "bound"


def test_what_if_with_evictions_leaves_the_engine_alone(guide):
    assert guide["outcome"].hosts == {"alarm": "north"}
    assert guide["victims"] == ["web"]
    assert set(guide["outcome"].holds) == {"alarm"}
    assert sorted(guide["live"].guests()) == ["batch", "web"]


def test_candidates_and_ranking_agree(guide):
    assert guide["candidates"] == [("south", 107)]
    assert guide["ranking"].order == (("south", 107),)
    assert [(name, reason.text()) for name, reason in guide["ranking"].rejected.items()] == [
        ("north", "insufficient: cpu")
    ]


def test_typical_mix_is_that_of_the_guests(guide):
    assert guide["fgd"].mix == (hostler.MixEntry(2000, 500, 1, (), 1.0),)


def test_every_query_that_the_guide_names_exists(guide):
    named = set(re.findall(r"\bqueries\.([A-Za-z_]+)", GUIDE.read_text()))
    assert {"place_guests", "try_to_the_end", "MixRenewal"} <= named
    assert named <= set(hostler.queries.__all__)


def test_every_action_and_fact_that_the_tables_name_exists(guide):
    rows = re.findall(r"^\| `([A-Z][a-z]+)` \|.*\| (.*) \|$", GUIDE.read_text(), re.MULTILINE)
    named = {name for action, answers in rows for name in (action, *re.findall(r"`([A-Za-z]+)`", answers))}
    assert {"Bind", "GuestBound", "BindFailed", "Prepared", "Answered"} <= named
    assert named <= set(hostler.__all__)


def test_the_table_of_actions_is_complete():
    rows = re.findall(r"^\| `([A-Z][a-z]+)` \|", GUIDE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(action.__name__ for action in get_args(Action))
