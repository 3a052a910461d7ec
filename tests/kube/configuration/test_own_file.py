"""Files of kind ``Scheduler``."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.config import parse_documents, write_yaml
from hostler.engine import BUILT_IN, Engine
from hostler.errors import HostlerError, InputError
from hostler.kube.configuration import default_settings, read_document, read_settings
from hostler.kube.settings import ApiLimits, Election, ExtenderSettings, SchedulerProfile, SchedulerSettings
from hostler.model import PreemptionRules, QueueRules
from hostler.queries import with_mixes

HEAD = "apiVersion: hostler/v1\nkind: Scheduler\n"


def _read(body: str, *, lenient: bool = False) -> SchedulerSettings:
    return read_document(parse_documents((HEAD + body).encode(), "scheduler.yaml")[0], lenient=lenient)


FULL = """\
profiles:
- scheduler_name: default-scheduler
- scheduler_name: gpus
  policy: {name: mine, extends: fgd, ties: [name]}
- scheduler_name: batch
  policy: packed
policies:
- {name: packed, extends: pack}
preemption: {budgets: strict, max_evictions: 5}
one_pod_per_node: true
queue: {backoff_initial: 500ms, backoff_max: 20s}
election: {enabled: true, namespace: ops, name: ours, lease: 8s, renew: 5s, retry: 1s}
limits: {max_in_flight: 12, bind_timeout: 2s, call_timeout: 10s}
extenders:
- url_prefix: https://gpu.example.com:8443/scheduler
  filter_verb: filter
  prioritize_verb: prioritize
  bind_verb: bind
  weight: 3
  timeout: 250ms
  node_cache_capable: true
  managed_resources: [example.com/gpu, {name: example.com/nic}]
  ignorable: true
  ca_file: /etc/ca.pem
seed_annotations: true
scheduler_metrics: true
listen: 0.0.0.0:1234
seed: 7
kubeconfig: /etc/kubeconfig
"""


def test_everything_that_a_file_says_is_in_the_settings():
    found = _read(FULL)
    assert found.profiles == (
        SchedulerProfile("default-scheduler", "kubernetes"),
        SchedulerProfile("gpus", "mine"),
        SchedulerProfile("batch", "packed"),
    )
    assert [policy.name for policy in found.policies] == ["kubernetes", "mine", "packed"]
    assert {policy.preemption for policy in found.policies} == {PreemptionRules("strict", 5)}
    assert all(policy.one_guest_per_host for policy in found.policies)
    assert found.policies[1].scorers == BUILT_IN["fgd"].scorers
    assert found.queue == QueueRules(backoff_initial_ns=500_000_000, backoff_max_ns=20_000_000_000)
    assert found.election == Election(namespace="ops", name="ours", lease_s=8.0, renew_s=5.0, retry_s=1.0)
    assert found.limits == ApiLimits(max_in_flight=12, bind_timeout_s=2.0, call_timeout_s=10.0)
    assert found.extenders == (
        ExtenderSettings(
            url_prefix="https://gpu.example.com:8443/scheduler",
            filter_verb="filter",
            prioritize_verb="prioritize",
            bind_verb="bind",
            weight=3,
            timeout_s=0.25,
            is_node_cache_capable=True,
            managed_resources=("example.com/gpu", "example.com/nic"),
            is_ignorable=True,
            ca_file="/etc/ca.pem",
        ),
    )
    assert found.scheduler_metrics
    assert (found.seed_annotations, found.listen, found.seed) == (True, "0.0.0.0:1234", 7)
    assert found.kubeconfig == "/etc/kubeconfig"


def test_an_empty_file_and_no_file_mean_the_same():
    assert _read("") == default_settings()
    assert default_settings().policies == (BUILT_IN["kubernetes"],)


def test_preemption_is_on_unless_it_is_switched_off():
    assert default_settings("a", "spread").policies[0].preemption == PreemptionRules()
    assert _read("profiles: [{policy: spread}]\n").policies[0].preemption == PreemptionRules()
    assert _read("preemption: null\n").policies[0].preemption is None
    body = "policies: [{name: calm, preemption: null}, {name: calmer, extends: calm}]\nprofiles: [{policy: calmer}]\n"
    assert _read(body).policies[0].preemption is None


def test_a_bind_ends_before_another_leader_can_begin():
    found = _read("election: {lease: 5s, renew: 4s, retry: 1s}\n")
    assert found.limits.bind_timeout_s < found.election.lease_s - found.election.renew_s
    assert _read("election: {enabled: false, lease: 5s, renew: 4s, retry: 1s}\n").limits.bind_timeout_s == 4.0


def test_every_policy_of_the_settings_can_be_built():
    for policy in with_mixes(_read(FULL).policies):
        Engine([policy])


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        ("profile: []\n", "scheduler.yaml:3: unknown key 'profile' at the top level", "'profiles'"),
        ("profiles: []\n", "scheduler.yaml:3: profiles is empty", "leave it out"),
        ("profiles:\n- policy: kubernets\n", "scheduler.yaml:4: policy 'kubernets' is not known", "'kubernetes'"),
        ("profiles: [{}, {}]\n", "two profiles are for 'hostler-scheduler'", "keep one"),
        ("profiles: [{scheduler_name: ''}]\n", "profiles[0].scheduler_name is empty", "name"),
        ("profiles: [{policy: {name: fgd}}]\n", "policy 'fgd' is already known", "extends: fgd"),
        ("profiles: [{policy: {nam: x}}]\n", "profiles[0].policy", ""),
        ("policies: [{name: a, extends: b}]\n", "scheduler.yaml:3: policy 'a' extends 'b'", "known"),
        ("preemption: {budgets: never}\n", "preemption.budgets is 'never'", "best_effort"),
        ("preemption: {wait: 0s}\n", "preemption.wait is zero", "time"),
        ("queue: {backoff_initial: 1m}\n", "scheduler.yaml:3: queue has backoff_initial 1m", "backoff_max"),
        ("election: {lease: 5s}\n", "scheduler.yaml:3: election must have 1.2 retry < renew < lease", "10s"),
        ("election: {renew: soon}\n", "election.renew: 'soon' is not a duration", "500ms"),
        ("limits:\n  bind_timeout: 5s\n", "scheduler.yaml:4: limits.bind_timeout must be shorter", "less than 5s"),
        ("limits: {max_in_flight: 0}\n", "limits.max_in_flight", ""),
        ("listen: '1234'\n", "scheduler.yaml:3: listen is '1234'", "127.0.0.1:10359"),
        ("listen: 'a:99999'\n", "listen is 'a:99999'", ""),
        ("extenders: [{}]\n", "extenders[0] has no 'url_prefix'", "add the key"),
        ("extenders: [{url_prefix: gpu}]\n", "extenders[0].url_prefix is 'gpu'", "http://"),
        ("extenders: [{url_prefix: 'http://[x/'}]\n", "extenders[0].url_prefix", "http://"),
        (
            "extenders: [{url_prefix: 'http://a', prioritize_verb: p, weight: 0}]\n",
            "extenders[0].weight is 0",
            "1 or more",
        ),
        ("extenders: [{url_prefix: 'http://a', managed_resources: [x, x]}]\n", "names a resource twice", "keep"),
        (
            "extenders: [{url_prefix: 'http://a', bind_verb: b}, {url_prefix: 'http://b', bind_verb: b}]\n",
            "two extenders have a verb to bind",
            "only one",
        ),
        ("seed: -1\n", "seed", ""),
    ],
)
def test_what_is_wrong_is_reported_with_its_line_and_a_hint(body, message, hint):
    with pytest.raises(InputError) as caught:
        _read(body)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_preempt_verb_is_named_as_not_asked():
    (line,) = _read("extenders:\n- url_prefix: http://a\n  preempt_verb: p\n").notes
    assert line.startswith("scheduler.yaml:5: extenders[0].preempt_verb is not called")


def test_resource_only_an_extender_counts_is_rejected_unless_lenient():
    body = "extenders:\n- url_prefix: http://a\n  managed_resources: [{name: a/b, ignored_by_scheduler: true}]\n"
    with pytest.raises(InputError, match=r"managed_resources leaves 'a/b' to the extender"):
        _read(body)
    found = _read(body, lenient=True)
    assert found.extenders[0].ignored_resources == ("a/b",)
    assert "here it is counted as well" in found.notes[0]


@pytest.mark.parametrize(("version", "kind"), [("apps/v1", "Deployment"), ("v1", "Pod")])
def test_a_file_of_another_kind_learns_what_it_is(tmp_path, version, kind):
    path = tmp_path / "batch.yaml"
    path.write_text(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: batch}}\n")
    with pytest.raises(InputError, match=f"batch.yaml:2: kind is '{kind}', not 'Scheduler' or") as caught:
        read_settings(str(path))
    assert caught.value.hint


@pytest.mark.parametrize("word", ["none", "''"])
def test_nothing_is_served_where_the_address_is_none(word):
    assert _read(f"listen: {word}\n").listen == ""


def test_a_file_with_two_documents_is_refused(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(HEAD + "---\n" + HEAD)
    with pytest.raises(InputError, match="2 documents"):
        read_settings(str(path))
    path.write_text(HEAD)
    assert read_settings(str(path)) == default_settings()


_KEYS = st.sampled_from((
    "profiles", "policies", "preemption", "queue", "election", "limits", "extenders", "listen", "seed", "policy",
    "scheduler_name", "name", "extends", "url_prefix", "filter_verb", "lease", "renew", "bind_timeout", "weight",
    "managed_resources", "timeout", "one_pod_per_node", "budgets", "wait", "backoff_max", "kubeconfig",
))  # fmt: skip
_PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(["", "5s", "0s", "fgd", "kubernetes", "http://a", "http://[", "a:1", "null"]),
    st.text(max_size=5),
)
_VALUES = st.recursive(
    _PLAIN,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=12,
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=5))
def test_reading_any_file_raises_nothing_but_errors_of_ours(data):
    body = {"apiVersion": "hostler/v1", "kind": "Scheduler", **data}
    try:
        document = parse_documents(write_yaml(body).encode("utf-8", "replace"), "any.yaml")[0]
        found = read_document(document)
    except HostlerError:
        return
    assert msgspec.json.decode(msgspec.json.encode(found), type=SchedulerSettings) == found
