"""Gangs, quotas and reservations through the command line: placed together, shown, explained, fed back."""

from __future__ import annotations

import pytest

from tests.cli.running import hostler, write

RACKS = """\
hosts:
- {name: a, count: 2, capacity: {cpu: 4}, labels: {rack: r1}}
- {name: b, count: 3, capacity: {cpu: 4}, labels: {rack: r2}}
"""


@pytest.fixture
def fleet(tmp_path):
    """Return a function that writes five hosts in two racks with something more."""

    def make(body: str):
        return write(tmp_path / "fleet.yaml", RACKS + body)

    return make


CREW = """\
gangs: [{name: crew, min_count: 3, topology: rack}]
guests:
- {name: c, count: 3, gang: crew, requests: {cpu: 3}}
"""
TOO_MANY = """\
gangs: [{name: crew, min_count: 6}]
guests:
- {name: c, count: 6, gang: crew, requests: {cpu: 3}}
- {name: small, requests: {cpu: 3}}
"""


def test_a_gang_confined_to_a_rack_goes_where_all_of_it_fits(fleet):
    result = hostler("place", "-f", fleet(CREW))
    assert result.code == 0
    assert [result.row(f"c-{number}")[1] for number in range(3)] == ["b-0", "b-1", "b-2"]


def test_a_gang_that_does_not_fit_holds_nothing_and_says_what_it_lacks(fleet):
    result = hostler("place", "-f", fleet(TOO_MANY))
    assert result.code == 1
    assert result.row("small")[1].startswith(("a-", "b-"))
    assert all(result.row(f"c-{number}")[1] == "-" for number in range(6))
    assert "gang default/crew needs" in result.out


@pytest.mark.parametrize("output", ["json", "yaml"])
@pytest.mark.parametrize("body", [CREW, TOO_MANY], ids=["placed", "waiting"])
def test_members_of_gangs_can_be_fed_back(fleet, tmp_path, output, body):
    first = hostler("place", "-f", fleet(body), "-o", output)
    (tmp_path / "out").write_text(first.out)
    second = hostler("place", "-f", tmp_path / "out", "-o", "json")
    assert second.code == first.code
    assert second.json["gangs"] == hostler("place", "-f", fleet(body), "-o", "json").json["gangs"]
    assert all(decision["host"] is None for decision in second.json["decisions"])


def test_a_gang_that_nobody_declared_is_waited_for_and_the_nearest_is_named(fleet):
    result = hostler("place", "-f", fleet("gangs: [{name: crew}]\nguests: [{name: c, gang: crw}]\n"))
    assert result.code == 1
    assert (
        result.err
        == "note: gang 'default/crw' is not declared: its members wait for it (did you mean 'default/crew'?)\n"
    )
    assert "gang default/crw is not known yet" in result.out
    assert (
        "gang default/crw is not known yet"
        in hostler("explain", "-f", fleet("guests: [{name: c, gang: crw}]\n"), "c").out
    )


def test_a_gang_with_too_few_members_waits_and_says_so(fleet):
    path = fleet("gangs: [{name: crew, min_count: 3}]\nguests: [{name: c, count: 2, gang: crew}]\n")
    result = hostler("place", "-f", path, "-o", "json")
    assert result.code == 1
    assert {decision["note"] for decision in result.json["decisions"]} == {"2/3 members of gang default/crew are there"}


def test_explain_shows_what_each_member_finds_and_what_binds(fleet):
    result = hostler("explain", "-f", fleet(TOO_MANY), "c-0")
    assert result.lines[0].startswith("c-0 (cpu 3) is not placed: ")
    assert "Its gang default/crew: 0 placed, of at least 6; 4 would fit now." in result.lines
    assert "What binds: insufficient: cpu." in result.lines
    assert result.row("c-5") == ["c-5", "-", "5", "insufficient", "cpu"]


def test_a_placed_member_is_explained_as_of_the_moment_before_its_gang_was_decided(fleet):
    data = hostler("explain", "-f", fleet(CREW), "c-2", "-o", "json").json
    assert data["chosen"] == "b-2"
    assert data["gang"]["placed"] == 0
    assert data["gang"]["would_place"] == 3
    assert len(data["feasible"]) == 5


def test_whoever_comes_after_a_gang_is_explained_with_the_gang_in_place(fleet):
    body = CREW + "- {name: late, priority: -1, requests: {cpu: 3}}\n- {name: last, priority: -2, requests: {cpu: 3}}\n"
    for number, name in enumerate(("late", "last")):
        data = hostler("explain", "-f", fleet(body), name, "-o", "json").json
        assert len(data["feasible"]) == 2 - number
        assert data["decision"]["feasible"] == 2 - number


def test_a_gang_evicts_as_a_whole(fleet):
    body = """\
gangs: [{name: crew, min_count: 2, priority: 9}]
guests:
- {name: low, host: a-0, requests: {cpu: 4}}
- {name: mid, host: a-1, requests: {cpu: 4}}
- {name: full, count: 3, host_name: none, requests: {cpu: 4}}
- {name: c, count: 2, gang: crew, priority: 9, requests: {cpu: 4}, host_selector: {rack: r1}}
"""
    result = hostler("place", "-f", fleet(body), "--preempt", "-o", "json")
    assert sorted(one["guest"] for one in result.json["evicted"]) == ["low", "mid"]
    assert {one["preemptor"] for one in result.json["evicted"]} == {"gang default/crew"}
    hosts = {guest["name"]: guest.get("host") for guest in result.json["guests"]}
    assert sorted((hosts["c-0"], hosts["c-1"])) == ["a-0", "a-1"]


# ---------------------------------------------------------------------------------- quotas, reservations


def test_a_tenant_gets_no_more_than_its_quota(fleet):
    body = """\
quotas: [{tenant: blue, max: {cpu: 2}}]
guests: [{name: g, count: 3, tenant: blue, requests: {cpu: 1}}]
"""
    result = hostler("place", "-f", fleet(body))
    assert result.code == 1
    assert "quota exceeded" in result.out
    assert "2 placed, 1 not placed" in result.out
    explained = hostler("explain", "-f", fleet(body), "g-2").out
    assert "Its tenant's quota has no room for it: cpu beyond the maximum of blue." in explained


def test_a_reservation_is_for_its_tenant_alone(fleet):
    body = """\
reservations: [{name: kept, amounts: {cpu: 4}, tenant: blue, host_selector: {rack: r2}}]
guests:
- {name: red, count: 3, requests: {cpu: 4}}
- {name: blue, count: 3, tenant: blue, requests: {cpu: 4}}
"""
    result = hostler("place", "-f", fleet(body))
    assert [result.row(f"blue-{number}")[1] for number in range(3)] == ["b-0", "b-1", "b-2"]
    assert [result.row(f"red-{number}")[1] for number in range(3)] == ["a-0", "a-1", "-"]


def test_a_reservation_that_has_not_begun_holds_nothing(fleet):
    body = """\
reservations: [{name: later, amounts: {cpu: 4}, tenant: blue, since: 1h}]
guests: [{name: red, count: 5, requests: {cpu: 4}}]
"""
    assert hostler("place", "-f", fleet(body)).code == 0


def test_validate_counts_what_a_fleet_has(fleet):
    path = fleet(CREW + "budgets: [{name: b}]\nquotas: [{tenant: t}]\n")
    assert hostler("config", "validate", path).lines[0] == f"{path}: 5 hosts, 3 guests, 1 gang, 1 budget, 1 quota"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("gangs: [{name: g, min_cnt: 2}]", "unknown key 'min_cnt' in gangs[0]"),
        ("quotas: [{tenant: t, min: {cpu: 2}, max: {cpu: 1}}]", "below the min"),
        ("reservations: [{name: r, amounts: {cpu: 1}}]", "is for nobody"),
        ("budgets: [{name: b, selector: {a: 1}}]", "selector.a must be"),
        ("guests: [{name: g, spread: [{topology: z, skew: 1}]}]", "unknown key 'skew'"),
    ],
)
@pytest.mark.parametrize("command", ["place", "explain"])
def test_bad_input_is_refused_with_error_and_hint(tmp_path, body, message, command):
    words = ["g"] if command == "explain" else []
    result = hostler(command, "-f", write(tmp_path / "f.yaml", body + "\n"), *words)
    assert result.code == 2
    assert message in result.error
    assert result.error.startswith(f"{tmp_path / 'f.yaml'}:3: ")
