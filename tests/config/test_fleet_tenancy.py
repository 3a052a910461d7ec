"""Namespaces, gangs, budgets, quotas and reservations in Fleet files: read, refused, merged, and written back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.config import (
    DeclaredFleet,
    DeclaredTenancy,
    merge_fleets,
    parse_documents,
    read_fleet,
    write_fleet,
    write_yaml,
)
from hostler.errors import DuplicateNameError, HostlerError
from hostler.model import Budget, Expression, Gang, HostShare, Quota, Reservation, Selector, Term, amount_of
from tests.config.test_fleet_constraints import is_, namespaces, selectors
from tests.model.strategies import labels, names, sizes, terms, texts

HEAD = "apiVersion: hostler/v1\nkind: Fleet\n"
MINUTE = 60 * 10**9


def _fleet(body: str, source: str = "fleet.yaml") -> DeclaredFleet:
    return read_fleet(parse_documents((HEAD + body).encode(), source)[0])


FULL = """\
namespaces: [{name: team, labels: {tier: gold}}]
gangs:
- name: crew
  namespace: team
  version: 3
  min_count: 4
  max_count: 8
  priority: -1
  topology: rack
  disruption: all
  when_broken: release_after
  release_after: 5m
  head_of_line: reserve
- name: pair
budgets: [{name: web, namespace: team, version: 1, selector: {app: web}, allowed: 2, disrupted: [web-1]}]
quotas: [{tenant: blue, version: 2, min: {cpu: 2, memory: 0}, max: {cpu: 4, gpu: 0}}]
reservations:
- name: night
  version: 4
  amounts: {cpu: 1500m}
  hosts: [{names: [a]}]
  gang: pair
  since: 1h
  until: 90m
- {name: day, amounts: {memory: 1Gi}, tenant: blue, host_selector: {zone: x, disk: ssd}}
- {name: rest, amounts: {disk: 1}, selector: {}}
"""


def test_every_key_reaches_the_model():
    found = _fleet(FULL).tenancy
    assert found.namespaces == {"team": (("tier", "gold"),)}
    assert found.gangs == (
        Gang(
            name="crew",
            namespace="team",
            version=3,
            min_count=4,
            max_count=8,
            priority=-1,
            topology="rack",
            disruption="all",
            when_broken="release_after",
            release_after_ns=5 * MINUTE,
            head_of_line="reserve",
        ),
        Gang(name="pair"),
    )
    assert found.budgets == (
        Budget(
            name="web",
            namespace="team",
            version=1,
            selector=Selector((is_("app", "web"),)),
            allowed=2,
            disrupted=("web-1",),
        ),
    )
    assert found.quotas == (Quota(tenant="blue", version=2, min=(("cpu", 2000),), max=(("cpu", 4000), ("gpu", 0))),)
    assert found.reservations == (
        Reservation(
            name="night",
            version=4,
            amounts=(("cpu", 1500),),
            hosts=(Term((), (Expression("metadata.name", "In", ("a",)),)),),
            gang="default/pair",
            since=60 * MINUTE,
            until=90 * MINUTE,
        ),
        Reservation(
            name="day",
            amounts=(("memory", 1 << 30),),
            hosts=(Term((is_("disk", "ssd"), is_("zone", "x"))),),
            tenant="blue",
        ),
        Reservation(name="rest", amounts=(("disk", 1),), selector=Selector()),
    )


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        pytest.param(
            "gangs:\n- name: a\n  min_cout: 2\n",
            "fleet.yaml:5: unknown key 'min_cout' in gangs[0]",
            "did you mean 'min_count'?",
            id="unknown-key",
        ),
        pytest.param("gangs: [{min_count: 2}]", "gangs[0] has no 'name'", "add", id="no-name"),
        pytest.param("gangs: [{name: a, min_count: 0}]", "min_count must be an integer >= 1", "", id="no-minimum"),
        pytest.param(
            "gangs: [{name: a, min_count: 3, max_count: 2}]",
            "gangs[0].max_count is 2, below min_count 3",
            "raise",
            id="max-below-min",
        ),
        pytest.param("gangs: [{name: t/a}]", "gangs[0].name is 't/a'", "namespace", id="slash"),
        pytest.param("gangs: [{name: a, disruption: none}]", "disruption is 'none'", "all, single", id="disruption"),
        pytest.param("gangs: [{name: a, release_after: soon}]", "release_after: 'soon'", "500ms", id="duration"),
        pytest.param(
            "gangs: [{name: a}, {name: a}]", "gang 'a' is declared twice, first at fleet.yaml:3", "", id="twice"
        ),
        pytest.param("budgets: [{name: b, allowed: -1}]", "allowed must be an integer >= 0", "", id="allowed"),
        pytest.param("budgets: [{name: b}, {name: b}]", "budget 'b' is declared twice", "rename", id="budget-twice"),
        pytest.param("quotas: [{tenant: ''}]", "quotas[0].tenant is empty", "name", id="no-tenant"),
        pytest.param(
            "quotas: [{tenant: t, min: {cpu: 2}, max: {cpu: 1}}]",
            "quotas[0].max.cpu is below the min of cpu",
            "raise",
            id="quota-max",
        ),
        pytest.param("quotas: [{tenant: t, min: {cpu: x}}]", "quotas[0].min.cpu", "", id="quota-amount"),
        pytest.param("quotas: [{tenant: t}, {tenant: t}]", "quota of tenant 't' is declared twice", "", id="quotas"),
        pytest.param("reservations: [{name: r}]", "has no 'amounts'", "add", id="no-amounts"),
        pytest.param("reservations: [{name: r, amounts: {cpu: 0}, tenant: t}]", "reserves nothing", "", id="nothing"),
        pytest.param(
            "reservations: [{name: r, amounts: {guests: 1}, tenant: t}]",
            "amounts.guests is no amount",
            "cpu",
            id="guests",
        ),
        pytest.param(
            "reservations: [{name: r, tenant: t, shares: {a: {cpu: 0}}}]", "shares.a reserves nothing", "", id="share"
        ),
        pytest.param(
            "reservations: [{name: r, tenant: t, amounts: {cpu: 1}, shares: {a: {cpu: 1}}}]",
            "shares cannot stand beside amounts",
            "keep",
            id="amounts-and-shares",
        ),
        pytest.param("reservations: [{name: r, amounts: {cpu: 1}}]", "has no owner", "tenant, gang", id="nobody"),
        pytest.param(
            "reservations: [{name: r, amounts: {cpu: 1}, tenant: t, selector: {a: b}}]",
            "is for tenant and selector at once",
            "one of",
            id="two",
        ),
        pytest.param(
            "reservations: [{name: r, amounts: {cpu: 1}, tenant: t, since: 2h, until: 1h}]",
            "until is not after since",
            "never",
            id="ends-before",
        ),
        pytest.param(
            "reservations: [{name: r, amounts: {cpu: 1}, tenant: t, host_selector: {a: b}, hosts: [{names: [x]}]}]",
            "hosts cannot stand beside host_selector",
            "one of them",
            id="two-ways",
        ),
        pytest.param("namespaces: [{name: a/b}]", "namespaces[0].name is 'a/b'", "no '/'", id="namespace"),
        pytest.param("namespaces: [{name: a, labels: {x: 1}}]", "labels.x must be a string", "quotes", id="label"),
        pytest.param(
            "namespaces: [{name: a, labels: {x: y}}, {name: a, labels: {x: z}}]",
            "namespace 'a' is declared twice",
            "",
            id="namespace-twice",
        ),
    ],
)
def test_what_is_wrong_is_refused_with_file_line_and_hint(body, message, hint):
    with pytest.raises(HostlerError) as caught:
        _fleet(body)
    assert message in str(caught.value)
    assert str(caught.value).startswith("fleet.yaml:")
    assert hint in caught.value.hint


def test_duplicates_across_files_name_both_files():
    with pytest.raises(DuplicateNameError, match=r"b.yaml:3: gang 'g' is declared twice, first at a.yaml:3"):
        merge_fleets([_fleet("gangs: [{name: g}]", "a.yaml"), _fleet("gangs: [{name: g}]", "b.yaml")])


def test_gangs_of_two_namespaces_may_share_a_name():
    fleet = merge_fleets([_fleet("gangs: [{name: g}]"), _fleet("gangs: [{name: g, namespace: other}]")])
    assert [gang.key for gang in fleet.tenancy.gangs] == ["default/g", "other/g"]


def test_mentioned_namespace_gets_the_labels_of_its_description():
    mentioned = DeclaredFleet(tenancy=DeclaredTenancy(namespaces={"team": (("kubernetes.io/metadata.name", "team"),)}))
    described = _fleet("namespaces: [{name: team, labels: {tier: gold}}]")
    both = (("kubernetes.io/metadata.name", "team"), ("tier", "gold"))
    for order in ([mentioned, described], [described, mentioned]):
        assert merge_fleets(order).tenancy.namespaces == {"team": both}
    with pytest.raises(DuplicateNameError, match="namespace 'team' is declared twice"):
        merge_fleets([described, _fleet("namespaces: [{name: team, labels: {tier: lead}}]")])


# ---------------------------------------------------------------------------------------------- writing


times = st.integers(0, 2**61)
gangs = st.builds(
    lambda least, more, **rest: Gang(min_count=least, max_count=least + more if more else 0, **rest),
    st.integers(1, 2**30),
    st.integers(0, 2**30),
    name=namespaces,
    namespace=namespaces,
    version=st.integers(0, 2**63 - 1),
    priority=st.none() | st.integers(-(2**31), 2**31 - 1),
    topology=texts,
    disruption=st.sampled_from(["single", "all"]),
    when_broken=st.sampled_from(["keep", "prefer_repair", "release_after"]),
    release_after_ns=times,
    head_of_line=st.sampled_from(["skip", "reserve"]),
)
budgets = st.builds(
    Budget,
    name=namespaces,
    namespace=namespaces,
    version=st.integers(0, 2**63 - 1),
    selector=selectors,
    allowed=st.integers(0, 2**31 - 1),
    disrupted=st.lists(names, max_size=2).map(tuple),
)
quotas = st.builds(Quota, tenant=names, version=st.integers(0, 2**63 - 1), min=sizes)
whom: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(dict, tenant=names),
    st.builds(dict, gang=st.tuples(namespaces, namespaces).map("/".join)),
    st.builds(dict, selector=selectors.filter(lambda found: found is not None)),
)
kept = sizes.filter(lambda found: found and not amount_of(found, "guests"))
reservations = st.builds(
    lambda for_whom, since, more, **rest: Reservation(
        since=since, until=since + more if more else 0, **for_whom, **rest
    ),
    whom,
    times,
    times,
    name=names,
    version=st.integers(0, 2**63 - 1),
    amounts=kept,
    hosts=st.lists(terms, max_size=2).map(tuple),
) | st.builds(
    Reservation,
    name=names,
    tenant=names,
    shares=st.dictionaries(names, kept, min_size=1, max_size=3).map(
        lambda found: tuple(HostShare(*one) for one in sorted(found.items()))
    ),
)
tenancies = st.builds(
    DeclaredTenancy,
    namespaces=st.dictionaries(namespaces, labels.filter(bool), max_size=2),
    gangs=st.lists(gangs, max_size=2, unique_by=lambda gang: gang.key).map(tuple),
    budgets=st.lists(budgets, max_size=2, unique_by=lambda budget: budget.key).map(tuple),
    quotas=st.lists(quotas, max_size=2, unique_by=lambda quota: quota.tenant).map(tuple),
    reservations=st.lists(reservations, max_size=2, unique_by=lambda one: one.name).map(tuple),
)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(tenancies)
def test_what_is_written_reads_back_the_same_through_yaml_and_json(tenancy):
    written = write_fleet([], [], tenancy=tenancy)
    for text in (write_yaml(written), json.dumps(written)):
        found = read_fleet(parse_documents(text.encode(), "f")[0]).tenancy
        for field in ("namespaces", "gangs", "budgets", "quotas", "reservations"):
            assert getattr(found, field) == getattr(tenancy, field), field


def test_full_example_reads_back_the_same_without_its_defaults():
    found = _fleet(FULL).tenancy
    written: dict[str, Any] = write_fleet([], [], tenancy=found)
    assert written["gangs"][1] == {"name": "pair", "min_count": 1}
    assert written["quotas"] == [{"tenant": "blue", "version": 2, "min": {"cpu": "2"}, "max": {"cpu": "4", "gpu": "0"}}]
    again = read_fleet(parse_documents(write_yaml(written).encode(), "f")[0]).tenancy
    assert (again.gangs, again.reservations) == (found.gangs, found.reservations)


def test_a_fleet_without_any_of_this_is_written_without_empty_lists():
    assert set(write_fleet([], [], tenancy=DeclaredTenancy())) == {"apiVersion", "kind", "hosts", "guests"}


def test_a_budget_that_was_broken_is_written_with_nothing_left():
    assert write_fleet([], [], tenancy=DeclaredTenancy(budgets=(Budget(name="b", allowed=-1),)))["budgets"] == [
        {"name": "b"}
    ]
