"""Lines about evictions: codes decide what is said, whatever the texts are."""

from __future__ import annotations

import pytest

from hostler.cli.output.explanations import print_more
from hostler.model import Decision, EvictionAdvice, Explanation
from hostler.model.decisions import EvictionObstacle
from hostler.model.notes import EVICTS_NOBODY, MAY_NOT_EVICT


def _lines(capsys: pytest.CaptureFixture[str], code: str, why_not: str) -> str:
    decision = Decision(guest="g", uid="g", seq=1, at=0, policy="p", state="waiting")
    advice = EvictionAdvice(host="h", victims=("v",), hosts=1, why_not=why_not, obstacles=(EvictionObstacle(code),))
    explanation = Explanation(decision=decision, as_of="now", eviction=advice)
    print_more(explanation, is_wide=False, is_of_files=True)
    return capsys.readouterr().out


def test_policy_that_evicts_nobody_is_recognized_by_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    out = _lines(capsys, EVICTS_NOBODY, "in other words")
    assert "'hostler place --preempt' does it." in out
    assert "It is not done" not in out


def test_other_obstacle_is_said_whatever_its_text_is(capsys: pytest.CaptureFixture[str]) -> None:
    out = _lines(capsys, MAY_NOT_EVICT, "the policy does not evict others")
    assert "It is not done: the policy does not evict others." in out
