"""Real control planes for tests: one for each worker, and nothing of it stays when the tests end or crash."""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Iterator

import pytest

from hostler.kube.local import LocalCluster

_numbers = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Blame the module that left connections, loops or processes open.

    They are often in cycles, so the collector finds them much later, during an unrelated test. Once per module, since a
    collection takes a tenth of a second.
    """
    yield
    gc.collect()


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield etcd and an API server, without controllers, scheduler or kubelets; one for each worker."""
    folder = tmp_path_factory.mktemp("control-plane")
    # The kernel ends its processes with this one, whatever happens to us.
    with LocalCluster.start("tests", folder, dies_with_us=True) as cluster:
        yield cluster


@pytest.fixture
def namespace(control_plane: LocalCluster) -> Iterator[str]:
    """Yield the name of an unused namespace; its pods are deleted at the end, and the namespace stays."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    with control_plane.api() as api:
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    with control_plane.api() as api:
        api.send("DELETE", f"/api/v1/namespaces/{name}/pods", {"gracePeriodSeconds": 0})
