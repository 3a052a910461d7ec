"""PodGroups of both forms become gangs, and pods name them."""

import pytest

from hostler.errors import DuplicateNameError, InputError
from hostler.manifests import read_manifests
from hostler.model import Gang
from tests.manifests.samples import guest_of, lines, pod, template, thing

LABEL = "scheduling.x-k8s.io/pod-group"
FOUR = {"schedulingPolicy": {"gang": {"minCount": 4}}}


def group(name="g", *, version="scheduling.k8s.io/v1beta1", **spec):
    return thing("PodGroup", name, version=version, namespace="shop", spec=spec)


def older_group(name="g", **spec):
    return group(name, version="scheduling.x-k8s.io/v1alpha1", **spec)


def gang_of(*objects):
    (gang,) = read_manifests(objects).gangs
    return gang


BUILT_IN = {
    "a minimum": (FOUR, Gang(name="g", namespace="shop", min_count=4)),
    "no minimum": ({"schedulingPolicy": {"basic": {}}}, Gang(name="g", namespace="shop", min_count=1)),
    "an empty place among the policies": (
        {"schedulingPolicy": {"basic": None, "gang": {"minCount": 2}}},
        Gang(name="g", namespace="shop", min_count=2),
    ),
    "a priority": ({**FOUR, "priority": 9}, Gang(name="g", namespace="shop", min_count=4, priority=9)),
    "a topology": (
        {**FOUR, "schedulingConstraints": {"topology": [{"key": "rack"}]}},
        Gang(name="g", namespace="shop", min_count=4, topology="rack"),
    ),
    "disruption of one by one": (
        {**FOUR, "disruptionMode": {"single": {}}},
        Gang(name="g", namespace="shop", min_count=4),
    ),
    "disruption of all": (
        {**FOUR, "disruptionMode": {"all": {}}},
        Gang(name="g", namespace="shop", min_count=4, disruption="all"),
    ),
    "disruption of all in the words of a version before": (
        {**FOUR, "disruptionMode": "PodGroup"},
        Gang(name="g", namespace="shop", min_count=4, disruption="all"),
    ),
    "disruption of one by one in the words of a version before": (
        {**FOUR, "disruptionMode": "Pod"},
        Gang(name="g", namespace="shop", min_count=4, disruption="single"),
    ),
}


@pytest.mark.parametrize(("spec", "expected"), BUILT_IN.values(), ids=BUILT_IN.keys())
def test_a_group_of_the_built_in_form_has(spec, expected):
    found = read_manifests([group(**spec)])
    assert found.gangs == (expected,)
    assert found.notes == ()


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1", "v1"])
def test_the_built_in_form_is_read_in_any_version(version):
    assert gang_of(group(version=f"scheduling.k8s.io/{version}", **FOUR)).min_count == 4


def test_a_group_has_the_priority_of_its_class_or_the_default_one():
    classes = [
        thing("PriorityClass", "high", version="scheduling.k8s.io/v1", value=50),
        thing("PriorityClass", "usual", version="scheduling.k8s.io/v1", value=5, globalDefault=True),
    ]
    assert gang_of(group(priorityClassName="high", **FOUR), *classes).priority == 50
    assert gang_of(group(**FOUR), *classes).priority == 5
    assert gang_of(group(**FOUR)).priority is None


def test_what_a_group_says_and_nobody_evaluates_is_noted():
    found = read_manifests(
        [
            group(
                priorityClassName="hihg",
                preemptionPolicy="Never",
                parentCompositePodGroupName="p",
                resourceClaims=[{"name": "c"}],
                **FOUR,
            ),
            older_group("h", minMember=2, scheduleTimeoutSeconds=60, minResources={"cpu": "8"}),
        ]
    )
    assert lines(found.notes) == [
        "PodGroup shop/g: spec.priorityClassName is not evaluated: give the PriorityClass, or spec.priority",
        "PodGroup shop/g: spec.preemptionPolicy is not evaluated",
        "PodGroup shop/g: spec.parentCompositePodGroupName is not evaluated",
        "PodGroup shop/g: spec.resourceClaims is not evaluated",
        "PodGroup shop/h: spec.scheduleTimeoutSeconds is not evaluated",
        "PodGroup shop/h: spec.minResources is not evaluated",
    ]


def test_a_group_of_the_older_form_has_a_minimum():
    found = read_manifests([older_group(minMember=3)])
    assert found.gangs == (Gang(name="g", namespace="shop", min_count=3),)
    assert found.notes == ()


def test_group_without_a_namespace_is_in_the_default_one():
    data = thing("PodGroup", "g", version="scheduling.k8s.io/v1", metadata={"resourceVersion": "12"}, spec=FOUR)
    assert gang_of(data) == Gang(name="g", namespace="default", version=12, min_count=4)


POLICY = "spec.schedulingPolicy"
BROKEN = {
    "a negative minimum": (
        group(schedulingPolicy={"gang": {"minCount": -1}}),
        f"{POLICY}.gang.minCount: -1 is not between 1 and 2^31 - 1",
    ),
    "a minimum of none": (
        group(schedulingPolicy={"gang": {"minCount": 0}}),
        f"{POLICY}.gang.minCount: 0 is not between 1 and 2^31 - 1",
    ),
    "no minimum": (group(schedulingPolicy={"gang": {}}), f"{POLICY}.gang: missing required field minCount"),
    "a minimum that is text": (
        group(schedulingPolicy={"gang": {"minCount": "4"}}),
        f"{POLICY}.gang.minCount: expected int, got str",
    ),
    "no policy": (group(), f"{POLICY}: it has not exactly one of basic and gang"),
    "two policies": (
        group(schedulingPolicy={"basic": {}, "gang": {"minCount": 1}}),
        f"{POLICY}: it has not exactly one of basic and gang",
    ),
    "a priority beyond 32 bits": (
        group(priority=2**31, **FOUR),
        "spec.priority: 2147483648 is not between -2^31 and 2^31 - 1",
    ),
    "two topologies": (
        group(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}, **FOUR),
        "spec.schedulingConstraints.topology: a group has at most one topology constraint",
    ),
    "a topology without a key": (
        group(schedulingConstraints={"topology": [{}]}, **FOUR),
        "spec.schedulingConstraints.topology[0].key: it is missing",
    ),
    "an unknown mode": (
        group(disruptionMode="Half", **FOUR),
        "spec.disruptionMode: Half is not a mode of disruption",
    ),
    "two modes": (
        group(disruptionMode={"all": {}, "single": {}}, **FOUR),
        "spec.disruptionMode: all, single is not a mode of disruption",
    ),
    "a mode that is a number": (
        group(disruptionMode=3, **FOUR),
        "spec.disruptionMode: expected str | object, got int",
    ),
    "an unknown policy": (
        group(preemptionPolicy="Perhaps", **FOUR),
        "spec.preemptionPolicy: 'Perhaps' is not a policy",
    ),
    "no minimum in the older form": (older_group(), "spec.minMember: it is missing"),
    "a negative minimum in the older form": (
        older_group(minMember=-2),
        "spec.minMember: -2 is not between 1 and 2^31 - 1",
    ),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_malformed_group_is_refused_with_name_and_path(data, message):
    with pytest.raises(InputError) as caught:
        read_manifests([data])
    assert caught.value.message == f"PodGroup shop/g: {message}"


def test_two_groups_of_one_name_are_refused_in_whatever_form():
    with pytest.raises(DuplicateNameError, match="PodGroup shop/g is given twice"):
        read_manifests([group(**FOUR), older_group(minMember=1)])


# ---------------------------------------------------------------------------------------------------- members

MEMBERS = {
    "nobody's": (pod(), ""),
    "by field": (pod(schedulingGroup={"podGroupName": "g"}), "default/g"),
    "by field, in a namespace": (
        pod(metadata={"namespace": "shop"}, schedulingGroup={"podGroupName": "g"}),
        "shop/g",
    ),
    "by label": (pod(metadata={"namespace": "shop", "labels": {LABEL: "h"}}), "shop/h"),
    "by both: the field counts": (
        pod(metadata={"labels": {LABEL: "h"}}, schedulingGroup={"podGroupName": "g"}),
        "default/g",
    ),
    "running": (pod(nodeName="n1", schedulingGroup={"podGroupName": "g"}), "default/g"),
}


@pytest.mark.parametrize(("data", "expected"), MEMBERS.values(), ids=MEMBERS.keys())
def test_a_pod_names_its_group(data, expected):
    assert guest_of(data).gang == expected


def test_the_pods_of_a_template_name_their_group():
    job = thing(
        "Job",
        "train",
        version="batch/v1",
        namespace="shop",
        spec={"parallelism": 2, "template": template(schedulingGroup={"podGroupName": "g"})},
    )
    assert [guest.gang for guest in read_manifests([job]).guests] == ["shop/g", "shop/g"]


def test_a_group_without_a_name_is_refused():
    with pytest.raises(InputError) as caught:
        guest_of(pod("a", schedulingGroup={}))
    assert caught.value.message == "pod default/a: spec.schedulingGroup.podGroupName: it is missing"


def test_the_policy_under_its_older_name_is_refused_with_its_name_of_today():
    with pytest.raises(InputError) as refused:
        read_manifests([group(policy={"gang": {"minCount": 2}})])
    assert refused.value.message == "PodGroup shop/g: spec.policy: there is no such field"
    assert refused.value.hint == "did you mean schedulingPolicy?"


def test_a_pod_whose_group_has_no_possible_name_is_refused():
    with pytest.raises(InputError, match="pod default/a: the name of its group: it is 'x/y'"):
        read_manifests([pod("a", metadata={"labels": {LABEL: "x/y"}})])
