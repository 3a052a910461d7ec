"""Plugins of third parties: found by entry point, imported only when named, blamed by the distribution's name."""

from __future__ import annotations

import sys

import pytest

from tests.cli.cli_in_process import hostler, write

MODULE = """
import numpy as np

import hostler

class Coldest:
    name = "coldest"
    normalizer = "none"

    def __init__(self, view, args):
        self._view = view

    def evaluate(self, spec, rows):
        return np.array([int(t or 0) for t in self._view.labels("cold", rows)], dtype=np.int64)

class Broken(Coldest):
    def evaluate(self, spec, rows):
        raise ValueError("too cold")

class Crowded:
    name = "crowded"
    reasons = (
        hostler.ReasonKind(
            code="crowded", meaning="Five guests are enough.", is_resolvable=False, cures=frozenset()
        ),
    )

    def __init__(self, view, args):
        self._view = view

    def evaluate(self, spec, rows):
        return (self._view.used("guests", rows) >= 5).astype(np.int64)

loads = 0

def __getattr__(name):
    global loads
    if name != "Counted":
        raise AttributeError(name)
    loads += 1
    return Coldest

number = 3
"""

FLEET = """\
policy: mine
policies: [{name: mine, scorers: [%s]}]
hosts: [{name: a, labels: {cold: "1"}}, {name: b, labels: {cold: "5"}}]
guests: [{name: g}]
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a distribution with entry points, as far as Python can tell."""

    def make(name: str, **points: str) -> None:
        site = tmp_path / f"site-{name}"
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = "".join(f"{key} = {value}\n" for key, value in points.items())
        (info / "entry_points.txt").write_text(f"[hostler.plugins]\n{lines}")
        (site / f"{name}_module.py").write_text(MODULE)
        monkeypatch.syspath_prepend(site)
        monkeypatch.delitem(sys.modules, f"{name}_module", raising=False)

    return make


@pytest.fixture
def place(tmp_path):
    """Return a function that places one guest with a policy of these scorers."""
    return lambda scorers: hostler("place", "-f", write(tmp_path / "f.yaml", FLEET % scorers))


def test_a_plugin_that_a_policy_names_decides(install, place):
    install("frost", coldest="frost_module:Coldest")
    result = place("coldest")
    assert result.code == 0
    assert result.row("g") == ["g", "b"]


def test_a_plugin_that_nobody_names_is_not_imported(install, place):
    install("frost", coldest="frost_module:Coldest")
    assert place("balanced").code == 0
    assert "frost_module" not in sys.modules


def test_installed_plugins_are_listed_without_being_imported(install):
    install("frost", coldest="frost_module:Coldest", balanced="frost_module:Coldest")
    listed = [plugin for plugin in hostler("plugins", "-o", "json").json if plugin["from"] == "frost 1.0"]
    assert [(plugin["name"], plugin["summary"]) for plugin in listed] == [
        ("balanced", "hidden by the built-in plugin of this name"),
        ("coldest", "frost_module:Coldest"),
    ]
    assert "frost_module" not in sys.modules


@pytest.mark.parametrize("value", ["no_such_module:Thing", "frost_module:missing"])
def test_a_plugin_that_cannot_be_imported_names_its_distribution(install, place, value):
    install("frost", coldest=value)
    result = place("coldest")
    assert result.code == 2
    assert result.error.startswith("plugin 'coldest' of frost 1.0 cannot be imported: ")


def test_a_plugin_that_is_no_factory_is_refused(install, place):
    install("frost", coldest="frost_module:number")
    result = place("coldest")
    assert result.code == 2
    assert "frost 1.0" in result.error


def test_a_plugin_that_raises_says_how_to_see_where(install, place):
    install("frost", coldest="frost_module:Broken")
    result = place("coldest")
    assert result.code == 2
    assert "ValueError: too cold" in result.error
    assert "HOSTLER_TRACEBACK=1" in result.hint


def test_two_distributions_that_offer_one_name_are_named(install, place):
    install("frost", coldest="frost_module:Coldest")
    install("ice", coldest="ice_module:Coldest")
    result = place("coldest")
    assert result.code == 2
    assert result.error == "plugin 'coldest' is offered by frost 1.0 and ice 1.0"


def test_a_typo_suggests_an_installed_plugin(install, place):
    install("frost", coldest="frost_module:Coldest")
    assert place("coldst").hint == "did you mean 'coldest'?"


def test_a_journal_with_a_plugin_replays_while_it_is_installed(install, tmp_path, monkeypatch):
    install("frost", coldest="frost_module:Coldest")
    file, journal = write(tmp_path / "f.yaml", FLEET % "coldest"), tmp_path / "run.journal"
    assert hostler("place", "-f", file, "--journal", journal).code == 0
    assert hostler("journal", "replay", journal).code == 0
    assert hostler("explain", "--journal", journal, "g").code == 0
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "site-frost" not in entry])
    gone = hostler("journal", "replay", journal)
    assert gone.code == 2
    assert "'coldest'" in gone.error


def test_copies_are_counted_by_placements_where_a_plugin_filters(install, tmp_path):
    install("frost", crowded="frost_module:Crowded")
    body = "policy: mine\npolicies: [{name: mine, filters: [crowded]}]\nhosts: [{name: a}, {name: b}]\n"
    fleet, guest = write(tmp_path / "f.yaml", body), write(tmp_path / "g.yaml", "guests: [{name: g}]\n")
    data = hostler("capacity", "-f", fleet, "--guest", guest, "-o", "json").json
    assert (data["fits"], data["unlimited"]) == (10, False)


def test_a_plugin_that_many_policies_name_is_looked_up_once(install, tmp_path):
    install("frost", coldest="frost_module:Counted")
    policies = "".join(f"- {{name: p{number}, scorers: [coldest]}}\n" for number in range(3))
    result = hostler("config", "validate", write(tmp_path / "f.yaml", f"policies:\n{policies}"))
    assert (result.code, result.lines[-1]) == (0, "ok")
    assert sys.modules["frost_module"].loads == 1
