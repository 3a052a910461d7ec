"""An agent between versions: what it says to a control plane of protocol 1, and to one of ours."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from hostler.agent.messages import JOIN_PATH, ORDERS_PATH, REGISTER_PATH, Join, Registered
from hostler.agent.transport import Request, Response
from tests.agent.plane import Plane
from tests.agent.test_process import SHORTEST_WAIT_S, Host, simulate, vm


class Speaking(Plane):
    """A control plane that speaks one protocol, and remembers what polls asked for."""

    def __init__(self, protocol: int) -> None:
        super().__init__()
        self.protocol = protocol
        self.asked: list[dict[str, list[str]]] = []
        self.joins: list[Join] = []
        self.refuses_polls = 0

    async def send(self, request: Request) -> Response:
        address = urlsplit(request.path)
        if address.path == JOIN_PATH:
            self.joins.append(msgspec.json.decode(request.body, type=Join))
        if address.path == ORDERS_PATH:
            self.asked.append(parse_qs(address.query))
            if self.refuses_polls:
                self.refuses_polls -= 1
                return Response(status=409, body=b'{"code": "stale_report"}')
        response = await super().send(request)
        if address.path != REGISTER_PATH or response.status != 200:
            return response
        answer = msgspec.to_builtins(msgspec.json.decode(response.body, type=Registered))
        del answer["protocol"]  # which protocol 1 does not know
        more = {"protocol": self.protocol} if self.protocol > 1 else {}
        return Response(status=200, body=msgspec.json.encode(answer | more))


@pytest.mark.parametrize("protocol", [1, 2])
def test_polls_say_under_which_registration_where_the_control_plane_knows_the_word(protocol):
    async def scenario():
        plane = Speaking(protocol)
        plane.order(vm())
        host = Host(plane)
        async with host.running():
            await asyncio.sleep(5)
            plane.wants_resync = True
            await asyncio.sleep(20)
        assert host.driver.vms["a"].power == "running"
        assert plane.joins[0].protocols == (1, 2)
        epochs = [one.get("epoch") for one in plane.asked]
        if protocol == 1:
            assert set(map(str, epochs)) == {"None"}
        else:
            assert (epochs[0], epochs[-1]) == (["1"], [str(plane.epoch)])
            assert plane.epoch > 1

    simulate(scenario)


def test_a_poll_whose_registration_is_over_is_followed_by_another_registration_at_once():
    async def scenario():
        plane = Speaking(2)
        async with Host(plane).running(poll_s=5.0):
            await asyncio.sleep(60)
            before = len(plane.registrations)
            plane.refuses_polls = 1
            while plane.refuses_polls or len(plane.registrations) == before:
                await asyncio.sleep(0.01)
            asked = len(plane.asked)
            registered = asyncio.get_running_loop().time()
            while len(plane.asked) == asked:
                await asyncio.sleep(0.01)
            assert asyncio.get_running_loop().time() - registered < SHORTEST_WAIT_S

    simulate(scenario)


def test_polls_that_are_never_believed_are_not_asked_again_and_again_at_once():
    async def scenario():
        plane = Speaking(2)
        plane.refuses_polls = 10_000
        async with Host(plane).running():
            await asyncio.sleep(300)
        assert len(plane.registrations) in range(5, 30)

    simulate(scenario)
