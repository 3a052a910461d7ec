"""The built-in policies: all of them decide, and names are looked up kindly."""

from __future__ import annotations

import pytest

from hostler.engine import BUILT_IN, DEFAULT_POLICY, find_policy
from hostler.errors import UnknownNameError
from tests.engine.fleet import engine_with, guest, holds, host, place


def test_the_default_policy_and_unknown_ones():
    assert find_policy(DEFAULT_POLICY).name == "spread"
    with pytest.raises(UnknownNameError) as caught:
        find_policy("bestfit")
    assert "best_fit" in caught.value.hint


def test_every_built_in_policy_explains_itself_and_decides():
    for name, built_in in BUILT_IN.items():
        assert built_in.name == name
        assert built_in.summary
        engine = engine_with([host("a", gpus=1), host("b", gpus=2, cpu=0)], name)
        assert place(engine, guest("g", gpu=(1, 500))) == ["a"]
        assert holds(engine.step(0)) == []
