"""What was wanted of a VM when its host is proved dead: it fails with the reason, or comes true where the VM starts."""

from __future__ import annotations

from typing import Any

from tests.control.api.service_in_process import InProcessService, open_service


async def one_that_runs(service: InProcessService, when_lost: str) -> str:
    await service.add_hosts("a", cpu=4)
    vm = str((await service.create("web", spec={"when_lost": when_lost})).json()["vm"]["id"])
    await service.settle()
    return vm


async def asked(service: InProcessService, method: str, path: str, **more: Any) -> str:
    """Ask for a change, and return its operation."""
    answer = await service.ask(method, path, **more)
    assert answer.is_success, answer.text
    return str(answer.json()["operation"]["id"])


async def ended(service: InProcessService, operation: str) -> tuple[str, str]:
    """Return how an operation is, and its error."""
    found = (await service.ask("GET", f"/v1/operations/{operation}")).json()
    return found["state"], found["error"]


async def prove_dead(service: InProcessService) -> None:
    await service.set_state("a", "offline")
    answer = await service.ask("POST", "/v1/hosts/a/confirm-dead", json={"confirm": "a"})
    assert answer.is_success, answer.text
    await service.caught_up()


async def test_what_never_happened_fails_where_the_vm_does_not_start_elsewhere() -> None:
    async with open_service() as service:
        vm = await one_that_runs(service, "keep")
        restart = await asked(service, "POST", f"/v1/vms/{vm}/restart")
        resize = await asked(service, "PATCH", f"/v1/vms/{vm}", json={"spec": {"cpu": "2"}})
        await prove_dead(service)
        why = "its host is gone, and it does not start elsewhere by itself"
        for operation in (restart, resize):
            assert await ended(service, operation) == ("failed", why)
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "stopped"


async def test_a_stop_is_done_when_its_host_is_dead() -> None:
    async with open_service() as service:
        vm = await one_that_runs(service, "keep")
        stop = await asked(service, "POST", f"/v1/vms/{vm}/stop")
        await prove_dead(service)
        assert await ended(service, stop) == ("done", "")


async def test_operations_stay_open_after_host_death_and_only_the_move_fails() -> None:
    async with open_service() as service:
        vm = await one_that_runs(service, "restart")
        restart = await asked(service, "POST", f"/v1/vms/{vm}/restart")
        await service.add_hosts("b", cpu=4)
        move = await asked(service, "POST", f"/v1/vms/{vm}/migrate", json={"host": "b"})
        await prove_dead(service)
        assert (await ended(service, move))[0] == "failed"
        assert "is given up" in (await ended(service, move))[1]
        assert await ended(service, restart) == ("pending", "")
        await service.settle()
        assert await ended(service, restart) == ("done", "")
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["host"] == "b"
