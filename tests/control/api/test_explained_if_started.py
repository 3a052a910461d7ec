"""What an explanation says of a stopped VM: that it is stopped, and how it would be if it were started now."""

from __future__ import annotations

import asyncio

from tests.control.api.house import open_house
from tests.control.api.test_how_vms_are import explained, made


def test_a_vm_that_its_owner_stopped_is_told_of_as_stopped_and_as_if_it_were_started() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            vm = await made(house, "web", spec={"disks": [{"size": "1Gi"}]})
            assert (await explained(house, vm))["if_started"] is False
            await house.ask("POST", f"/v1/vms/{vm}/stop")
            await house.settle()
            told = await explained(house, vm)
            assert told["if_started"] is True
            assert told["now"] == "is stopped, and stays on a"
            assert told["hint"] == "'hostler vm start default/web' starts it; until then no host is asked"
            assert told["feasible"] == ["a"]

    asyncio.run(scenario())


def test_a_vm_that_was_stopped_while_it_waited_is_not_said_to_be_tried_again() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            vm = await made(house, "huge", spec={"cpu": "64"})
            assert (await explained(house, vm))["wakes"]
            await house.ask("POST", f"/v1/vms/{vm}/stop")
            await house.settle()
            told = await explained(house, vm)
            assert (told["now"], told["wakes"]) == ("is stopped, and on no host", [])
            assert told["hint"].endswith("'hostler vm start default/huge': no host would take it as it is")
            assert told["cure"]["host"] == "a"

    asyncio.run(scenario())


def test_a_vm_that_was_lost_is_not_said_to_be_tried_again() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            vm = await made(house, "db", spec={"disks": [{"size": "1Gi"}]})
            await house.set_state("a", "silent")
            answer = await house.ask("POST", "/v1/hosts/a/confirm-dead", json={"confirm": "a"})
            assert answer.status_code == 200, answer.text
            await house.settle()
            told = await explained(house, vm)
            assert (told["state"], told["if_started"], told["wakes"]) == ("lost", True, [])
            assert told["now"] == "is lost: its host is gone, and its disk with it"
            assert told["hint"].startswith("'hostler vm start default/db' starts it anew")

    asyncio.run(scenario())
