"""Our extender over HTTP, following an API server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from hostler.engine import BUILT_IN
from hostler.errors import InputError
from hostler.kube.api.client import KubeClient
from hostler.kube.extender.server import serve
from hostler.kube.memory import ApiServer
from hostler.runtime.clock import SteadyClock
from tests.kube.extender.clusters import node_json, pod_json

Post = Callable[[str, Any], Awaitable[tuple[int, Any]]]


def _with_extender(server: ApiServer, scenario: Callable[[Post], Awaitable[None]]) -> list[str]:
    """Serve by fgd on a server's cluster while a scenario runs; return the log."""
    said: list[str] = []

    async def run() -> None:
        stop = asyncio.Event()
        client = KubeClient(server.transport())
        serving = asyncio.ensure_future(
            serve(
                client,
                BUILT_IN["fgd"],
                ("127.0.0.1", 0),
                stop,
                clock=SteadyClock(),
                random=random.Random(1),
                say=said.append,
            )
        )
        async with aiohttp.ClientSession() as session:
            try:
                async with asyncio.timeout(60):
                    while not said and not serving.done():
                        await asyncio.sleep(0.01)
                    address = said[0].split()[2].rstrip(",")
                    await _until_ready(session, address)
                    await scenario(lambda verb, body: _post(session, f"{address}/{verb}", body))
            finally:
                stop.set()
                await serving
                await client.close()

    asyncio.run(run())
    return said


async def _until_ready(session: aiohttp.ClientSession, address: str) -> None:
    while True:
        async with session.get(f"{address}/readyz") as response:
            if response.status == 200:
                return
        await asyncio.sleep(0.01)


async def _post(session: aiohttp.ClientSession, url: str, body: Any) -> tuple[int, Any]:
    sent = {"data": body} if isinstance(body, bytes) else {"json": body}
    async with session.post(url, **sent) as response:
        if response.content_type != "application/json":
            return response.status, await response.text()
        return response.status, await response.json()


def _server() -> ApiServer:
    server = ApiServer(latency_s=0.0)
    server.put(node_json("a", 2))
    server.put(node_json("b", 0))
    return server


def test_pod_is_filtered_and_bound_with_a_gpu_and_the_next_gets_another():
    server = _server()

    async def scenario(post: Post) -> None:
        for name, gpu in (("p", "0"), ("q", "1")):
            sent = pod_json(name, milli=1000)
            server.put({**sent, "metadata": {**sent["metadata"]}})
            status, found = await post("scheduler/filter", {"Pod": sent, "Nodes": None, "NodeNames": ["a", "b"]})
            assert (status, found["NodeNames"], found["Error"]) == (200, ["a"], "")
            body = {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}", "Node": "a"}
            assert await post("bind", body) == (200, {"Error": ""})
            bound = server.get("pods", name)
            assert bound is not None
            assert bound["spec"]["nodeName"] == "a"
            assert bound["metadata"]["annotations"]["alibabacloud.com/gpu-index"] == gpu
        _, found = await post("filter", {"Pod": pod_json("r", milli=1000), "NodeNames": ["a", "b"]})
        assert found["NodeNames"] == []
        server.delete("pods", "p", grace_s=0)
        while not found["NodeNames"]:
            await asyncio.sleep(0.01)
            _, found = await post("filter", {"Pod": pod_json("r", milli=1000), "NodeNames": ["a", "b"]})
        _, scores = await post("prioritize", {"Pod": pod_json("r", milli=1000), "NodeNames": ["a", "b"]})
        assert scores == [{"Host": "b", "Score": 0}, {"Host": "a", "Score": 10}]

    said = _with_extender(server, scenario)
    assert said[0].startswith("extender at http://127.0.0.1:")


def test_pods_of_every_scheduler_that_run_count():
    server = _server()
    for name in ("x", "y"):
        server.put(pod_json(name, milli=1000, nodeName="a", schedulerName="another"))

    async def scenario(post: Post) -> None:
        _, found = await post("filter", {"Pod": pod_json("p", milli=500), "NodeNames": ["a"]})
        assert found["NodeNames"] == []
        assert list(found["FailedAndUnresolvableNodes"]) == ["a"]

    _with_extender(server, scenario)


def test_bodies_that_cannot_be_read_are_refused_and_the_next_is_served():
    async def scenario(post: Post) -> None:
        for body in (b"", b"[]", b"\xff", b"{", b'{"NodeNames": 3}', b"[" * 100_000):
            for verb in ("filter", "prioritize", "bind", "preempt"):
                status, _ = await post(verb, body)
                assert status in (200, 400)
            assert (await post("filter", body))[0] == 400
        assert (await post("unheard-of", {}))[0] == 404
        status, found = await post("filter", {"Pod": pod_json("p"), "NodeNames": ["a", "b"]})
        assert (status, found["Error"], len(found["NodeNames"])) == (200, "", 1)

    _with_extender(_server(), scenario)


async def test_an_address_that_is_taken_is_reported():
    client = KubeClient(_server().transport())
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0) as taken:
        port = taken.sockets[0].getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}"):
            await serve(
                client,
                BUILT_IN["spread"],
                ("127.0.0.1", port),
                asyncio.Event(),
                clock=SteadyClock(),
                random=random.Random(1),
                say=lambda _: None,
            )
    await client.close()
