"""An agent between versions: what it says to a control plane of protocol 1, and to one of ours."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from hostler.agent.connection.link import ServerResponse
from hostler.agent.messages import JOIN_PATH, ORDERS_PATH, REGISTER_PATH, Join, Registered
from hostler.runtime.transport import Request
from tests.agent.fake_control_plane import FakeControlPlane
from tests.agent.test_process import SHORTEST_WAIT_S, AgentHost, simulate, vm
from tests.async_tests import run_with


class Speaking(FakeControlPlane):
    """A control plane that speaks one protocol, and remembers what polls asked for."""

    def __init__(self, protocol: int) -> None:
        super().__init__()
        self.protocol = protocol
        self.asked: list[dict[str, list[str]]] = []
        self.joins: list[Join] = []
        self.refuses_polls = 0

    async def send(self, request: Request) -> ServerResponse:
        address = urlsplit(request.path)
        if address.path == JOIN_PATH:
            self.joins.append(msgspec.json.decode(request.body, type=Join))
        if address.path == ORDERS_PATH:
            self.asked.append(parse_qs(address.query))
            if self.refuses_polls:
                self.refuses_polls -= 1
                return ServerResponse(status=409, body=b'{"code": "stale_report"}')
        response = await super().send(request)
        if address.path != REGISTER_PATH or response.status != 200:
            return response
        answer = msgspec.to_builtins(msgspec.json.decode(response.body, type=Registered))
        del answer["protocol"]  # which protocol 1 does not know
        more = {"protocol": self.protocol} if self.protocol > 1 else {}
        return ServerResponse(status=200, body=msgspec.json.encode(answer | more))


@pytest.mark.parametrize("protocol", [1, 2])
@run_with(simulate)
async def test_polls_name_their_registration_if_server_understands_it(protocol):
    control_plane = Speaking(protocol)
    control_plane.order(vm())
    host = AgentHost(control_plane)
    async with host.running():
        await asyncio.sleep(5)
        control_plane.wants_resync = True
        await asyncio.sleep(20)
    assert host.driver.vms["a"].power == "running"
    assert control_plane.joins[0].protocols == (1, 2)
    epochs = [one.get("epoch") for one in control_plane.asked]
    if protocol == 1:
        assert set(map(str, epochs)) == {"None"}
    else:
        assert (epochs[0], epochs[-1]) == (["1"], [str(control_plane.epoch)])
        assert control_plane.epoch > 1


@run_with(simulate)
async def test_poll_of_ended_registration_leads_to_a_new_one_at_once():
    control_plane = Speaking(2)
    async with AgentHost(control_plane).running(poll_s=5.0):
        await asyncio.sleep(60)
        before = len(control_plane.registrations)
        control_plane.refuses_polls = 1
        while control_plane.refuses_polls or len(control_plane.registrations) == before:
            await asyncio.sleep(0.01)
        asked = len(control_plane.asked)
        registered = asyncio.get_running_loop().time()
        while len(control_plane.asked) == asked:
            await asyncio.sleep(0.01)
        assert asyncio.get_running_loop().time() - registered < SHORTEST_WAIT_S


@run_with(simulate)
async def test_rejected_polls_are_not_repeated_at_once():
    control_plane = Speaking(2)
    control_plane.refuses_polls = 10_000
    async with AgentHost(control_plane).running():
        await asyncio.sleep(300)
    assert len(control_plane.registrations) in range(5, 30)
