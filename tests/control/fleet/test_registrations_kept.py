"""Which deeds of operators cost an agent its registration: those after which it has something to learn, no other."""

from __future__ import annotations

import pytest

from hostler.agent.messages import Report
from tests.control.api.service_in_process import InProcessService, open_service
from tests.control.api.test_fleet import REGISTER, joined, send

KEEPS = ["cordon", "uncordon", "drain", "undrain"]
ENDS = {"force-offline": {"confirm": "node-1"}, "rotate-credential": None}


async def registered(service: InProcessService) -> tuple[str, int]:
    """Let a host join and register; return its credential and its epoch."""
    me = await joined(service, "node-1")
    answer = await send(service, me.credential, "/agent/v1/register", REGISTER)
    return me.credential, answer.json()["epoch"]


async def heartbeat(service: InProcessService, credential: str, epoch: int, sequence: int) -> int:
    message = Report(boot="boot-1", agent="agent-1", epoch=epoch, sequence=sequence)
    return (await send(service, credential, "/agent/v1/report", message)).status_code


async def act(service: InProcessService, verb: str, body: dict | None = None) -> None:
    answer = await service.ask("POST", f"/v1/hosts/node-1/{verb}", **({} if body is None else {"json": body}))
    assert answer.status_code == 200, answer.text


async def test_reports_count_on_after_what_agents_need_not_know() -> None:
    async with open_service() as service:
        credential, epoch = await registered(service)
        for sequence, verb in enumerate(KEEPS, 1):
            await act(service, verb)
            assert await heartbeat(service, credential, epoch, sequence) == 200, verb
        answer = await service.ask("PATCH", "/v1/hosts/node-1", json={"labels": {"rack": "r1"}})
        assert answer.status_code == 200, answer.text
        assert await heartbeat(service, credential, epoch, 10) == 200


async def test_teardown_permission_comes_with_orders() -> None:
    async with open_service() as service:
        credential, epoch = await registered(service)
        vms = [(await service.create(f"vm{number}", spec={"cpu": "100m"})).json()["vm"]["id"] for number in range(5)]
        await service.settle()
        for vm in vms:
            await service.ask("DELETE", f"/v1/vms/{vm}")
        await act(service, "allow-teardown", {"confirm": 5})
        assert await heartbeat(service, credential, epoch, 1) == 200
        bearer = {"Authorization": f"Bearer {credential}"}
        orders = await service.client.get("/agent/v1/orders?from=0&wait_s=5", headers=bearer)
        assert orders.json()["allows_bulk_teardown"] is True


@pytest.mark.parametrize("verb", ENDS)
async def test_what_an_agent_must_learn_ends_its_registration(verb: str) -> None:
    async with open_service() as service:
        credential, epoch = await registered(service)
        await act(service, verb, ENDS[verb])
        assert await heartbeat(service, credential, epoch, 1) == 409
