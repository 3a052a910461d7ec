"""KubeSchedulerConfiguration files, read and mapped."""

from __future__ import annotations

import base64
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.config import parse_documents
from hostler.engine import BUILT_IN, Engine
from hostler.errors import HostlerError, InputError
from hostler.kube.configuration import read_document
from hostler.kube.settings import Election, ExtenderSettings, SchedulerProfile, SchedulerSettings
from hostler.model import Policy, PreemptionRules, QueueRules
from hostler.model.policies import DEFAULT_FILTERS

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def _read(body: str = "", *, lenient: bool = False) -> SchedulerSettings:
    return read_document(parse_documents((HEAD + body).encode(), "kube.yaml")[0], lenient=lenient)


def _profile(text: str, *, lenient: bool = False) -> SchedulerSettings:
    return _read(f"profiles:\n- {text}\n", lenient=lenient)


def _args(plugin: str, args: str) -> str:
    return f"pluginConfig: [{{name: {plugin}, args: {args}}}]"


def _scorer(policy: Policy, shown_as: str) -> tuple[str, int, object]:
    use = next(use for use in policy.scorers if use.shown_as == shown_as)
    return use.name, use.weight, json.loads(use.args) if use.args else None


def test_default_profile_is_the_built_in_policy_of_default_scheduler():
    found = _read()
    usual = BUILT_IN["kubernetes"]
    (policy,) = found.policies
    assert found.profiles == (SchedulerProfile("default-scheduler", "default-scheduler"),)
    assert msgspec.structs.replace(policy, name=usual.name, summary=usual.summary) == usual
    assert found.election == Election(name="kube-scheduler")
    assert found.notes == ()


def test_backoff_election_and_connection_are_taken_over():
    found = _read("""\
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 30
leaderElection:
  leaderElect: false
  leaseDuration: 30s
  renewDeadline: 20s
  retryPeriod: 4s
  resourceName: mine
  resourceNamespace: ops
clientConnection: {kubeconfig: /etc/scheduler.conf}
profiles:
- pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 90}}]
""")
    assert found.queue == QueueRules(
        backoff_initial_ns=2 * 10**9, backoff_max_ns=30 * 10**9, prepare_timeout_ns=90 * 10**9
    )
    assert found.election == Election(
        is_on=False, namespace="ops", name="mine", lease_s=30.0, renew_s=20.0, retry_s=4.0
    )
    assert found.kubeconfig == "/etc/scheduler.conf"
    assert found.notes == ()


@pytest.mark.parametrize(
    ("plugins", "gone"),
    [
        ("{}", set()),
        ("{filter: {disabled: [{name: NodePorts}]}}", {"ports"}),
        ("{multiPoint: {disabled: [{name: TaintToleration}, {name: NodeAffinity}]}}", {"taints", "host_affinity"}),
        (
            "{filter: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}, {name: NodeName}]}}",
            {"cordon", "taints", "host_affinity", "ports", "spread", "guest_affinity"},
        ),
        (
            "{multiPoint: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}, {name: InterPodAffinity}]}}",
            {"cordon", "host_name", "taints", "host_affinity", "ports", "spread"},
        ),
        ("{multiPoint: {disabled: [{name: NodePorts}]}, filter: {enabled: [{name: NodePorts}]}}", set()),
    ],
)
def test_filters_that_are_off_are_off_here(plugins, gone):
    (policy,) = _profile(f"plugins: {plugins}").policies
    assert {use.name for use in policy.filters} == set(DEFAULT_FILTERS) - gone


@pytest.mark.parametrize(
    ("plugins", "weights"),
    [
        (
            "{score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit, weight: 7}, {name: ImageLocality}]}}",
            {"NodeResourcesFit": 7, "ImageLocality": 1},
        ),
        (
            "{multiPoint: {disabled: [{name: '*'}],"
            " enabled: [{name: NodeResourcesFit}, {name: NodeAffinity, weight: 9}]}}",
            {"NodeResourcesFit": 1, "NodeAffinity": 9},
        ),
        (
            "{multiPoint: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit, weight: 4}]},"
            " score: {enabled: [{name: NodeResourcesFit, weight: 6}]}}",
            {"NodeResourcesFit": 6},
        ),
        (
            "{score: {disabled: [{name: ImageLocality}, {name: PodTopologySpread}, {name: InterPodAffinity}],"
            " enabled: [{name: TaintToleration}]}}",
            {
                "TaintToleration": 1,
                "NodeAffinity": 2,
                "NodeResourcesFit": 1,
                "NodeResourcesBalancedAllocation": 1,
            },
        ),
    ],
)
def test_scores_have_the_weights_that_kube_scheduler_would_give_them(plugins, weights):
    (policy,) = _profile(f"plugins: {plugins}").policies
    assert {use.shown_as: use.weight for use in policy.scorers} == weights


@pytest.mark.parametrize(
    ("plugin", "args", "scorer"),
    [
        ("NodeResourcesFit", "{}", ("least_allocated", 1, None)),
        ("NodeResourcesFit", "{scoringStrategy: {type: MostAllocated}}", ("most_allocated", 1, None)),
        (
            "NodeResourcesFit",
            "{apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeResourcesFitArgs,"
            " scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 3}, {name: a/b}]}}",
            ("least_allocated", 1, {"resources": {"cpu": 3, "a/b": 1}}),
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 0}],"
            " requestedToCapacityRatio: {shape: [{utilization: 0, score: 10}, {utilization: 100, score: 0}]}}}",
            ("capacity_ratio", 1, {"resources": {"cpu": 1}, "points": [[0, 10], [100, 0]]}),
        ),
        (
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: cpu, weight: 1}, {name: gpu}]}",
            ("balanced", 1, {"resources": {"cpu": 1, "gpu": 1}}),
        ),
        ("PodTopologySpread", "{defaultingType: List}", ("even_spread", 2, None)),
        (
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable:"
            " DoNotSchedule, minDomains: 2, nodeTaintsPolicy: Honor, nodeAffinityPolicy: Ignore}]}",
            (
                "even_spread",
                2,
                {
                    "defaults": [
                        {
                            "topology": "zone",
                            "max_skew": 1,
                            "is_hard": True,
                            "min_domains": 2,
                            "honor_affinity": False,
                            "honor_taints": True,
                        }
                    ]
                },
            ),
        ),
        ("InterPodAffinity", "{hardPodAffinityWeight: 1}", ("near_guests", 2, None)),
    ],
)
def test_arguments_become_arguments_of_our_scorers(plugin, args, scorer):
    (policy,) = _profile(_args(plugin, args)).policies
    assert _scorer(policy, plugin) == scorer
    Engine([policy])


@pytest.mark.parametrize("point", ["postFilter", "multiPoint"])
@pytest.mark.parametrize("name", ["DefaultPreemption", "'*'"])
def test_nobody_is_evicted_where_default_preemption_is_off(point, name):
    on = "enabled: [{name: NodeResourcesFit}]," if point == "multiPoint" else ""
    (policy,) = _profile(f"plugins: {{{point}: {{{on} disabled: [{{name: {name}}}]}}}}").policies
    assert policy.preemption is None
    assert _read().policies[0].preemption == PreemptionRules()


def test_several_profiles_are_several_policies():
    found = _read("""\
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  plugins: {postFilter: {disabled: [{name: '*'}]}}
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
""")
    assert [p.name for p in found.policies] == ["default-scheduler", "packing"]
    assert [_scorer(p, "NodeResourcesFit")[0] for p in found.policies] == ["least_allocated", "most_allocated"]
    assert [p.preemption is None for p in found.policies] == [False, True]
    Engine(found.policies)


def test_extenders_are_taken_over_with_all_their_fields():
    pem = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
    found = _read(f"""\
extenders:
- urlPrefix: https://a.example.com/x
  filterVerb: filter
  prioritizeVerb: prioritize
  bindVerb: bind
  weight: 5
  enableHTTPS: true
  httpTimeout: 100ms
  nodeCacheCapable: true
  ignorable: true
  managedResources: [{{name: a/b, ignoredByScheduler: true}}, {{name: c/d}}]
  tlsConfig: {{caData: {pem}, certFile: /c, keyFile: /k, serverName: a}}
""", lenient=True)  # fmt: skip
    assert found.extenders == (
        ExtenderSettings(
            url_prefix="https://a.example.com/x",
            filter_verb="filter",
            prioritize_verb="prioritize",
            bind_verb="bind",
            weight=5,
            timeout_s=0.1,
            is_node_cache_capable=True,
            managed_resources=("a/b", "c/d"),
            ignored_resources=("a/b",),
            is_ignorable=True,
            ca_data="-----BEGIN CERTIFICATE-----",
            cert_file="/c",
            key_file="/k",
            server_name="a",
        ),
    )
    (note,) = found.notes
    assert "leaves 'a/b' to the extender" in note


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("parallelism: 8\n", "kube.yaml:3: parallelism is ignored"),
        ("percentageOfNodesToScore: 30\n", "kube.yaml:3: percentageOfNodesToScore is ignored: all nodes"),
        ("profiles: [{percentageOfNodesToScore: 5}]\n", "profiles[0].percentageOfNodesToScore is ignored"),
        ("clientConnection: {qps: 50}\n", "clientConnection.qps is ignored"),
        ("clientConnection: {contentType: application/vnd.kubernetes.protobuf}\n", "contentType is ignored"),
        ("enableProfiling: true\n", "enableProfiling is ignored"),
        ("profiles: [{plugins: {preFilter: {disabled: [{name: '*'}]}}}]\n", "plugins.preFilter.disabled[0] is ignored"),
        ("profiles: [{plugins: {filter: {disabled: [{name: VolumeZone}]}}}]\n", "disables VolumeZone; Hostler always"),
        ("profiles: [{plugins: {score: {disabled: [{name: Mine}]}}}]\n", "names 'Mine', which is not enabled"),
        (
            "profiles: [{plugins: {multiPoint: {enabled: [{name: DynamicResources}]}}}]\n",
            "resource claims are unschedulable",
        ),
        (
            "profiles: [{pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesPercentage: 20}}]}]\n",
            "profiles[0].pluginConfig[0].args.minCandidateNodesPercentage is ignored",
        ),
        (
            "profiles: [{pluginConfig: [{name: ImageLocality, args: {}}]}]\n",
            "profiles[0].pluginConfig[0] is ignored: ImageLocality has no arguments",
        ),
        (
            "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints:"
            " [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}]}]\n",
            "defaultConstraints[0] scores nodes that lack the label",
        ),
        (
            "profiles: [{schedulerName: a, pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 5}}]},"
            " {schedulerName: b}]\n",
            "profiles differ in bindTimeoutSeconds of VolumeBinding; 600 counts for all",
        ),
        ("extenders: [{urlPrefix: 'https://a', enableHTTPS: true}]\n", "extenders[0].enableHTTPS without tlsConfig"),
        ("extenders: [{urlPrefix: 'https://a', preemptVerb: p}]\n", "extenders[0].preemptVerb is not called"),
    ],
)
def test_what_is_not_done_is_named_with_its_place(body, note):
    (line,) = _read(body).notes
    assert note in line


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (
            "plugins: {filter: {enabled: [{name: Coscheduling}]}}",
            "filter.enabled[0].name is 'Coscheduling', an unknown plugin",
        ),
        ("plugins: {permit: {enabled: [{name: Mine}]}}", "permit.enabled[0].name is 'Mine'"),
        ("plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}", "disabled[0] disables NodeResourcesFit"),
        (_args("Trimaran", "{a: 1}"), "pluginConfig[0] is for 'Trimaran'"),
        (_args("NodeResourcesFit", "{ignoredResources: [a/b]}"), "args.ignoredResources is not supported"),
        (_args("NodeAffinity", "{addedAffinity: {x: 1}}"), "args.addedAffinity is not supported"),
        (_args("InterPodAffinity", "{hardPodAffinityWeight: 5}"), "hardPodAffinityWeight is 5; here it is always 1"),
        (_args("InterPodAffinity", "{ignorePreferredTermsOfExistingPods: true}"), "ignorePreferredTermsOfExistingPods"),
        (
            "plugins: {score: {disabled: [{name: PodTopologySpread}]}}\n  "
            + _args(
                "PodTopologySpread",
                "{defaultingType: List, defaultConstraints:"
                " [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]}",
            ),
            "defaultConstraints[0] has no effect",
        ),
    ],
)
def test_setting_that_changes_placement_is_rejected_unless_lenient(profile, message):
    with pytest.raises(InputError) as caught:
        _profile(profile)
    assert message in caught.value.message
    assert "--lenient" in caught.value.hint
    found = _profile(profile, lenient=True)
    assert any(message in note for note in found.notes)
    Engine(found.policies)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("podInitialBackoffSecond: 1\n", "kube.yaml:3: unknown key 'podInitialBackoffSecond'"),
        ("podInitialBackoffSeconds: 0\n", "podInitialBackoffSeconds"),
        ("podInitialBackoffSeconds: 20\n", "podMaxBackoffSeconds is below podInitialBackoffSeconds"),
        ("profiles: []\n", "profiles is empty"),
        ("profiles: [{}, {}]\n", "two profiles are for 'default-scheduler'"),
        ("leaderElection: {resourceLock: endpoints}\n", "leaderElection.resourceLock is 'endpoints'"),
        ("leaderElection: {leaseDuration: 9s}\n", "leaderElection must have"),
        ("leaderElection: {retryPeriod: 9s}\n", "leaderElection must have"),
        ("profiles:\n- plugins:\n    filter:\n      enabled: [{name: ImageLocality}]\n", "kube.yaml:6: profiles[0]"),
        ("profiles: [{plugins: {score: {enabled: [{name: NodeName}]}}}]\n", "does nothing at score"),
        ("profiles: [{plugins: {score: {enabled: [{name: NodeAffinity}, {name: NodeAffinity}]}}}]\n", "again"),
        (f"profiles: [{{{_args('NodeResourcesFit', '{scoring: 1}')}}}]\n", "unknown key 'scoring'"),
        (f"profiles: [{{{_args('NodeResourcesFit', '{kind: X}')}}}]\n", "args.kind is 'X'"),
        (
            f"profiles: [{{{_args('NodeResourcesFit', '{scoringStrategy: {type: RequestedToCapacityRatio}}')}}}]\n",
            "shape must have 1 to 11 points",
        ),
        (
            f"profiles: [{{{_args('NodeResourcesFit', '{scoringStrategy: {resources: [{name: a}, {name: a}]}}')}}}]\n",
            "names a resource twice",
        ),
        (
            f"profiles: [{{{_args('NodeResourcesBalancedAllocation', '{resources: [{name: a, weight: 2}]}')}}}]\n",
            "resources[0].weight must be 1",
        ),
        (
            "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints:"
            " [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]}}]}]\n",
            "count only with defaultingType: List",
        ),
        ("extenders: [{urlPrefix: 'http://a', tlsConfig: {caData: '?'}}]\n", "caData is not PEM in base64"),
        ("extenders: [{urlPrefix: 'http://a', prioritizeVerb: p}]\n", "extenders[0].weight is 0"),
    ],
)
def test_what_kube_scheduler_refuses_is_refused_here(body, message):
    with pytest.raises(InputError) as caught:
        _read(body, lenient=True)
    assert message in caught.value.message


def test_other_versions_and_kinds_are_refused():
    for head, message in (
        ("apiVersion: kubescheduler.config.k8s.io/v1beta2\nkind: KubeSchedulerConfiguration\n", "v1beta2"),
        ("apiVersion: kubescheduler.config.k8s.io/v1\nkind: NodeResourcesFitArgs\n", "kind is 'NodeResourcesFitArgs'"),
    ):
        with pytest.raises(InputError, match=message):
            read_document(parse_documents(head.encode(), "kube.yaml")[0])


def test_a_null_is_a_key_that_is_not_there():
    assert _read("profiles: null\nextenders: null\nleaderElection: {leaseDuration: null}\n") == _read()


_KEYS = st.sampled_from((
    "profiles", "plugins", "pluginConfig", "filter", "score", "multiPoint", "enabled", "disabled", "name", "args",
    "scoringStrategy", "resources", "type", "shape", "defaultConstraints", "defaultingType", "weight", "extenders",
    "urlPrefix", "tlsConfig", "caData", "httpTimeout", "leaderElection", "leaseDuration", "schedulerName",
    "addedAffinity", "podMaxBackoffSeconds", "clientConnection", "managedResources",
))  # fmt: skip
_PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["*", "", "5s", "NodeResourcesFit", "PodTopologySpread", "Mine", "http://a", "MostAllocated"]),
    st.text(max_size=5),
)
_PLUGINS = st.lists(st.fixed_dictionaries({"name": _PLAIN}, optional={"weight": _PLAIN, "args": st.none()}), max_size=3)
_SETS = st.fixed_dictionaries({}, optional={"enabled": _PLUGINS, "disabled": _PLUGINS})
_VALUES = st.recursive(
    st.one_of(_PLAIN, _SETS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=10,
)
_PROFILES = st.fixed_dictionaries(
    {},
    optional={
        "schedulerName": _PLAIN,
        "plugins": st.dictionaries(st.sampled_from(["filter", "score", "multiPoint", "bind", "postFilter"]), _SETS),
        "pluginConfig": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(["NodeResourcesFit", "PodTopologySpread", "NodeAffinity", "Mine"]),
                    "args": _VALUES,
                }
            ),
            max_size=2,
        ),
    },
)


@given(
    st.one_of(st.fixed_dictionaries({"profiles": st.lists(_PROFILES, max_size=2)}), st.dictionaries(_KEYS, _VALUES)),
    st.booleans(),
)
def test_reading_any_file_raises_nothing_but_errors_of_ours(data, lenient):
    body = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **data}
    try:
        document = parse_documents(json.dumps(body).encode("utf-8", "replace"), "any.json")[0]
        found = read_document(document, lenient=lenient)
    except HostlerError:
        return
    Engine(found.policies)
