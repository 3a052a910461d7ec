"""A real API server: its certificate, its users, its gangs, and its recovery when parts are killed."""

from __future__ import annotations

import ssl

import pytest

from hostler.errors import UnavailableError
from hostler.kube.api.failures import ApiError
from hostler.kube.local import LocalCluster
from hostler.kube.local.credentials import make_credentials
from hostler.kube.local.inspection import report_on
from hostler.kube.local.setup import Api
from tests.kube.local.process_list import processes_about
from tests.wait import wait_until

POD = {"spec": {"containers": [{"name": "main", "image": "none"}]}}


def pod(name, **spec):
    return {"metadata": {"name": name}, "spec": {**POD["spec"], **spec}}


def test_every_part_is_well_and_has_a_process(control_plane):
    report = report_on(control_plane)
    assert report.is_healthy
    assert [part.part for part in report.parts] == ["etcd", "apiserver"]
    assert {part.part: part.pid for part in report.parts} == control_plane.processes
    assert set(control_plane.processes.values()) == set(processes_about(control_plane.folder))


def test_a_server_that_another_authority_vouches_for_is_refused(control_plane, tmp_path):
    make_credentials(tmp_path)
    with Api(control_plane.url, tmp_path / "ca.crt", control_plane.token()) as api, pytest.raises(ssl.SSLError):
        api.send("GET", "/readyz")


def test_the_administrator_may_do_everything_and_nobody_nothing(control_plane, namespace):
    path = f"/api/v1/namespaces/{namespace}/pods"
    with control_plane.api("admin") as api:
        api.call("POST", path, pod("one"))
    with control_plane.api("nobody") as api, pytest.raises(ApiError) as caught:
        api.call("GET", path)
    assert (caught.value.status, caught.value.is_forbidden) == (403, True)
    with Api(control_plane.url, control_plane.ca_file, "made-up") as api:
        assert api.send("GET", path)[0] == 401


@pytest.mark.parametrize(
    ("verb", "group", "resource", "is_allowed"),
    [
        ("list", "", "pods", True),
        ("watch", "", "nodes", True),
        ("create", "", "pods/binding", True),
        ("create", "", "pods/eviction", True),
        ("patch", "", "pods/status", True),
        ("update", "coordination.k8s.io", "leases", True),
        ("list", "policy", "poddisruptionbudgets", True),
        ("list", "storage.k8s.io", "csinodes", True),
        ("patch", "", "persistentvolumeclaims", True),
        ("list", "scheduling.k8s.io", "podgroups", True),
        ("patch", "scheduling.k8s.io", "podgroups/status", True),
        ("create", "events.k8s.io", "events", True),
        ("create", "", "pods", False),
        ("get", "", "secrets", False),
        ("delete", "", "nodes", False),
    ],
)
def test_our_scheduler_has_the_rights_of_a_scheduler_and_no_more(control_plane, verb, group, resource, is_allowed):
    resource, _, part = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": part, "namespace": "default"}
    with control_plane.api() as api:
        review = {"spec": {"user": "hostler", "groups": ["system:authenticated"], "resourceAttributes": asked}}
        answer = api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer["status"]["allowed"] is is_allowed


def test_the_built_in_gangs_are_served(control_plane, namespace):
    group = {"metadata": {"name": "four"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}
    with control_plane.api() as api:
        path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups"
        assert api.call("POST", path, group)["spec"]["schedulingPolicy"]["gang"]["minCount"] == 4


def test_priorities_are_resolved_as_in_a_real_cluster(control_plane, namespace):
    with control_plane.api() as api:
        path = f"/api/v1/namespaces/{namespace}/pods"
        made = api.call("POST", path, pod("first", priorityClassName="system-node-critical"))
    assert made["spec"]["priority"] == 2000001000


def test_nothing_runs_and_nothing_is_left_after_the_end(tmp_path):
    folder = tmp_path / "cluster"
    flags = ("--max-requests-inflight=123",)
    with LocalCluster.start(
        "other", folder, nodes=3, bare=True, gangs_api=False, api_flags=flags, dies_with_us=True
    ) as cluster:
        assert set(cluster.processes) == {"etcd", "apiserver"}
        with cluster.api() as api:
            nodes = api.call("GET", "/api/v1/nodes")["items"]
            assert [node["metadata"]["name"] for node in nodes] == ["node-0", "node-1", "node-2"]
            assert all("taints" not in node["spec"] for node in nodes)
            assert len({node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes}) == 3
            assert api.send("GET", "/apis/scheduling.k8s.io/v1beta1")[0] == 404
            # Without the admission plugin Priority, the creator of a pod sets its number.
            made = api.call("POST", "/api/v1/namespaces/default/pods", pod("one", priority=7))
            assert made["spec"]["priority"] == 7
        assert any("--max-requests-inflight=123" in line for line in processes_about(folder).values())
    assert processes_about(folder) == {}
    assert not folder.exists()


def test_a_killed_part_is_seen_and_comes_back_with_all_objects(tmp_path):
    with LocalCluster.start("other", tmp_path / "cluster", nodes=1, dies_with_us=True) as cluster:
        etcd, server = cluster.processes["etcd"], cluster.processes["apiserver"]
        cluster.kill("etcd")
        states = {part.part: part.state for part in report_on(cluster).parts}
        assert states["etcd"] == "dead"
        cluster.restart("etcd")
        assert cluster.processes["etcd"] != etcd
        assert cluster.processes["apiserver"] == server
        cluster.restart("apiserver")
        assert cluster.processes["apiserver"] != server
        assert report_on(cluster).is_healthy
        with cluster.api() as api:
            assert api.call("GET", "/api/v1/nodes/node-0")["metadata"]["name"] == "node-0"


def test_part_that_dies_at_start_shows_its_log_and_stops_the_others(tmp_path):
    folder = tmp_path / "cluster"
    with pytest.raises(UnavailableError, match="kube-apiserver exited during its start") as caught:
        LocalCluster.start("other", folder, api_flags=["--no-such-flag"], dies_with_us=True)
    assert "no-such-flag" in caught.value.message
    assert str(folder / "logs" / "apiserver.log") in caught.value.hint
    wait_until(lambda: processes_about(folder) == {})


def test_other_options_start_a_part_again(tmp_path):
    folder = tmp_path / "cluster"
    with LocalCluster.start("other", folder, dies_with_us=True) as cluster:
        before = cluster.processes
        again = LocalCluster.start("other", folder, gangs_api=False)
        assert again.processes["etcd"] == before["etcd"]
        assert again.processes["apiserver"] != before["apiserver"]
        assert LocalCluster.start("other", folder).processes == again.processes
