"""What a pod asks for: cases worked out by hand after Kubernetes' rules."""

import pytest

from hostler.errors import QuantityError
from hostler.manifests import pod_requests, read_pod
from hostler.manifests.pods.requests import scored_requests
from tests.manifests.samples import container as c
from tests.manifests.samples import pod

GI = 2**30
MI = 2**20
GPU = "nvidia.com/gpu"
HUGE = "hugepages-2Mi"


def asked(**fields):
    return dict(pod_requests(read_pod(pod(**fields))))


PENDING = {
    "a container that asks for nothing": ({"containers": [c()]}, {}),
    "no containers at all": ({"containers": []}, {}),
    "one container": ({"containers": [c(cpu="250m", memory="64Mi")]}, {"cpu": 250, "memory": 64 * MI}),
    "containers add up": (
        {"containers": [c(cpu="1"), c(cpu="500m", memory="1Gi"), c(memory="1Gi")]},
        {"cpu": 1500, "memory": 2 * GI},
    ),
    "a plain number of cpus is in cores": ({"containers": [c(cpu=2)]}, {"cpu": 2000}),
    "half a core as text": ({"containers": [c(cpu="0.5")]}, {"cpu": 500}),
    "half a core as a number": ({"containers": [c(cpu=0.5)]}, {"cpu": 500}),
    "an exponent": ({"containers": [c(cpu="1e3", memory="1e3")]}, {"cpu": 1_000_000, "memory": 1000}),
    "decimal and binary suffixes differ": (
        {"containers": [c(memory="500M"), c(memory="1Ki")]},
        {"memory": 500_001_024},
    ),
    "a fraction of a milli rounds up": ({"containers": [c(cpu="0.0001")]}, {"cpu": 1}),
    "a milli-byte rounds up": ({"containers": [c(memory="1m")]}, {"memory": 1}),
    "an explicit zero is nothing": ({"containers": [c(cpu="0", memory=0)]}, {}),
    "extended resources and local storage keep their names": (
        {"containers": [c(**{GPU: 2, "ephemeral-storage": "1Gi"}), c(**{GPU: "1"})]},
        {GPU: 3, "ephemeral-storage": GI},
    ),
    "a limit stands in for a missing request": (
        {"containers": [c(limits={"cpu": "2", "memory": "1Gi"}, cpu="500m")]},
        {"cpu": 500, "memory": GI},
    ),
    "limits alone": ({"containers": [c(limits={"cpu": "2", GPU: 1})]}, {"cpu": 2000, GPU: 1}),
    "a request of zero beats a limit": ({"containers": [c(limits={"cpu": "2"}, cpu="0")]}, {}),
    "an init container smaller than the containers does not count": (
        {"containers": [c(cpu="2")], "initContainers": [c(cpu="1")]},
        {"cpu": 2000},
    ),
    "a larger init container counts, resource by resource": (
        {"containers": [c(cpu="1", memory="2Gi")], "initContainers": [c(cpu="3", memory="1Gi")]},
        {"cpu": 3000, "memory": 2 * GI},
    ),
    "init containers run one by one, so the largest counts": (
        {"containers": [c(cpu="1")], "initContainers": [c(cpu="2"), c(cpu="4"), c(cpu="3")]},
        {"cpu": 4000},
    ),
    "an init container's limit stands in too": (
        {"containers": [c(cpu="1")], "initContainers": [c(limits={"cpu": "3"})]},
        {"cpu": 3000},
    ),
    "a sidecar runs beside the containers": (
        {"containers": [c(cpu="1")], "initContainers": [c(cpu="500m", sidecar=True)]},
        {"cpu": 1500},
    ),
    "a sidecar before an init container runs beside it": (
        {"containers": [c(cpu="1")], "initContainers": [c(cpu="1", sidecar=True), c(cpu="5")]},
        {"cpu": 6000},
    ),
    "a sidecar after an init container does not": (
        {"containers": [c(cpu="1")], "initContainers": [c(cpu="5"), c(cpu="1", sidecar=True)]},
        {"cpu": 5000},
    ),
    "only the sidecars declared before an init container count with it": (
        {
            "containers": [c(cpu="1")],
            "initContainers": [c(cpu="1", sidecar=True), c(cpu="5"), c(cpu="3", sidecar=True)],
        },
        {"cpu": 6000},
    ),
    "two sidecars and an init container in between, containers larger": (
        {
            "containers": [c(cpu="4")],
            "initContainers": [c(cpu="1", sidecar=True), c(cpu="5"), c(cpu="3", sidecar=True)],
        },
        {"cpu": 8000},
    ),
    "sidecars alone": (
        {"containers": [], "initContainers": [c(cpu="1", sidecar=True), c(cpu="2", sidecar=True)]},
        {"cpu": 3000},
    ),
    "restartPolicy Never on an init container makes no sidecar": (
        {"containers": [c(cpu="1")], "initContainers": [{**c(cpu="500m"), "restartPolicy": "Never"}]},
        {"cpu": 1000},
    ),
    "overhead comes on top": (
        {"containers": [c(cpu="1")], "overhead": {"cpu": "250m", "memory": "120Mi"}},
        {"cpu": 1250, "memory": 120 * MI},
    ),
    "overhead comes on top of sidecar and init container": (
        {
            "containers": [c(cpu="1")],
            "initContainers": [c(cpu="1", sidecar=True), c(cpu="2")],
            "overhead": {"cpu": "100m"},
        },
        {"cpu": 3100},
    ),
    "a pod-level request replaces the sum, even a larger one": (
        {"containers": [c(cpu="3", memory="1Gi")], "resources": {"requests": {"cpu": "2"}}},
        {"cpu": 2000, "memory": GI},
    ),
    "a pod-level request serves containers that ask for nothing": (
        {"containers": [c()], "resources": {"requests": {"cpu": "2", "memory": "1Gi", HUGE: "4Mi"}}},
        {"cpu": 2000, "memory": GI, HUGE: 4 * MI},
    ),
    "a pod-level request of an extended resource is not a thing": (
        {"containers": [c(**{GPU: 1})], "resources": {"requests": {GPU: 8, "cpu": "1"}}},
        {"cpu": 1000, GPU: 1},
    ),
    "overhead comes on top of a pod-level request": (
        {"containers": [c(cpu="1")], "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "100m"}},
        {"cpu": 2100},
    ),
    "a pod-level limit stands in where no container asks": (
        {"containers": [c(memory="1Gi")], "resources": {"limits": {"cpu": "2", "memory": "4Gi"}}},
        {"cpu": 2000, "memory": GI},
    ),
    "a pod-level limit of hugepages stands in even where containers ask": (
        {"containers": [c(**{HUGE: "2Mi"})], "resources": {"limits": {HUGE: "8Mi"}}},
        {HUGE: 8 * MI},
    ),
}


@pytest.mark.parametrize(("fields", "expected"), PENDING.values(), ids=PENDING.keys())
def test_a_pending_pod_asks_for(fields, expected):
    assert asked(**fields) == expected


def report(name="main", *, allocated=None, actual=None):
    return {
        "name": name,
        **({"allocatedResources": allocated} if allocated is not None else {}),
        **({"resources": {"requests": actual}} if actual is not None else {}),
    }


INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]

ASSIGNED = {
    "no report from the node: the spec counts": ("2", {}, 2000),
    "a settled pod": (
        "2",
        {"containerStatuses": [report(allocated={"cpu": "2"}, actual={"cpu": "2"})]},
        2000,
    ),
    "a growth that was proposed counts at once": (
        "4",
        {"containerStatuses": [report(allocated={"cpu": "2"}, actual={"cpu": "2"})]},
        4000,
    ),
    "a deferred growth still counts": (
        "4",
        {
            "conditions": DEFERRED,
            "containerStatuses": [report(allocated={"cpu": "2"}, actual={"cpu": "2"})],
        },
        4000,
    ),
    "a shrinkage frees nothing before it is allocated": (
        "1",
        {"containerStatuses": [report(allocated={"cpu": "3"}, actual={"cpu": "3"})]},
        3000,
    ),
    "a shrinkage frees nothing before it is set up": (
        "1",
        {"containerStatuses": [report(allocated={"cpu": "1"}, actual={"cpu": "3"})]},
        3000,
    ),
    "a finished shrinkage": (
        "1",
        {"containerStatuses": [report(allocated={"cpu": "1"}, actual={"cpu": "1"})]},
        1000,
    ),
    "an infeasible growth does not count": (
        "64",
        {
            "conditions": INFEASIBLE,
            "containerStatuses": [report(allocated={"cpu": "2"}, actual={"cpu": "1"})],
        },
        2000,
    ),
    "an infeasible growth as older clusters say it": (
        "64",
        {"resize": "Infeasible", "containerStatuses": [report(allocated={"cpu": "2"})]},
        2000,
    ),
    "a condition beats the older field": (
        "64",
        {
            "resize": "Infeasible",
            "conditions": DEFERRED,
            "containerStatuses": [report(allocated={"cpu": "2"})],
        },
        64000,
    ),
    "an infeasible growth without any report: the spec counts": ("4", {"conditions": INFEASIBLE}, 4000),
    "another container's report does not count": (
        "2",
        {"containerStatuses": [report("other", allocated={"cpu": "9"})]},
        2000,
    ),
    "pod-level reports replace those of containers": (
        "2",
        {
            "allocatedResources": {"cpu": "5"},
            "resources": {"requests": {"cpu": "4"}},
            "containerStatuses": [report(allocated={"cpu": "9"})],
        },
        5000,
    ),
}


@pytest.mark.parametrize(("cpu", "status", "millis"), ASSIGNED.values(), ids=ASSIGNED.keys())
def test_an_assigned_pod_holds(cpu, status, millis):
    assert asked(containers=[c(cpu=cpu)], nodeName="n1", status=status) == {"cpu": millis}


def test_reports_of_a_pod_without_a_node_do_not_count():
    status = {"containerStatuses": [report(allocated={"cpu": "9"}, actual={"cpu": "9"})]}
    assert asked(containers=[c(cpu="1")], status=status) == {"cpu": 1000}


def test_the_sums_of_all_containers_are_compared_not_each_container():
    # Spec 1 + 4, allocated 3 + 1: the pod holds 5, not 3 + 4.
    statuses = [report("x", allocated={"cpu": "3"}), report("y", allocated={"cpu": "1"})]
    containers = [c("x", cpu="1"), c("y", cpu="4")]
    held = asked(containers=containers, nodeName="n1", status={"containerStatuses": statuses})
    assert held == {"cpu": 5000}


def test_a_resized_sidecar_counts_with_what_its_node_reports():
    status = {"initContainerStatuses": [report("side", allocated={"cpu": "2"})]}
    sidecars = [c("side", cpu="1", sidecar=True)]
    held = asked(containers=[c(cpu="1")], initContainers=sidecars, nodeName="n1", status=status)
    assert held == {"cpu": 3000}


@pytest.mark.parametrize(("conditions", "millis"), [([], 5000), (INFEASIBLE, 1000)], ids=["feasible", "infeasible"])
def test_container_without_a_report_counts_by_its_spec(conditions, millis):
    status = {"conditions": conditions, "containerStatuses": [report("x", actual={"cpu": "1"})]}
    held = asked(containers=[c("x", cpu="1"), c("y", cpu="4")], nodeName="n1", status=status)
    assert held == {"cpu": millis}


@pytest.mark.parametrize(("conditions", "millis"), [([], 8000), (INFEASIBLE, 3000)], ids=["feasible", "infeasible"])
def test_a_pod_level_resize_follows_the_same_rule(conditions, millis):
    status = {
        "conditions": conditions,
        "allocatedResources": {"cpu": "3"},
        "resources": {"requests": {"cpu": "2"}},
    }
    held = asked(resources={"requests": {"cpu": "8"}}, nodeName="n1", status=status)
    assert held == {"cpu": millis}


BROKEN = {
    "no quantity": ({"containers": [c(cpu="many")]}, "spec.containers[0].resources.requests.cpu"),
    "negative": ({"containers": [c(), c(memory="-1Gi")]}, "spec.containers[1].resources.requests.memory"),
    "not a number": ({"containers": [c(cpu=float("nan"))]}, "spec.containers[0].resources.requests.cpu"),
    "beyond 2^62": ({"containers": [c(memory="8Ei")]}, "spec.containers[0].resources.requests.memory"),
    "a bad limit": (
        {"containers": [c(limits={GPU: "x"})]},
        "spec.containers[0].resources.limits[nvidia.com/gpu]",
    ),
    "in an init container": (
        {"initContainers": [c(cpu="1"), c(cpu="1 core")]},
        "spec.initContainers[1].resources.requests.cpu",
    ),
    "in the overhead": ({"overhead": {"cpu": ""}}, "spec.overhead.cpu"),
    "at pod level": ({"resources": {"requests": {"memory": "1gb"}}}, "spec.resources.requests.memory"),
    "in the status": (
        {"nodeName": "n1", "status": {"containerStatuses": [report(allocated={"cpu": "?"})]}},
        "status.containerStatuses[0].allocatedResources.cpu",
    ),
}


@pytest.mark.parametrize(("fields", "path"), BROKEN.values(), ids=BROKEN.keys())
def test_a_bad_quantity_is_refused_with_its_path(fields, path):
    with pytest.raises(QuantityError) as caught:
        asked(**fields)
    assert caught.value.message.startswith(f"{path}: amount")


def test_a_sum_beyond_2_62_is_refused():
    with pytest.raises(QuantityError, match="memory"):
        asked(containers=[c(memory="3Ei"), c(memory="3Ei")])


def scored(**fields):
    spec = read_pod(pod(**fields))
    return dict(scored_requests(spec, pod_requests(spec)))


def test_every_container_that_asks_for_no_memory_is_scored_by_some():
    containers = [c(cpu="1", memory="500Mi"), c(cpu="1")]
    assert scored(containers=containers) == {"cpu": 2000, "memory": 700 * MI}


def test_a_pod_that_asks_as_a_whole_is_scored_by_what_it_asks_for():
    containers = [c(cpu="1", memory="500Mi"), c(cpu="1")]
    assert scored(containers=containers, resources={"requests": {"cpu": "4"}}) == {}


def test_pod_level_request_is_scored_by_some_memory():
    containers = [c(cpu="1"), c(cpu="1")]
    assert scored(containers=containers, resources={"requests": {"cpu": "4"}}) == {"cpu": 4000, "memory": 400 * MI}
