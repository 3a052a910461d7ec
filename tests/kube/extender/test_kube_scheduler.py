"""An unmodified kube-scheduler places pods by fgd through our extender, on a real control plane."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hostler.engine import BUILT_IN, Engine
from hostler.kube.api.http import client_for
from hostler.kube.extender.server import serve
from hostler.kube.local import LocalCluster
from hostler.kube.local.nodes import node_manifest
from hostler.kube.local.setup import Api
from hostler.manifests import node_to_host, read_node
from hostler.model import Bind, Guest, GuestArrived, HostJoined
from hostler.queries import with_mixes
from hostler.runtime.clock import SteadyClock
from tests.kube.extender.clusters import GPU, pod_json, sharing
from tests.ports import free_port
from tests.wait import GIVE_UP_S, wait_until

NODES = {"node-0": 1, "node-1": 2, "node-2": 4}
PODS = (500, 1000, 300, 1000, 500, 700, 200, 1000, 300)


def _node(number: int, gpus: int) -> dict[str, Any]:
    node = node_manifest(number)
    amounts = {**node["status"]["capacity"], f"{GPU}/gpu-count": str(gpus), f"{GPU}/gpu-milli": str(1000 * gpus)}
    node["status"] |= {"capacity": amounts, "allocatable": amounts}
    return node


@contextmanager
def _extender(cluster: LocalCluster, port: int) -> Iterator[None]:
    """Serve by fgd in a thread of its own."""
    ends: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    failures: list[BaseException] = []
    is_known = threading.Event()

    def say(line: str) -> None:
        if line.startswith("synced"):
            is_known.set()

    async def run() -> None:
        stop = asyncio.Event()
        ends.append((asyncio.get_running_loop(), stop))
        client = client_for(cluster.kubeconfig("hostler"))
        try:
            await serve(
                client,
                BUILT_IN["fgd"],
                ("127.0.0.1", port),
                stop,
                clock=SteadyClock(),
                random=random.Random(1),
                say=say,
            )
        finally:
            await client.close()
            await asyncio.sleep(0.25)  # connections with TLS say goodbye in the background

    def work() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:  # told by the test
            failures.append(error)
            is_known.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert is_known.wait(GIVE_UP_S)
        assert not failures
        yield
    finally:
        for loop, stop in ends:
            if not loop.is_closed():
                loop.call_soon_threadsafe(stop.set)
        thread.join()
    assert not failures


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.long)], ids=["by-name", "whole-nodes"])
def cluster(request, tmp_path) -> Iterator[tuple[LocalCluster, int]]:
    """Give a cluster whose kube-scheduler asks an extender on a port."""
    port = free_port()
    extender = {
        "urlPrefix": f"http://127.0.0.1:{port}",
        "filterVerb": "filter",
        "bindVerb": "bind",
        "nodeCacheCapable": request.param,
        "httpTimeout": "10s",
    }
    with LocalCluster.start(
        "extender", tmp_path, parts=("scheduler",), scheduler_config={"extenders": [extender]}, dies_with_us=True
    ) as started:
        with started.api() as api:
            for number, gpus in enumerate(NODES.values()):
                api.call("POST", "/api/v1/nodes", _node(number, gpus))
        yield started, port


def _bound(api: Api, name: str) -> tuple[str, str]:
    """Wait until a pod has a node; return it and its gpu."""

    def look() -> dict[str, Any]:
        return api.call("GET", f"/api/v1/namespaces/default/pods/{name}")

    wait_until(lambda: look()["spec"].get("nodeName"), f"a node for pod {name}", saw=look)
    pod = look()
    return pod["spec"]["nodeName"], pod["metadata"]["annotations"][f"{GPU}/gpu-index"]


def _expected() -> list[tuple[str, str]]:
    """Return what our engine decides by fgd about the same pods, one after the other."""
    (policy,) = with_mixes([BUILT_IN["fgd"]])
    engine = Engine([policy])
    for number, gpus in enumerate(NODES.values()):
        engine.apply(HostJoined(host=node_to_host(read_node(_node(number, gpus)))[0]))
    found = []
    for number, milli in enumerate(PODS):
        engine.apply(GuestArrived(guest=Guest(name=f"p{number}", uid=f"p{number}", spec=sharing(milli))))
        (bind,) = engine.step(0)
        assert isinstance(bind, Bind)
        found.append((bind.host, "-".join(map(str, bind.devices))))
    return found


def test_kube_scheduler_places_as_our_engine_would_by_fgd(cluster):
    started, port = cluster
    with _extender(started, port), started.api() as api:
        found = []
        for number, milli in enumerate(PODS):
            pod = pod_json(f"p{number}", milli=milli)
            del pod["metadata"]["uid"]
            api.call("POST", "/api/v1/namespaces/default/pods", pod)
            found.append(_bound(api, f"p{number}"))
        assert found == _expected()
        # All at once: what the watch has not shown yet is counted all the same.
        for number in range(8):
            pod = pod_json(f"burst-{number}", milli=500, cpu="10m")
            del pod["metadata"]["uid"]
            api.call("POST", "/api/v1/namespaces/default/pods", pod)
        wait_until(lambda: _waiting(api) <= _unplaceable(), "the placement of the burst", saw=lambda: _waiting(api))
        assert _waiting(api) == _unplaceable()
        assert _most_used(api) <= 1000


def _unplaceable() -> int:
    """Return how many halves of the burst find no gpu."""
    free = sum(NODES.values()) * 1000 - sum(PODS)
    return max(0, 8 - free // 500)


def _waiting(api: Api) -> int:
    pods = api.call("GET", "/api/v1/namespaces/default/pods")["items"]
    return sum(not pod["spec"].get("nodeName") for pod in pods)


def _most_used(api: Api) -> int:
    """Return the share of the gpu that most was promised of, by what the annotations say."""
    used: dict[tuple[str, str], int] = {}
    for pod in api.call("GET", "/api/v1/namespaces/default/pods")["items"]:
        if pod["spec"].get("nodeName"):
            annotations = pod["metadata"]["annotations"]
            key = pod["spec"]["nodeName"], annotations[f"{GPU}/gpu-index"]
            used[key] = used.get(key, 0) + int(annotations[f"{GPU}/gpu-milli"])
    return max(used.values())
