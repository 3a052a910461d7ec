"""Priorities by number, by class and by default; and who may preempt."""

import pytest

from hostler.errors import InputError
from hostler.manifests import read_manifests
from hostler.manifests.objects.metadata import Metadata
from hostler.manifests.objects.policies import PriorityClass
from hostler.manifests.pods.priorities import PriorityClasses
from tests.manifests.samples import lines, pod, template, thing


def priority_class(name, value, **fields):
    return thing("PriorityClass", name, version="scheduling.k8s.io/v1", value=value, **fields)


HIGH = priority_class("high", 1000)
QUIET = priority_class("quiet", 500, preemptionPolicy="Never")
USUAL = priority_class("usual", 7, globalDefault=True)
LOW = priority_class("low", -3, globalDefault=True, preemptionPolicy="Never")


def of(data, *classes):
    (guest,) = read_manifests([data, *classes]).guests
    return guest.spec.priority, guest.spec.may_preempt


CASES = {
    "nothing said": (pod(), [], (0, True)),
    "a number": (pod(priority=5), [HIGH], (5, True)),
    "a class": (pod(priorityClassName="high"), [HIGH], (1000, True)),
    "a class that never preempts": (pod(priorityClassName="quiet"), [QUIET], (500, False)),
    "a pod's own word beats its class": (
        pod(priorityClassName="quiet", preemptionPolicy="PreemptLowerPriority"),
        [QUIET],
        (500, True),
    ),
    "a pod's own number beats its class": (pod(priorityClassName="high", priority=4), [HIGH], (4, True)),
    "a pod that never preempts": (pod(priority=9, preemptionPolicy="Never"), [], (9, False)),
    "the default class": (pod(), [HIGH, USUAL], (7, True)),
    "of two default classes the lower": (pod(), [USUAL, LOW], (-3, False)),
    "the default class does not touch a number": (pod(priority=1), [LOW], (1, True)),
    "a class of every cluster": (pod(priorityClassName="system-node-critical"), [USUAL], (2_000_001_000, True)),
}


@pytest.mark.parametrize(("data", "classes", "expected"), CASES.values(), ids=CASES.keys())
def test_priority_and_preemption_come_from(data, classes, expected):
    assert of(data, *classes) == expected


def test_a_template_may_name_a_class_too():
    deployment = thing(
        "Deployment", "web", version="apps/v1", spec={"template": template(priorityClassName="quiet"), "replicas": 2}
    )
    found = read_manifests([deployment, QUIET])
    assert {(guest.spec.priority, guest.spec.may_preempt) for guest in found.guests} == {(500, False)}


def test_a_class_that_nobody_declared_is_noted():
    found = read_manifests([pod("a", priorityClassName="hihg"), HIGH, USUAL])
    assert found.guests[0].spec.priority == 0
    assert lines(found.notes) == [
        "pod default/a: spec.priorityClassName is not evaluated: give the PriorityClass, or spec.priority"
    ]


BROKEN = {
    "a value beyond 32 bits": (
        priority_class("c", 2**31),
        "PriorityClass c: value: 2147483648 is not between -2^31 and 2^31 - 1",
    ),
    "a value that is text": (priority_class("c", "high"), "PriorityClass c: value: expected int, got str"),
    "an unknown policy of a class": (
        priority_class("c", 1, preemptionPolicy="Sometimes"),
        "PriorityClass c: preemptionPolicy: 'Sometimes' is not a policy",
    ),
    "an unknown policy of a pod": (
        pod("a", preemptionPolicy="Sometimes"),
        "pod default/a: spec.preemptionPolicy: 'Sometimes' is not a policy",
    ),
    "a class without a name": (priority_class("", 1), "PriorityClass: metadata.name is missing"),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_malformed_priority_is_refused_with_name_and_path(data, message):
    with pytest.raises(InputError) as caught:
        read_manifests([data])
    assert caught.value.message == message


def test_a_class_that_changes_or_goes_leaves_nothing_behind():
    classes = PriorityClasses()
    classes.add(PriorityClass(Metadata(name="a"), value=5, global_default=True, preemption_policy="Never"))
    assert (classes.class_of(""), classes.value("a"), classes.is_never_preempting("a")) == ("a", 5, True)
    classes.add(PriorityClass(Metadata(name="a"), value=6))
    assert (classes.class_of(""), classes.value("a"), classes.is_never_preempting("a")) == ("", 6, False)
    classes.remove("a")
    classes.remove("system-node-critical")
    assert (classes.value("a"), classes.value("system-node-critical")) == (None, 2_000_001_000)
