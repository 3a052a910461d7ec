"""A cluster for each test on the worker's shared control plane, and one whose control plane may be killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.kube.local import LocalCluster
from tests.kube.real.proxy import Proxy
from tests.kube.real.real_cluster import RealCluster


@pytest.fixture
def cluster(control_plane: LocalCluster, namespace: str, tmp_path: Path) -> Iterator[RealCluster]:
    made = RealCluster(control_plane, namespace, tmp_path)
    yield made
    made.close()


@pytest.fixture
def proxy(control_plane: LocalCluster) -> Iterator[Proxy]:
    with Proxy(control_plane) as made:
        yield made


@pytest.fixture(scope="module")
def mortal_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Give a control plane of the module's own, whose parts may be killed."""
    with LocalCluster.start("mortal", tmp_path_factory.mktemp("mortal"), dies_with_us=True) as control_plane:
        yield control_plane


@pytest.fixture
def mortal_cluster(
    mortal_control_plane: LocalCluster, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[RealCluster]:  # fmt: skip
    for part in mortal_control_plane.parts:
        if part not in mortal_control_plane.processes:
            mortal_control_plane.restart(part)
    name = request.node.name.replace("_", "-").replace("[", "-").replace("]", "")[-40:].strip("-")
    with mortal_control_plane.api() as api:
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    made = RealCluster(mortal_control_plane, name, tmp_path)
    yield made
    made.close()
