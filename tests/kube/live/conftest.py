"""One real cluster with three nodes for all tests of this folder; each test removes what it creates."""

from __future__ import annotations

import pytest

from hostler.kube.local import LocalCluster
from tests.kube.live.objects import pod


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Give a cluster with three nodes of 8 cpus, without scheduler and kubelets."""
    folder = tmp_path_factory.mktemp("live")
    with LocalCluster.start("live", folder, nodes=3, dies_with_us=True) as cluster:
        yield cluster


@pytest.fixture
def create(cluster):
    """Return a function that creates pods; they are deleted at the end."""
    made = []

    def create(name, cpu="1", **more):
        body = pod(name, cpu, **more)
        made.append(f"/api/v1/namespaces/{body['metadata']['namespace']}/pods/{name}")
        with cluster.api() as api:
            return api.call("POST", made[-1].rpartition("/")[0], body)

    yield create
    with cluster.api() as api:
        for path in made:
            api.send("DELETE", path, {"gracePeriodSeconds": 0})


@pytest.fixture
def on(cluster):
    """Return the options that select the cluster."""
    return ("--kubeconfig", str(cluster.kubeconfig()))
