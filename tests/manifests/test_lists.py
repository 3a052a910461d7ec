"""Many objects at once: lists, unknown kinds, duplicates, and what is no manifest at all."""

import pytest

from hostler.errors import DuplicateNameError, InputError
from hostler.manifests import Manifests, is_manifest, read_manifests
from tests.manifests.samples import container, lines, node, pod, template, thing


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
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "namespace": "default"}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}},
        {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetricsList", "items": []},
        {"apiVersion": "example.com/v1", "kind": "Node", "metadata": {"name": "not-a-node"}},
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}},
        {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "w", "namespace": "a"}},
    ]
    found = read_manifests([*others, node("n1")])
    assert names(found) == (["n1"], [])
    assert lines(found.notes) == [
        "Secret default/x ignored",
        "StorageClass fast ignored",
        "PodMetricsList ignored",
        "Node not-a-node ignored",
        "PodGroup g ignored",
        "Workload a/w ignored",
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
    "pods, one of them ended": (
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
def test_a_manifest_differs_from(data, expected):
    assert is_manifest(data) is expected


# ------------------------------------------------------------------------------------------ kinds beside pods

OWN_NAME = "kubernetes.io/metadata.name"


def test_namespaces_have_their_labels_and_the_one_that_the_api_server_adds():
    data = thing("Namespace", "shop", metadata={"labels": {"team": "x"}})
    assert read_manifests([data]).namespaces == {"shop": ((OWN_NAME, "shop"), ("team", "x"))}


def test_a_namespace_that_is_only_used_exists_too():
    found = read_manifests(
        [
            pod("a"),
            pod("b", metadata={"namespace": "shop"}),
            thing("Namespace", "shop", metadata={"labels": {"t": "x"}}),
        ]
    )
    assert found.namespaces == {"shop": ((OWN_NAME, "shop"), ("t", "x")), "default": ((OWN_NAME, "default"),)}


TYPED = {
    "services": ("v1", "Service"),
    "deployments": ("apps/v1", "Deployment"),
    "jobs": ("batch/v1", "Job"),
    "budgets": ("policy/v1", "PodDisruptionBudget"),
    "groups": ("scheduling.k8s.io/v1beta1", "PodGroup"),
}


@pytest.mark.parametrize(("version", "kind"), TYPED.values(), ids=TYPED.keys())
def test_a_typed_list_is_read_of(version, kind):
    spec = {"template": template(), "schedulingPolicy": {"basic": {}}}
    items = [bare(thing(kind, name, spec=spec)) for name in ("a", "b")]
    data = {"apiVersion": version, "kind": f"{kind}List", "items": items}
    found = read_manifests([data])
    assert not any(note.text == "ignored" for note in found.notes)
    with pytest.raises(DuplicateNameError, match=f"{kind} default/a is given twice"):
        read_manifests([data, thing(kind, "a", version=version, spec=spec)])


def test_equal_names_of_different_kinds_or_namespaces_are_no_duplicates():
    objects = [
        thing("Service", "x"),
        thing("Service", "x", namespace="shop"),
        thing("Namespace", "x"),
        thing("PriorityClass", "x", version="scheduling.k8s.io/v1", value=1),
        node("x"),
        pod("x"),
    ]
    assert names(read_manifests(objects)) == (["x"], ["x"])


# ----------------------------------------------------------------------------------------------------- sources


def test_hosts_and_guests_know_their_source_when_it_is_reported():
    made = thing("Deployment", "d", version="apps/v1", spec={"replicas": 2, "template": template()})
    found = read_manifests([node("n1"), pod("a"), made], sources=["nodes.yaml", "pods.yaml", "apps.yaml"])
    assert found.host_sources == ("nodes.yaml",)
    assert found.guest_sources == ("pods.yaml", "apps.yaml", "apps.yaml")
    assert read_manifests([node("n1"), pod("a")]).guest_sources == ()


WITH_SOURCE = {
    "a broken pod": (pod("a", priority="x"), "f.yaml: pod default/a: spec.priority: expected int | null, got str"),
    "a pod that cannot be": (
        pod("a", containers=[container(cpu="x")]),
        "f.yaml: pod default/a: spec.containers[0].resources.requests.cpu: amount 'x' is not a quantity",
    ),
    "a broken node": (
        node("n1", allocatable={"cpu": "x"}),
        "f.yaml: node n1: status.allocatable.cpu: amount 'x' is not a quantity",
    ),
    "a broken class": (
        thing("PriorityClass", "c", version="scheduling.k8s.io/v1", value=2**40),
        f"f.yaml: PriorityClass c: value: {2**40} is not between -2^31 and 2^31 - 1",
    ),
    "a broken workload": (
        thing("Job", "j", version="batch/v1", spec={"parallelism": -1}),
        "f.yaml: Job default/j: spec.parallelism: -1 is not between 0 and 2^31 - 1",
    ),
    "no object": ({"kind": "Pod"}, "f.yaml: an object has no apiVersion or no kind"),
    "an item that is no object": (
        {"apiVersion": "v1", "kind": "List", "items": [7]},
        "f.yaml: items[0]: not a Kubernetes object",
    ),
}


@pytest.mark.parametrize(("data", "message"), WITH_SOURCE.values(), ids=WITH_SOURCE.keys())
def test_an_error_names_its_source(data, message):
    with pytest.raises(InputError) as caught:
        read_manifests([node("n0"), data], sources=["e.yaml", "f.yaml"])
    assert caught.value.message == message


def test_a_pod_that_is_given_in_two_files_is_refused_with_the_second():
    with pytest.raises(DuplicateNameError, match=r"g\.yaml: pod default/a is given twice"):
        read_manifests([pod("a"), pod("a")], sources=["f.yaml", "g.yaml"])


BAD_NAMES = {"a/b": "a/b", "/": "/", "a b": "a b", "a\u202eb": "a\\u202eb", "a\nb": "a\\nb"}


@pytest.mark.parametrize(("name", "shown"), BAD_NAMES.items(), ids=["slashed", "slash", "space", "mirror", "line"])
@pytest.mark.parametrize("make", [node, pod], ids=["node", "pod"])
def test_unreadable_names_are_rejected_with_file_and_place(make, name, shown):
    with pytest.raises(InputError) as refused:
        read_manifests([make(name)], sources=["f.yaml"])
    assert refused.value.message.startswith("f.yaml: ")
    assert refused.value.message.endswith(f": metadata.name: it is '{shown}'")


def test_too_long_names_are_rejected_also_those_of_workloads():
    with pytest.raises(InputError, match=r"metadata\.name: it is longer than 253 characters"):
        read_manifests([pod("a" * 254)])
    workload = thing("Deployment", "a" * 253, version="apps/v1", spec={"template": template()})
    with pytest.raises(InputError, match="the name of its pod: it is longer than 253 characters"):
        read_manifests([workload])


def test_a_namespace_that_could_not_be_read_again_is_refused():
    with pytest.raises(InputError, match=r"metadata\.namespace: it is 'x/y'"):
        read_manifests([pod("a", metadata={"namespace": "x/y"})])


def _near(**term):
    required = [{"topologyKey": "zone", "labelSelector": {}, **term}]
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _on_node(name):
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


UNREADABLE = {
    "a label of a node": (node(metadata={"labels": {"": "x"}}), "metadata.labels: a label has no key"),
    "a label of a pod": (pod(metadata={"labels": {"": "x"}}), "metadata.labels: a label has no key"),
    "a node selector": (pod(nodeSelector={"": "x"}), "spec.nodeSelector: a label has no key"),
    "a taint without a key": (node(spec={"taints": [{"key": "", "effect": "NoSchedule"}]}), "a key is empty"),
    "a taint with a space": (node(spec={"taints": [{"key": "a b", "effect": "NoSchedule"}]}), "a key is 'a b'"),
    "a selector": (pod(affinity=_near(labelSelector={"matchLabels": {"": "x"}})), "matchLabels: a label has no key"),
    "a namespace of a term": (pod(affinity=_near(namespaces=["a/b"])), "namespaces: it is 'a/b'"),
    "no namespace of a term": (pod(affinity=_near(namespaces=[""])), "namespaces: a name is empty"),
    "a node by its name": (pod(affinity=_on_node("a b")), "matchFields[0].values[0]: it is 'a b'"),
    "a pod of a budget": (
        thing("PodDisruptionBudget", version="policy/v1", status={"disruptedPods": {"a b": None}}),
        "status.disruptedPods: it is 'a b'",
    ),
}


@pytest.mark.parametrize(("item", "message"), UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_keys_and_names_inside_an_object_are_rejected(item, message):
    with pytest.raises(InputError) as refused:
        read_manifests([item], sources=["f.yaml"])
    assert refused.value.message.startswith("f.yaml: ")
    assert message in refused.value.message


def test_an_image_without_a_name_is_left_out():
    data = node()
    data["status"]["images"] = [{"names": ["", "web:1"], "sizeBytes": 5}]
    assert read_manifests([data]).hosts[0].images == (("web:1", 5),)
