"""The pages about concepts are true: their code runs as it stands, and gives what the text says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import hostler
from hostler.config import prepare_kernel_cache
from hostler.engine.gangs.search import EXPANSIONS
from hostler.engine.policy.policies import BUILT_IN
from tests.cli.cli_in_process import Result
from tests.cli.cli_in_process import hostler as type_hostler
from tests.docs.page_output import Page

# Before anything imports the engine, as the commands do.
prepare_kernel_cache()

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts"


def _run(page: str) -> dict[str, Any]:
    """Run all Python blocks of a page in order, as one program."""
    path = CONCEPTS / page
    code = "\n".join(re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL))
    names: dict[str, Any] = {}
    exec(compile(code, str(path), "exec"), names)
    return names


@pytest.fixture
def typed(monkeypatch, tmp_path):
    """Return a function that saves a page's files, types its commands and compares their output."""
    for name in ("HOSTLER_CONFIG", "HOSTLER_POLICY", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config-home"))
    monkeypatch.chdir(tmp_path)

    def run(page: str) -> list[Result]:
        text = (CONCEPTS / page).read_text()
        files = re.findall(r"Save this as `([a-z-]+\.yaml)`:\n\n```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        assert len(files) == text.count("```yaml")
        for name, body in files:
            (tmp_path / name).write_text(body)
        shown = Page(f"docs/concepts/{page}")
        results = []
        for step in shown.steps:
            result = type_hostler(*shlex.split(step.command)[1:])
            shown.compare(step, result.code, result.out + result.err)
            results.append(result)
        shown.finish()
        return results

    return run


def _host_of(result: Result, *names: str) -> list[str]:
    return [result.row(name)[1] for name in names]


def _kinds(actions: list[Any]) -> list[tuple[str, str]]:
    return [(type(action).__name__, action.guest) for action in actions]


def test_every_link_between_pages_leads_somewhere():
    for path in CONCEPTS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


class TestConstraints:
    """Spread over zones, apart on hosts, a cache near by."""

    @pytest.fixture(scope="class")
    @classmethod
    def page(cls) -> dict[str, Any]:
        return _run("constraints.md")

    def test_guests_are_spread_apart_and_near(self, page):
        assert page["placed"] == {"web-1": "n1", "web-2": "s1", "web-3": "n2", "cache": "n1"}

    def test_the_fourth_takes_the_last_host_and_the_fifth_waits(self, page):
        assert _kinds(page["last"]) == [("Bind", "web-4"), ("Defer", "web-5")]
        assert page["last"][0].host == "s2"

    def test_the_explanation_names_who_is_in_the_way(self, page):
        assert page["in_the_way"] == {"n1": ("web-1",), "n2": ("web-3",), "s1": ("web-2",), "s2": ("web-4",)}

    @pytest.mark.shown_output
    def test_the_file_does_the_same(self, typed):
        place, explain = typed("constraints.md")
        assert _host_of(place, "web-0", "web-1", "web-2", "web-3") == ["north-0", "south-0", "north-1", "south-1"]
        assert _host_of(place, "web-4", "cache") == ["-", "north-0"]
        assert all(f"in the way: web-{at}" in explain.out for at in range(4))

    def test_every_field_that_the_table_names_exists(self):
        fields, _, _ = (CONCEPTS / "constraints.md").read_text().partition("\n## Soft constraints\n")
        rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", fields, re.MULTILINE)
        named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
        assert {"affinity", "spread", "ports"} <= named <= set(hostler.GuestSpec.__struct_fields__)


class TestPreemption:
    """The report goes, the web guests of a strict budget stay."""

    @pytest.fixture(scope="class")
    @classmethod
    def page(cls) -> dict[str, Any]:
        return _run("preemption.md")

    def test_the_unprotected_guest_makes_room(self, page):
        assert _kinds(page["first"]) == [("Defer", "urgent"), ("Nominate", "urgent"), ("Evict", "report")]
        assert page["first"][1].host == "b"

    def test_the_preemptor_takes_the_place_when_the_victim_has_left(self, page):
        assert [(action.guest, action.host) for action in page["then"]] == [("urgent", "b")]

    def test_a_strict_budget_forbids_the_rest(self, page):
        assert page["advice"].host == ""
        assert page["advice"].why_not == "2 hosts: a disruption budget forbids it"

    @pytest.mark.shown_output
    def test_the_file_shows_what_the_options_change(self, typed):
        quiet, preempting, strict, explain = typed("preemption.md")
        assert _host_of(quiet, "urgent", "second") == ["-", "-"]
        assert _host_of(preempting, "urgent", "second") == ["b", "a"]
        assert _host_of(strict, "urgent", "second") == ["b", "-"]
        assert [[name for name in ("report", "web-2") if name in one.out] for one in (preempting, strict)] == [
            ["report", "web-2"],
            ["report"],
        ]
        assert "by evicting report" in explain.out

    def test_preempting_works_with_every_policy(self, typed, tmp_path):
        typed("preemption.md")
        for policy in BUILT_IN:
            result = type_hostler("place", "-f", tmp_path / "preemption.yaml", "--preempt", "--policy", policy)
            assert (result.code, "EVICTED" in result.out) == (0, True), policy

    def test_every_limit_that_the_page_names_exists(self):
        limits = re.search(r"^## Limits\n(.*?)^## ", (CONCEPTS / "preemption.md").read_text(), re.DOTALL | re.MULTILINE)
        named = set(re.findall(r"`((?:max|wait)_[a-z_]+)`", limits.group(1)))
        options = {"budgets", "movable_first", "moves"}
        assert named == set(hostler.PreemptionRules.__struct_fields__) - {*options, "window_ns"}
        assert all(f"`{name}`" in (CONCEPTS / "preemption.md").read_text() for name in ("movable_first", "moves"))


class TestGangs:
    """Three workers in one rack, or none."""

    @pytest.fixture(scope="class")
    @classmethod
    def page(cls) -> dict[str, Any]:
        return _run("gangs.md")

    def test_too_few_members_are_not_tried(self, page):
        assert page["too_few"] == []
        assert page["note"] == "2/3 members of gang default/train are there"

    def test_a_gang_without_room_lets_others_pass(self, page):
        workers = [("Defer", f"worker-{at}") for at in (1, 2, 3)]
        assert _kinds(page["waiting"]) == [*workers, ("Bind", "late")]

    def test_the_explanation_tells_what_members_find(self, page):
        advice = page["advice"]
        assert (advice.would_place, advice.domain, advice.binding) == (2, "r2", "insufficient: cpu")

    def test_all_members_are_placed_in_one_rack(self, page):
        assert set(page["together"]) == {"worker-1", "worker-2", "worker-3"}
        assert {host[:2] for host in page["together"].values()} == {"r2"}

    @pytest.mark.shown_output
    def test_the_file_places_one_gang_and_not_the_other(self, typed):
        place, explain = typed("gangs.md")
        assert {host[:2] for host in _host_of(place, "train-0", "train-1", "train-2")} == {"r1"}
        assert _host_of(place, "serve-0", "serve-1", "serve-2", "late") == ["-", "-", "-", "r2-1"]
        assert all(f"serve-{at}" in explain.out.partition("MEMBER")[2] for at in range(3))

    def test_a_gang_reclaims_what_its_tenant_is_guaranteed(self, typed, tmp_path):
        typed("quotas.md")
        text = (tmp_path / "quotas.yaml").read_text()
        single = "{name: green, tenant: green, requests: {cpu: 4}}"
        assert single in text
        team = "{name: green, count: 2, gang: team, tenant: green, requests: {cpu: 2}}"
        gangs = "gangs: [{name: team, min_count: 2}]\n"
        (tmp_path / "team.yaml").write_text(text.replace(single, team) + gangs)
        result = type_hostler("place", "-f", tmp_path / "team.yaml", "--preempt")
        assert "reclaimed by gang default/team for tenant green" in result.out
        assert _host_of(result, "green-0", "green-1") == ["b", "b"]

    def test_the_search_is_as_long_as_the_page_says(self):
        text = (CONCEPTS / "gangs.md").read_text()
        assert f"at most {EXPANSIONS:,} placements" in text
        assert "down to 500" in text

    def test_every_field_that_the_table_names_exists(self):
        rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", (CONCEPTS / "gangs.md").read_text(), re.MULTILINE)
        named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
        assert {"min_count", "head_of_line"} <= named <= set(hostler.Gang.__struct_fields__)


class TestQuotas:
    """Blue borrows, green takes back what is its own; a reservation keeps others out for a night."""

    @pytest.fixture(scope="class")
    @classmethod
    def page(cls) -> dict[str, Any]:
        return _run("quotas.md")

    def test_nobody_exceeds_the_maximum(self, page):
        assert page["beyond"] == "cpu beyond the maximum of blue"

    def test_a_guarantee_is_reclaimed_from_who_borrowed(self, page):
        assert _kinds(page["actions"]) == [("Defer", "green-0"), ("Nominate", "green-0"), ("Evict", "blue-1")]

    def test_a_reservation_begins_and_ends(self, page):
        assert _kinds(page["by_night"]) == [("Defer", "blue")]
        assert page["kept_by"] == ("reservation:night",)
        assert _kinds(page["by_day"]) == [("Bind", "blue")]

    @pytest.mark.shown_output
    def test_the_file_reclaims_only_when_asked(self, typed):
        quiet, preempting, explain, *_ = typed("quotas.md")
        assert _host_of(quiet, "blue-3", "green") == ["-", "-"]
        assert _host_of(preempting, "blue-3", "green") == ["-", "b"]
        assert "reclaimed by green for tenant green" in preempting.out
        assert "cpu beyond the maximum of blue" in explain.out

    def test_a_reservation_that_begins_later_has_no_effect_on_the_command_line(self, typed):
        *_, place, explain = typed("quotas.md")
        assert _host_of(place, "blue-0", "blue-1") == ["a", "-"]
        assert "held by reservation now" in explain.out
        assert "night" not in explain.out
