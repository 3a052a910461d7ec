"""What was wanted of a VM when its host is proved dead: it fails with the reason, or comes true where the VM starts."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.control.api.house import House, open_house


async def one_that_runs(house: House, when_lost: str) -> str:
    await house.add_hosts("a", cpu=4)
    vm = str((await house.create("web", spec={"when_lost": when_lost})).json()["vm"]["id"])
    await house.settle()
    return vm


async def asked(house: House, method: str, path: str, **more: Any) -> str:
    """Ask for a change, and return its operation."""
    answer = await house.ask(method, path, **more)
    assert answer.is_success, answer.text
    return str(answer.json()["operation"]["id"])


async def ended(house: House, operation: str) -> tuple[str, str]:
    """Return how an operation is, and its error."""
    found = (await house.ask("GET", f"/v1/operations/{operation}")).json()
    return found["state"], found["error"]


async def prove_dead(house: House) -> None:
    await house.set_state("a", "offline")
    answer = await house.ask("POST", "/v1/hosts/a/confirm-dead", json={"confirm": "a"})
    assert answer.is_success, answer.text
    await house.caught_up()


def test_what_never_happened_fails_where_the_vm_does_not_start_elsewhere() -> None:
    async def story() -> None:
        async with open_house() as house:
            vm = await one_that_runs(house, "keep")
            restart = await asked(house, "POST", f"/v1/vms/{vm}/restart")
            resize = await asked(house, "PATCH", f"/v1/vms/{vm}", json={"spec": {"cpu": "2"}})
            await prove_dead(house)
            why = "its host is gone, and it does not start elsewhere by itself"
            for operation in (restart, resize):
                assert await ended(house, operation) == ("failed", why)
            assert (await house.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "stopped"

    asyncio.run(story())


def test_a_stop_is_done_when_its_host_is_dead() -> None:
    async def story() -> None:
        async with open_house() as house:
            vm = await one_that_runs(house, "keep")
            stop = await asked(house, "POST", f"/v1/vms/{vm}/stop")
            await prove_dead(house)
            assert await ended(house, stop) == ("done", "")

    asyncio.run(story())


def test_what_comes_true_elsewhere_stays_open_until_then_and_a_move_fails_alone() -> None:
    async def story() -> None:
        async with open_house() as house:
            vm = await one_that_runs(house, "restart")
            restart = await asked(house, "POST", f"/v1/vms/{vm}/restart")
            await house.add_hosts("b", cpu=4)
            move = await asked(house, "POST", f"/v1/vms/{vm}/migrate", json={"host": "b"})
            await prove_dead(house)
            assert (await ended(house, move))[0] == "failed"
            assert "is given up" in (await ended(house, move))[1]
            assert await ended(house, restart) == ("pending", "")
            await house.settle()
            assert await ended(house, restart) == ("done", "")
            assert (await house.ask("GET", f"/v1/vms/{vm}")).json()["host"] == "b"

    asyncio.run(story())
