"""The only host that will do for a VM: it must be there when it is named."""

from __future__ import annotations

import asyncio

from tests.control.api.house import open_house


def test_a_vm_for_a_host_that_is_not_there_is_refused() -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            refused = await house.create("x", spec={"host_name": "nope"})
            assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
            assert refused.json()["detail"] == "host_name: there is no host 'nope'"
            assert (await house.ask("GET", "/v1/vms")).json()["items"] == []
            assert (await house.create("x", spec={"host_name": "a"})).status_code == 202

    asyncio.run(story())


def test_a_vm_is_not_sent_to_a_host_that_is_not_there_by_an_edit() -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            made = (await house.create("x")).json()["vm"]
            refused = await house.ask("PATCH", f"/v1/vms/{made['id']}", json={"spec": {"host_name": "nope"}})
            assert (refused.status_code, refused.json()["detail"]) == (400, "host_name: there is no host 'nope'")

    asyncio.run(story())


def test_a_vm_whose_host_was_deleted_can_still_be_edited() -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a", cpu=1)
            made = (await house.create("x", spec={"host_name": "a", "cpu": "2"})).json()["vm"]
            await house.caught_up()
            assert (await house.ask("DELETE", "/v1/hosts/a", params={"confirm": "a"})).is_success
            edited = await house.ask("PATCH", f"/v1/vms/{made['id']}", json={"spec": {"priority": -1}})
            assert edited.is_success, edited.text

    asyncio.run(story())


def test_a_host_that_will_come_is_selected_by_its_label() -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            made = await house.create("x", spec={"host_selector": {"kubernetes.io/hostname": "later"}})
            assert made.status_code == 202
            await house.add_hosts("later")
            await house.settle()
            found = (await house.ask("GET", f"/v1/vms/{made.json()['vm']['id']}")).json()
            assert found["host"] == "later"

    asyncio.run(story())
