"""Agents of the protocol before ours: what they said and were told then works now; others are refused by the range."""

from __future__ import annotations

import httpx
import msgspec
import pytest

from hostler.agent.connection.link import ServerResponse
from hostler.agent.messages import OLDEST_PROTOCOL, ORDERS_PATH, PROTOCOL, REGISTER_PATH, REPORT_PATH
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.vms import desired_state
from hostler.control.vms.guests import CAN_MIGRATE
from hostler.control.vms.spec import DiskSpec
from hostler.runtime.transport import Request
from tests.control.api.service_in_process import InProcessService, open_service
from tests.control.fleet.control_plane import is_running, run_control_plane, spec
from tests.control.fleet.replicas_and_hosts import AgentWire
from tests.wait import until

# What an agent of protocol 1 sent, byte for byte but for its secrets and for numbers that the service gives out.
JOIN = b'{"token":"%s","name":"old-1","protocols":[1]}'
REGISTER = (
    b'{"boot":"9f3c","agent":"a7d1","version":"0.9.0","driver":"fake","capabilities":{"pause":true,'
    b'"resize_running":true,"live_migration":true,"disks":true,"bridges":true,"devices":true},"size":{"cpu_millis":'
    b'8000,"memory_bytes":17179869184,"disk_bytes":107374182400,"devices":[]},"labels":[["rack","r1"]],"storages":'
    b'["nas"],"vms":[],"unknown":["guest-of-another"],"is_inventory_known":true,"sequence":1}'
)
REPORT = (
    b'{"boot":"9f3c","agent":"a7d1","epoch":%d,"sequence":%d,"orders":%d,"vms":[{"vm":"%s","state":"running",'
    b'"generation":%d,"restarts":0,"trouble":null,"failed_generation":0,"landing_address":"","landing_secret":""}],'
    b'"gone":[],"unknown":null,"size":null,"refused_teardown":0}'
)
GONE = (
    b'{"boot":"9f3c","agent":"a7d1","epoch":%d,"sequence":%d,"orders":%d,"vms":[],"gone":["%s"],"unknown":null,'
    b'"size":null,"refused_teardown":0}'
)
HEARTBEAT = (
    b'{"boot":"9f3c","agent":"a7d1","epoch":%d,"sequence":%d,"orders":%d,"vms":[],"gone":[],"unknown":null,'
    b'"size":null,"refused_teardown":0}'
)


async def say(service: InProcessService, path: str, body: bytes, credential: str = "") -> httpx.Response:
    headers = {"Authorization": f"Bearer {credential}", "Content-Type": "application/json"}
    return await service.client.post(path, content=body, headers=headers)


async def join(service: InProcessService, body: bytes = JOIN) -> httpx.Response:
    token = (await service.ask("POST", "/v1/tokens")).json()["secret"]
    return await say(service, "/agent/v1/join", body % token.encode())


async def test_an_agent_of_protocol_1_joins_registers_gets_orders_and_reports() -> None:
    async with open_service() as service:
        answer = await join(service)
        assert (answer.status_code, answer.json()["protocol"]) == (200, 1)
        credential = answer.json()["credential"]
        registered = await say(service, REGISTER_PATH, REGISTER, credential)
        assert registered.status_code == 200, registered.text
        assert registered.json()["protocol"] == 1
        epoch = registered.json()["epoch"]
        vm = (await service.create("web")).json()["vm"]["id"]
        await service.caught_up()
        bearer = {"Authorization": f"Bearer {credential}"}
        orders = (await service.client.get(f"{ORDERS_PATH}?from=0&wait_s=5", headers=bearer)).json()
        (order,) = orders["orders"]
        assert (order["vm"], order["power"]) == (vm, "running")
        said = REPORT % (epoch, 1, orders["version"], vm.encode(), order["generation"])
        assert (await say(service, REPORT_PATH, said, credential)).status_code == 200
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "running"
        beat = HEARTBEAT % (epoch, 2, orders["version"])
        assert (await say(service, REPORT_PATH, beat, credential)).json() == {"resync": False, "has_orders": False}
        host = (await service.ask("GET", "/v1/hosts/old-1")).json()
        assert (host["state"], host["watched"], host["unknown_vms"]) == ("ready", False, ["guest-of-another"])
        await service.ask("DELETE", f"/v1/vms/{vm}")
        path = f"{ORDERS_PATH}?from={orders['version']}&wait_s=5"
        orders = (await service.client.get(path, headers=bearer)).json()
        assert orders["orders"][0]["power"] == "absent"
        left = GONE % (epoch, 3, orders["version"], vm.encode())
        assert (await say(service, REPORT_PATH, left, credential)).status_code == 200
        assert (await service.ask("GET", f"/v1/vms/{vm}")).status_code == 404


@pytest.mark.parametrize("spoken", [0, PROTOCOL + 1])
async def test_unsupported_protocol_is_rejected_with_supported_ones(spoken: int) -> None:
    async with open_service() as service:
        strange = JOIN.replace(b"[1]", b"[%d]" % spoken)
        refused = await join(service, strange)
        credential = (await join(service)).json()["credential"]
        registration = REGISTER.replace(b'"sequence":1}', b'"sequence":1,"protocols":[%d]}' % spoken)
        for answer in (refused, await say(service, REGISTER_PATH, registration, credential)):
            assert (answer.status_code, answer.json()["code"]) == (426, "unsupported_protocol")
            assert f"speaks protocol {spoken}" in answer.json()["detail"]
            assert f"speaks {OLDEST_PROTOCOL} to {PROTOCOL}" in answer.json()["detail"]
        assert (await service.ask("GET", "/v1/hosts/old-1")).json()["state"] == "joined"


async def test_an_agent_that_speaks_both_speaks_the_newer_one() -> None:
    async with open_service() as service:
        answer = await join(service, JOIN.replace(b"[1]", b"[1,2]"))
        assert answer.json()["protocol"] == PROTOCOL


class _OldWire(AgentWire):
    """Leads an agent to the control plane as one that speaks protocol 1 and reads nothing newer."""

    _NEW = ("protocols", "is_watched", "departed", "bridges")

    async def send(self, request: Request) -> ServerResponse:
        path = request.path.partition("&epoch=")[0]
        body = request.body
        if path in (REGISTER_PATH, REPORT_PATH):
            said = {name: value for name, value in msgspec.json.decode(body).items() if name not in self._NEW}
            body = msgspec.json.encode(said | ({"protocols": [1]} if path == REGISTER_PATH else {}))
        response = await super().send(msgspec.structs.replace(request, path=path, body=body))
        if not response.body or response.status != 200:
            return response
        answer = msgspec.json.decode(response.body)
        for order in answer.get("orders", ()):
            order.pop("keeps_shared")
        return msgspec.structs.replace(response, body=msgspec.json.encode(answer))


async def test_protocol_1_agent_gets_no_order_to_remove_disks_in_use_elsewhere(url) -> None:
    async with run_control_plane(url) as control:
        north = await control.join("north")
        await north.stop()
        north.wire = _OldWire(control.leader)
        north.start()
        await until(lambda: (REPORT_PATH, 200) in north.wire.answers)
        body = read_body(await control.row("north"))
        assert body.protocol == 1
        assert CAN_MIGRATE not in dict((await control.row("north")).labels)
        vm = await control.create_running(spec(disks=[DiskSpec(size="1Gi", storage="shared")]))
        south = await control.join("south")
        await control.wish(vm, desired_state.migrate)
        moved = await control.until_vm(vm, lambda one: one.home is not None and one.home.name == "south")
        assert moved.moving is not None  # north is not told to clean up
        answers = north.wire.answers.count((REPORT_PATH, 200))
        await until(lambda: north.wire.answers.count((REPORT_PATH, 200)) > answers + 3)
        assert (control.wires.disks[vm], control.wires.made[vm]) == ("south", 1)
        assert south.power(vm) == "running"
        await north.stop()
        north.wire = AgentWire(control.leader)  # the host gets the program of today
        north.start()
        await control.until_vm(vm, lambda one: one.moving is None and is_running(one))
        assert (control.wires.disks[vm], control.wires.made[vm]) == ("south", 1)
        assert CAN_MIGRATE in dict((await control.row("north")).labels)
