"""The guide to plugins is true: its code runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hostler

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "write-a-plugin.md"


@pytest.fixture(scope="module")
def guide() -> dict[str, object]:
    """Run all Python blocks of the guide in order, as one program."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL))
    names: dict[str, object] = {}
    exec(compile(code, str(GUIDE), "exec"), names)
    return names


def test_the_guides_scorer_chooses_the_cheap_host(guide):
    assert guide["chosen"] == "iron"


def test_the_guides_explanation_shows_what_the_plugin_said(guide):
    assert guide["shown"] == {"cheapest": 2 * (100 - 20 * 100 // 90), "least_allocated": 94}


def test_the_guides_filter_refuses_with_its_reason(guide):
    filters = (*hostler.Policy(name="x").filters, hostler.PluginUse("not_on_sunday"))
    policy = hostler.Policy(name="weekdays", filters=filters)
    engine = hostler.Engine([policy], registry=hostler.Registry(extra={"not_on_sunday": guide["NotOnSunday"]}))
    engine.apply(hostler.HostJoined(host=hostler.Host(name="a", labels=hostler.labels({"sunday": "yes"}))))
    engine.apply(hostler.GuestArrived(guest=hostler.Guest(name="g", uid="g")))
    (hold,) = engine.step(now=0)
    assert [(c.reason.text(), c.hosts) for c in hold.reasons] == [("closed on sunday", 1)]
    engine.apply(hostler.HostChanged(host=hostler.Host(name="a", labels=hostler.labels({"sunday": "no"}))))
    (bind,) = engine.step(now=60_000_000_000)
    assert bind.host == "a"
