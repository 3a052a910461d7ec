"""The annotations ``priority`` and ``pod-group`` of the first scheduler: they count only when asked for."""

import pytest

from hostler.errors import InputError
from hostler.manifests import read_manifests
from hostler.model import Gang
from tests.manifests.samples import pod, template, thing

SEED = {"priority": "100", "pod-group": "team"}


def seeded(name, annotations=None, **fields):
    return pod(name, metadata={"annotations": annotations or SEED, **fields.pop("metadata", {})}, **fields)


def test_annotations_of_users_mean_nothing_by_default():
    found = read_manifests([seeded("a"), seeded("b", {"priority": "not a number"})])
    assert [(guest.spec.priority, guest.gang) for guest in found.guests] == [(0, "")] * 2
    assert found.gangs == ()


def test_annotations_of_the_seed_count_when_asked_for():
    found = read_manifests([seeded("a"), seeded("b", priority=7), pod("c", priority=7)], seed_annotations=True)
    assert [(guest.spec.priority, guest.gang) for guest in found.guests] == [
        (100, "default/team"),
        (100, "default/team"),
        (7, ""),
    ]
    assert found.gangs == (Gang(name="team", namespace="default", min_count=2),)


def test_a_gang_of_the_seed_needs_all_its_members_of_its_own_namespace():
    objects = [
        seeded("a", nodeName="n1"),
        seeded("b"),
        seeded("gone", status={"phase": "Succeeded"}),
        seeded("c", metadata={"namespace": "shop"}),
        thing(
            "Deployment",
            "d",
            version="apps/v1",
            namespace="shop",
            spec={"replicas": 3, "template": template(annotations=SEED)},
        ),
        thing(
            "Deployment",
            "none",
            version="apps/v1",
            spec={"replicas": 0, "template": template(annotations={"pod-group": "x"})},
        ),
    ]
    found = read_manifests(objects, seed_annotations=True)
    assert found.gangs == (
        Gang(name="team", namespace="default", min_count=2),
        Gang(name="team", namespace="shop", min_count=4),
    )


def test_a_pod_group_object_beats_the_count_of_members():
    group = thing("PodGroup", "team", version="scheduling.x-k8s.io/v1alpha1", spec={"minMember": 5})
    found = read_manifests([seeded("a"), group], seed_annotations=True)
    assert found.gangs == (Gang(name="team", namespace="default", min_count=5),)


def test_a_group_that_no_annotation_names_is_not_made_up():
    assert read_manifests([pod("a", schedulingGroup={"podGroupName": "g"})], seed_annotations=True).gangs == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("high", "'high' is not a whole number"),
        ("1.5", "'1.5' is not a whole number"),
        ("9" * 10, "9999999999 is not between -2^31 and 2^31 - 1"),
        ("9" * 5000, f"{'9' * 5000!r} is not a whole number"),
        ("", "'' is not a whole number"),
    ],
    ids=["word", "fraction", "beyond 32 bits", "far too long", "empty"],
)
def test_a_priority_of_the_seed_that_is_no_number_is_refused(text, message):
    with pytest.raises(InputError) as caught:
        read_manifests([seeded("a", {"priority": text})], seed_annotations=True)
    assert caught.value.message == f"pod default/a: metadata.annotations.priority: {message}"


def test_a_priority_of_the_seed_may_be_negative():
    (guest,) = read_manifests([seeded("a", {"priority": "-5"})], seed_annotations=True).guests
    assert guest.spec.priority == -5
