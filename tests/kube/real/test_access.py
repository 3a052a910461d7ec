"""Rights that are missing and kubeconfigs that are wrong: what the scheduler says, and whether it starts."""

from __future__ import annotations

import asyncio
import base64

import pytest
import yaml

from hostler.kube.api.access import read_access
from hostler.kube.api.client import Client
from hostler.kube.api.http import AiohttpTransport
from hostler.kube.scheduler.preflight import missing_rights, rights_for
from hostler.kube.settings import Election
from tests.kube.real.proxy import Fault
from tests.wait import wait_until

_RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Office:
    """Makes accounts with all rights of a scheduler but some."""

    def __init__(self, stage):
        self.stage = stage
        self.rights = rights_for(Election(name=stage.name))

    def account(self, name, *lacking):
        """Make an account and return its kubeconfig."""
        stage, space = self.stage, self.stage.name
        stage.call("POST", stage.path("serviceaccounts"), {"metadata": {"name": name}})
        role = {"metadata": {"name": f"{space}-{name}"}, "rules": [_rule(r) for r in self.rights if r not in lacking]}
        stage.call("POST", f"{_RBAC}/clusterroles", role)
        binding = {
            "metadata": {"name": f"{space}-{name}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{space}-{name}"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": space}],
        }
        stage.call("POST", f"{_RBAC}/clusterrolebindings", binding)
        answer = stage.call("POST", f"{stage.path('serviceaccounts')}/{name}/token", {"spec": {}})
        access = yaml.safe_load(stage.cluster.kubeconfig().read_text())
        access["users"][0]["user"] = {"token": answer["status"]["token"]}
        return self.write(name, access)

    def write(self, name, access):
        path = self.stage.folder / name
        path.write_text(yaml.safe_dump(access))
        return path

    def right(self, verb, resource):
        return next(right for right in self.rights if (right.verb, right.resource) == (verb, resource))


def _rule(right):
    return {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}


@pytest.fixture
def office(stage):
    return Office(stage)


def _ask(kubeconfig, rights):
    async def ask():
        client = Client(AiohttpTransport(read_access(kubeconfig)))
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


def test_a_user_without_any_rights_is_told_all_that_are_missing_and_nothing_starts(stage):
    running = stage.start(kubeconfig=stage.cluster.kubeconfig("nobody"), awaited=False)
    assert running.ended() == 3
    for words in ("list pods", "watch nodes", "create pods/binding", "update leases in coordination.k8s.io"):
        assert words in running.said


@pytest.mark.parametrize(("verb", "resource"), [("watch", "nodes"), ("create", "pods/binding"), ("update", "leases")])
def test_without_what_nothing_works_without_it_does_not_start(stage, office, verb, resource):
    kubeconfig = office.account("short", office.right(verb, resource))
    running = stage.start(kubeconfig=kubeconfig, awaited=False)
    assert running.ended() == 3
    assert f"not allowed to {verb} {resource}" in running.said
    assert "cluster-role.yaml" in running.said


def test_without_conditions_events_and_evictions_it_says_what_is_missing_and_places_pods(stage, office):
    stage.add_priority("real-urgent", 1000)
    lacking = [office.right(*words) for words in (("patch", "pods/status"), ("delete", "pods"), ("create", "events"))]
    running = stage.start(kubeconfig=office.account("short", *lacking))
    for words in ("patch pods/status: pods are not told", "delete pods: nobody", "create events in events.k8s.io: no"):
        assert f"not allowed to {words}" in running.said
    stage.add_nodes(1)
    stage.add_pods(4, "low", "500m")
    stage.wait_for(4)
    stage.create(stage.pod("urgent", "1500m", priorityClassName="real-urgent"), stage.pod("small", "0"))
    stage.wait_for(1, "small")
    assert len(stage.bound()) == 5
    wait_until(lambda: "were refused, the last: 403 Forbidden" in running.said)
    assert running.process.poll() is None


def test_a_right_that_is_taken_away_while_it_runs_is_named(stage, office):
    running = stage.start(kubeconfig=office.account("short"))
    stage.call("DELETE", f"{_RBAC}/clusterrolebindings/{stage.name}-short")
    running.until("; waiting for it again")
    said = running.said.replace("\\", "")  # a field's value stands in quotes, with its own escaped
    assert 'cannot update resource "leases"' in said or 'cannot get resource "leases"' in said
    assert running.process.poll() is None, "the right may be given back"


def test_a_kubeconfig_that_is_wrong_is_named_for_what_is_wrong(stage, office):
    def access():
        return yaml.safe_load(stage.cluster.kubeconfig("hostler").read_text())

    stranger, refused, unknown, lost = access(), access(), access(), access()
    other = stage.cluster.folder / "client.crt"  # a certificate that signed nothing
    stranger["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(other.read_bytes()).decode()
    refused["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    unknown["users"][0]["user"]["token"] = "no-such-token"
    lost["current-context"] = "elsewhere"
    started = {
        name: (stage.start(kubeconfig=office.write(name, content), awaited=False), status, words)
        for name, content, status, words in (
            ("stranger", stranger, 3, "certificate is not trusted"),
            ("refused", refused, 3, "connection refused"),
            ("unknown", unknown, 3, "does not know who we are: 401"),
            ("lost", lost, 2, "there is no context 'elsewhere'"),
        )
    }
    for running, status, words in started.values():
        assert (running.ended(), words in running.said) == (status, True), running.said


@pytest.mark.parametrize(
    ("version", "words", "status"),
    [("v1.20.4", "at least 1.30 is needed", 2), ("v1.99.0", "the API server is v1.99.0; tested are", None)],
)
def test_a_server_of_another_version_is_refused_or_warned_about(stage, proxy, version, words, status):
    is_asked = Fault("refuse", lambda method, path: path == "/version", status=200, body={"gitVersion": version})
    proxy.plan(is_asked)
    running = stage.start(port=proxy.port, awaited=False).until(words)
    if status is not None:
        assert running.ended() == status
        return
    stage.add_nodes(1)
    stage.add_pods(1)
    stage.wait_for(1)
