"""A stage for each test on the worker's shared control plane, and one on a control plane whose parts may be killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.kube.local import LocalCluster
from tests.kube.real.proxy import Proxy
from tests.kube.real.stage import Stage


@pytest.fixture
def stage(control_plane: LocalCluster, namespace: str, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(control_plane, namespace, tmp_path)
    yield made
    made.close()


@pytest.fixture
def proxy(control_plane: LocalCluster) -> Iterator[Proxy]:
    with Proxy(control_plane) as made:
        yield made


@pytest.fixture(scope="module")
def mortal_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Give a control plane of the module's own, whose parts may be killed."""
    with LocalCluster.start("mortal", tmp_path_factory.mktemp("mortal"), dies_with_us=True) as cluster:
        yield cluster


@pytest.fixture
def mortal_stage(
    mortal_cluster: LocalCluster, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Stage]:  # fmt: skip
    for part in mortal_cluster.parts:
        if part not in mortal_cluster.processes:
            mortal_cluster.restart(part)
    name = request.node.name.replace("_", "-").replace("[", "-").replace("]", "")[-40:].strip("-")
    with mortal_cluster.api() as api:
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    made = Stage(mortal_cluster, name, tmp_path)
    yield made
    made.close()
