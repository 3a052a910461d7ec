"""An operation that another wish takes back before it came true has failed, and says what overtook it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.control.api.house import House, open_house


def by(what: str) -> str:
    return f"it was overtaken: {what} was asked for before it came true"


async def ended(house: House, operation: str) -> tuple[str, str]:
    """Return how an operation is, and its error."""
    found = (await house.ask("GET", f"/v1/operations/{operation}")).json()
    return found["state"], found["error"]


async def asked(house: House, method: str, path: str, **more: Any) -> str:
    """Ask for a change, and return its operation."""
    answer = await house.ask(method, path, **more)
    assert answer.is_success, answer.text
    return str(answer.json()["operation"]["id"])


async def resized(house: House, vm: str, **spec: Any) -> str:
    return await asked(house, "PATCH", f"/v1/vms/{vm}", json={"spec": spec})


async def one_that_runs(house: House) -> str:
    await house.add_hosts("a", cpu=4)
    vm = str((await house.create("web")).json()["vm"]["id"])
    await house.settle()
    return vm


def test_a_growth_that_waits_for_room_is_overtaken_by_another_resize() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            vm = await one_that_runs(house)
            huge = await resized(house, vm, cpu="64")
            await house.settle()
            small = await resized(house, vm, cpu="2")
            await house.settle()
            assert await ended(house, huge) == ("failed", by("another resize"))
            assert await ended(house, small) == ("done", "")

    asyncio.run(scenario())


def test_a_resize_of_something_else_overtakes_nothing() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            vm = await one_that_runs(house)
            first = await resized(house, vm, cpu="4")
            for spec in ({"labels": {"tier": "gold"}}, {"memory": "2Gi"}):
                await resized(house, vm, **spec)
            await house.settle()
            assert await ended(house, first) == ("done", "")

    asyncio.run(scenario())


def test_labels_that_were_set_meanwhile_are_done_when_the_growth_is_taken_back() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            vm = await one_that_runs(house)
            await resized(house, vm, cpu="64")
            labels = await resized(house, vm, labels={"tier": "gold"})
            await resized(house, vm, cpu="1")
            await house.settle()
            assert await ended(house, labels) == ("done", "")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("method", "path", "what"), [("POST", "/stop", "a stop"), ("DELETE", "", "a deletion")], ids=["stop", "delete"]
)
def test_a_create_that_never_got_a_place_is_overtaken(method: str, path: str, what: str) -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a", cpu=4)
            made = (await house.create("huge", spec={"cpu": "64"})).json()
            await house.settle()
            later = await asked(house, method, f"/v1/vms/{made['vm']['id']}{path}")
            await house.settle()
            assert await ended(house, made["operation"]["id"]) == ("failed", by(what))
            assert await ended(house, later) == ("done", "")

    asyncio.run(scenario())


def test_a_start_that_waits_for_room_is_overtaken_by_a_stop() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            vm = await one_that_runs(house)
            await asked(house, "POST", f"/v1/vms/{vm}/stop")
            await house.settle()
            await resized(house, vm, cpu="64")
            await house.settle()
            start = await asked(house, "POST", f"/v1/vms/{vm}/start")
            await house.settle()
            await asked(house, "POST", f"/v1/vms/{vm}/stop")
            assert await ended(house, start) == ("failed", by("a stop"))

    asyncio.run(scenario())


def test_a_stop_that_its_host_has_not_carried_out_is_overtaken_by_a_start() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            vm = await one_that_runs(house)
            stop = await asked(house, "POST", f"/v1/vms/{vm}/stop")
            start = await asked(house, "POST", f"/v1/vms/{vm}/start")
            await house.settle()
            assert await ended(house, stop) == ("failed", by("a start"))
            assert await ended(house, start) == ("done", "")

    asyncio.run(scenario())


def test_a_restart_that_came_true_while_a_growth_waits_is_done_and_the_growth_is_not() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            vm = await one_that_runs(house)
            huge = await resized(house, vm, cpu="64")
            restart = await asked(house, "POST", f"/v1/vms/{vm}/restart")
            await house.settle()
            await asked(house, "DELETE", f"/v1/vms/{vm}")
            await house.settle()
            assert await ended(house, restart) == ("done", "")
            assert await ended(house, huge) == ("failed", by("a deletion"))

    asyncio.run(scenario())


def test_what_came_true_stays_done_whatever_is_wanted_later() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a", cpu=4)
            made = (await house.create("web")).json()
            vm, operations = made["vm"]["id"], [made["operation"]["id"]]
            await house.settle()
            operations.append(await resized(house, vm, cpu="2"))
            await house.settle()
            operations.append(await resized(house, vm, cpu="1"))
            await house.settle()
            operations.append(await asked(house, "POST", f"/v1/vms/{vm}/stop"))
            await house.settle()
            operations.append(await asked(house, "DELETE", f"/v1/vms/{vm}"))
            await house.settle()
            assert [await ended(house, one) for one in operations] == [("done", "")] * 5

    asyncio.run(scenario())


def test_a_wish_that_changes_nothing_overtakes_nothing() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            vm = await one_that_runs(house)
            huge = await resized(house, vm, cpu="64")
            again = await resized(house, vm, cpu="64")
            assert [(await ended(house, one))[0] for one in (huge, again)] == ["pending", "pending"]

    asyncio.run(scenario())
