"""Which deeds of operators cost an agent its registration: those after which it has something to learn, no other."""

from __future__ import annotations

import asyncio

import pytest

from hostler.agent.messages import Report
from tests.control.api.house import House, open_house
from tests.control.api.test_fleet import REGISTER, joined, send

KEEPS = ["cordon", "uncordon", "drain", "undrain"]
ENDS = {"force-offline": {"confirm": "node-1"}, "rotate-credential": None}


async def registered(house: House) -> tuple[str, int]:
    """Let a host join and register; return its credential and its epoch."""
    me = await joined(house, "node-1")
    answer = await send(house, me.credential, "/agent/v1/register", REGISTER)
    return me.credential, answer.json()["epoch"]


async def heartbeat(house: House, credential: str, epoch: int, sequence: int) -> int:
    message = Report(boot="boot-1", agent="agent-1", epoch=epoch, sequence=sequence)
    return (await send(house, credential, "/agent/v1/report", message)).status_code


async def act(house: House, verb: str, body: dict | None = None) -> None:
    answer = await house.ask("POST", f"/v1/hosts/node-1/{verb}", **({} if body is None else {"json": body}))
    assert answer.status_code == 200, answer.text


def test_reports_count_on_after_what_agents_need_not_know() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            credential, epoch = await registered(house)
            for sequence, verb in enumerate(KEEPS, 1):
                await act(house, verb)
                assert await heartbeat(house, credential, epoch, sequence) == 200, verb
            answer = await house.ask("PATCH", "/v1/hosts/node-1", json={"labels": {"rack": "r1"}})
            assert answer.status_code == 200, answer.text
            assert await heartbeat(house, credential, epoch, 10) == 200

    asyncio.run(scenario())


def test_leave_to_tear_down_comes_with_the_orders_and_without_a_registration() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            credential, epoch = await registered(house)
            vms = [(await house.create(f"vm{number}", spec={"cpu": "100m"})).json()["vm"]["id"] for number in range(5)]
            await house.settle()
            for vm in vms:
                await house.ask("DELETE", f"/v1/vms/{vm}")
            await act(house, "allow-teardown", {"confirm": 5})
            assert await heartbeat(house, credential, epoch, 1) == 200
            bearer = {"Authorization": f"Bearer {credential}"}
            orders = await house.client.get("/agent/v1/orders?from=0&wait_s=5", headers=bearer)
            assert orders.json()["allows_bulk_teardown"] is True

    asyncio.run(scenario())


@pytest.mark.parametrize("verb", ENDS)
def test_what_an_agent_must_learn_ends_its_registration(verb: str) -> None:
    async def scenario() -> None:
        async with open_house() as house:
            credential, epoch = await registered(house)
            await act(house, verb, ENDS[verb])
            assert await heartbeat(house, credential, epoch, 1) == 409

    asyncio.run(scenario())
