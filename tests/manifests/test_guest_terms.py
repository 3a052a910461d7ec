"""What pods say about other pods: affinity, anti-affinity and spreading, and the selectors that they use."""

import pytest

from hostler.errors import InputError
from hostler.manifests import Pod, guest_to_pod, pod_to_guest, read_pod
from hostler.model import Expression, GuestTerm, Selector, Spread, WeightedGuestTerm
from tests.manifests.samples import guest_of, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"
WEB = {"matchLabels": {"app": "web"}}
IS_WEB = Expression("app", "In", ("web",))


def near(*terms, side="podAffinity"):
    return {side: {REQUIRED: list(terms)}}


def rather_near(*items, side="podAffinity"):
    return {side: {PREFERRED: [{"weight": weight, "podAffinityTerm": term} for weight, term in items]}}


def term(**fields):
    return {"topologyKey": ZONE, **fields}


def where(key, operator, *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def only_term(affinity, labels=None):
    (found,) = guest_of(pod(affinity=affinity, metadata={"labels": labels or {}})).spec.affinity
    return found


# ------------------------------------------------------------------------------------------- the four kinds


def test_required_and_preferred_terms_of_both_directions_keep_apart():
    spec = guest_of(
        pod(
            affinity={
                "podAffinity": {
                    **near(term(labelSelector=WEB))["podAffinity"],
                    **rather_near((7, term(topologyKey="rack", labelSelector=WEB)))["podAffinity"],
                },
                "podAntiAffinity": {
                    **near(term(topologyKey="host", labelSelector=WEB))["podAffinity"],
                    **rather_near((100, term(labelSelector={})))["podAffinity"],
                },
            }
        )
    ).spec
    assert spec.affinity == (GuestTerm(ZONE, Selector((IS_WEB,))),)
    assert spec.preferred_affinity == (WeightedGuestTerm(7, GuestTerm("rack", Selector((IS_WEB,)))),)
    assert spec.anti_affinity == (GuestTerm("host", Selector((IS_WEB,))),)
    assert spec.preferred_anti_affinity == (WeightedGuestTerm(100, GuestTerm(ZONE, Selector())),)


def test_running_pod_keeps_its_terms():
    guest, notes = pod_to_guest(read_pod(pod(nodeName="n1", affinity=near(term(labelSelector=WEB)))))
    assert guest.spec.affinity == (GuestTerm(ZONE, Selector((IS_WEB,))),)
    assert notes == ()


# ------------------------------------------------------------------------------------------------ selectors

SELECTORS = {
    "none selects nobody": ({}, None),
    "null selects nobody": ({"labelSelector": None}, None),
    "an empty one selects everybody": ({"labelSelector": {}}, Selector()),
    "empty parts select everybody": (
        {"labelSelector": {"matchLabels": {}, "matchExpressions": []}},
        Selector(),
    ),
    "null parts select everybody": (
        {"labelSelector": {"matchLabels": None, "matchExpressions": None}},
        Selector(),
    ),
    "labels come first, by name": (
        {"labelSelector": {"matchExpressions": [where("a", "Exists")], "matchLabels": {"z": "1", "b": "2"}}},
        Selector((Expression("b", "In", ("2",)), Expression("z", "In", ("1",)), Expression("a", "Exists"))),
    ),
    "all operators": (
        {
            "labelSelector": {
                "matchExpressions": [
                    where("a", "In", "1", "2"),
                    where("b", "NotIn", "3"),
                    where("c", "Exists"),
                    where("d", "DoesNotExist"),
                ]
            }
        },
        Selector(
            (
                Expression("a", "In", ("1", "2")),
                Expression("b", "NotIn", ("3",)),
                Expression("c", "Exists"),
                Expression("d", "DoesNotExist"),
            )
        ),
    ),
}


@pytest.mark.parametrize(("fields", "expected"), SELECTORS.values(), ids=SELECTORS.keys())
def test_of_selectors(fields, expected):
    assert only_term(near(term(**fields))).selector == expected


NAMESPACES = {
    "none means the pod's own": ({}, (), None),
    "by name, each once": ({"namespaces": ["b", "a", "b"]}, ("b", "a"), None),
    "an empty selector means all": ({"namespaceSelector": {}}, (), Selector()),
    "by name and by label": (
        {"namespaces": ["a"], "namespaceSelector": {"matchLabels": {"team": "x"}}},
        ("a",),
        Selector((Expression("team", "In", ("x",)),)),
    ),
}


@pytest.mark.parametrize(("fields", "names", "selector"), NAMESPACES.values(), ids=NAMESPACES.keys())
def test_of_namespaces(fields, names, selector):
    found = only_term(near(term(labelSelector=WEB, **fields)))
    assert (found.namespaces, found.namespace_selector) == (names, selector)


HASH = "pod-template-hash"
KEYS = {
    "a key to match takes the pod's value": (
        {"labelSelector": WEB, "matchLabelKeys": [HASH]},
        (IS_WEB, Expression(HASH, "In", ("h1",))),
    ),
    "a key to differ from takes the pod's value": (
        {"labelSelector": WEB, "mismatchLabelKeys": ["tenant"]},
        (IS_WEB, Expression("tenant", "NotIn", ("t",))),
    ),
    "keys to match come first": (
        {"labelSelector": {}, "mismatchLabelKeys": ["tenant"], "matchLabelKeys": [HASH]},
        (Expression(HASH, "In", ("h1",)), Expression("tenant", "NotIn", ("t",))),
    ),
    "a key that the pod has not is left out": (
        {"labelSelector": WEB, "matchLabelKeys": ["nope", HASH], "mismatchLabelKeys": ["neither"]},
        (IS_WEB, Expression(HASH, "In", ("h1",))),
    ),
    "what the API server has merged stays single": (
        {"labelSelector": {"matchExpressions": [where(HASH, "In", "h1")]}, "matchLabelKeys": [HASH]},
        (Expression(HASH, "In", ("h1",)),),
    ),
}


@pytest.mark.parametrize(("fields", "expected"), KEYS.values(), ids=KEYS.keys())
def test_of_label_keys(fields, expected):
    labels = {HASH: "h1", "tenant": "t"}
    assert only_term(near(term(**fields)), labels).selector == Selector(expected)


# ------------------------------------------------------------------------------------------------- refusals

FIRST = f"spec.affinity.podAffinity.{REQUIRED}[0]"
BROKEN_TERMS = {
    "no topology key": (near({"labelSelector": WEB}), f"{FIRST}.topologyKey: it is missing"),
    "an empty topology key": (near(term(topologyKey="")), f"{FIRST}.topologyKey: it is missing"),
    "an operator for nodes only": (
        near(term(labelSelector={"matchExpressions": [where("gen", "Gt", "4")]})),
        f"{FIRST}.labelSelector.matchExpressions[0].operator: 'Gt' is not an operator",
    ),
    "an unknown operator for namespaces": (
        near(term(namespaceSelector={"matchExpressions": [where("a", "Exists"), where("b", "Is", "c")]})),
        f"{FIRST}.namespaceSelector.matchExpressions[1].operator: 'Is' is not an operator",
    ),
    "In without values": (
        near(term(), term(labelSelector={"matchExpressions": [where("a", "In")]})),
        f"spec.affinity.podAffinity.{REQUIRED}[1].labelSelector.matchExpressions[0].values: "
        "operator In needs at least one value",
    ),
    "an empty key": (
        near(term(labelSelector={"matchExpressions": [where("", "Exists")]})),
        f"{FIRST}.labelSelector.matchExpressions[0].key: a label's key is missing",
    ),
    "keys without a selector": (
        near(term(matchLabelKeys=["a"])),
        f"{FIRST}.matchLabelKeys: keys of labels need a labelSelector beside them",
    ),
    "keys to differ from without a selector": (
        near(term(mismatchLabelKeys=["a"]), side="podAntiAffinity"),
        f"spec.affinity.podAntiAffinity.{REQUIRED}[0].mismatchLabelKeys: "
        "keys of labels need a labelSelector beside them",
    ),
    "a weight of nothing": (
        rather_near((0, term()), side="podAntiAffinity"),
        f"spec.affinity.podAntiAffinity.{PREFERRED}[0].weight: 0 is not between 1 and 100",
    ),
    "a weight that is text": (
        rather_near(("much", term())),
        f"spec.affinity.podAffinity.{PREFERRED}[0].weight: expected int, got str",
    ),
    "no weight": (
        {"podAffinity": {PREFERRED: [{"podAffinityTerm": term()}]}},
        f"spec.affinity.podAffinity.{PREFERRED}[0]: missing required field weight",
    ),
    "a preferred term without a key": (
        rather_near((1, {})),
        f"spec.affinity.podAffinity.{PREFERRED}[0].podAffinityTerm.topologyKey: it is missing",
    ),
    "a label that is a number": (
        near(term(labelSelector={"matchLabels": {"gen": 8}})),
        f"{FIRST}.labelSelector.matchLabels.gen: expected str, got int",
    ),
    "a label without a value": (
        near(term(labelSelector={"matchLabels": {"app": None}})),
        f"{FIRST}.labelSelector.matchLabels.app: expected str, got null",
    ),
    "a mapping for a list": (
        {"podAffinity": {REQUIRED: {"topologyKey": ZONE}}},
        f"spec.affinity.podAffinity.{REQUIRED}: expected array, got object",
    ),
    "text for namespaces": (near(term(namespaces="a")), f"{FIRST}.namespaces: expected array, got str"),
}


@pytest.mark.parametrize(("affinity", "message"), BROKEN_TERMS.values(), ids=BROKEN_TERMS.keys())
def test_a_malformed_term_is_refused_with_pod_and_path(affinity, message):
    with pytest.raises(InputError) as caught:
        guest_of(pod("a", affinity=affinity))
    assert caught.value.message == f"pod default/a: {message}"


# ---------------------------------------------------------------------------------------------------- spread


def spread_of(*constraints, labels=None):
    return guest_of(pod(topologySpreadConstraints=list(constraints), metadata={"labels": labels or {}})).spec.spread


def even(**fields):
    return {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **fields}


SPREADS = {
    "hard, with defaults": (even(), Spread(ZONE)),
    "soft": (even(whenUnsatisfiable="ScheduleAnyway", maxSkew=3), Spread(ZONE, 3, is_hard=False)),
    "a selector": (even(labelSelector=WEB), Spread(ZONE, selector=Selector((IS_WEB,)))),
    "a selector of everybody": (even(labelSelector={}), Spread(ZONE, selector=Selector())),
    "a number of domains": (even(minDomains=4), Spread(ZONE, min_domains=4)),
    "nulls are defaults": (even(minDomains=None, nodeAffinityPolicy=None, nodeTaintsPolicy=None), Spread(ZONE)),
    "policies as they are by default": (
        even(nodeAffinityPolicy="Honor", nodeTaintsPolicy="Ignore"),
        Spread(ZONE, honor_affinity=True, honor_taints=False),
    ),
    "policies turned round": (
        even(nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor"),
        Spread(ZONE, honor_affinity=False, honor_taints=True),
    ),
    "a key to match": (
        even(labelSelector=WEB, matchLabelKeys=[HASH, "nope"]),
        Spread(ZONE, selector=Selector((IS_WEB, Expression(HASH, "In", ("h1",))))),
    ),
}


@pytest.mark.parametrize(("constraint", "expected"), SPREADS.values(), ids=SPREADS.keys())
def test_a_spread_constraint_is_read(constraint, expected):
    assert spread_of(constraint, labels={HASH: "h1"}) == (expected,)


def test_one_topology_may_be_hard_and_soft_at_once():
    hard, soft = spread_of(even(), even(whenUnsatisfiable="ScheduleAnyway"))
    assert (hard.is_hard, soft.is_hard) == (True, False)


BROKEN_SPREADS = {
    "no skew": (
        [{"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}],
        "[0].maxSkew: 0 is not between 1 and 2^31 - 1",
    ),
    "a negative skew": ([even(maxSkew=-1)], "[0].maxSkew: -1 is not between 1 and 2^31 - 1"),
    "a skew that is text": ([even(maxSkew="1")], "[0].maxSkew: expected int, got str"),
    "no topology key": ([even(), even(topologyKey="")], "[1].topologyKey: it is missing"),
    "an unknown choice": ([even(whenUnsatisfiable="Maybe")], "[0].whenUnsatisfiable: 'Maybe' is not a choice"),
    "no domains": ([even(minDomains=0)], "[0].minDomains: 0 is not between 1 and 2^31 - 1"),
    "a number of domains for a soft one": (
        [even(minDomains=2, whenUnsatisfiable="ScheduleAnyway")],
        "[0].minDomains: it needs whenUnsatisfiable: DoNotSchedule",
    ),
    "an unknown policy for affinity": (
        [even(nodeAffinityPolicy="Obey")],
        "[0].nodeAffinityPolicy: 'Obey' is not a choice",
    ),
    "an unknown policy for taints": ([even(nodeTaintsPolicy="x")], "[0].nodeTaintsPolicy: 'x' is not a choice"),
    "keys without a selector": (
        [even(matchLabelKeys=["a"])],
        "[0].matchLabelKeys: keys of labels need a labelSelector beside them",
    ),
    "an unknown operator": (
        [even(labelSelector={"matchExpressions": [where("a", "Lt", "1")]})],
        "[0].labelSelector.matchExpressions[0].operator: 'Lt' is not an operator",
    ),
    "the same twice": (
        [even(), even(maxSkew=2)],
        f"[1]: topologyKey {ZONE!r} with DoNotSchedule appears twice",
    ),
}


@pytest.mark.parametrize(("constraints", "message"), BROKEN_SPREADS.values(), ids=BROKEN_SPREADS.keys())
def test_a_malformed_spread_constraint_is_refused_with_pod_and_path(constraints, message):
    with pytest.raises(InputError) as caught:
        guest_of(pod("a", topologySpreadConstraints=constraints))
    assert caught.value.message == f"pod default/a: spec.topologySpreadConstraints{message}"


def test_merged_keys_come_back_as_plain_requirements():
    data = pod(
        metadata={"labels": {HASH: "h1"}},
        affinity=near(term(labelSelector=WEB, matchLabelKeys=[HASH], namespaceSelector={})),
        topologySpreadConstraints=[even(labelSelector=WEB, matchLabelKeys=[HASH], minDomains=2)],
    )
    guest = guest_of(data)
    assert guest_of(guest_to_pod(guest)) == guest


def test_an_empty_pod_says_nothing_about_others():
    spec, _ = pod_to_guest(Pod(metadata=read_pod(pod()).metadata, spec=read_pod(pod()).spec))
    assert (spec.spec.affinity, spec.spec.spread, spec.spec.siblings) == ((), (), None)
