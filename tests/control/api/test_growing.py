"""A VM whose resize waits: what it has and what it wants, why it waits in totals, and nothing of it when it is over."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from hostler.web.pages import mount
from tests.control.api.house import House, open_house


async def one_that_waits(house: House, cpu: str = "10") -> str:
    """Make a VM of one core that wants more than its host has."""
    await house.add_hosts("a", "b", "c", cpu=4)
    vm = str((await house.create("web")).json()["vm"]["id"])
    await house.settle()
    assert (await house.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"cpu": cpu}})).is_success
    await house.settle()
    return vm


async def shown(house: House, vm: str) -> dict[str, Any]:
    found: dict[str, Any] = (await house.ask("GET", f"/v1/vms/{vm}")).json()
    return found


def test_it_shows_what_it_has_beside_what_it_wants() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            vm = await one_that_waits(house)
            found = await shown(house, vm)
            assert (found["state"], found["spec"]["cpu"]) == ("resizing", "10")
            assert found["booked"] == {"cpu": "1", "memory": "1Gi"}
            await house.ask("POST", f"/v1/vms/{vm}/stop")
            await house.settle()
            assert (await shown(house, vm))["booked"] is None

    asyncio.run(scenario())


def test_why_it_waits_is_told_in_totals_and_of_no_host_that_nobody_named() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            vm = await one_that_waits(house)
            assert (await shown(house, vm))["why"] == "0 of 3 hosts: 2 not its host, 1 insufficient cpu"
            decision = (await house.ask("GET", f"/v1/vms/{vm}/decision")).json()
            home = (await shown(house, vm))["host"]
            failures = {one["host"]: one["failures"] for one in decision["verdicts"]}
            [lack] = failures.pop(home)
            assert (lack["needed"], lack["free"], lack["missing"]) == (10_000, 4_000, 6_000)
            assert [[one["reason"]["code"] for one in found] for found in failures.values()] == [["not_its_host"]] * 2
            [change] = decision["cure"]["changes"]
            command = "'hostler vm resize default/web --cpu 4'"
            assert change["text"] == f"ask for 6 cpu less (at most 4) ({command})"
            assert change["relative"] == 0.6
            assert decision["near_misses"] == [home]
            assert "all that it would have" in decision["decision"]["note"]

    asyncio.run(scenario())


def test_a_quota_that_is_exceeded_is_told_as_more_than_it_has() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            quota = {"project": "default", "min": {"cpu": 2}, "max": {"cpu": 2}}
            assert (await house.ask("POST", "/v1/quotas", json=quota)).is_success
            vm = await one_that_waits(house, "3")
            decision = (await house.ask("GET", f"/v1/vms/{vm}/decision")).json()
            assert "(1 used, 2 more asked, 2 at most)" in decision["quota"]

    asyncio.run(scenario())


def test_its_pages_show_both_sizes() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            mount(house.app, house.context)
            vm = await one_that_waits(house)
            transport, origin = httpx.ASGITransport(app=house.app), {"Origin": "http://localhost"}
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=origin) as browser:
                assert (await browser.post("/login", data={"key": house.secret})).status_code == 303
                assert "10, 1 GiB wanted; 1, 1 GiB now" in (await browser.get(f"/vms/{vm}")).text
                form = await browser.get(f"/vms/{vm}/resize")
            assert "It is to have 10 CPU and 1 GiB of memory, and has 1 and 1 GiB until then." in form.text

    asyncio.run(scenario())


def test_the_reason_goes_with_the_wish() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            vm = await one_that_waits(house)
            assert (await house.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"cpu": "1"}})).is_success
            await house.settle()
            found = await shown(house, vm)
            assert (found["state"], found["why"]) == ("running", "")
            assert [one["message"] for one in found["conditions"] if one["type"] == "placed"] == [""]

    asyncio.run(scenario())


def test_a_stopped_vm_with_a_disk_stays_on_its_host() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a", "b", cpu=4)
            vm = str((await house.create("web", spec={"cpu": "3", "disks": [{"size": "1Gi"}]})).json()["vm"]["id"])
            await house.settle()
            home = (await shown(house, vm))["host"]
            await house.ask("POST", f"/v1/vms/{vm}/stop")
            await house.settle()
            assert (await house.create("other", spec={"cpu": "4", "host_name": home})).is_success
            await house.settle()
            await house.ask("POST", f"/v1/vms/{vm}/start")
            await house.settle()
            assert "1 not its host" in (await shown(house, vm))["why"]
            text = (await house.ask("GET", f"/v1/vms/{vm}/decision")).text
            assert "not_its_host" in text
            assert "named" not in text

    asyncio.run(scenario())
