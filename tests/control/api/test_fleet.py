"""Hosts and agents over REST: joining, orders, reports, and what operators do."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec

from hostler.agent.messages import Capabilities, HostSize, Join, Joined, Register, Report, VmReport
from tests.control.api.service_in_process import GIB, InProcessService, open_service


async def send(service: InProcessService, credential: str, path: str, message: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {credential}", "Content-Type": "application/json"}
    return await service.client.post(path, content=msgspec.json.encode(message), headers=headers)


async def joined(service: InProcessService, name: str) -> Joined:
    token = (await service.ask("POST", "/v1/tokens")).json()["secret"]
    answer = await send(service, "", "/agent/v1/join", Join(token=token, name=name))
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=Joined)


REGISTER = Register(
    boot="boot-1",
    agent="agent-1",
    version="1",
    driver="fake",
    capabilities=Capabilities(pause=True),
    size=HostSize(cpu_millis=4000, memory_bytes=8 * GIB),
)


async def test_an_agent_joins_gets_its_orders_and_reports() -> None:
    async with open_service() as service:
        me = await joined(service, "node-1")
        answer = await send(service, me.credential, "/agent/v1/register", REGISTER)
        assert answer.status_code == 200, answer.text
        epoch = answer.json()["epoch"]
        vm = (await service.create("web")).json()["vm"]["id"]
        await service.caught_up()
        bearer = {"Authorization": f"Bearer {me.credential}"}
        orders = await service.client.get("/agent/v1/orders?from=0&wait_s=5", headers=bearer)
        assert orders.status_code == 200, orders.text
        order = orders.json()["orders"][0]
        assert (order["vm"], order["power"]) == (vm, "running")
        version = orders.json()["version"]
        nothing = await service.client.get(f"/agent/v1/orders?from={version}&wait_s=0.01", headers=bearer)
        assert (nothing.status_code, nothing.content) == (204, b"")
        found = (VmReport(vm=vm, state="running", generation=order["generation"]),)
        report = Report(boot="boot-1", agent="agent-1", epoch=epoch, sequence=1, vms=found)
        assert (await send(service, me.credential, "/agent/v1/report", report)).status_code == 200
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "running"
        replay = await send(service, me.credential, "/agent/v1/report", report)
        assert (replay.status_code, replay.json()["code"]) == (409, "stale_report")
        host = (await service.ask("GET", "/v1/hosts/node-1")).json()
        assert (host["state"], host["vms"], host["used"]["cpu_millis"]) == ("ready", 1, 1000)
        assert host["seen_at"] is not None


async def test_agents_keys_and_tokens_open_only_their_own_doors() -> None:
    async with open_service() as service:
        me = await joined(service, "node-1")
        for secret in ("", service.secret, "ha_no"):
            answer = await send(service, secret, "/agent/v1/register", REGISTER)
            assert answer.status_code == 401, answer.text
        agent = await service.as_key(me.credential, "GET", "/v1/vms")
        assert (agent.status_code, agent.json()["code"]) == (401, "unauthenticated")
        bad = await send(service, "", "/agent/v1/join", Join(token="hj_no", name="x"))
        assert (bad.status_code, bad.json()["code"]) == (401, "join_refused")
        used = (await service.ask("POST", "/v1/tokens")).json()["secret"]
        first = await send(service, "", "/agent/v1/join", Join(token=used, name="node-2"))
        again = await send(service, "", "/agent/v1/join", Join(token=used, name="node-3"))
        assert (first.status_code, again.status_code) == (200, 401)
        old = Join(token="hj_no", name="x", protocols=(0,))
        assert (await send(service, "", "/agent/v1/join", old)).status_code == 426


async def test_an_operator_cordons_drains_and_deletes() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b")
        assert (await service.ask("POST", "/v1/hosts/a/cordon")).json()["cordoned"] is True
        vm = (await service.create("web", spec={"disks": [{"size": "1Gi"}]})).json()["vm"]["id"]
        await service.settle()
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["host"] == "b"
        assert (await service.ask("POST", "/v1/hosts/a/uncordon")).json()["cordoned"] is False
        assert (await service.ask("POST", "/v1/hosts/b/drain")).json()["draining"] is True
        stuck = (await service.ask("GET", "/v1/hosts/b")).json()["stuck"]
        assert [(one["name"], "disk" in one["why"]) for one in stuck] == [("web", True)]
        used = await service.ask("DELETE", "/v1/hosts/b", params={"confirm": "b"})
        assert (used.status_code, used.json()["code"]) == (409, "host_has_vms")
        assert (await service.ask("POST", "/v1/hosts/b/undrain")).json()["draining"] is False
        assert (await service.ask("DELETE", "/v1/hosts/a", params={"confirm": "a"})).status_code == 204
        assert (await service.ask("GET", "/v1/hosts/a")).status_code == 404
        assert (await service.ask("GET", "/v1/hosts/id-a")).status_code == 410
        kinds = [one["kind"] for one in (await service.ask("GET", "/v1/events?limit=500")).json()["items"]]
        assert {"host.cordon", "host.uncordon", "host.drain", "host.undrain", "host.delete"} <= set(kinds)


async def test_a_host_forced_offline_is_confirmed_dead_by_name() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        vm = (await service.create("web", spec={"when_lost": "restart"})).json()["vm"]["id"]
        await service.settle()
        offline = await service.ask("POST", "/v1/hosts/a/force-offline", json={"confirm": "a"})
        assert (offline.status_code, offline.json()["state"]) == (200, "offline")
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "unknown"
        await service.add_hosts("b")
        dead = await service.ask("POST", "/v1/hosts/a/confirm-dead", json={"confirm": "a"})
        assert (dead.status_code, dead.json()["state"]) == (200, "fenced")
        await service.caught_up()
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["host"] == "b"


async def test_what_operators_say_of_a_host_counts() -> None:
    async with open_service() as service:
        await service.add_hosts("a", cpu=4, memory_gib=8)
        change = {
            "labels": {"zone": "north"},
            "taints": [{"key": "gpu", "value": "only", "effect": "NoSchedule"}],
            "overcommit": {"cpu": 2},
            "reserve": {"memory": "1Gi"},
        }
        host = (await service.ask("PATCH", "/v1/hosts/a", json=change)).json()
        assert host["may_give"] == {"cpu_millis": 8000, "memory_bytes": 7 * GIB, "disk_bytes": 100 * GIB}
        assert host["own_labels"] == {"zone": "north"}
        assert host["labels"]["zone"] == "north"
        assert (host["overcommit"], host["reserve"]) == ({"cpu": "2"}, {"memory": "1Gi"})
        assert host["taints"] == change["taints"]
        listed = (await service.ask("GET", "/v1/hosts", params={"label": "zone=north"})).json()["items"]
        assert [one["name"] for one in listed] == ["a"]
        kept = await service.create("web", on_unplaceable="fail")
        assert kept.json()["code"] == "insufficient_resources"
        tolerant = {"cpu": "6", "tolerations": [{"key": "gpu", "operator": "Exists"}]}
        fits = await service.create("web", spec=tolerant, on_unplaceable="fail")
        assert fits.status_code == 202, fits.text


async def test_scheduling_info_is_a_block_of_lines_and_numbers() -> None:
    async with open_service() as service:
        await service.add_hosts("a", cpu=16, memory_gib=32)
        await service.create("web", spec={"cpu": "12", "memory": "24Gi", "disks": [{"size": "20Gi"}]})
        await service.settle()
        text = await service.ask("GET", "/v1/hosts/a/scheduling", headers={"Accept": "text/plain"})
        assert text.headers["content-type"].startswith("text/plain")
        assert text.text.splitlines() == [
            "Agent: a",
            "Status: online",
            "CPU: 12/16 (75.0% used)",
            "Memory: 24.0 GB/32.0 GB (75.0% used)",
            "Disk: 20.0 GB/100.0 GB (20.0% used)",
            "Running VMs: 1",
        ]
        numbers = (await service.ask("GET", "/v1/hosts/a/scheduling")).json()
        assert (numbers["cpu_percent"], numbers["running_vms"]) == (75.0, 1)
        assert numbers["text"] == text.text
