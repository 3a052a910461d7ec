"""Missing rights and invalid kubeconfigs: the messages of the scheduler, and whether it starts."""

from __future__ import annotations

import asyncio
import base64

import pytest
import yaml

from hostler.kube.api.access import read_access
from hostler.kube.api.client import KubeClient
from hostler.kube.api.http import AiohttpTransport
from hostler.kube.scheduler.preflight import missing_rights, rights_for
from hostler.kube.settings import Election
from tests.kube.real.proxy import Fault
from tests.wait import wait_until

_RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Office:
    """Creates accounts with all rights of a scheduler but some."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.rights = rights_for(Election(name=cluster.name))

    def account(self, name, *lacking):
        """Make an account and return its kubeconfig."""
        cluster, space = self.cluster, self.cluster.name
        cluster.call("POST", cluster.path("serviceaccounts"), {"metadata": {"name": name}})
        role = {"metadata": {"name": f"{space}-{name}"}, "rules": [_rule(r) for r in self.rights if r not in lacking]}
        cluster.call("POST", f"{_RBAC}/clusterroles", role)
        binding = {
            "metadata": {"name": f"{space}-{name}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{space}-{name}"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": space}],
        }
        cluster.call("POST", f"{_RBAC}/clusterrolebindings", binding)
        answer = cluster.call("POST", f"{cluster.path('serviceaccounts')}/{name}/token", {"spec": {}})
        access = yaml.safe_load(cluster.control_plane.kubeconfig().read_text())
        access["users"][0]["user"] = {"token": answer["status"]["token"]}
        return self.write(name, access)

    def write(self, name, access):
        path = self.cluster.folder / name
        path.write_text(yaml.safe_dump(access))
        return path

    def right(self, verb, resource):
        return next(right for right in self.rights if (right.verb, right.resource) == (verb, resource))


def _rule(right):
    return {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}


@pytest.fixture
def office(cluster):
    return Office(cluster)


def _ask(kubeconfig, rights):
    async def ask():
        client = KubeClient(AiohttpTransport(read_access(kubeconfig)))
        try:
            return await missing_rights(client, rights)
        finally:
            await client.close()

    return asyncio.run(ask())


def test_each_right_that_is_missing_is_found_and_no_other(office):
    complete = office.account("complete")
    wait_until(lambda: _ask(complete, office.rights) == [])  # the server takes a moment to know of a role
    for number, right in enumerate(office.rights):
        short = office.account(f"short-{number}", right)
        assert wait_until(lambda: len(found := _ask(short, office.rights)) == 1 and found) == [right]  # noqa: B023


def test_user_without_rights_sees_all_missing_ones_and_nothing_starts(cluster):
    running = cluster.start(kubeconfig=cluster.control_plane.kubeconfig("nobody"), awaited=False)
    assert running.ended() == 3
    for words in ("list pods", "watch nodes", "create pods/binding", "update leases in coordination.k8s.io"):
        assert words in running.said


@pytest.mark.parametrize(("verb", "resource"), [("watch", "nodes"), ("create", "pods/binding"), ("update", "leases")])
def test_without_what_nothing_works_without_it_does_not_start(cluster, office, verb, resource):
    kubeconfig = office.account("short", office.right(verb, resource))
    running = cluster.start(kubeconfig=kubeconfig, awaited=False)
    assert running.ended() == 3
    assert f"not allowed to {verb} {resource}" in running.said
    assert "cluster-role.yaml" in running.said


def test_without_optional_rights_it_reports_them_and_places_pods(cluster, office):
    cluster.add_priority("real-urgent", 1000)
    lacking = [office.right(*words) for words in (("patch", "pods/status"), ("delete", "pods"), ("create", "events"))]
    running = cluster.start(kubeconfig=office.account("short", *lacking))
    for words in ("patch pods/status: pods do not show", "delete pods: no pod", "create events in events.k8s.io: no"):
        assert f"not allowed to {words}" in running.said
    cluster.add_nodes(1)
    cluster.add_pods(4, "low", "500m")
    cluster.wait_for(4)
    cluster.create(cluster.pod("urgent", "1500m", priorityClassName="real-urgent"), cluster.pod("small", "0"))
    cluster.wait_for(1, "small")
    assert len(cluster.bound()) == 5
    wait_until(lambda: "were rejected, the last one: 403 Forbidden" in running.said)
    assert running.process.poll() is None


def test_a_right_that_is_taken_away_while_it_runs_is_named(cluster, office):
    running = cluster.start(kubeconfig=office.account("short"))
    cluster.call("DELETE", f"{_RBAC}/clusterrolebindings/{cluster.name}-short")
    running.until("; waiting for it again")
    said = running.said.replace("\\", "")  # a field's value stands in quotes, with its own escaped
    assert 'cannot update resource "leases"' in said or 'cannot get resource "leases"' in said
    assert running.process.poll() is None, "the right may be given back"


def test_a_kubeconfig_that_is_wrong_is_named_for_what_is_wrong(cluster, office):
    def access():
        return yaml.safe_load(cluster.control_plane.kubeconfig("hostler").read_text())

    stranger, refused, unknown, lost = access(), access(), access(), access()
    other = cluster.control_plane.folder / "client.crt"  # a certificate that signed nothing
    stranger["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(other.read_bytes()).decode()
    refused["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    unknown["users"][0]["user"]["token"] = "no-such-token"
    lost["current-context"] = "elsewhere"
    started = {
        name: (cluster.start(kubeconfig=office.write(name, content), awaited=False), status, words)
        for name, content, status, words in (
            ("stranger", stranger, 3, "certificate is not trusted"),
            ("refused", refused, 3, "connection refused"),
            ("unknown", unknown, 3, "authentication failed: 401"),
            ("lost", lost, 2, "there is no context 'elsewhere'"),
        )
    }
    for running, status, words in started.values():
        assert (running.ended(), words in running.said) == (status, True), running.said


@pytest.mark.parametrize(
    ("version", "words", "status"),
    [("v1.20.4", "at least 1.30 is needed", 2), ("v1.99.0", "the API server is v1.99.0; tested are", None)],
)
def test_a_server_of_another_version_is_refused_or_warned_about(cluster, proxy, version, words, status):
    is_asked = Fault("refuse", lambda method, path: path == "/version", status=200, body={"gitVersion": version})
    proxy.plan(is_asked)
    running = cluster.start(port=proxy.port, awaited=False).until(words)
    if status is not None:
        assert running.ended() == status
        return
    cluster.add_nodes(1)
    cluster.add_pods(1)
    cluster.wait_for(1)
