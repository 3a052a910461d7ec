"""The service on a real API server: its reviews decide, also through its own service proxy."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from contextlib import asynccontextmanager

import aiohttp
import pytest

from hostler.kube.api.access import read_access
from hostler.kube.api.http import client_for
from hostler.kube.configuration import default_settings
from hostler.kube.live.via import ask_scheduler
from hostler.kube.scheduler.process import Scheduler
from hostler.kube.service.server import serve
from hostler.runtime.clock import SteadyClock
from hostler.runtime.engine_thread import EngineThread
from tests.cli.cli_in_process import hostler
from tests.kube.service.service_in_process import has_decided, pod
from tests.wait import until


@asynccontextmanager
async def scheduling(cluster, listen="127.0.0.1:0", **options):
    """Run a scheduler with the rights that a scheduler has, and serve its pages."""
    client, executor, clock = client_for(cluster.kubeconfig("hostler")), EngineThread(), SteadyClock()
    scheduler = Scheduler(
        client, default_settings(), clock=clock, executor=executor, identity="me", random=random.Random(1)
    )
    stop = asyncio.Event()
    try:
        async with serve(scheduler, client, listen, executor=executor, clock=clock, **options) as address:
            running = asyncio.ensure_future(scheduler.run(stop))
            await until(lambda: scheduler.is_synced and has_decided(scheduler))
            yield address
            stop.set()
            await running
    finally:
        executor.close()
        await client.close()


def test_the_api_server_says_who_gets_in(control_plane, namespace):
    body = pod("huge", "100", namespace)
    with control_plane.api() as api:
        api.call("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    async def main():
        found = {}
        async with scheduling(control_plane) as address, aiohttp.ClientSession() as session:
            for user in ("admin", "nobody", "made-up"):
                token = control_plane.token(user) if user != "made-up" else user
                for path in ("/metrics", f"/v1/explain/{namespace}/huge"):
                    headers = {"Authorization": f"Bearer {token}"}
                    async with session.get(address + path, headers=headers) as answer:
                        found[user, path.split("/")[-1]] = answer.status, await answer.text()
        return found

    found = asyncio.run(main())
    assert {key: status for key, (status, _) in found.items()} == {
        ("admin", "metrics"): 200,
        ("admin", "huge"): 200,
        ("nobody", "metrics"): 403,
        ("nobody", "huge"): 403,
        ("made-up", "metrics"): 401,
        ("made-up", "huge"): 401,
    }
    assert "user nobody may not get /metrics" in found["nobody", "metrics"][1]
    assert f"user nobody may not get pods in namespace {namespace}" in found["nobody", "huge"][1]


def test_commands_ask_the_scheduler_itself(control_plane, namespace, tmp_path):
    with control_plane.api() as api:
        api.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod("huge", "100", namespace))
    file = tmp_path / "more.json"
    file.write_text(json.dumps(pod("more", "100", namespace)))

    async def main():
        async with scheduling(control_plane) as address:

            def ask(*words, user="admin"):
                more = ("--via", address, "--kubeconfig", control_plane.kubeconfig(user))
                return asyncio.to_thread(hostler, *words, *more)

            return [
                await ask("explain", "huge", "-n", namespace),
                await ask("kube", "queue", "-n", namespace, "-o", "json"),
                await ask("kube", "plan", "-f", file),
                await ask("kube", "queue", user="nobody"),
            ]

    explained, queue, plan, refused = asyncio.run(main())
    assert explained.code == 0, explained.err
    assert explained.lines[0].startswith(f"{namespace}/huge (cpu 100) fits nowhere")
    assert [(row["name"], row["attempts"] is None) for row in queue.json["pods"]] == [("huge", False)]
    assert (plan.code, plan.lines[-1]) == (1, "0 of 1 pod would be placed, 0 evicted.")
    assert refused.code == 3
    assert "user nobody may not list pods everywhere" in refused.error


def own_address():
    """Return an address of this machine other than the loopback: API servers do not proxy to that."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.254", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but the loopback")
        return probe.getsockname()[0]


def publish(cluster, namespace, address, port):
    """Create a service whose only pod has our address, as a kubelet and a controller would."""
    spaces = f"/api/v1/namespaces/{namespace}"
    with cluster.api() as api:
        api.call("POST", f"{spaces}/pods", pod("scheduler", namespace=namespace, schedulerName="nobody"))
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
        api.call("PATCH", f"{spaces}/pods/scheduler/status", {"status": status})
        ports = [{"name": "http", "port": 80, "targetPort": port}]
        api.call("POST", f"{spaces}/services", {"metadata": {"name": "scheduler"}, "spec": {"ports": ports}})
        content = {
            "metadata": {"name": "scheduler", "labels": {"kubernetes.io/service-name": "scheduler"}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": port}],
            "endpoints": [
                {
                    "addresses": [address],
                    "conditions": {"ready": True},
                    "targetRef": {"kind": "Pod", "namespace": namespace, "name": "scheduler"},
                }
            ],
        }
        api.call("POST", f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", content)


@pytest.mark.long  # it listens on an address of this machine beside the loopback, so it does not run by default
def test_service_is_reached_through_the_api_server_with_callers_rights(control_plane, namespace):
    host = own_address()
    access = read_access(control_plane.kubeconfig())
    proxied = f"/api/v1/namespaces/{namespace}/services/scheduler:http/proxy"

    async def main():
        async with scheduling(control_plane, f"{host}:0", is_insecure=True) as address:
            publish(control_plane, namespace, host, int(address.rpartition(":")[2]))
            client = client_for(control_plane.kubeconfig())
            try:
                async with asyncio.timeout(20):
                    while True:  # until the API server has seen the endpoint
                        try:
                            ready = await client.read(f"{proxied}/readyz")
                            break
                        except Exception:
                            await asyncio.sleep(0.1)
                refused = await _status(client, f"{proxied}/v1/queue")
            finally:
                await client.close()
            return ready, refused, await ask_scheduler(access, f"{namespace}/scheduler:http", "/v1/queue")

    ready, refused, found = asyncio.run(main())
    assert ready == b"ok, leading"
    assert refused == 401  # the administrator's token stayed with the API server
    assert found["from"] == "scheduler"


async def _status(client, path):
    from hostler.kube.api.failures import ApiError

    try:
        await client.read(path)
    except ApiError as error:
        return error.status
    return 200
