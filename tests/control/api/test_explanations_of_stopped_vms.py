"""What an explanation says of a stopped VM: that it is stopped, and how it would be if it were started now."""

from __future__ import annotations

from tests.control.api.service_in_process import open_service
from tests.control.api.test_vm_status_texts import explained, made


async def test_stopped_vm_is_explained_as_stopped_and_as_if_started() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        vm = await made(service, "web", spec={"disks": [{"size": "1Gi"}]})
        assert (await explained(service, vm))["if_started"] is False
        await service.ask("POST", f"/v1/vms/{vm}/stop")
        await service.settle()
        told = await explained(service, vm)
        assert told["if_started"] is True
        assert told["now"] == "is stopped, and stays on a"
        assert told["hint"] == "'hostler vm start default/web' starts it; until then no host is asked"
        assert told["feasible"] == ["a"]


async def test_vm_stopped_while_waiting_has_no_next_try() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        vm = await made(service, "huge", spec={"cpu": "64"})
        assert (await explained(service, vm))["wakes"]
        await service.ask("POST", f"/v1/vms/{vm}/stop")
        await service.settle()
        told = await explained(service, vm)
        assert (told["now"], told["wakes"]) == ("is stopped, and on no host", [])
        assert told["hint"].endswith("'hostler vm start default/huge': no host would take it as it is")
        assert told["cure"]["host"] == "a"


async def test_a_vm_that_was_lost_is_not_said_to_be_tried_again() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        vm = await made(service, "db", spec={"disks": [{"size": "1Gi"}]})
        await service.set_state("a", "silent")
        answer = await service.ask("POST", "/v1/hosts/a/confirm-dead", json={"confirm": "a"})
        assert answer.status_code == 200, answer.text
        await service.settle()
        told = await explained(service, vm)
        assert (told["state"], told["if_started"], told["wakes"]) == ("lost", True, [])
        assert told["now"] == "is lost: its host is gone, and its disk with it"
        assert told["hint"].startswith("'hostler vm start default/db' starts it without its data")
