"""Files of kind Fleet: what they say, what is refused and how, and that writing is the inverse of reading."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.config import (
    DeclaredFleet,
    merge_fleets,
    parse_documents,
    read_documents,
    read_fleet,
    write_fleet,
    write_yaml,
)
from hostler.errors import DuplicateNameError, InputError, QuantityError, UnknownNameError
from hostler.model import (
    Device,
    DeviceRequest,
    Expression,
    Guest,
    GuestSpec,
    Host,
    Policy,
    Taint,
    Term,
    Toleration,
    WeightedTerm,
)
from tests.model.strategies import TRICKY_NAMES, guests, hosts

HEAD = "apiVersion: hostler/v1\nkind: Fleet\n"


def _fleet(body: str, source: str = "fleet.yaml") -> DeclaredFleet:
    return read_fleet(parse_documents((HEAD + body).encode(), source)[0])


FULL = """\
policy: spread
hosts:
- name: a
  uid: 123e4567
  version: 7
  capacity: {cpu: "1500m", memory: 2Gi, guests: 10, storage: 0}
  devices: [{kind: gpu, model: T4, count: 2}, {kind: gpu, model: A10, milli: 500}]
  labels: {zone: x, arch: arm64}
  taints: [{key: gpu, value: "yes", effect: NoExecute}, {key: old}]
  cordoned: true
  overcommit: {cpu: 1.5}
  reserve: {memory: 1Gi, cpu: 0}
  rank: 3
guests:
- name: g
  namespace: team
  requests: {cpu: 0.1, memory: 100M}
  devices: [{kind: gpu, milli: 250, models: [T4]}]
  priority: -5
  policy: best_fit
  host: a
  on_devices: [1]
  host_name: a
  host_selector: {zone: x}
  host_affinity:
  - expressions: [{key: cores, operator: Gt, values: ["4"]}, {key: arch}]
    names: [a, {operator: NotIn, values: [z]}, b]
  preferred_hosts: [{weight: 10, term: {expressions: [{key: zone, operator: In, values: [x]}]}}]
  tolerations: [{operator: Exists}]
  labels: {app: web}
  prepare: [volume]
  draw_key: 9
"""


def test_every_key_of_a_host_reaches_the_model():
    [host] = _fleet(FULL).hosts
    assert host == Host(
        name="a",
        uid="123e4567",
        version=7,
        capacity=(("cpu", 1500), ("guests", 10), ("memory", 2 << 30)),
        devices=(Device("gpu", "T4"), Device("gpu", "T4"), Device("gpu", "A10", 500)),
        labels=(("arch", "arm64"), ("zone", "x")),
        taints=(Taint("gpu", "yes", "NoExecute"), Taint("old")),
        cordoned=True,
        overcommit=(("cpu", 1_500_000),),
        reserve=(("cpu", 0), ("memory", 1 << 30)),
        rank=3,
    )


def test_every_key_of_a_guest_reaches_the_model():
    fleet = merge_fleets([_fleet(FULL)])
    assert fleet.policy == "spread"
    assert fleet.guests[0] == Guest(
        name="g",
        uid="team/g",
        spec=GuestSpec(
            requests=(("cpu", 100), ("memory", 100_000_000)),
            devices=(DeviceRequest("gpu", 1, 250, ("T4",)),),
            priority=-5,
            policy="best_fit",
            host_name="a",
            host_selector=(("zone", "x"),),
            host_affinity=(
                Term(
                    (Expression("cores", "Gt", ("4",)), Expression("arch")),
                    (
                        Expression("metadata.name", "In", ("a", "b")),
                        Expression("metadata.name", "NotIn", ("z",)),
                    ),
                ),
            ),
            preferred_hosts=(WeightedTerm(10, Term((Expression("zone", "In", ("x",)),))),),
            tolerations=(Toleration(operator="Exists"),),
            namespace="team",
            labels=(("app", "web"),),
            prepare=("volume",),
        ),
        host="a",
        on_devices=(1,),
        draw_key=9,
    )


def test_short_entries_get_identities_of_their_own():
    fleet = _fleet("hosts: [{name: a}]\nguests: [{name: g}]\n")
    assert fleet.hosts == (Host(name="a", uid="a"),)
    assert fleet.guests == (Guest(name="g", uid="default/g"),)


@pytest.mark.parametrize(
    ("count", "first", "last"),
    [
        pytest.param(1, "n-0", "n-0", id="one"),
        pytest.param(10, "n-0", "n-9", id="ten"),
        pytest.param(11, "n-0", "n-10", id="eleven"),
        pytest.param(1000, "n-0", "n-999", id="thousand"),
    ],
)
def test_count_makes_numbered_names_that_stay_when_the_count_grows(count, first, last):
    fleet = _fleet(f"hosts: [{{name: n, count: {count}}}]\nguests: [{{name: n, count: {count}}}]\n")
    names = [host.name for host in fleet.hosts]
    assert (len(names), names[0], names[-1]) == (count, first, last)
    assert names == [guest.name for guest in fleet.guests]
    assert [host.uid for host in fleet.hosts] == names


def test_guests_of_one_entry_and_of_equal_entries_share_one_spec():
    fleet = _fleet("guests: [{name: a, count: 3, requests: {cpu: 1}}, {name: b, requests: {cpu: '1000m'}}]\n")
    assert len({id(guest.spec) for guest in fleet.guests}) == 1


def test_output_of_place_is_accepted_as_input():
    fleet = _fleet("hosts: [{name: a}]\ndecisions: [{guest: g, host: a}]\nsummary: {placed: 1}\n")
    assert len(fleet.hosts) == 1


def test_host_reserve_of_zero_is_kept_because_it_beats_the_policy():
    assert _fleet("hosts: [{name: a, reserve: {cpu: 0}}]").hosts[0].reserve == (("cpu", 0),)


def test_host_that_takes_no_guests_at_all_keeps_its_limit_of_zero():
    assert _fleet("hosts: [{name: a, capacity: {cpu: 0, guests: 0}}]").hosts[0].capacity == (("guests", 0),)


# --------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        pytest.param(
            "hosts:\n- name: a\n  capcity: {cpu: 1}\n",
            "fleet.yaml:5: unknown key 'capcity' in hosts[0]",
            "did you mean 'capacity'?",
            id="in-a-host",
        ),
        pytest.param("host: []\n", "fleet.yaml:3: unknown key 'host' at the top level", "'hosts'", id="on-top"),
        pytest.param(
            "guests:\n- name: g\n  devices:\n  - kind: gpu\n    mili: 5\n",
            "fleet.yaml:7: unknown key 'mili' in guests[0].devices[0]",
            "did you mean 'milli'?",
            id="deeper",
        ),
        pytest.param(
            "guests:\n- name: g\n  host_affinity:\n  - names:\n    - {values: [a], oprator: In}\n",
            "fleet.yaml:7: unknown key 'oprator' in guests[0].host_affinity[0].names[0]",
            "did you mean 'operator'?",
            id="inside-a-choice",
        ),
        pytest.param(
            "hosts: [{name: a, zzzzzz: 1}]\n",
            "unknown key 'zzzzzz'",
            "known: capacity, cordoned",
            id="nothing-near",
        ),
        pytest.param(
            "policies: [{name: p, scorrers: []}]\n",
            "unknown key 'scorrers' in policies[0]",
            "'scorers'",
            id="policy",
        ),
    ],
)
def test_unknown_key_names_file_line_and_nearest_key(body, message, hint):
    with pytest.raises(InputError) as caught:
        _fleet(body)
    assert message in str(caught.value)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("hosts:\n- name: 7\n", "fleet.yaml:4: hosts[0].name must be a string, not a number", id="number"),
        pytest.param("hosts: [{name: yes, cordoned: yes}]", "hosts[0].cordoned must be true or false", id="yes"),
        pytest.param("hosts: {a: 1}", "fleet.yaml:3: hosts must be a list, not a mapping", id="mapping"),
        pytest.param("hosts:\n", "fleet.yaml:3: hosts must be a list, not empty", id="nothing"),
        pytest.param("hosts: [a]", "hosts[0] must be a mapping, not a string", id="text"),
        pytest.param("hosts: [{}]", "hosts[0] has no 'name'", id="no-name"),
        pytest.param("hosts: [{name: a, rank: 1.5}]", "must be an integer, not a number with a fraction", id="float"),
        pytest.param("hosts: [{name: a, rank: 0777}]", "must be an integer, not a string", id="octal"),
        pytest.param("hosts: [{name: a, count: 0}]", "hosts[0].count must be an integer >= 1", id="count-zero"),
        pytest.param("hosts: [{name: a, count: -1}]", "hosts[0].count must be an integer >= 1", id="count-negative"),
        pytest.param(
            "hosts:\n- name: a\n  labels:\n    x: y\n    zone: 1\n",
            "fleet.yaml:7: hosts[0].labels.zone must be a string, not a number",
            id="label-value",
        ),
        pytest.param(
            "hosts:\n- name: a\n  labels:\n    example.com/on: true\n",
            "fleet.yaml:6: hosts[0].labels['example.com/on'] must be a string, not true or false",
            id="label-with-odd-key",
        ),
        pytest.param("hosts: [{name: a, capacity: {cpu: }}]", "capacity.cpu must be", id="amount-empty"),
        pytest.param("hosts: [{name: a, capacity: {cpu: [1]}}]", "capacity.cpu must be", id="amount-list"),
        pytest.param("hosts: [{name: a, taints: [{key: x, effect: Nope}]}]", "effect is 'Nope'", id="effect"),
        pytest.param("guests: [{name: a, priority: 2147483648}]", "priority must be an integer <=", id="priority"),
        pytest.param("guests: [{name: a, priority: 1e3}]", "must be an integer", id="priority-float"),
    ],
)
def test_wrong_type_names_file_line_and_path(body, message):
    with pytest.raises(InputError) as caught:
        _fleet(body)
    assert message in str(caught.value)
    assert str(caught.value).startswith("fleet.yaml:")


@pytest.mark.parametrize(
    "amount",
    [
        "-1",
        "-1m",
        ".nan",
        ".inf",
        "-.inf",
        "5Ei",
        "1e30",
        "99999999999999999999",
        "1Gb",
        "''",
        "0x10",
        "0777x",
    ],
)
def test_impossible_amount_names_file_line_and_resource(amount):
    with pytest.raises(QuantityError, match=r"^fleet\.yaml:5: hosts\[0\]\.capacity\.memory: ") as caught:
        _fleet(f"hosts:\n- name: a\n  capacity: {{memory: {amount}}}\n")
    assert caught.value.hint
    with pytest.raises(QuantityError, match=r"^fleet\.yaml:3: guests\[0\]\.requests\.cpu: "):
        _fleet(f"guests: [{{name: a, requests: {{cpu: {amount}}}}}]\n")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("hosts: [{name: ''}]", "hosts[0].name is empty", id="empty-name"),
        pytest.param("hosts: [{name: 'a b'}]", "hosts[0].name is 'a b'", id="blank-in-name"),
        pytest.param('hosts: [{name: "a\\tb"}]', "hosts[0].name is 'a\\tb'", id="tab-in-name"),
        pytest.param('hosts: [{name: "a\\u2028"}]', "hosts[0].name is", id="line-separator-in-name"),
        pytest.param('hosts: [{name: "\\u200b"}]', "hosts[0].name is", id="invisible-name"),
        pytest.param(f"hosts: [{{name: {'x' * 254}}}]", "longer than 253", id="long-name"),
        pytest.param(f"hosts: [{{name: {'x' * 253}, count: 2}}]", "longer than 253", id="long-name-by-count"),
        pytest.param("hosts: [{name: a, count: 2, uid: u}]", "hosts[0].uid cannot stand beside", id="uid-and-count"),
        pytest.param("hosts: [{name: a, devices: [{kind: ''}]}]", "devices[0].kind is empty", id="device-kind"),
        pytest.param("hosts: [{name: a, devices: [{kind: g, count: 65}]}]", "count must be an integer <= 64", id="65"),
        pytest.param("hosts: [{name: a, devices: [{kind: g, milli: 0}]}]", "milli must be an integer >= 1", id="0m"),
        pytest.param("guests: [{name: a, devices: [{kind: g, milli: 1001}]}]", "milli must be", id="1001m"),
        pytest.param(
            "hosts: [{name: a, devices: [{kind: g, count: 64}, {kind: g, count: 64}, {kind: h}]}]",
            "hosts[0].devices has 129 devices",
            id="too-many-devices",
        ),
        pytest.param("hosts: [{name: a, taints: [{key: ''}]}]", "taints[0].key is empty", id="taint-key"),
        pytest.param("hosts: [{name: a, labels: {'': x}}]", "a label without a key", id="label-key"),
        pytest.param("hosts: [{name: a, capacity: {'': 1}}]", "a resource without a name", id="resource-name"),
        pytest.param("hosts: [{name: a, overcommit: {cpu: 0}}]", "hosts[0].overcommit.cpu: ratio '0'", id="ratio"),
        pytest.param(
            "hosts: [{name: a, capacity: {cpu: 4000000000000000}, overcommit: {cpu: 1000}}]",
            "hosts[0].overcommit.cpu: host 'a' may give more than 2^62",
            id="overcommit-overflows",
        ),
        pytest.param("guests: [{name: a, namespace: ''}]", "guests[0].namespace is empty", id="namespace"),
        pytest.param("guests: [{name: a, namespace: a/b}]", "guests[0].namespace is 'a/b'", id="namespace-slash"),
        pytest.param("guests: [{name: a, on_devices: [0]}]", "'on_devices' but no 'host'", id="devices-nowhere"),
        pytest.param(
            "guests: [{name: a, host: h, on_devices: [0]}]",
            "on_devices names 1 devices, not 0",
            id="devices-unasked",
        ),
        pytest.param("guests: [{name: a, draw_key: -1}]", "draw_key must be", id="draw-key"),
        pytest.param("guests: [{name: a, draw_key: 18446744073709551616}]", "draw_key is too large", id="draw-key-big"),
        pytest.param("guests: [{name: a, count: 1000000}, {name: b}]", "1,000,001 hosts and guests", id="too-many"),
        pytest.param("guests: [{name: a, preferred_hosts: [{weight: 0, term: {}}]}]", "weight must be", id="weight"),
        pytest.param(
            "guests: [{name: a, host_affinity: [{}]}]", "host_affinity[0] has no requirement", id="empty-term"
        ),
        pytest.param(
            "guests: [{name: a, tolerations: [{value: x}]}]",
            "tolerations[0] has no key",
            id="equal-without-key",
        ),
        pytest.param(
            "guests: [{name: a, tolerations: [{key: x, operator: Exists, value: y}]}]",
            "a value that 'Exists' ignores",
            id="exists-with-value",
        ),
    ],
)
def test_impossible_value_is_refused_with_file_line_and_hint(body, message):
    with pytest.raises(InputError) as caught:
        _fleet(body)
    assert message in str(caught.value)
    assert str(caught.value).startswith("fleet.yaml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        pytest.param("{key: a, operator: In}", "has no values for In", id="in-without-values"),
        pytest.param("{key: a, operator: NotIn, values: []}", "has no values for NotIn", id="notin-without-values"),
        pytest.param("{key: a, operator: Exists, values: [x]}", "which Exists does not take", id="exists-with-values"),
        pytest.param("{key: a, operator: DoesNotExist, values: [x]}", "DoesNotExist does not", id="absent-with-values"),
        pytest.param("{key: a, operator: Gt}", "has values ''", id="gt-without-value"),
        pytest.param("{key: a, operator: Gt, values: ['1', '2']}", "has values '1, 2'", id="gt-with-two"),
        pytest.param("{key: a, operator: Lt, values: [x]}", "has values 'x'", id="lt-with-text"),
        pytest.param("{key: a, operator: Lt, values: ['1.5']}", "has values '1.5'", id="lt-with-fraction"),
        pytest.param("{key: a, operator: Gt, values: ['1_0']}", "has values '1_0'", id="gt-with-underscore"),
        pytest.param("{key: a, operator: Gt, values: [8]}", "values[0] must be a string", id="gt-with-number"),
        pytest.param("{key: '', operator: Exists}", "has an empty key", id="no-key"),
        pytest.param("{key: a, operator: Has}", "operator is 'Has'", id="unknown-operator"),
    ],
)
def test_expression_that_makes_no_sense_is_refused(expression, message):
    with pytest.raises(InputError) as caught:
        _fleet(f"guests: [{{name: g, host_affinity: [{{expressions: [{expression}]}}]}}]")
    assert message in str(caught.value)
    assert "guests[0].host_affinity[0].expressions[0]" in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("head", "message", "hint"),
    [
        pytest.param("apiVersion: hostler/v2\nkind: Fleet\n", "apiVersion is 'hostler/v2'", "hostler/v1", id="version"),
        pytest.param("apiVersion: hostler/v1\nkind: Fleat\n", "f:2: kind is 'Fleat'", "'Fleet'", id="kind"),
    ],
)
def test_another_version_or_kind_is_refused(head, message, hint):
    with pytest.raises(InputError, match=message) as caught:
        read_fleet(parse_documents(head.encode(), "f")[0])
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            "hosts:\n- name: a\n- name: b\n- name: a\n",
            "fleet.yaml:6: host 'a' is declared twice, first at fleet.yaml:4",
            id="hosts",
        ),
        pytest.param(
            "hosts:\n- {name: a, count: 3}\n- {name: a-1}\n",
            "fleet.yaml:5: host 'a-1' is declared twice, first at fleet.yaml:4",
            id="hosts-by-count",
        ),
        pytest.param(
            "guests:\n- name: g\n- name: g\n",
            "fleet.yaml:5: guest 'g' is declared twice, first at fleet.yaml:4",
            id="guests",
        ),
        pytest.param(
            "guests:\n- {name: g, uid: u}\n- {name: h, uid: u}\n",
            "fleet.yaml:5: guest with uid 'u' is declared twice, first at fleet.yaml:4",
            id="uids",
        ),
        pytest.param("policies: [{name: p}, {name: p}]", "policy 'p' is declared twice", id="policies"),
    ],
)
def test_duplicate_name_names_both_places(body, message):
    with pytest.raises(DuplicateNameError) as caught:
        _fleet(body)
    assert message in str(caught.value)


def test_same_guest_name_in_two_namespaces_is_fine():
    assert len(_fleet("guests: [{name: g, namespace: a}, {name: g, namespace: b}]").guests) == 2


# ----------------------------------------------------------------------------------------- several files


def test_duplicates_across_files_name_both_files():
    one = _fleet("hosts:\n- name: a\n", "one.yaml")
    two = read_fleet(
        parse_documents(b'{"apiVersion": "hostler/v1", "kind": "Fleet",\n"hosts": [\n{"name": "a"}]}', "two.json")[0]
    )
    with pytest.raises(DuplicateNameError, match=r"two\.json:3: host 'a' is declared twice, first at one.yaml:4"):
        merge_fleets([one, two])


def test_guest_may_run_on_a_host_of_another_file():
    fleet = merge_fleets([_fleet("guests: [{name: g, host: a}]"), _fleet("hosts: [{name: a}]")])
    assert (len(fleet.hosts), fleet.guests[0].host) == (1, "a")


def test_guest_on_unknown_host_is_refused_with_the_nearest_name():
    fleet = _fleet("hosts: [{name: node, count: 300}]\nguests:\n- name: g\n  host: nod-7\n")
    with pytest.raises(UnknownNameError, match=r"fleet\.yaml:6: guest 'g' runs on host 'nod-7'") as caught:
        merge_fleets([fleet])
    assert caught.value.hint == "did you mean 'node-7'?"


def test_nearest_name_is_found_quickly_among_a_hundred_thousand():
    fleet = _fleet("hosts: [{name: node, count: 100000}]\nguests: [{name: g, host: nodes-01234}]\n")
    with pytest.raises(UnknownNameError) as caught:
        merge_fleets([fleet])
    assert "'node-" in caught.value.hint


@pytest.mark.parametrize(
    ("request_and_devices", "message"),
    [
        pytest.param("devices: [{kind: gpu}], on_devices: [2]", "names device 2, but host 'a' has 2", id="index"),
        pytest.param("devices: [{kind: gpu}], on_devices: [1]", "device 1 of host 'a', which is no 'gpu'", id="kind"),
        pytest.param("devices: [{kind: gpu, count: 2}], on_devices: [0, 0]", "names one device twice", id="twice"),
    ],
)
def test_guest_on_devices_that_its_host_has_not_is_refused(request_and_devices, message):
    fleet = _fleet(
        f"hosts: [{{name: a, devices: [{{kind: gpu}}, {{kind: fpga}}]}}]\n"
        f"guests: [{{name: g, host: a, {request_and_devices}}}]\n"
    )
    with pytest.raises(InputError) as caught:
        merge_fleets([fleet])
    assert message in str(caught.value)
    assert str(caught.value).startswith("fleet.yaml:4: guests[0].on_devices")


def test_files_that_name_different_policies_are_refused():
    with pytest.raises(InputError, match="different policies: 'a', 'b'"):
        merge_fleets([_fleet("policy: a"), _fleet("policy: b")])
    assert merge_fleets([_fleet("policy: a"), _fleet("hosts: []"), _fleet("policy: a")]).policy == "a"


def test_policies_of_two_files_may_not_share_a_name():
    with pytest.raises(DuplicateNameError, match="policy 'p' is declared in two files"):
        merge_fleets([_fleet("policies: [{name: p}]"), _fleet("policies: [{name: p}]")])


def test_hosts_from_elsewhere_are_merged_and_checked():
    other = DeclaredFleet(hosts=(Host(name="k", uid="k"),))
    assert len(merge_fleets([_fleet("hosts: [{name: a}]"), other]).hosts) == 2
    with pytest.raises(DuplicateNameError, match="host 'k' is declared twice"):
        merge_fleets([other, other])


def test_policy_of_a_fleet_may_extend_a_known_one():
    known = {"base": Policy(name="base", ties=("random",))}
    document = parse_documents((HEAD + "policies: [{name: mine, extends: base, devices: best}]").encode(), "f")[0]
    assert read_fleet(document, known).policies == (Policy(name="mine", ties=("random",), devices="best"),)


# ----------------------------------------------------------------------------------------------- writing


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(
    st.lists(hosts(), max_size=3, unique_by=lambda host: host.name),
    st.lists(
        guests(),
        max_size=3,
        unique_by=(lambda guest: f"{guest.spec.namespace}/{guest.name}", lambda guest: guest.uid),
    ),
)
def test_written_fleet_reads_back_the_same_through_yaml_and_json(some_hosts, some_guests):
    written = write_fleet(some_hosts, some_guests, policy="spread")
    for text in (write_yaml(written), json.dumps(written), json.dumps(written, ensure_ascii=False)):
        fleet = read_fleet(parse_documents(text.encode(), "f")[0])
        assert fleet.hosts == tuple(some_hosts)
        assert fleet.guests == tuple(some_guests)
        assert fleet.policy == "spread"


def test_full_example_reads_back_the_same():
    fleet = _fleet(FULL)
    written = write_yaml(write_fleet(fleet.hosts, fleet.guests))
    again = read_fleet(parse_documents(written.encode(), "f")[0])
    assert (again.hosts, again.guests) == (fleet.hosts, fleet.guests)


def test_a_host_full_of_devices_reads_back_the_same():
    host = Host(name="a", uid="a", devices=(Device("gpu", "T4"),) * 63 + (Device("gpu", "T4", 500),))
    written = write_yaml(write_fleet([host], []))
    assert read_fleet(parse_documents(written.encode(), "f")[0]).hosts == (host,)


@pytest.mark.parametrize("text", TRICKY_NAMES)
def test_text_that_looks_like_something_else_stays_text(text):
    assert parse_documents(write_yaml({"x": text}).encode(), "f")[0].data == {"x": text}


def test_fleet_is_written_as_a_person_would():
    fleet = _fleet("hosts: [{name: a, capacity: {cpu: 1.5, memory: 2Gi}, devices: [{kind: gpu, count: 2}]}]")
    assert write_yaml(write_fleet(fleet.hosts, [])) == (
        "apiVersion: hostler/v1\nkind: Fleet\nhosts:\n- name: a\n  capacity:\n    cpu: 1500m\n"
        "    memory: 2Gi\n  devices:\n  - kind: gpu\n    count: 2\nguests: []\n"
    )


def test_file_from_disk_is_named_as_it_was_given(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my.yaml").write_text(HEAD + "hots: []\n")
    with pytest.raises(InputError, match=r"^my\.yaml:3: unknown key 'hots'"):
        read_fleet(read_documents(["my.yaml"])[0])
