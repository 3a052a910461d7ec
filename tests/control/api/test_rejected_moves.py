"""A move that cannot come true is refused when it is asked for, with the reason, and nothing is written."""

from __future__ import annotations

import time
from typing import Any

from hostler.agent.messages import Capabilities, State, Trouble, VmReport
from hostler.control.books import ledger
from hostler.control.store import Connection
from hostler.control.store.rows import operations
from hostler.control.store.rows.operations import OperationFilter
from hostler.control.vms import reports
from tests.control.api.service_in_process import InProcessService, open_service

CANNOT = Capabilities(pause=True, disks=True)


async def one_on_a(service: InProcessService) -> str:
    """Make a VM that runs on host a, where b is another."""
    await service.add_hosts("a")
    vm = str((await service.create("web")).json()["vm"]["id"])
    await service.settle()
    await service.add_hosts("b")
    return vm


async def refused(service: InProcessService, vm: str, **asked: Any) -> dict[str, Any]:
    """Ask for a move that is refused, and leaves the VM as it is and no operation."""
    before = (await service.ask("GET", f"/v1/vms/{vm}")).json()
    answer = await service.ask("POST", f"/v1/vms/{vm}/migrate", json=asked)
    assert answer.is_client_error, answer.text
    assert (await service.ask("GET", f"/v1/vms/{vm}")).json() == before
    moves = OperationFilter(subject=vm, kind="vm.migrate")
    assert not (await service.database.read(lambda connection: operations.list_page(connection, moves))).items
    found: dict[str, Any] = answer.json()
    return found


async def fail(service: InProcessService, vm: str, state: State) -> None:
    """Let its host say that it has given up on its order, and how it is."""

    def work(connection: Connection) -> None:
        stored = ledger.load(connection, vm)
        assert stored.vm.home is not None
        generation = stored.vm.home.generation
        trouble = Trouble(kind="permanent", code="start_failed", message="no such kernel")
        report = VmReport(vm=vm, state=state, generation=generation - 1, failed_generation=generation, trouble=trouble)
        change = reports.apply_report(stored.vm, "id-a", report)
        ledger.write(connection, stored, change, actor="a", now_ns=time.time_ns())

    await service.database.write(work)
    assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "failed"


async def test_a_target_whose_driver_takes_no_vm_that_runs_is_refused() -> None:
    async with open_service() as service:
        vm = await one_on_a(service)
        await service.describe("b", capabilities=CANNOT)
        told = await refused(service, vm, host="b")
        assert told["code"] == "not_movable"
        assert "cannot be moved live to host b, whose fake driver takes no VMs that run" in told["detail"]


async def test_vm_on_host_that_cannot_send_is_rejected_for_any_target() -> None:
    async with open_service() as service:
        vm = await one_on_a(service)
        await service.describe("a", capabilities=CANNOT)
        for asked in ({"host": "b"}, {}):
            told = await refused(service, vm, **asked)
            assert "is on host a, whose fake driver cannot move VMs that run" in told["detail"]
            assert told["hint"].startswith("stop it, migrate it while it is stopped")


async def test_a_vm_that_failed_is_refused_with_what_is_the_matter() -> None:
    async with open_service() as service:
        vm = await one_on_a(service)
        await fail(service, vm, "stopped")
        told = await refused(service, vm, host="b")
        assert told["code"] == "wrong_state"
        assert "VM web failed, so it does not run: no such kernel" in told["detail"]


async def test_a_vm_that_runs_although_its_last_order_failed_may_move() -> None:
    async with open_service() as service:
        vm = await one_on_a(service)
        await fail(service, vm, "running")
        answer = await service.ask("POST", f"/v1/vms/{vm}/migrate", json={"host": "b"})
        assert answer.status_code == 202, answer.text
