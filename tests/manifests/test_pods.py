"""Pods become guests, with notes on what does not count."""

import datetime

import msgspec
import pytest

from hostler.errors import InputError
from hostler.manifests import Pod, pod_to_guest, read_pod
from hostler.model import DeviceRequest, Expression, Guest, GuestSpec, Term, Toleration, WeightedTerm
from tests.manifests.samples import container, guest_of, lines, pod

COUNT = "alibabacloud.com/gpu-count"
MILLI = "alibabacloud.com/gpu-milli"
MODEL = "alibabacloud.com/gpu-card-model"
INDEX = "alibabacloud.com/gpu-index"


def test_a_pod_becomes_a_guest():
    data = pod(
        "a",
        metadata={"namespace": "shop", "uid": "u-9", "resourceVersion": "7", "labels": {"app": "web"}},
        containers=[container(cpu="1")],
        nodeName="n3",
        nodeSelector={"disk": "ssd"},
        priority=1000,
    )
    assert guest_of(data) == Guest(
        name="a",
        uid="u-9",
        version=7,
        host="n3",
        spec=GuestSpec(
            requests=(("cpu", 1000),),
            priority=1000,
            host_selector=(("disk", "ssd"),),
            namespace="shop",
            labels=(("app", "web"),),
            images=("img:latest",),
        ),
    )


def test_a_pod_of_few_words_gets_defaults():
    guest = guest_of({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}})
    assert guest == Guest(name="a", uid="default/a", spec=GuestSpec(namespace="default"))


def test_a_pod_without_containers_is_refused():
    with pytest.raises(InputError, match=r"pod default/a: spec\.containers is missing"):
        guest_of({"metadata": {"name": "a"}, "spec": {"container": [{"name": "c"}]}})


@pytest.mark.parametrize(
    ("class_name", "priority"),
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)],
)
def test_the_priority_classes_of_every_cluster_are_known(class_name, priority):
    assert guest_of(pod(priorityClassName=class_name)).spec.priority == priority


# ---------------------------------------------------------------------------------------- node affinity

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def required(*terms):
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def preferred(*items):
    return {"nodeAffinity": {PREFERRED: [{"weight": weight, "preference": term} for weight, term in items]}}


def where(key, operator, *values):
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def test_required_terms_keep_their_expressions_and_names():
    affinity = required(
        {"matchExpressions": [where("zone", "In", "a", "b"), where("gen", "Gt", "4")]},
        {"matchFields": [where("metadata.name", "NotIn", "n1")]},
        {"matchExpressions": [where("old", "DoesNotExist")]},
        {},
    )
    assert guest_of(pod(affinity=affinity)).spec.host_affinity == (
        Term((Expression("zone", "In", ("a", "b")), Expression("gen", "Gt", ("4",)))),
        Term((), (Expression("metadata.name", "NotIn", ("n1",)),)),
        Term((Expression("old", "DoesNotExist"),)),
        Term(),
    )


def test_preferred_terms_keep_their_weights_and_empty_ones_are_dropped():
    affinity = preferred((7, {"matchExpressions": [where("gpu", "Exists")]}), (3, {}))
    assert guest_of(pod(affinity=affinity)).spec.preferred_hosts == (
        WeightedTerm(7, Term((Expression("gpu", "Exists"),))),
    )


TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
BROKEN_AFFINITY = {
    "In without values": (
        required({"matchExpressions": [where("a", "Exists"), where("zone", "In")]}),
        f"{TERMS}[0].matchExpressions[1].values: operator In needs at least one value",
    ),
    "NotIn without values": (
        required({"matchExpressions": [where("zone", "NotIn")]}),
        f"{TERMS}[0].matchExpressions[0].values: operator NotIn needs at least one value",
    ),
    "Exists with a value": (
        required({"matchExpressions": [where("zone", "Exists", "a")]}),
        f"{TERMS}[0].matchExpressions[0].values: operator Exists takes no values",
    ),
    "Gt with two values": (
        required({}, {"matchExpressions": [where("gen", "Gt", "1", "2")]}),
        f"{TERMS}[1].matchExpressions[0].values: operator Gt needs exactly one integer",
    ),
    "Lt with a word": (
        required({"matchExpressions": [where("gen", "Lt", "four")]}),
        f"{TERMS}[0].matchExpressions[0].values: operator Lt needs exactly one integer",
    ),
    "an unknown operator": (
        required({"matchExpressions": [where("gen", "Near", "4")]}),
        f"{TERMS}[0].matchExpressions[0].operator: 'Near' is not an operator",
    ),
    "no operator": (
        required({"matchExpressions": [{"key": "gen"}]}),
        f"{TERMS}[0].matchExpressions[0]: missing required field operator",
    ),
    "an empty key": (
        required({"matchExpressions": [where("", "Exists")]}),
        f"{TERMS}[0].matchExpressions[0].key: a label's key is missing",
    ),
    "a field that cannot be selected by": (
        required({"matchFields": [where("metadata.uid", "In", "x")]}),
        f"{TERMS}[0].matchFields[0].key: 'metadata.uid' is not a field to select by",
    ),
    "two names in one field selector": (
        required({"matchFields": [where("metadata.name", "In", "x", "y")]}),
        f"{TERMS}[0].matchFields[0]: metadata.name takes operator In or NotIn with exactly one value",
    ),
    "no terms": (required(), f"{TERMS}: a required node affinity needs at least one term"),
    "a weight out of range": (
        preferred((101, {})),
        f"spec.affinity.nodeAffinity.{PREFERRED}[0].weight: 101 is not between 1 and 100",
    ),
    "a value that is a number": (
        required({"matchExpressions": [{"key": "gen", "operator": "Gt", "values": [4]}]}),
        f"{TERMS}[0].matchExpressions[0].values[0]: expected str, got int",
    ),
}


@pytest.mark.parametrize(("affinity", "message"), BROKEN_AFFINITY.values(), ids=BROKEN_AFFINITY.keys())
def test_a_malformed_affinity_is_refused_with_pod_and_path(affinity, message):
    with pytest.raises(InputError) as caught:
        guest_of(pod("a", affinity=affinity))
    assert caught.value.message == f"pod default/a: {message}"


# ------------------------------------------------------------------------------------------ tolerations

TOLERATIONS = {
    "Equal is the default operator": ({"key": "k", "value": "v"}, Toleration("k", "Equal", "v")),
    "a key alone equals an empty value": ({"key": "k"}, Toleration("k", "Equal", "")),
    "Exists": ({"key": "k", "operator": "Exists"}, Toleration("k", "Exists")),
    "everything": ({"operator": "Exists"}, Toleration("", "Exists")),
    "one effect only": (
        {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        Toleration("k", "Exists", "", "NoExecute"),
    ),
}


@pytest.mark.parametrize(("data", "expected"), TOLERATIONS.values(), ids=TOLERATIONS.keys())
def test_a_toleration_is_read(data, expected):
    assert guest_of(pod(tolerations=[data])).spec.tolerations == (expected,)


BROKEN_TOLERATIONS = {
    "no key with Equal": ({"value": "v"}, ": a toleration without a key needs operator Exists"),
    "Exists with a value": (
        {"key": "k", "operator": "Exists", "value": "v"},
        ".value: operator Exists takes no value",
    ),
    "an unknown operator": (
        {"key": "k", "operator": "In"},
        ".operator: 'In' is not an operator of a toleration",
    ),
    "an unknown effect": ({"key": "k", "effect": "Never"}, ".effect: 'Never' is not an effect of a taint"),
}


@pytest.mark.parametrize(("data", "message"), BROKEN_TOLERATIONS.values(), ids=BROKEN_TOLERATIONS.keys())
def test_a_malformed_toleration_is_refused_with_pod_and_path(data, message):
    with pytest.raises(InputError) as caught:
        guest_of(pod("a", tolerations=[{"operator": "Exists"}, data]))
    assert caught.value.message == f"pod default/a: spec.tolerations[1]{message}"


# ------------------------------------------------------------------------------------------------- GPUs

GPUS = {
    "part of one": ({MILLI: "460", COUNT: "1"}, DeviceRequest("gpu", 1, 460)),
    "milli alone means one": ({MILLI: "250"}, DeviceRequest("gpu", 1, 250)),
    "a count alone means whole ones": ({COUNT: "4"}, DeviceRequest("gpu", 4, 1000)),
    "one model": ({MILLI: "1000", COUNT: "8", MODEL: "G2"}, DeviceRequest("gpu", 8, 1000, ("G2",))),
    "any of several models": (
        {MILLI: "1000", COUNT: "1", MODEL: "V100M16|V100M32"},
        DeviceRequest("gpu", 1, 1000, ("V100M16", "V100M32")),
    ),
}


@pytest.mark.parametrize(("annotations", "expected"), GPUS.values(), ids=GPUS.keys())
def test_annotations_of_the_openb_form_ask_for_gpus(annotations, expected):
    assert guest_of(pod(metadata={"annotations": annotations})).spec.devices == (expected,)


@pytest.mark.parametrize(
    "annotations", [{}, {MILLI: "0"}, {COUNT: "0", MILLI: "1000"}], ids=["none", "zero milli", "zero GPUs"]
)
def test_a_pod_that_wants_no_gpu_has_no_device_request(annotations):
    assert guest_of(pod(metadata={"annotations": annotations})).spec.devices == ()


def test_a_bound_pod_tells_on_which_gpus_it_runs():
    annotations = {MILLI: "1000", COUNT: "3", INDEX: "2-3-4"}
    assert guest_of(pod(metadata={"annotations": annotations}, nodeName="n1")).on_devices == (2, 3, 4)


BROKEN_GPUS = {
    "more than a whole GPU": ({MILLI: "1500"}, MILLI, "1500 is more than 1000, one whole GPU"),
    "no number": ({COUNT: "two"}, COUNT, "amount 'two' is not a quantity"),
    "too many": ({COUNT: "5000"}, COUNT, "5000 GPUs are more than the 64 of any node"),
    "no indices": ({COUNT: "1", INDEX: "a"}, INDEX, "'a' is not a list of indices"),
    "fewer indices than GPUs": (
        {COUNT: "2", INDEX: "1"},
        INDEX,
        "'1' does not name 2 different GPUs, the number that the pod asks for",
    ),
    "the same GPU twice": (
        {COUNT: "2", INDEX: "1-1"},
        INDEX,
        "'1-1' does not name 2 different GPUs, the number that the pod asks for",
    ),
}


@pytest.mark.parametrize(("annotations", "name", "message"), BROKEN_GPUS.values(), ids=BROKEN_GPUS.keys())
def test_malformed_gpu_annotations_are_refused(annotations, name, message):
    with pytest.raises(InputError) as caught:
        guest_of(pod("a", metadata={"annotations": annotations}, nodeName="n1"))
    assert caught.value.message == f"pod default/a: metadata.annotations[{name}]: {message}"


# ------------------------------------------------------------------------------------------------ notes

UNEVALUATED = {
    "a volume claim": (
        {"volumes": [{"name": "c", "configMap": {}}, {"name": "d", "persistentVolumeClaim": {}}]},
        ["spec.volumes[1].persistentVolumeClaim is not evaluated"],
    ),
    "resource claims": ({"resourceClaims": [{"name": "gpu"}]}, ["spec.resourceClaims is not evaluated"]),
    "the workload of an older form": ({"workloadRef": {"name": "w"}}, ["spec.workloadRef is not evaluated"]),
    "a priority class": (
        {"priorityClassName": "high"},
        ["spec.priorityClassName is not evaluated: give the PriorityClass, or spec.priority"],
    ),
    "a priority class that admission has looked up": ({"priorityClassName": "high", "priority": 5}, []),
    "a toleration that compares numbers": (
        {"tolerations": [{"key": "sla", "operator": "Gt", "value": "90"}]},
        ["spec.tolerations[0].operator Gt is not evaluated"],
    ),
    "a GPU chosen before the node": (
        {"metadata": {"annotations": {COUNT: "1", INDEX: "0"}}},
        [f"metadata.annotations[{INDEX}] is not evaluated"],
    ),
    "a GPU model without a GPU": (
        {"metadata": {"annotations": {MODEL: "T4"}}},
        [f"metadata.annotations[{MODEL}] is not evaluated"],
    ),
    "nothing special": (
        {
            "volumes": [
                {"name": kind, kind: {}}
                for kind in ("emptyDir", "configMap", "secret", "hostPath", "projected", "downwardAPI")
            ],
            "containers": [container(cpu="1")],
        },
        [],
    ),
}


@pytest.mark.parametrize(("fields", "expected"), UNEVALUATED.values(), ids=UNEVALUATED.keys())
def test_what_is_not_evaluated_is_noted(fields, expected):
    guest, notes = pod_to_guest(read_pod(pod("a", **fields)))
    assert guest is not None
    assert lines(notes) == [f"pod default/a: {text}" for text in expected]


UNSUPPORTED = {
    "a volume claim": ({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]}, ("volume claims",)),
    "a claim made for the pod": ({"volumes": [{"name": "d", "ephemeral": {}}]}, ("volume claims",)),
    "a claim of a device": ({"resourceClaims": [{"name": "gpu"}]}, ("resource claims",)),
    "both": (
        {"resourceClaims": [{"name": "g"}], "volumes": [{"persistentVolumeClaim": {}}, {"ephemeral": {}}]},
        ("volume claims", "resource claims"),
    ),
    "neither": ({"volumes": [{"emptyDir": {}}, {"configMap": {}}, {"persistentVolumeClaim": None}]}, ()),
}


@pytest.mark.parametrize(("fields", "expected"), UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_claims_that_nobody_evaluates_are_named_in_the_shape(fields, expected):
    assert guest_of(pod(**fields)).spec.unsupported == expected


def test_a_running_pod_has_got_what_it_claimed():
    data = pod("a", nodeName="n1", volumes=[{"persistentVolumeClaim": {}}], resourceClaims=[{"name": "g"}])
    guest, notes = pod_to_guest(read_pod(data))
    assert guest.spec.unsupported == ()
    assert notes == ()


NO_GUEST = {
    "a pod that succeeded": (
        {"status": {"phase": "Succeeded"}, "nodeName": "n1"},
        "status.phase is Succeeded: the pod holds nothing any more",
    ),
    "a pod that failed": (
        {"status": {"phase": "Failed"}},
        "status.phase is Failed: the pod holds nothing any more",
    ),
    "a gated pod": (
        {"schedulingGates": [{"name": "g"}]},
        "spec.schedulingGates is not empty: the pod is not placed until its gates are removed",
    ),
    "a pod deleted before it was placed": (
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        "metadata.deletionTimestamp is set: the pod is going away and is not placed",
    ),
}


@pytest.mark.parametrize(("fields", "text"), NO_GUEST.values(), ids=NO_GUEST.keys())
def test_no_guest_but_a_note_comes_of(fields, text):
    guest, notes = pod_to_guest(read_pod(pod("a", **fields)))
    assert guest is None
    assert lines(notes) == [f"pod default/a: {text}"]


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", ""])
def test_a_pod_in_any_other_phase_is_a_guest(phase):
    assert guest_of(pod(nodeName="n1", status={"phase": phase})).host == "n1"


def test_a_terminating_pod_still_holds_its_place_and_is_leaving():
    guest = guest_of(pod(nodeName="n1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert (guest.host, guest.spec.is_leaving) == ("n1", True)
    assert not guest_of(pod(nodeName="n1")).spec.is_leaving


# -------------------------------------------------------------------------------------------- start time

STARTED = {
    "in UTC": ("1970-01-01T00:00:02Z", 2_000_000_000),
    "in another zone": ("1970-01-01T02:00:00+01:00", 3_600_000_000_000),
    "with a fraction": ("1970-01-01T00:00:00.25Z", 250_000_000),
    "as a parser of YAML may give it": (datetime.datetime(1970, 1, 2), 86_400_000_000_000),
    "absent": (None, 0),
}


@pytest.mark.parametrize(("text", "expected"), STARTED.values(), ids=STARTED.keys())
def test_the_start_time_counts_in_nanoseconds(text, expected):
    assert guest_of(pod(nodeName="n1", status={"startTime": text})).started == expected


BROKEN_TIMES = {
    "a word": ("yesterday", "Invalid RFC3339 encoded datetime"),
    "a number": (7, "expected datetime | null, got int"),
    "before 1970": ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59+00:00 is not between 1970 and 2116"),
    "in a far future": ("2200-01-01T00:00:00Z", "2200-01-01T00:00:00+00:00 is not between 1970 and 2116"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN_TIMES.values(), ids=BROKEN_TIMES.keys())
def test_a_start_time_that_is_none_is_refused(text, message):
    with pytest.raises(InputError) as caught:
        guest_of(pod("a", nodeName="n1", status={"startTime": text}))
    assert caught.value.message == f"pod default/a: status.startTime: {message}"


# --------------------------------------------------------------------------------------- broken input

BROKEN = {
    "a list for an amount": (
        {"containers": [container(memory="1Gi", cpu=[1])]},
        "pod shop/a: spec.containers[0].resources.requests.cpu: expected int | float | str, got array",
    ),
    "a flag for an amount": (
        {"containers": [container(**{"ex.com/a": True})]},
        "pod shop/a: spec.containers[0].resources.requests[ex.com/a]: expected int | float | str, got bool",
    ),
    "text for a list": ({"tolerations": "all"}, "pod shop/a: spec.tolerations: expected array, got str"),
    "a number for a selector's value": (
        {"nodeSelector": {"gen": 8}},
        "pod shop/a: spec.nodeSelector.gen: expected str, got int",
    ),
    "a number for a label's key": (
        {"metadata": {"namespace": "shop", "labels": {8: "x"}}},
        "pod shop/a: metadata.labels: expected str, got int as a key",
    ),
    "a label without a value": (
        {"metadata": {"namespace": "shop", "labels": {"app": None}}},
        "pod shop/a: metadata.labels.app: expected str, got null",
    ),
    "a nothing among the containers": (
        {"containers": [None]},
        "pod shop/a: spec.containers[0]: expected object, got null",
    ),
    "a priority beyond 32 bits": (
        {"priority": 2**31},
        "pod shop/a: spec.priority: 2147483648 is not between -2^31 and 2^31 - 1",
    ),
    "a priority that is text": (
        {"priority": "high"},
        "pod shop/a: spec.priority: expected int | null, got str",
    ),
    "an amount that does not parse": (
        {"containers": [container(cpu="1 core")]},
        "pod shop/a: spec.containers[0].resources.requests.cpu: amount '1 core' is not a quantity",
    ),
}


@pytest.mark.parametrize(("fields", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_pod_is_refused_with_name_and_path(fields, message):
    with pytest.raises(InputError) as caught:
        guest_of(pod("a", **{"metadata": {"namespace": "shop"}, **fields}))
    assert caught.value.message == message
    assert caught.value.exit_code == 2


def test_a_pod_needs_a_name():
    with pytest.raises(InputError, match=r"a pod without a name: metadata\.name is missing"):
        guest_of(pod("", metadata={"generateName": "job-"}))


def test_a_broken_pod_that_has_ended_is_still_refused():
    with pytest.raises(InputError):
        pod_to_guest(read_pod(pod(containers=[container(cpu="x")], status={"phase": "Failed"})))


def test_nulls_count_as_absent():
    data = pod(nodeSelector=None, affinity={"nodeAffinity": None, "podAffinity": None}, tolerations=None)
    data["metadata"]["labels"] = None
    data["status"] = None
    assert guest_of(data) == guest_of(pod())


def test_yaml_aliases_that_explode_are_rejected_at_once():
    shared: list = ["x"]
    for _ in range(10):
        shared = [shared] * 10
    with pytest.raises(InputError, match=r"metadata\.labels"):
        guest_of(pod(metadata={"labels": shared}))


# ------------------------------------------------------------------------------------------------- bytes


def test_bytes_decode_straight_into_a_pod():
    data = pod("a", containers=[container(cpu="1")], unknownField={"deep": [1]}, nodeName="n1")
    decoded = msgspec.json.decode(msgspec.json.encode(data), type=Pod)
    assert decoded == msgspec.convert(data, Pod)
    assert pod_to_guest(decoded) == pod_to_guest(read_pod(data))
