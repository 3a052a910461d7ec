"""Where two journals differ: every kind of action is described in words."""

from __future__ import annotations

import pytest

from hostler.cli.journals.differences import find_differences
from hostler.engine.journals.journal import FORMAT, HeaderEntry, Journal, StepEntry
from hostler.model import Abandon, Ask, Bind, Defer, Evict, Nominate, Prepare, QueueRules

HEADER = HeaderEntry(FORMAT, "0", (), 0, 0, QueueRules())
WHO = ("u", "web", 1)

ACTIONS = {
    "bind": (Bind(*WHO, "b", (0, 1)), "b devices 0, 1"),
    "prepare": (Prepare(*WHO, "b", ("disk",), 9), "prepared on b"),
    "hold": (Defer(*WHO, 3), "not placed"),
    "ask": (Ask(*WHO, "oracle", 1, ("a", "b"), 9), "oracle is asked about 2 hosts"),
    "abandon": (Abandon(*WHO, "b"), "given up on b"),
    "evict": (Evict(*WHO, "b"), "evicted from b"),
    "nominate": (Nominate(*WHO, "b", ("x", "y")), "nominated for b, 2 guests to go"),
    "nominate nowhere": (Nominate(*WHO), "no longer nominated"),
}


@pytest.mark.parametrize(("action", "text"), ACTIONS.values(), ids=ACTIONS)
def test_an_action_is_shown_in_words(action, text):
    one, other = (Journal(HEADER, (StepEntry(0, None, (found,)),)) for found in (Bind(*WHO, "a"), action))
    assert find_differences(one, other) == [f"entry 1: web: a versus {text}"]
