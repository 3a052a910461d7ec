"""Where two journals part: every kind of action is told in words."""

from __future__ import annotations

import pytest

from hostler.cli.differences import differences
from hostler.engine.journal import FORMAT, Journal, Opened, Stepped
from hostler.model import Abandon, Ask, Bind, Evict, Hold, Nominate, Prepare, QueueRules

HEADER = Opened(FORMAT, "0", (), 0, 0, QueueRules())
WHO = ("u", "web", 1)

ACTIONS = {
    "bind": (Bind(*WHO, "b", (0, 1)), "b devices 0, 1"),
    "prepare": (Prepare(*WHO, "b", ("disk",), 9), "prepared on b"),
    "hold": (Hold(*WHO, 3), "not placed"),
    "ask": (Ask(*WHO, "oracle", 1, ("a", "b"), 9), "oracle is asked about 2 hosts"),
    "abandon": (Abandon(*WHO, "b"), "given up on b"),
    "evict": (Evict(*WHO, "b"), "evicted from b"),
    "nominate": (Nominate(*WHO, "b", ("x", "y")), "nominated for b, 2 guests to go"),
    "nominate nowhere": (Nominate(*WHO), "no longer nominated"),
}


@pytest.mark.parametrize(("action", "text"), ACTIONS.values(), ids=ACTIONS)
def test_an_action_is_told_in_words(action, text):
    one, other = (Journal(HEADER, (Stepped(0, None, (found,)),)) for found in (Bind(*WHO, "a"), action))
    assert differences(one, other) == [f"entry 1: web: a versus {text}"]
