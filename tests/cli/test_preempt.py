"""``hostler place --preempt``: who is evicted for whom, what is shown of it, and what stays as it was."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler, write

FULL_HOSTS = """\
hosts:
- {name: a, capacity: {cpu: 4}}
- {name: b, capacity: {cpu: 4}}
guests:
- {name: batch, count: 2, labels: {app: batch}, host: a, requests: {cpu: 2}, started: 2026-01-01T00:00:00Z}
- {name: old, host: b, requests: {cpu: 4}, priority: 5}
"""
KING = "- {name: king, priority: 10, requests: {cpu: 4}}\n"
BUDGET = "budgets: [{name: keep, selector: {app: batch}, allowed: 1}]\n"


@pytest.fixture
def fleet(tmp_path):
    """Return a function that writes two full hosts with more guests and more lists."""

    def make(guests: str = KING, extra: str = ""):
        return write(tmp_path / "fleet.yaml", f"{extra}{FULL_HOSTS}{guests}")

    return make


def test_without_the_flag_nobody_is_evicted_whatever_the_policy_says(fleet):
    result = hostler("place", "-f", fleet(), "--policy", "kubernetes")
    assert result.code == 1
    assert result.row("king")[1] == "-"
    assert "EVICTED" not in result.out
    assert result.err == "note: evictions are off: --preempt lets guests of higher priority evict others\n"


def test_with_it_victims_are_shown_and_the_preemptor_takes_their_room(fleet):
    result = hostler("place", "-f", fleet(), "--preempt")
    assert result.code == 0
    assert result.err == ""
    assert result.lines == [
        "GUEST  HOST",
        "king   a",
        "",
        "EVICTED  FROM  FOR   WHY",
        "batch-0  a     king  preempted by king",
        "batch-1  a     king  preempted by king",
        "",
        "4 guests: 1 placed, 1 already placed, 0 not placed, 2 evicted;",
        "  2 of 2 hosts used; cpu 100%, memory -; policy spread",
    ]


def test_json_has_the_evictions_and_the_fleet_without_those_who_left(fleet):
    data = hostler("place", "-f", fleet(), "--preempt", "-o", "json").json
    assert [(guest["name"], guest.get("host")) for guest in data["guests"]] == [("old", "b"), ("king", "a")]
    assert data["evicted"][0] == {
        "guest": "batch-0",
        "namespace": "default",
        "uid": "default/batch-0",
        "host": "a",
        "preemptor": "king",
        "reason": "preempted by king",
        "broken_budgets": [],
    }
    assert data["nominated"] == [
        {
            "guest": "king",
            "namespace": "default",
            "uid": "default/king",
            "host": "a",
            "victims": ["batch-0", "batch-1"],
        }
    ]
    assert data["summary"]["evicted"] == 2
    assert [decision["guest"] for decision in data["decisions"]] == ["king"]


def test_without_the_flag_json_says_nothing_about_evictions(fleet):
    data = hostler("place", "-f", fleet(), "-o", "json").json
    assert not {"evicted", "nominated"} & set(data)


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_what_is_printed_can_be_fed_back(fleet, tmp_path, output):
    (tmp_path / "out").write_text(hostler("place", "-f", fleet(extra=BUDGET), "--preempt", "-o", output).out)
    again = hostler("place", "-f", tmp_path / "out", "--preempt", "-o", "json")
    assert again.code == 0
    assert again.json["decisions"] == again.json["evicted"] == []


def test_nobody_of_equal_or_higher_priority_is_evicted(fleet):
    result = hostler("place", "-f", fleet("- {name: peer, requests: {cpu: 4}}\n"), "--preempt")
    assert result.code == 1
    assert "(no eviction helps)" in result.out
    assert "EVICTED" not in result.out


def test_a_guest_that_may_not_preempt_waits(fleet):
    meek = "- {name: meek, priority: 10, requests: {cpu: 4}, may_preempt: false}\n"
    assert hostler("place", "-f", fleet(meek), "--preempt", "-o", "json").json["evicted"] == []


@pytest.mark.parametrize(
    ("words", "extra", "evicted"),
    [
        pytest.param((), "", ["old"], id="a-whole-budget-counts-more-than-priority"),
        pytest.param(("--budgets", "strict"), "", ["old"], id="strict"),
        pytest.param(("--budgets", "strict"), "policy: own\n", ["old"], id="strict-by-flag"),
        pytest.param((), "policy: own\n", ["old"], id="strict-by-policy"),
    ],
)
def test_budgets_are_spared_where_that_is_possible(fleet, words, extra, evicted):
    own = "policies: [{name: own, preemption: {budgets: strict}}]\n"
    data = hostler("place", "-f", fleet(extra=BUDGET + own + extra), "--preempt", *words, "-o", "json").json
    assert [one["guest"] for one in data["evicted"]] == evicted


@pytest.mark.parametrize(
    ("words", "policy", "evicted"),
    [
        pytest.param((), "spread", ["batch-0", "batch-1"], id="usual"),
        pytest.param((), "own", [], id="the-policys-own"),
        pytest.param(("--budgets", "strict"), "spread", [], id="strict"),
        pytest.param(("--budgets", "best_effort"), "own", ["batch-0", "batch-1"], id="best-effort-beats-the-policy"),
    ],
)
def test_budgets_are_broken_only_when_nothing_else_helps_or_never(fleet, words, policy, evicted):
    own = "policies: [{name: own, preemption: {budgets: strict}}]\n"
    path = fleet("- {name: g, priority: 1, requests: {cpu: 4}}\n", BUDGET + own)
    result = hostler("place", "-f", path, "--preempt", "--policy", policy, *words, "-o", "json")
    assert sorted(one["guest"] for one in result.json["evicted"]) == evicted
    assert result.code == (0 if evicted else 1)
    left = result.json["budgets"][0].get("allowed", 0)
    assert left == (0 if evicted else 1)


def test_room_that_is_left_over_goes_to_those_who_wait_by_priority(fleet):
    guests = "- {name: low, priority: -1, requests: {cpu: 1}}\n- {name: mid, requests: {cpu: 1}}\n"
    lord = "- {name: lord, priority: 10, host_name: b, requests: {cpu: 3}}\n"
    result = hostler("place", "-f", fleet(guests + lord), "--preempt")
    assert [result.row(name)[1] for name in ("lord", "mid", "low")] == ["b", "b", "-"]


def test_a_guest_that_was_leaving_anyway_is_waited_for_and_leaves(tmp_path):
    body = """\
hosts: [{name: a, capacity: {cpu: 4}}]
guests:
- {name: going, host: a, requests: {cpu: 4}, is_leaving: true}
- {name: king, priority: 10, requests: {cpu: 4}}
"""
    result = hostler("place", "-f", write(tmp_path / "f.yaml", body), "--preempt", "-o", "json")
    assert result.code == 0
    assert [(one["guest"], one["reason"]) for one in result.json["evicted"]] == [("going", "was leaving already")]


def test_a_recorded_run_with_evictions_replays(fleet, tmp_path):
    journal = tmp_path / "run.journal"
    hostler("place", "-f", fleet(extra=BUDGET), "--preempt", "--journal", journal)
    assert hostler("journal", "replay", journal).code == 0
    shown = [line.split()[2:5] for line in hostler("journal", "show", journal).lines]
    assert ["budget", "changed", "keep"] in shown
    assert ["guest", "left", "old"] in shown


def test_budgets_need_the_flag(fleet):
    result = hostler("place", "-f", fleet(), "--budgets", "strict")
    assert result.code == 2
    assert result.error == "--budgets needs --preempt"


def test_other_words_for_budgets_are_refused(fleet):
    result = hostler("place", "-f", fleet(), "--preempt", "--budgets", "lax")
    assert result.code == 2
    assert "lax" in result.error


RECLAIM = """\
policy: mine
policies: [{name: mine, extends: spread, reclaim: true}]
hosts: [{name: h, count: 2, capacity: {cpu: 4}}]
quotas: [{tenant: blue, min: {cpu: 4}, max: {cpu: 6}}, {tenant: green, min: {cpu: 4}}]
guests:
- {name: blue, count: 4, tenant: blue, requests: {cpu: 2}}
- {name: green, tenant: green, requests: {cpu: 4}}
"""


def test_a_guest_that_is_placed_and_evicted_again_says_so_and_counts_once(tmp_path):
    path = write(tmp_path / "f.yaml", RECLAIM)
    result = hostler("place", "-f", path, "--preempt")
    assert result.code == 1
    assert " ".join(result.row("blue-1")) == "blue-1 - placed on h-1, then reclaimed by green for tenant green"
    assert "5 guests: 3 placed, 1 not placed, 1 evicted;" in result.out
    data = hostler("place", "-f", path, "--preempt", "-o", "json").json
    decision = next(one for one in data["decisions"] if one["guest"] == "blue-1")
    assert (decision["host"], decision["state"]) == (None, "evicted")
    summary = data["summary"]
    parts = ("placed", "already_placed", "not_placed", "evicted")
    assert sum(summary[part] for part in parts) == summary["guests"] == 5


def test_a_budget_that_is_broken_is_named(fleet):
    path = fleet("- {name: g, priority: 1, requests: {cpu: 4}}\n", BUDGET)
    result = hostler("place", "-f", path, "--preempt")
    assert [line.split("  ")[-1] for line in result.lines if " preempted by g" in line] == [
        "preempted by g",
        "preempted by g; breaks budget keep",
    ]
    evicted = hostler("place", "-f", path, "--preempt", "-o", "json").json["evicted"]
    assert [one["broken_budgets"] for one in evicted] == [[], ["keep"]]


def test_a_budget_that_forbids_an_eviction_is_said_to_do_so(fleet):
    path = fleet("- {name: g, priority: 1, requests: {cpu: 4}}\n", BUDGET)
    strict = hostler("place", "-f", path, "--preempt", "--budgets", "strict").out
    assert "(no eviction helps: a disruption budget forbids it)" in strict


OFF = "note: evictions are off: --preempt lets guests of higher priority evict others\n"


@pytest.mark.parametrize("policy", ["spread", "kubernetes"])
@pytest.mark.parametrize(
    ("guests", "note"),
    [
        pytest.param(KING, OFF, id="it-could-evict"),
        pytest.param("- {name: peer, requests: {cpu: 4}}\n", "", id="nobody-is-lower"),
        pytest.param("- {name: huge, priority: 9, requests: {cpu: 5}}\n", "", id="no-room-anyway"),
        pytest.param("- {name: meek, priority: 9, may_preempt: false, requests: {cpu: 4}}\n", "", id="it-may-not"),
    ],
)
def test_note_says_that_evictions_are_off_if_one_could_help(fleet, policy, guests, note):
    assert hostler("place", "-f", fleet(guests), "--policy", policy).err == note


def test_note_says_that_evictions_are_off_for_reclaims_and_gangs(tmp_path, fleet):
    assert hostler("place", "-f", write(tmp_path / "f.yaml", RECLAIM)).err == OFF
    gang = "- {name: c, count: 2, gang: crew, priority: 10, requests: {cpu: 4}}\n"
    assert hostler("place", "-f", fleet(gang, "gangs: [{name: crew, min_count: 2}]\n")).err == OFF


# --------------------------------------------------------------------------------------------- explain


def test_explain_proposes_no_eviction_for_a_guest_that_may_not_evict(fleet):
    meek = "- {name: meek, priority: 10, requests: {cpu: 4}, may_preempt: false}\n"
    lines = hostler("explain", "-f", fleet(meek), "meek").lines
    assert "It is not done: the guest may not evict others." in lines
    assert "'hostler place --preempt' does it." not in lines


def test_explain_names_whom_a_tenant_would_reclaim_from(tmp_path):
    path = write(tmp_path / "f.yaml", RECLAIM)
    lines = hostler("explain", "-f", path, "green").lines
    assert (
        "Room could be reclaimed on h-1 by evicting blue-1 of tenant blue, which has more than it is guaranteed."
    ) in lines
    assert "'hostler place --preempt' does it." in lines
    eviction = hostler("explain", "-f", path, "green", "-o", "json").json["eviction"]
    assert (eviction["victims"], eviction["tenant"]) == (["blue-1"], "blue")


def test_explain_with_the_flags_of_place_explains_the_same_run(fleet, tmp_path):
    assert hostler("explain", "-f", fleet(), "--preempt", "king").lines[0].startswith("king (cpu 4) goes to a, ")
    victim = hostler("explain", "-f", fleet(), "--preempt", "batch-0")
    assert "It is evicted from a in this run: preempted by king." in victim.lines
    path = fleet("- {name: g, priority: 1, requests: {cpu: 4}}\n", BUDGET)
    strict = hostler("explain", "-f", path, "--preempt", "--budgets", "strict", "g").lines
    assert (
        "No eviction by priority helps: 1 host: a disruption budget forbids it; 1 host: no guest of lower priority."
        in strict
    )
    again = hostler("explain", "-f", write(tmp_path / "f.yaml", RECLAIM), "--preempt", "blue-1")
    assert again.lines[0].startswith("blue-1 (cpu 2) goes to h-1, ")
    assert "It is evicted from h-1 in this run: reclaimed by green for tenant green." in again.lines


def test_explain_takes_budgets_only_with_the_flag(fleet):
    result = hostler("explain", "-f", fleet(), "--budgets", "strict", "king")
    assert (result.code, result.error) == (2, "--budgets needs --preempt")


def test_what_an_operator_may_do_is_not_called_an_eviction(fleet):
    out = hostler("explain", "-f", fleet("- {name: peer, requests: {cpu: 4}}\n"), "peer").out
    assert "No eviction by priority helps" in out
    bound = hostler("explain", "-f", fleet("- {name: small, requests: {cpu: 2}}\n"), "small").out
    assert "It would fit on a after the smallest change: move or stop batch-0 on a by hand." in bound


def test_explain_tells_whom_an_eviction_would_hit_and_who_does_it(fleet):
    lines = hostler("explain", "-f", fleet(), "--policy", "kubernetes", "king").lines
    assert "Room could be made on a by evicting batch-0, batch-1 (highest priority 0)." in lines
    assert "It is the cheapest of 2 hosts where evictions help." in lines
    assert "'hostler place --preempt' does it." in lines


def test_explain_tells_what_a_policy_that_evicts_nobody_could_have_done(fleet):
    lines = hostler("explain", "-f", fleet(), "king").lines
    assert "Room could be made on a by evicting batch-0, batch-1 (highest priority 0)." in lines
    assert "'hostler place --preempt' does it." in lines


def test_explain_tells_why_an_eviction_that_would_help_is_not_done(fleet):
    meek = "- {name: meek, priority: 10, requests: {cpu: 4}, may_preempt: false}\n"
    lines = hostler("explain", "-f", fleet(meek), "--policy", "kubernetes", "meek").lines
    assert "It is not done: the guest may not evict others." in lines


def test_explain_tells_the_cost_and_why_no_eviction_helps(fleet):
    broken = hostler("explain", "-f", fleet("- {name: g, priority: 1, requests: {cpu: 4}}\n", BUDGET), "g").out
    assert "1 disruption budget broken" in broken
    peer = hostler("explain", "-f", fleet("- {name: peer, requests: {cpu: 4}}\n"), "peer").out
    assert "No eviction by priority helps: 2 hosts: no guest of lower priority." in peer


def test_explain_json_has_the_eviction(fleet):
    found = hostler("explain", "-f", fleet(), "king", "-o", "json").json["eviction"]
    assert (found["host"], found["victims"], found["hosts"]) == ("a", ["batch-0", "batch-1"], 2)


def test_explain_promises_no_eviction_to_a_guest_that_runs(tmp_path):
    body = """\
hosts: [{name: a, capacity: {cpu: 4}}]
guests:
- {name: low, host: a, requests: {cpu: 3}}
- {name: high, host: a, priority: 5, requests: {cpu: 2}}
"""
    data = hostler("explain", "-f", write(tmp_path / "f.yaml", body), "high", "-o", "json").json
    assert (data["feasible"], data["eviction"]) == ([], None)
