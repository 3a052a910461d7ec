"""Why hosts take no VMs: the engine's one word becomes what is the matter with each, and what ends it."""

from __future__ import annotations

import pytest

from hostler.control.services.hosts.unavailable_hosts import (
    count_unavailable_reasons,
    explain_unavailable_host,
    explain_unavailable_hosts,
    unavailable_hosts_of,
    with_hosts_left_out,
)
from hostler.control.store.rows.hosts import ClosedRow
from hostler.model import (
    Cure,
    CureChange,
    Decision,
    Explanation,
    Failure,
    GangAdvice,
    HostVerdict,
    MemberAdvice,
    Reason,
    ReasonCount,
)

CORDONED = Reason("cordon", "cordoned")
NO_CPU = Reason("resources", "insufficient", "cpu")


def row(name: str, state: str = "ready", *, agent: str = "a", cordoned: bool = False, draining: bool = False):
    return ClosedRow(name=name, state=state, agent=agent, is_cordoned=cordoned, is_draining=draining)


def verdict(host: str, *reasons: Reason) -> HostVerdict:
    return HostVerdict(host=host, failures=tuple(Failure(reason=reason) for reason in reasons))


def codes(found: HostVerdict) -> list[str]:
    return [one.reason.code for one in found.failures]


@pytest.mark.parametrize(
    ("closed", "expected"),
    [
        (row("h", "silent"), ["silent"]),
        (row("h", "offline"), ["offline"]),
        (row("h", "fenced", agent=""), ["fenced"]),
        (row("h", "joined", agent=""), ["never_registered"]),
        (row("h", "silent", agent=""), ["not_registered_since_restore"]),
        (row("h", draining=True), ["draining"]),
        (row("h", cordoned=True), ["cordoned"]),
        (row("h", "silent", cordoned=True, draining=True), ["silent", "draining", "cordoned"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_a_verdict_says_all_that_keeps_vms_away(closed, expected):
    found = explain_unavailable_host(verdict("h", CORDONED, NO_CPU), unavailable_hosts_of([closed]))
    assert codes(found) == [*expected, "insufficient"]


@pytest.mark.parametrize(
    ("closed", "expected"),
    [
        (row("h", "offline"), ["locked_out"]),
        (row("h", "joined", agent=""), ["locked_out"]),
        (row("h", "silent", cordoned=True), ["locked_out", "silent", "cordoned"]),
        (row("h", "fenced", draining=True), ["locked_out", "fenced", "draining"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_a_host_that_is_locked_out_needs_a_token_first(closed, expected):
    unavailable = unavailable_hosts_of([closed], locked_out={"h"})
    assert codes(explain_unavailable_host(verdict("h", CORDONED), unavailable)) == expected
    assert "hostler token create --host h" in unavailable["h"][0].change("h").text


def test_a_host_that_its_row_does_not_close_does_not_know_what_it_has():
    assert codes(explain_unavailable_host(verdict("h", CORDONED), {})) == ["inventory_unknown"]


def test_a_host_that_a_plan_leaves_out_is_cordoned_for_it():
    silent = unavailable_hosts_of([row("h", "silent")])
    assert codes(explain_unavailable_host(verdict("h", CORDONED), with_hosts_left_out(silent, ["h"]))) == ["cordoned"]


def explanation(*verdicts: HostVerdict, **more) -> Explanation:
    counts = (ReasonCount(CORDONED, 2), ReasonCount(NO_CPU, 1))
    decision = Decision(guest="web", uid="u", seq=1, at=1, policy="p", state="held", hosts=3, reasons=counts)
    return Explanation(decision=decision, as_of="now", verdicts=verdicts, **more)


def test_an_explanation_counts_hosts_by_what_is_the_matter_and_cures_that():
    uncordon = CureChange(kind="uncordon", subject="b", text="uncordon b", relative=1.0)
    less = CureChange(kind="reduce_request", subject="cpu", text="ask for less", relative=0.5)
    found = explain_unavailable_hosts(
        explanation(
            verdict("a", CORDONED),
            verdict("b", CORDONED, NO_CPU),
            verdict("c", NO_CPU),
            cure=Cure(host="b", changes=(uncordon, less)),
            gang=GangAdvice(gang="crew", members=(MemberAdvice(guest="web", reasons=(ReasonCount(CORDONED, 2),)),)),
        ),
        unavailable_hosts_of([row("a", draining=True), row("b", "silent")]),
    )
    counts = {count.reason.code: count.hosts for count in found.decision.reasons}
    assert counts == {"draining": 1, "silent": 1, "insufficient": 1}
    assert found.cure is not None
    assert found.cure.changes[1] == less
    assert found.cure.changes[0].kind == "other"
    assert "bring b back" in found.cure.changes[0].text
    assert found.gang is not None
    assert {count.reason.code for count in found.gang.members[0].reasons} == {"draining", "silent"}


def test_an_operators_cordon_stays_what_it_is():
    uncordon = CureChange(kind="uncordon", subject="a", text="uncordon a", relative=1.0)
    found = explain_unavailable_hosts(
        explanation(verdict("a", CORDONED), cure=Cure(host="a", changes=(uncordon,))),
        unavailable_hosts_of([row("a", cordoned=True)]),
    )
    assert codes(found.verdicts[0]) == ["cordoned"]
    assert found.cure is not None
    assert found.cure.changes[0].kind == "uncordon"
    assert "hostler host uncordon a" in found.cure.changes[0].text


@pytest.mark.parametrize(
    ("hosts", "closed", "expected"),
    [
        (2, ["a", "b"], {"silent": 1, "draining": 1}),
        (1, ["a", "b"], {"not_taking_vms": 1}),  # who of them was refused for something else is not known
        (1, ["a", "c"], {"silent": 1}),  # but here it does not matter
    ],
)
def test_a_count_without_names_says_no_more_than_is_known(hosts, closed, expected):
    unavailable = unavailable_hosts_of([row("a", "silent"), row("b", draining=True), row("c", "silent")])
    found = count_unavailable_reasons([ReasonCount(CORDONED, hosts)], closed, unavailable)
    assert {count.reason.code: count.hosts for count in found} == expected
