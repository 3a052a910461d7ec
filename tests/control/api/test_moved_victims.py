"""What is told of a VM that moves for another: while it moves, afterwards, and by what-ifs before."""

from __future__ import annotations

from tests.control.api.service_in_process import InProcessService, open_service
from tests.control.api.test_vm_status_texts import explained, made

HIGH = {"cpu": "3", "memory": "1Gi", "priority": 10, "host_name": "a"}


async def crowded(service: InProcessService) -> str:
    """Return a VM that runs on host ``a``, which it fills; host ``b`` is empty."""
    await service.add_hosts("a")
    low = await made(service, "low", spec={"cpu": "3"})
    await service.settle()
    await service.add_hosts("b")
    return low


async def test_vm_that_was_moved_says_for_whom_and_forgets_it_when_it_is_stopped() -> None:
    async with open_service() as service:
        low = await crowded(service)
        await made(service, "high", spec=HIGH)
        await service.settle()
        told = await explained(service, low)
        assert (told["state"], told["now"], told["made_way"]) == ("running", "runs on b", "")
        assert told["moved_for"] == "high, a VM of higher priority"
        events = (await service.ask("GET", f"/v1/vms/{low}/events", params={"limit": 500})).json()["items"]
        texts = {one["kind"]: one["text"] for one in events}
        assert texts["vm.moving"] == "moves to b to make room for high, a VM of higher priority"
        assert texts["vm.moved"] == "moved to b to make room for high, a VM of higher priority"
        assert "vm.evicted" not in texts
        await service.ask("POST", f"/v1/vms/{low}/stop")
        await service.settle()
        assert (await explained(service, low))["moved_for"] == ""


async def test_vm_of_another_project_is_not_named() -> None:
    async with open_service() as service:
        low = await crowded(service)
        await service.ask("POST", "/v1/projects", json={"name": "elsewhere"})
        await made(service, "secret", project="elsewhere", spec=HIGH)
        await service.settle()
        assert (await explained(service, low))["moved_for"] == "a VM of higher priority"


async def test_vm_on_its_way_says_where_to_and_for_whom() -> None:
    async with open_service() as service:
        low = await crowded(service)
        await service.create("high", spec=HIGH)
        await service.caught_up()
        told = await explained(service, low)
        assert told["state"] == "migrating"
        assert told["now"] == "is on a, and moves to b to make room for high, a VM of higher priority"


async def test_what_if_says_which_vms_would_move() -> None:
    async with open_service() as service:
        await crowded(service)
        body = {"vms": [{"name": "high", "spec": HIGH}]}
        [found] = (await service.ask("POST", "/v1/plan", json=body)).json()["placements"]
        assert found["host"] == "a"
        assert [(one["name"], one["host"], one["moves_to"]) for one in found["evictions"]] == [("low", "a", "b")]
