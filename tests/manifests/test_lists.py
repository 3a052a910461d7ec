"""Many objects at once: lists, unknown kinds, duplicates, and what is no manifest at all."""

import pytest

from hostler.errors import DuplicateNameError, InputError
from hostler.manifests import Manifests, is_manifest, read_manifests
from tests.manifests.samples import container, lines, node, pod


def bare(data):
    """An item as the API server prints it inside a typed list: without apiVersion and kind."""
    return {name: part for name, part in data.items() if name not in ("apiVersion", "kind")}


def names(manifests):
    return [host.name for host in manifests.hosts], [guest.name for guest in manifests.guests]


def test_nodes_and_pods_in_any_order_keep_their_order():
    found = read_manifests([pod("b"), node("n2"), pod("a"), node("n1")])
    assert names(found) == (["n2", "n1"], ["b", "a"])
    assert found.notes == ()


def test_nothing_gives_nothing():
    assert read_manifests([]) == Manifests()


LISTS = {
    "a List as kubectl prints it": {"apiVersion": "v1", "kind": "List", "items": [node("n1"), pod("a")]},
    "a List in a List": {
        "apiVersion": "v1",
        "kind": "List",
        "items": [{"apiVersion": "v1", "kind": "List", "items": [node("n1")]}, pod("a")],
    },
    "typed lists without kinds": {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": "v1", "kind": "NodeList", "items": [bare(node("n1"))]},
            {"apiVersion": "v1", "kind": "PodList", "items": [bare(pod("a"))]},
        ],
    },
    "typed lists with kinds": {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": "v1", "kind": "NodeList", "items": [node("n1")]},
            {"apiVersion": "v1", "kind": "PodList", "items": [pod("a")]},
        ],
    },
}


@pytest.mark.parametrize("data", LISTS.values(), ids=LISTS.keys())
def test_the_items_are_read_of(data):
    assert names(read_manifests([data])) == (["n1"], ["a"])


@pytest.mark.parametrize("items", [{}, {"items": None}, {"items": []}], ids=["absent", "null", "empty"])
def test_an_empty_list_is_no_error(items):
    assert read_manifests([{"apiVersion": "v1", "kind": "PodList", **items}]) == Manifests()


def test_other_kinds_are_noted_and_ignored():
    others: list[dict] = [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x", "namespace": "default"}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetricsList", "items": []},
        {"apiVersion": "example.com/v1", "kind": "Node", "metadata": {"name": "not-a-node"}},
    ]
    found = read_manifests([*others, node("n1")])
    assert names(found) == (["n1"], [])
    assert lines(found.notes) == [
        "Service default/x ignored",
        "Namespace shop ignored",
        "PodMetricsList ignored",
        "Node not-a-node ignored",
    ]


def test_notes_of_all_objects_are_collected():
    found = read_manifests([node(allocatable={"cpu": 1}), pod("a", schedulingGates=[{"name": "g"}])])
    assert [note.object for note in found.notes] == ["node n1", "pod default/a"]
    assert found.guests == ()


def test_pods_of_equal_content_share_one_spec():
    small, also_small, large = read_manifests(
        [pod(name, containers=[container(cpu=cpu)]) for name, cpu in (("a", "1"), ("b", "1000m"), ("c", "2"))]
    ).guests
    assert small.spec is also_small.spec
    assert small.spec != large.spec


def test_one_name_in_two_namespaces_is_two_pods():
    found = read_manifests([pod("a"), pod("a", metadata={"namespace": "shop"})])
    assert [guest.uid for guest in found.guests] == ["default/a", "shop/a"]


DUPLICATES = {
    "nodes": ([node("n1"), node("n1")], "node n1 is given twice"),
    "pods": ([pod("a"), pod("a", metadata={"namespace": "default"})], "pod default/a is given twice"),
    "pods of which one has ended": (
        [pod("a", status={"phase": "Failed"}), pod("a")],
        "pod default/a is given twice",
    ),
    "uids of nodes": (
        [node("n1", metadata={"uid": "u"}), node("n2", metadata={"uid": "u"})],
        "node n1 and node n2 have the same uid 'u'",
    ),
    "uids of pods": (
        [pod("a", metadata={"uid": "u"}), pod("b", metadata={"uid": "u"})],
        "pod default/a and pod default/b have the same uid 'u'",
    ),
}


@pytest.mark.parametrize(("objects", "message"), DUPLICATES.values(), ids=DUPLICATES.keys())
def test_duplicates_are_refused_among(objects, message):
    with pytest.raises(DuplicateNameError) as caught:
        read_manifests(objects)
    assert caught.value.message == message


def nested(depth):
    data: dict = {"apiVersion": "v1", "kind": "List", "items": []}
    for _ in range(depth):
        data = {"apiVersion": "v1", "kind": "List", "items": [data]}
    return data


NO_KIND = "an object has no apiVersion or no kind"
BROKEN = {
    "no kind": ({"apiVersion": "v1", "metadata": {}}, NO_KIND),
    "no apiVersion": ({"kind": "Pod"}, NO_KIND),
    "a kind that is no text": ({"apiVersion": "v1", "kind": ["Pod"]}, NO_KIND),
    "an item without kind in a plain List": (
        {"apiVersion": "v1", "kind": "List", "items": [node(), bare(pod())]},
        f"items[1]: {NO_KIND}",
    ),
    "an item that is no object": (
        {"apiVersion": "v1", "kind": "PodList", "items": [pod("a"), "b"]},
        "items[1]: not a Kubernetes object",
    ),
    "items that are no list": (
        {"apiVersion": "v1", "kind": "PodList", "items": {"a": pod("a")}},
        "PodList: items is not a list of objects",
    ),
    "items that are a number": (
        {"apiVersion": "v1", "kind": "PodList", "items": 7},
        "PodList: items is not a list of objects",
    ),
    "no object at all": (["v1", "Pod"], "not a Kubernetes object"),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_object_is_refused(data, message):
    with pytest.raises(InputError) as caught:
        read_manifests([data])
    assert caught.value.message == message
    assert caught.value.hint


def test_lists_within_lists_without_end_are_refused():
    with pytest.raises(InputError, match="items is not a list of objects"):
        read_manifests([nested(5000)])


MANIFESTS = {
    "a pod": (pod(), True),
    "an unknown kind": ({"apiVersion": "apps/v1", "kind": "Deployment"}, True),
    "our own format": ({"apiVersion": "hostler/v1", "kind": "Hosts"}, False),
    "no kind": ({"apiVersion": "v1"}, False),
    "a kind that is no text": ({"apiVersion": "v1", "kind": 3}, False),
    "a list": ([pod()], False),
    "nothing": (None, False),
}


@pytest.mark.parametrize(("data", "expected"), MANIFESTS.values(), ids=MANIFESTS.keys())
def test_a_manifest_is_told_from(data, expected):
    assert is_manifest(data) is expected
