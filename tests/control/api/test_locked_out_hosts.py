"""A host whose agent was locked out: what decisions say of it, and what ends that."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostler.agent.messages import REGISTER_PATH, Join, Joined, Register
from tests.control.api.service_in_process import InProcessService, open_service
from tests.control.api.test_fleet import REGISTER, joined, send


async def told(service: InProcessService, vm: str) -> tuple[list[str], list[str]]:
    """Return why the only host does not take a VM, and what would cure it."""
    await service.settle()
    found: dict[str, Any] = (await service.ask("GET", f"/v1/vms/{vm}/decision")).json()
    why = [one["reason"]["code"] for one in found["verdicts"][0]["failures"]]
    return why, [one["text"] for one in found["cure"]["changes"]]


async def registered(service: InProcessService, me: Joined, message: Register = REGISTER) -> None:
    answer = await send(service, me.credential, REGISTER_PATH, message)
    assert answer.status_code == 200, answer.text


async def test_it_says_so_and_names_the_token_that_lets_it_join_again() -> None:
    async with open_service() as service:
        await registered(service, await joined(service, "north"))
        await service.ask("POST", "/v1/hosts/north/revoke-credential")
        vm = (await service.create("web")).json()["vm"]["id"]
        why, cures = await told(service, vm)
        assert why == ["locked_out"]
        assert "hostler token create --host north" in cures[0]
        assert "revoked" in cures[0]
        token = (await service.ask("POST", "/v1/tokens", json={"host_name": "north"})).json()["secret"]
        answer = await send(service, "", "/agent/v1/join", Join(token=token, name="north"))
        assert (await told(service, vm))[0] == ["offline"], "now its agent has only to start"
        await registered(service, msgspec.json.decode(answer.content, type=Joined))
        await service.settle()
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["host"] == "north"


@pytest.mark.parametrize("state", ["silent", "fenced"])
async def test_of_one_that_was_not_heard_before_both_are_told(state: str) -> None:
    async with open_service() as service:
        await registered(service, await joined(service, "north"))
        await service.set_state("north", state)
        await service.ask("POST", "/v1/hosts/north/revoke-credential")
        vm = (await service.create("web")).json()["vm"]["id"]
        assert (await told(service, vm))[0] == ["locked_out", state]


async def test_one_that_was_forced_offline_has_only_to_start() -> None:
    async with open_service() as service:
        await registered(service, await joined(service, "north"))
        await service.ask("POST", "/v1/hosts/north/force-offline", json={"confirm": "north"})
        vm = (await service.create("web")).json()["vm"]["id"]
        why, cures = await told(service, vm)
        assert why == ["offline"]
        assert "start the agent of north" in cures[0]
