"""Round robin's memory: the host of the latest decision that did not fail, for each policy on its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hostler.engine.state.turns import Turns
from tests.engine.fleet import QUICK


def test_nobody_had_a_turn_yet():
    assert Turns().last("any") == ""


def test_a_decision_counts_before_it_is_carried_out():
    turns = Turns()
    turns.assume("p", 1, "a")
    assert turns.last("p") == "a"


def test_a_failed_decision_gives_its_turn_back_to_the_one_before():
    turns = Turns()
    turns.assume("p", 1, "a")
    turns.assume("p", 2, "b")
    turns.forget("p", 2)
    assert turns.last("p") == "a"
    turns.forget("p", 1)
    assert turns.last("p") == ""


def test_a_failed_decision_that_others_followed_changes_nothing():
    turns = Turns()
    turns.assume("p", 1, "a")
    turns.assume("p", 2, "b")
    turns.forget("p", 1)
    assert turns.last("p") == "b"


def test_a_turn_goes_back_to_a_decision_that_was_carried_out_long_ago():
    turns = Turns()
    for seq, host in enumerate("abc", 1):
        turns.assume("p", seq, host)
    turns.confirm("p", 2)
    turns.confirm("p", 1)
    turns.forget("p", 3)
    assert turns.last("p") == "b"


def test_a_decision_that_was_carried_out_cannot_fail_any_more():
    turns = Turns()
    turns.assume("p", 1, "a")
    turns.assume("p", 2, "b")
    turns.confirm("p", 2)
    turns.forget("p", 2)
    assert turns.last("p") == "b"


def test_news_of_decisions_that_took_no_turn_change_nothing():
    turns = Turns()
    turns.confirm("p", 1)
    turns.forget("p", 1)
    turns.assume("p", 5, "a")
    turns.confirm("p", 4)
    turns.forget("p", 6)
    turns.forget("", 5)
    assert turns.last("p") == "a"


moves = st.lists(st.tuples(st.sampled_from(["assume", "confirm", "forget"]), st.sampled_from("pq"), st.integers(0, 9)))


@given(moves=moves)
@QUICK
def test_the_last_turn_is_the_latest_decision_that_did_not_fail(moves):
    turns = Turns()
    decided: dict[str, dict[int, str]] = {"p": {}, "q": {}}  # what did not fail
    open_: dict[str, list[int]] = {"p": [], "q": []}
    for seq, (what, policy, number) in enumerate(moves, 1):
        pending = open_[policy]
        if what == "assume":
            turns.assume(policy, seq, f"h{number}")
            decided[policy][seq] = f"h{number}"
            pending.append(seq)
        elif pending:
            chosen = pending.pop(number % len(pending))
            getattr(turns, what)(policy, chosen)
            if what == "forget":
                del decided[policy][chosen]
        for name, stood in decided.items():
            assert turns.last(name) == (stood[max(stood)] if stood else "")


@given(moves=moves, later=moves)
@QUICK
def test_a_copy_remembers_the_same_and_goes_its_own_way(moves, later):
    def play(turns: Turns, steps: list[tuple[str, str, int]], first: int) -> list[str]:
        for seq, (what, policy, number) in enumerate(steps, first):
            if what == "assume":
                turns.assume(policy, seq, f"h{number}")
            else:
                getattr(turns, what)(policy, number + 1)
        return [turns.last("p"), turns.last("q")]

    turns = Turns()
    before = play(turns, moves, 1)
    twin = turns.copy()
    ahead = play(twin, later, 100)
    assert [turns.last("p"), turns.last("q")] == before
    assert play(turns, later, 100) == ahead
