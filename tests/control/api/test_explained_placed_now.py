"""What an explanation says of a VM that runs: where it would go if it were placed now, and what pins it to a host."""

from __future__ import annotations

from typing import Any

from tests.control.api.service_in_process import InProcessService, open_service


async def explained(service: InProcessService, vm: str) -> dict[str, Any]:
    answer = await service.ask("GET", f"/v1/vms/{vm}/decision")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def made(service: InProcessService, name: str, **more: Any) -> str:
    answer = await service.create(name, **more)
    assert answer.status_code == 202, answer.text
    await service.settle()
    return str(answer.json()["vm"]["id"])


async def do(service: InProcessService, vm: str, verb: str, **asked: Any) -> None:
    answer = await service.ask("POST", f"/v1/vms/{vm}/{verb}", json=asked)
    assert answer.status_code == 202, answer.text
    await service.settle()


async def test_moved_vm_is_explained_without_the_target_of_its_move() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b", "c")
        vm = await made(service, "web")
        here = (await service.ask("GET", f"/v1/vms/{vm}")).json()["host"]
        there = "b" if here != "b" else "c"
        await do(service, vm, "migrate", host=there)
        told = await explained(service, vm)
        assert told["now"] == f"runs on {there}"
        assert told["feasible"] == ["a", "b", "c"]
        assert told["if_placed_now"] == "a"
        assert told["pinned"] is None


async def test_restarted_vm_is_explained_as_if_it_were_placed_anywhere() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b")
        vm = await made(service, "web")
        await do(service, vm, "stop")
        stopped = await explained(service, vm)
        assert stopped["pinned"]["by"] == "stopped"
        await do(service, vm, "start")
        here = (await service.ask("GET", f"/v1/vms/{vm}")).json()["host"]
        await made(service, "neighbor", spec={"cpu": "3", "host_name": here})
        told = await explained(service, vm)
        assert sorted(told["feasible"]) == ["a", "b"]
        assert (told["chosen"], told["if_placed_now"]) == (here, "b" if here == "a" else "a")
        assert told["pinned"] is None


async def test_explanation_names_what_pins_a_running_vm() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b")
        named = await explained(service, await made(service, "named", spec={"host_name": "b"}))
        assert named["pinned"] == {"host": "b", "by": "host_name", "text": "its specification names host b"}
        assert named["if_placed_now"] == "b"
        vm = await made(service, "disk", spec={"disks": [{"size": "1Gi"}]})
        host = (await service.ask("GET", f"/v1/vms/{vm}")).json()["host"]
        await do(service, vm, "stop")
        await do(service, vm, "start")
        kept = await explained(service, vm)
        assert kept["pinned"] == {"host": host, "by": "disk", "text": f"it has a disk on {host}"}
        assert sorted(kept["feasible"]) == ["a", "b"]
