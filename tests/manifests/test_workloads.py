"""Workloads become the pods that are missing: by number, and never twice."""

import pytest

from hostler.errors import InputError
from hostler.manifests import read_manifests
from hostler.manifests.workloads.replicas import MAX_MADE, PodNames
from tests.manifests.samples import container, lines, owned_by, pod, template, thing

APPS, BATCH = "apps/v1", "batch/v1"


def workload(kind, name="web", *, version=APPS, metadata=None, labels=None, status=None, **spec):
    body = {"selector": {"matchLabels": {"app": "web"}}, "template": template(labels or {"app": "web"}), **spec}
    return thing(kind, name, version=version, namespace="shop", metadata=metadata, spec=body, status=status or {})


def deployment(**spec):
    return workload("Deployment", **spec)


def replica_set(name="web-h1", **fields):
    return workload("ReplicaSet", name, **fields)


def job(name="job", *, status=None, **spec):
    return workload("Job", name, version=BATCH, status=status, **spec)


def cron_job(name="night", *, suspend=False, **spec):
    body = {"suspend": suspend, "schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template(), **spec}}}
    return thing("CronJob", name, version=BATCH, namespace="shop", spec=body)


def mine(name, kind, owner, *, uid="", labels=None, status=None, **fields):
    """A pod that a user created; it runs unless the keywords say otherwise."""
    metadata = {"namespace": "shop", "labels": labels or {"app": "web"}, **owned_by(kind, owner, uid=uid)}
    metadata |= fields.pop("metadata", {})
    return pod(name, metadata=metadata, status=status, **{"nodeName": "n1", **fields})


def names(*objects):
    return [guest.name for guest in read_manifests(objects).guests]


# ----------------------------------------------------------------------------------------- how many, and which

COUNTS = {
    "a Deployment of three": ([deployment(replicas=3)], ["web-0", "web-1", "web-2"]),
    "a Deployment that says no number": ([deployment()], ["web-0"]),
    "a Deployment of none": ([deployment(replicas=0)], []),
    "a ReplicaSet": ([replica_set("rs", replicas=2)], ["rs-0", "rs-1"]),
    "a ReplicationController": (
        [thing("ReplicationController", "rc", spec={"replicas": 2, "template": template()})],
        ["rc-0", "rc-1"],
    ),
    "a StatefulSet": ([workload("StatefulSet", "db", replicas=2)], ["db-0", "db-1"]),
    "a StatefulSet that counts from five": (
        [workload("StatefulSet", "db", replicas=2, ordinals={"start": 5})],
        ["db-5", "db-6"],
    ),
    "a Job": ([job()], ["job-0"]),
    "a Job of three at once": ([job(parallelism=3)], ["job-0", "job-1", "job-2"]),
    "a Job that needs fewer than it may run at once": ([job(parallelism=5, completions=2)], ["job-0", "job-1"]),
    "a Job that needs more than it may run at once": ([job(parallelism=2, completions=9)], ["job-0", "job-1"]),
    "a Job that is done": ([job(status={"conditions": [{"type": "Complete", "status": "True"}]})], []),
    "a Job that failed": ([job(status={"conditions": [{"type": "Failed", "status": "True"}]})], []),
    "a Job that was not done": ([job(status={"conditions": [{"type": "Complete", "status": "False"}]})], ["job-0"]),
    "a Job that is nearly done": ([job(parallelism=4, completions=9, status={"succeeded": 8})], ["job-0"]),
    "a Job without a number that had its success": ([job(parallelism=3, status={"succeeded": 1})], []),
}


@pytest.mark.parametrize(("objects", "expected"), COUNTS.values(), ids=COUNTS.keys())
def test_pods_are_made_of(objects, expected):
    found = read_manifests(objects)
    assert [guest.name for guest in found.guests] == expected
    assert found.notes == ()


HASHED = {"app": "web", "pod-template-hash": "h1"}
PRESENT = {
    "a pod of the Deployment": (
        [deployment(replicas=2), mine("p", "Deployment", "web")],
        ["web-0", "p"],
    ),
    "a pod of its ReplicaSet": (
        [
            mine("p", "ReplicaSet", "web-h1"),
            replica_set(replicas=3, metadata=owned_by("Deployment", "web")),
            deployment(replicas=3),
        ],
        ["p", "web-0", "web-1"],
    ),
    "pods of its ReplicaSets, old and new": (
        [
            deployment(replicas=2),
            replica_set("web-a", replicas=1, metadata=owned_by("Deployment", "web")),
            replica_set("web-b", replicas=1, metadata=owned_by("Deployment", "web")),
            mine("p", "ReplicaSet", "web-a"),
            mine("q", "ReplicaSet", "web-b"),
        ],
        ["p", "q"],
    ),
    "a pod of a ReplicaSet that is not in the input": (
        [deployment(replicas=2), mine("p", "ReplicaSet", "web-h1", labels=HASHED)],
        ["web-0", "p"],
    ),
    "a pod that still waits": (
        [deployment(replicas=2), mine("p", "Deployment", "web", nodeName="")],
        ["web-0", "p"],
    ),
    "more pods than wanted": (
        [deployment(replicas=1), mine("p", "Deployment", "web"), mine("q", "Deployment", "web")],
        ["p", "q"],
    ),
    "a pod by uid": (
        [deployment(replicas=1, metadata={"uid": "u1"}), mine("p", "Deployment", "web", uid="u1")],
        ["p"],
    ),
    "a pod of the ReplicaSet": ([replica_set("rs", replicas=2), mine("p", "ReplicaSet", "rs")], ["rs-0", "p"]),
    "a pod of the StatefulSet": (
        [workload("StatefulSet", "db", replicas=3), mine("db-1", "StatefulSet", "db")],
        ["db-0", "db-2", "db-1"],
    ),
    "a pod of the Job": ([job(parallelism=3), mine("p", "Job", "job")], ["job-0", "job-1", "p"]),
    "a Job of the CronJob": (
        [cron_job(parallelism=2), job("night-28", metadata=owned_by("CronJob", "night"))],
        ["night-28-0"],
    ),
    "a pod of a Job of the CronJob that is not in the input": (
        [cron_job(parallelism=2), mine("p", "Job", "night-28123")],
        ["p"],
    ),
}


@pytest.mark.parametrize(("objects", "expected"), PRESENT.values(), ids=PRESENT.keys())
def test_counted_and_not_made_again_is(objects, expected):
    assert names(*objects) == expected


ABSENT = {
    "a pod that ended": (
        [deployment(replicas=1), mine("p", "Deployment", "web", status={"phase": "Failed"})],
        ["web-0"],
    ),
    "a pod that is going away": (
        [
            deployment(replicas=1),
            mine("p", "Deployment", "web", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        ],
        ["web-0", "p"],
    ),
    "a pod with the same labels that nobody owns": (
        [deployment(replicas=1), pod("p", metadata={"namespace": "shop", "labels": {"app": "web"}})],
        ["web-0", "p"],
    ),
    "a pod that is owned and not controlled": (
        [deployment(replicas=1), mine("p", "x", "x", metadata=owned_by("Deployment", "web", controller=False))],
        ["web-0", "p"],
    ),
    "a pod of one with the same name in another namespace": (
        [deployment(replicas=1), mine("p", "Deployment", "web", metadata={"namespace": "other"})],
        ["web-0", "p"],
    ),
    "a pod of another kind with the same name": (
        [deployment(replicas=1), mine("p", "StatefulSet", "web")],
        ["web-0", "p"],
    ),
    "a pod of one that had the name before": (
        [deployment(replicas=1, metadata={"uid": "u2"}), mine("p", "Deployment", "web", uid="u1")],
        ["web-0", "p"],
    ),
    "a pod of a ReplicaSet whose name only begins alike": (
        [deployment(replicas=1), mine("p", "ReplicaSet", "web-api-h1", labels=HASHED)],
        ["web-0", "p"],
    ),
    "a ReplicaSet of a Deployment that is not in the input": (
        [replica_set("rs", replicas=1, metadata=owned_by("Deployment", "web"))],
        ["rs-0"],
    ),
    "a ReplicaSet of one that had the name before": (
        [
            deployment(replicas=1, metadata={"uid": "u2"}),
            replica_set("rs", replicas=1, metadata=owned_by("Deployment", "web", uid="u1")),
        ],
        ["web-0", "rs-0"],
    ),
    "a StatefulSet's pod that ended": (
        [workload("StatefulSet", "db", replicas=1), mine("db-0", "StatefulSet", "db", status={"phase": "Failed"})],
        ["db-0"],
    ),
}


@pytest.mark.parametrize(("objects", "expected"), ABSENT.values(), ids=ABSENT.keys())
def test_not_counted_is(objects, expected):
    assert names(*objects) == expected


def test_successes_of_a_job_count_as_done():
    done = [mine(name, "Job", "job", status={"phase": "Succeeded"}) for name in ("p", "q")]
    assert names(job(parallelism=9, completions=3), *done) == ["job-0"]


def test_the_pods_of_a_terminating_stateful_pod_wait_for_its_name():
    leaving = mine("db-0", "StatefulSet", "db", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert names(workload("StatefulSet", "db", replicas=1), leaving) == ["db-0"]


def test_names_that_are_taken_are_passed_over():
    assert names(deployment(replicas=2), pod("web-1", metadata={"namespace": "shop"})) == ["web-0", "web-2", "web-1"]


def test_a_circle_of_owners_ends():
    first = replica_set("a", replicas=1, metadata=owned_by("ReplicaSet", "b"))
    second = replica_set("b", replicas=1, metadata=owned_by("ReplicaSet", "a"))
    assert names(first, second) == []


# -------------------------------------------------------------------------------------------- what they are like


def test_made_pods_are_like_those_of_the_template_and_share_one_shape():
    body = template({"app": "web", "v": "2"}, priority=5, nodeSelector={"disk": "ssd"})
    body["spec"]["containers"] = [container(cpu="250m")]
    first, second = read_manifests([deployment(replicas=2, template=body)]).guests
    assert first.spec is second.spec
    assert (first.uid, second.uid) == ("shop/web-0", "shop/web-1")
    assert first.spec.requests == (("cpu", 250),)
    assert first.spec.labels == (("app", "web"), ("v", "2"))
    assert first.spec.host_selector == (("disk", "ssd"),)
    assert (first.spec.priority, first.spec.namespace, first.host) == (5, "shop", "")


def test_a_given_pod_of_equal_content_shares_the_shape_too():
    given = pod("p", metadata={"labels": {"app": "web"}})
    made = thing("ReplicationController", "rc", spec={"template": template({"app": "web"}), "selector": {}})
    given_guest, made_guest = read_manifests([given, made]).guests
    assert given_guest.spec is made_guest.spec


def test_guests_stand_in_the_order_of_their_objects():
    assert names(pod("a"), deployment(replicas=1), pod("b")) == ["a", "web-0", "b"]


def test_pods_of_a_job_know_its_name():
    (guest,) = read_manifests([job(labels={"x": "y"})]).guests
    assert dict(guest.spec.labels) == {"x": "y", "job-name": "job", "batch.kubernetes.io/job-name": "job"}


def test_a_template_that_names_a_node_makes_placed_pods():
    (guest,) = read_manifests([deployment(template=template(nodeName="n1"))]).guests
    assert guest.host == "n1"


def test_claims_of_a_stateful_set_are_not_supported():
    found = read_manifests([workload("StatefulSet", "db", volumeClaimTemplates=[{"metadata": {"name": "data"}}])])
    assert [guest.spec.unsupported for guest in found.guests] == [("volume claims",)]
    assert lines(found.notes) == ["StatefulSet shop/db: spec.volumeClaimTemplates is not evaluated"]


# ------------------------------------------------------------------------------------------------------- notes


def test_one_run_of_a_cron_job_counts_and_that_is_noted():
    found = read_manifests([cron_job(parallelism=2, completions=1)])
    assert [guest.name for guest in found.guests] == ["night-0"]
    assert lines(found.notes) == ["CronJob shop/night: spec.schedule counts as one run"]


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (job(suspend=True), "Job shop/job: spec.suspend is set: no pods are made"),
        (cron_job(suspend=True), "CronJob shop/night: spec.suspend is set: no run counts"),
        (
            deployment(template=template(schedulingGates=[{"name": "g"}])),
            "Deployment shop/web: spec.template.spec.schedulingGates is not empty: "
            "the pod is not placed until its gates are removed",
        ),
    ],
    ids=["Job", "CronJob", "gates"],
)
def test_no_pods_but_a_note_come_of_what_is_held_back(data, note):
    found = read_manifests([data])
    assert found.guests == ()
    assert lines(found.notes) == [note]


def test_what_a_template_says_and_nobody_evaluates_is_noted_once():
    found = read_manifests([deployment(replicas=3, template=template(resourceClaims=[{"name": "g"}]))])
    assert lines(found.notes) == ["Deployment shop/web: spec.template.spec.resourceClaims is not evaluated"]
    assert {guest.spec.unsupported for guest in found.guests} == {("resource claims",)}


def test_a_workload_that_has_all_its_pods_is_not_noted():
    data = deployment(template=template(resourceClaims=[{"name": "g"}]))
    assert read_manifests([data, mine("p", "Deployment", "web")]).notes == ()


# ---------------------------------------------------------------------------------------------------- refusals

BROKEN = {
    "a negative number": (
        deployment(replicas=-1),
        "Deployment shop/web: spec.replicas: -1 is not between 0 and 2^31 - 1",
    ),
    "a number that is text": (
        deployment(replicas="3"),
        "Deployment shop/web: spec.replicas: expected int | null, got str",
    ),
    "far too many": (
        deployment(replicas=2_000_000_000),
        "Deployment shop/web: spec.replicas: 2,000,000,000 pods are too many",
    ),
    "far too many with numbers": (
        workload("StatefulSet", "db", replicas=2_000_000_000),
        "StatefulSet shop/db: spec.replicas: 2,000,000,000 pods are too many",
    ),
    "a negative start": (
        workload("StatefulSet", "db", ordinals={"start": -1}),
        "StatefulSet shop/db: spec.ordinals.start: -1 is not between 0 and 2^31 - 1",
    ),
    "nothing at once": (job(parallelism=-1), "Job shop/job: spec.parallelism: -1 is not between 0 and 2^31 - 1"),
    "less than nothing to do": (
        job(completions=-1),
        "Job shop/job: spec.completions: -1 is not between 0 and 2^31 - 1",
    ),
    "no run at once": (
        cron_job(parallelism=-1),
        "CronJob shop/night: spec.jobTemplate.spec.parallelism: -1 is not between 0 and 2^31 - 1",
    ),
    "no template": (
        deployment(template=None),
        "Deployment shop/web: spec.template.spec.containers is missing",
    ),
    "a wrong amount in the template": (
        deployment(template={"spec": {"containers": [container(cpu="x")]}}),
        "Deployment shop/web: spec.template.spec.containers[0].resources.requests.cpu: amount 'x' is not a quantity",
    ),
    "a wrong amount in a template that has all its pods": (
        deployment(replicas=0, template={"spec": {"containers": [container(cpu="x")]}}),
        "Deployment shop/web: spec.template.spec.containers[0].resources.requests.cpu: amount 'x' is not a quantity",
    ),
    "a wrong term deep in a CronJob": (
        cron_job(
            template=template(
                affinity={
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "z",
                                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]},
                            }
                        ]
                    }
                }
            )
        ),
        "CronJob shop/night: spec.jobTemplate.spec.template.spec.affinity.podAffinity."
        "requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].operator: "
        "'Is' is not an operator",
    ),
    "an unknown operator of the selector": (
        deployment(selector={"matchExpressions": [{"key": "a", "operator": "~", "values": ["x"]}]}),
        "Deployment shop/web: spec.selector.matchExpressions[0].operator: '~' is not an operator",
    ),
    "a list for a template": (
        deployment(template=[]),
        "Deployment shop/web: spec.template: expected object, got array",
    ),
    "owners that are no list": (
        deployment(metadata={"ownerReferences": {}}),
        "Deployment shop/web: metadata.ownerReferences: expected array, got object",
    ),
    "no name": (workload("Deployment", ""), "Deployment: metadata.name is missing"),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_malformed_workload_is_refused_with_name_and_path(data, message):
    with pytest.raises(InputError) as caught:
        read_manifests([data])
    assert caught.value.message == message
    assert caught.value.exit_code == 2


def test_many_workloads_together_may_not_be_too_many_either():
    names_of_pods = PodNames([])
    names_of_pods.take("shop", (), MAX_MADE - 1, "spec.replicas")
    assert names_of_pods.count_up("shop", "web", 1, "spec.replicas") == ("web-0",)
    with pytest.raises(InputError, match=r"spec\.replicas: 1 pods are too many"):
        names_of_pods.count_up("shop", "web", 1, "spec.replicas")
