"""The only host that will do for a VM: it must be there when it is named."""

from __future__ import annotations

from tests.control.api.service_in_process import open_service


async def test_a_vm_for_a_host_that_is_not_there_is_refused() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        refused = await service.create("x", spec={"host_name": "nope"})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
        assert refused.json()["detail"] == "host_name: there is no host 'nope'"
        assert (await service.ask("GET", "/v1/vms")).json()["items"] == []
        assert (await service.create("x", spec={"host_name": "a"})).status_code == 202


async def test_a_vm_is_not_sent_to_a_host_that_is_not_there_by_an_edit() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        made = (await service.create("x")).json()["vm"]
        refused = await service.ask("PATCH", f"/v1/vms/{made['id']}", json={"spec": {"host_name": "nope"}})
        assert (refused.status_code, refused.json()["detail"]) == (400, "host_name: there is no host 'nope'")


async def test_a_vm_whose_host_was_deleted_can_still_be_edited() -> None:
    async with open_service() as service:
        await service.add_hosts("a", cpu=1)
        made = (await service.create("x", spec={"host_name": "a", "cpu": "2"})).json()["vm"]
        await service.caught_up()
        assert (await service.ask("DELETE", "/v1/hosts/a", params={"confirm": "a"})).is_success
        edited = await service.ask("PATCH", f"/v1/vms/{made['id']}", json={"spec": {"priority": -1}})
        assert edited.is_success, edited.text


async def test_a_host_that_will_come_is_selected_by_its_label() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        made = await service.create("x", spec={"host_selector": {"kubernetes.io/hostname": "later"}})
        assert made.status_code == 202
        await service.add_hosts("later")
        await service.settle()
        found = (await service.ask("GET", f"/v1/vms/{made.json()['vm']['id']}")).json()
        assert found["host"] == "later"
