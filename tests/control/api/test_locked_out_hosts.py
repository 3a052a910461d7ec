"""A host whose agent was locked out: what decisions say of it, and what ends that."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from hostler.agent.messages import REGISTER_PATH, Join, Joined, Register
from tests.control.api.house import House, open_house
from tests.control.api.test_fleet import REGISTER, joined, send


async def told(house: House, vm: str) -> tuple[list[str], list[str]]:
    """Return why the only host does not take a VM, and what would cure it."""
    await house.settle()
    found: dict[str, Any] = (await house.ask("GET", f"/v1/vms/{vm}/decision")).json()
    why = [one["reason"]["code"] for one in found["verdicts"][0]["failures"]]
    return why, [one["text"] for one in found["cure"]["changes"]]


async def registered(house: House, me: Joined, message: Register = REGISTER) -> None:
    answer = await send(house, me.credential, REGISTER_PATH, message)
    assert answer.status_code == 200, answer.text


def test_it_says_so_and_names_the_token_that_lets_it_join_again() -> None:
    async def story() -> None:
        async with open_house() as house:
            await registered(house, await joined(house, "north"))
            await house.ask("POST", "/v1/hosts/north/revoke-credential")
            vm = (await house.create("web")).json()["vm"]["id"]
            why, cures = await told(house, vm)
            assert why == ["locked_out"]
            assert "hostler token create --host north" in cures[0]
            assert "revoked" in cures[0]
            token = (await house.ask("POST", "/v1/tokens", json={"host_name": "north"})).json()["secret"]
            answer = await send(house, "", "/agent/v1/join", Join(token=token, name="north"))
            assert (await told(house, vm))[0] == ["offline"], "now its agent has only to start"
            await registered(house, msgspec.json.decode(answer.content, type=Joined))
            await house.settle()
            assert (await house.ask("GET", f"/v1/vms/{vm}")).json()["host"] == "north"

    asyncio.run(story())


@pytest.mark.parametrize("state", ["silent", "fenced"])
def test_of_one_that_was_not_heard_before_both_are_told(state: str) -> None:
    async def story() -> None:
        async with open_house() as house:
            await registered(house, await joined(house, "north"))
            await house.set_state("north", state)
            await house.ask("POST", "/v1/hosts/north/revoke-credential")
            vm = (await house.create("web")).json()["vm"]["id"]
            assert (await told(house, vm))[0] == ["locked_out", state]

    asyncio.run(story())


def test_one_that_was_forced_offline_has_only_to_start() -> None:
    async def story() -> None:
        async with open_house() as house:
            await registered(house, await joined(house, "north"))
            await house.ask("POST", "/v1/hosts/north/force-offline", json={"confirm": "north"})
            vm = (await house.create("web")).json()["vm"]["id"]
            why, cures = await told(house, vm)
            assert why == ["offline"]
            assert "start the agent of north" in cures[0]

    asyncio.run(story())
