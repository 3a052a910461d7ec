"""What guests say about other guests in a Fleet file: read, refused, and written back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.config import DeclaredFleet, parse_documents, read_fleet, write_fleet, write_yaml
from hostler.errors import InputError, QuantityError
from hostler.model import Expression, Guest, GuestSpec, GuestTerm, Host, HostPort, Selector, Spread, WeightedGuestTerm
from tests.model.strategies import expressions, label_maps, names, texts

HEAD = "apiVersion: hostler/v1\nkind: Fleet\n"


def _fleet(body: str, source: str = "fleet.yaml") -> DeclaredFleet:
    return read_fleet(parse_documents((HEAD + body).encode(), source)[0])


def _guest(body: str) -> Guest:
    return _fleet(f"guests:\n- name: g\n{body}").guests[0]


def is_(key: str, *values: str) -> Expression:
    return Expression(key, "In", values)


FULL = """\
  host: a
  namespace: team
  labels: {app: web}
  affinity:
  - {topology: zone, selector: {app: db, tier: back}, namespaces: [data, team]}
  anti_affinity:
  - topology: host
    selector: {app: web, expressions: [{key: track, operator: NotIn, values: [canary]}, {key: live}]}
    namespace_selector: {}
  preferred_affinity: [{weight: 5, term: {topology: rack, selector: {}}}]
  preferred_anti_affinity: [{weight: 100, term: {topology: rack}}]
  spread:
  - {topology: zone, selector: {app: web}, max_skew: 2, min_domains: 3, honor_affinity: false, honor_taints: true}
  - {topology: rack, is_hard: false}
  siblings: {owner: web}
  ports: [80, {port: 53, protocol: UDP, address: 10.0.0.1}]
  images: ["reg/web:1", "reg/side:2"]
  tenant: blue
  gang: crew
  may_preempt: false
  is_leaving: true
  started: 2026-01-01T00:00:01.5Z
  unsupported: [volume claims]
"""


def test_every_key_about_other_guests_reaches_the_model():
    guest = _guest(FULL)
    assert guest.gang == "team/crew"
    assert guest.started == 1_767_225_601_500_000_000
    assert guest.spec == GuestSpec(
        namespace="team",
        labels=(("app", "web"),),
        affinity=(GuestTerm("zone", Selector((is_("app", "db"), is_("tier", "back"))), ("data", "team")),),
        anti_affinity=(
            GuestTerm(
                "host",
                Selector((is_("app", "web"), Expression("track", "NotIn", ("canary",)), Expression("live"))),
                namespace_selector=Selector(),
            ),
        ),
        preferred_affinity=(WeightedGuestTerm(5, GuestTerm("rack", Selector())),),
        preferred_anti_affinity=(WeightedGuestTerm(100, GuestTerm("rack")),),
        spread=(
            Spread("zone", 2, Selector((is_("app", "web"),)), True, 3, False, True),
            Spread("rack", is_hard=False),
        ),
        siblings=Selector((is_("owner", "web"),)),
        ports=(HostPort(80), HostPort(53, "UDP", "10.0.0.1")),
        images=("reg/web:1", "reg/side:2"),
        tenant="blue",
        may_preempt=False,
        is_leaving=True,
        unsupported=("volume claims",),
    )


def test_images_of_a_host_have_sizes():
    host = _fleet("hosts: [{name: a, images: {nginx: 60Mi, cpu: 5, empty: 0}}]").hosts[0]
    assert host.images == (("cpu", 5), ("empty", 0), ("nginx", 60 << 20))


def test_a_selector_of_everything_is_not_the_same_as_none():
    some, none = _fleet(
        "guests:\n- {name: a, siblings: {}}\n- {name: b}\n",
    ).guests
    assert some.spec.siblings == Selector()
    assert none.spec.siblings is None


@pytest.mark.parametrize(
    ("gang", "key"), [("crew", "team/crew"), ("other/crew", "other/crew"), ("''", "")], ids=["own", "other", "none"]
)
def test_a_gang_is_named_in_the_guests_namespace_unless_it_says_otherwise(gang, key):
    assert _guest(f"  namespace: team\n  gang: {gang}\n").gang == key


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        pytest.param(
            "  spread:\n  - {topolgy: zone}\n",
            "fleet.yaml:6: unknown key 'topolgy' in guests[0].spread[0]",
            "'topology'",
            id="key-of-spread",
        ),
        pytest.param("  spread: [{max_skew: 1}]\n", "guests[0].spread[0] has no 'topology'", "add", id="no-topology"),
        pytest.param(
            "  spread: [{topology: ''}]\n", "spread[0].topology is empty", "name a label", id="empty-topology"
        ),
        pytest.param("  spread: [{topology: z, max_skew: 0}]\n", "max_skew must be an integer >= 1", "", id="skew"),
        pytest.param(
            "  spread: [{topology: z, is_hard: false, min_domains: 2}]\n",
            "min_domains counts only with is_hard",
            "remove",
            id="soft-with-domains",
        ),
        pytest.param(
            "  affinity:\n  - topology: zone\n    selector:\n      app: web\n      tier: 7\n",
            "fleet.yaml:9: guests[0].affinity[0].selector.tier must be a string or a list, not a number",
            "quotes",
            id="label-value",
        ),
        pytest.param(
            "  affinity:\n  - topology: zone\n    selector:\n      app: web\n      expressions:\n"
            "      - {key: a, oprator: In}\n",
            "fleet.yaml:10: unknown key 'oprator' in guests[0].affinity[0].selector.expressions[0]",
            "'operator'",
            id="key-of-an-expression",
        ),
        pytest.param(
            "  siblings: {app: [{key: web}]}\n",
            "guests[0].siblings.app must be a string, not a list",
            "expressions: [{key: app",
            id="list-of-values",
        ),
        pytest.param("  siblings: {'': x}\n", "is a label without a key", "name", id="no-label"),
        pytest.param("  siblings:\n", "guests[0].siblings must be a mapping, not empty", "value", id="nothing"),
        pytest.param(
            "  siblings: {expressions: [{key: a, operator: In}]}\n",
            "siblings.expressions[0] has no values for In",
            "at least one",
            id="in-nothing",
        ),
        pytest.param("  affinity: [{topology: z, namespaces: [a/b]}]\n", "is 'a/b'", "no '/'", id="namespace"),
        pytest.param("  preferred_affinity: [{weight: 101, term: {topology: z}}]\n", "weight must be", "", id="weight"),
        pytest.param("  ports: [0]\n", "ports[0] must be an integer >= 1", "", id="port-zero"),
        pytest.param("  ports: [http]\n", "ports[0] must be", "", id="port-name"),
        pytest.param("  ports: [{port: 5, protocol: ICMP}]\n", "protocol is 'ICMP'", "TCP, UDP", id="protocol"),
        pytest.param("  ports: [80, {port: 80}]\n", "names port *:80/TCP twice", "once", id="port-twice"),
        pytest.param("  gang: a/b/c\n", "guests[0].gang is 'a/b/c'", "NAMESPACE/NAME", id="gang"),
        pytest.param("  gang: 'a b'\n", "guests[0].gang is 'a b'", "whitespace", id="gang-with-space"),
        pytest.param("  is_leaving: true\n", "has 'is_leaving' but no 'host'", "name the host", id="leaving-nothing"),
        pytest.param("  may_preempt: 1\n", "may_preempt must be true or false", "", id="flag"),
    ],
)
def test_a_wrong_constraint_is_refused_with_file_line_and_hint(body, message, hint):
    with pytest.raises(InputError) as caught:
        _guest(body)
    assert message in str(caught.value)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("started", "message"),
    [
        ("yesterday", "is not a time"),
        ("2026-01-01", "is not a time"),
        ("2026-01-01T00:00:00", "is not a time"),
        ("2026-13-01T00:00:00Z", "is not a time"),
        ("1969-12-31T23:59:59Z", "between 1970 and 2116"),
        ("2117-01-01T00:00:00Z", "between 1970 and 2116"),
    ],
)
def test_what_is_no_time_is_refused(started, message):
    with pytest.raises(QuantityError, match=message) as caught:
        _guest(f"  started: {started}\n")
    assert str(caught.value).startswith("fleet.yaml:5: guests[0].started")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("started", "time_ns"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T01:00:00+01:00", 0),
        ("90s", 90 * 10**9),
        ("2026-01-01T00:00:00.000000001Z", 1_767_225_600_000_000_001),
    ],
)
def test_times_have_a_zone_and_durations_count_from_the_clocks_start(started, time_ns):
    assert _guest(f"  started: {started}\n").started == time_ns


# ---------------------------------------------------------------------------------------------- writing


selectors = st.one_of(
    st.none(),
    label_maps.map(lambda values: Selector(tuple(is_(key, value) for key, value in sorted(values.items())))),
    st.lists(expressions, max_size=3).map(lambda found: Selector(tuple(found))),
)
namespaces = names.filter(lambda name: "/" not in name)
guest_terms = st.builds(
    GuestTerm, texts.filter(bool), selectors, st.lists(namespaces, max_size=2).map(tuple), selectors
)
weighted = st.builds(WeightedGuestTerm, st.integers(1, 100), guest_terms)
spreads = st.builds(
    Spread,
    texts.filter(bool),
    st.integers(1, 2**31 - 1),
    selectors,
    st.just(True),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
) | st.builds(Spread, texts.filter(bool), selector=selectors, is_hard=st.just(False))
ports = st.builds(HostPort, st.integers(1, 65535), st.sampled_from(["TCP", "UDP", "SCTP"]), texts)
specs = st.builds(
    GuestSpec,
    namespace=namespaces,
    affinity=st.lists(guest_terms, max_size=2).map(tuple),
    anti_affinity=st.lists(guest_terms, max_size=2).map(tuple),
    preferred_affinity=st.lists(weighted, max_size=2).map(tuple),
    preferred_anti_affinity=st.lists(weighted, max_size=2).map(tuple),
    spread=st.lists(spreads, max_size=2).map(tuple),
    siblings=selectors,
    ports=st.lists(ports, max_size=2, unique=True).map(tuple),
    images=st.lists(texts, max_size=2).map(tuple),
    tenant=texts,
    may_preempt=st.booleans(),
    is_leaving=st.booleans(),
    unsupported=st.lists(texts, max_size=2).map(tuple),
)


@st.composite
def some_guests(draw: st.DrawFn) -> Guest:
    spec, name = draw(specs), draw(names)
    gang = draw(st.just("") | st.tuples(st.just(spec.namespace) | namespaces, namespaces).map("/".join))
    started = draw(st.integers(0, 2**62))
    host = "a" if spec.is_leaving else draw(texts)
    return Guest(name=name, uid=f"{spec.namespace}/{name}", spec=spec, host=host, gang=gang, started=started)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(some_guests(), st.dictionaries(texts.filter(bool), st.integers(0, 2**62), max_size=3))
def test_written_constraints_read_back_the_same_through_yaml_and_json(guest, images):
    host = Host(name="a", uid="a", images=tuple(sorted(images.items())))
    written = write_fleet([host], [guest])
    for text in (write_yaml(written), json.dumps(written)):
        fleet = read_fleet(parse_documents(text.encode(), "f")[0])
        assert fleet.guests == (guest,)
        assert fleet.hosts == (host,)


def test_constraints_are_written_as_a_person_would():
    written: dict[str, Any] = write_fleet([], [_guest(FULL)])
    entry = written["guests"][0]
    assert entry["affinity"] == [
        {"topology": "zone", "selector": {"app": "db", "tier": "back"}, "namespaces": ["data", "team"]}
    ]
    assert entry["spread"][1] == {"topology": "rack", "is_hard": False}
    assert entry["ports"] == [80, {"port": 53, "protocol": "UDP", "address": "10.0.0.1"}]
    assert entry["gang"] == "crew"
    assert entry["started"] == "2026-01-01T00:00:01.5Z"


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("{matchLabels: {app: web}}", "write {app: web}, without 'matchLabels'"),
        ("{matchExpressions: [{key: app}]}", "write 'expressions' instead"),
    ],
)
def test_kubernetes_selector_is_rejected_with_our_notation(selector: str, hint: str) -> None:
    with pytest.raises(InputError) as refused:
        _guest(f"  affinity: [{{topology: zone, selector: {selector}}}]\n")
    assert refused.value.hint == hint
