"""Gangs, quotas and reservations through the command line: placed together, shown, explained, fed back."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler, write

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


def test_undeclared_gang_is_waited_for_and_nearest_name_suggested(fleet):
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
    assert "Its gang default/crew: 0 placed, of at least 6; 5 would fit now." in result.lines
    assert "What stops it: insufficient: cpu." in result.lines
    assert result.row("c-5") == ["c-5", "-", "5", "insufficient", "cpu"]


def test_placed_member_is_explained_as_of_before_its_gang_decision(fleet):
    data = hostler("explain", "-f", fleet(CREW), "c-2", "-o", "json").json
    assert data["chosen"] == "b-2"
    assert data["gang"]["placed"] == 0
    assert data["gang"]["would_place"] == 3
    assert data["feasible"] == ["b-0", "b-1", "b-2"]


def test_guest_after_a_gang_is_explained_with_the_gang_in_place(fleet):
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
        ("reservations: [{name: r, amounts: {cpu: 1}}]", "has no owner"),
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


# ------------------------------------------------------------------------------------------- explained

FULL_RACKS = """\
gangs: [{name: crew, min_count: 5}]
guests:
- {name: old, host: a-0, requests: {cpu: 4}, namespace: team}
- {name: c, count: 5, gang: crew, priority: 9, requests: {cpu: 4}}
"""


def test_explain_tells_whom_a_waiting_gang_would_evict_and_what_wakes_it(fleet):
    result = hostler("explain", "-f", fleet(FULL_RACKS), "c-0")
    line = "Room could be made for the gang default/crew on a-0 by evicting team/old (highest priority 0)."
    assert line in result.lines
    assert "'hostler place --preempt' does it." in result.lines
    data = hostler("explain", "-f", fleet(FULL_RACKS), "c-0", "-o", "json").json
    assert (data["eviction"]["gang"], data["eviction"]["victims"]) == ("default/crew", ["team/old"])
    assert "a guest leaves or shrinks" in data["wakes"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("priority: 9", "priority: 0"), "no guest of lower priority."),
        (("count: 5, gang", "count: 6, gang"), "no room for the gang even without guests of lower priority."),
    ],
    ids=["nobody-lower", "no-room"],
)
def test_explain_tells_why_no_eviction_helps_a_gang(fleet, change, why):
    body = FULL_RACKS.replace(*change).replace("min_count: 5", "min_count: 6" if "6" in change[1] else "min_count: 5")
    assert (
        f"No eviction by priority helps for the gang default/crew: {why}"
        in hostler("explain", "-f", fleet(body), "c-0").lines
    )


def test_members_confined_to_a_domain_are_explained_with_the_hosts_of_it(fleet):
    result = hostler("explain", "-f", fleet(CREW), "c-0")
    assert "the best of 3 that fit in rack=r2, where its gang goes, of 5 hosts" in result.out
    assert [line.split()[0] for line in result.lines if line.startswith(("a-", "b-"))] == ["b-0", "b-1", "b-2"]
    wide = hostler("explain", "-f", fleet(CREW), "c-0", "-o", "wide")
    assert wide.row("a-0") == ["a-0", "outside", "the", "domain"]


def test_scores_from_before_the_gang_was_placed_are_labelled_so(fleet):
    guests = "guests: [{name: t, count: 2, gang: two, host_name: a-0, requests: {cpu: 1}}]\n"
    body = f"gangs: [{{name: two, min_count: 2}}]\n{guests}"
    label = "Before other members of its gang took room, hosts scored:"
    assert label in hostler("explain", "-f", fleet(body), "t-1").lines
    assert label not in hostler("explain", "-f", fleet(body), "t-0").lines


def test_hosts_of_a_waiting_member_are_said_to_fit_without_its_gang(fleet):
    label = "On its own, before other members of its gang take room, it would find:"
    assert label in hostler("explain", "-f", fleet(TOO_MANY), "c-5").lines
    running = "gangs: [{name: crew}]\nguests: [{name: c, host: a-0, gang: crew}]\n"
    assert "its gang" not in hostler("explain", "-f", fleet(running), "c").out


def test_member_after_others_of_its_gang_counts_hosts_of_a_later_moment(fleet):
    body = "gangs: [{name: two, min_count: 2}]\nguests: [{name: t, count: 2, gang: two, requests: {cpu: 4}}]\n"
    result = hostler("explain", "-f", fleet(body), "t-1")
    assert "the best of 4 that fit" in result.lines[0]
    assert "Before other members of its gang took room, hosts scored:" in result.lines


def test_member_of_gang_with_reservation_is_explained_with_its_rights(fleet):
    body = """\
reservations: [{name: kept, amounts: {cpu: 4}, gang: crew}]
gangs: [{name: crew, min_count: 2}]
guests: [{name: c, count: 2, gang: crew, requests: {cpu: 4}}]
"""
    assert "HOST THAT DOES NOT FIT" not in hostler("explain", "-f", fleet(body), "c-0", "-o", "wide").out


def test_a_member_that_fits_without_its_gang_is_said_to_fit(fleet):
    result = hostler("place", "-f", fleet(TOO_MANY))
    assert "5 of 5 hosts fit, but gang default/crew needs 1 more of its members placed" in " ".join(result.row("c-0"))
    assert "gang incomplete" not in result.out


@pytest.mark.parametrize(
    ("body", "line", "wakes"),
    [
        ("gangs: [{name: crew, min_count: 3}]\n", "0 placed, of at least 3.", "another member of its gang arrives"),
        ("", "0 placed.", "its gang is declared"),
    ],
    ids=["too-few", "not-declared"],
)
def test_untried_gang_says_what_it_waits_for_not_what_would_fit(fleet, body, line, wakes):
    result = hostler("explain", "-f", fleet(f"{body}guests: [{{name: c, count: 2, gang: crew}}]\n"), "c-0")
    assert f"Its gang default/crew: {line}" in result.lines
    assert f"  {wakes}" in result.lines


def test_a_gang_of_another_name_is_not_guessed(fleet):
    body = "gangs: [{name: ok}]\nguests: [{name: c, gang: nosuch}]\n"
    assert (
        hostler("place", "-f", fleet(body)).err
        == "note: gang 'default/nosuch' is not declared: its members wait for it\n"
    )


# ---------------------------------------------------------------------------------------- room that is held

NIGHT = """\
reservations: [{name: night, amounts: {cpu: 3}, tenant: ops}]
guests: [{name: dev, tenant: dev, requests: {cpu: 2}}]
"""


def test_a_reservation_in_the_way_is_named_in_the_reason(fleet):
    result = hostler("place", "-f", fleet(NIGHT))
    assert "0 of 5 hosts: 5 insufficient cpu (reservation night holds room on 5 hosts)" in " ".join(result.row("dev"))


def test_explain_tells_what_is_missing_who_holds_it_and_that_its_end_helps(fleet):
    lines = hostler("explain", "-f", fleet(NIGHT), "dev").lines
    assert any(line.endswith("insufficient cpu: 1 of 2 missing (3 held by reservation night)") for line in lines)
    assert any(line.endswith("ask for 1 cpu less (at most 1; reservation night holds the rest).") for line in lines)
    assert "  reservation night ends" in lines


def test_where_all_is_reserved_the_cure_is_the_end_of_the_reservation(fleet):
    out = hostler("explain", "-f", fleet(NIGHT.replace("cpu: 3", "cpu: 4")), "dev").out
    assert "It would fit on a-0 after the smallest change: end reservation night, or let it hold less." in out


def test_room_that_a_waiting_gang_keeps_is_said_to_be_held_for_it(fleet):
    body = """\
gangs: [{name: wait, min_count: 6, head_of_line: reserve}]
guests:
- {name: w, count: 6, gang: wait, requests: {cpu: 4}}
- {name: tiny, requests: {cpu: 1}}
"""
    out = hostler("explain", "-f", fleet(body), "tiny").out
    assert "insufficient cpu: 1 of 1 missing (4 held for gang wait)" in out
