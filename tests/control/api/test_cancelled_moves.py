"""Moves that are called off over REST: who may, until when, and what becomes of both operations."""

from __future__ import annotations

from typing import Any

from hostler.agent.messages import VmReport
from hostler.control.books import ledger
from hostler.control.fleet.hosts.drains import drain_step
from hostler.control.store import Connection
from hostler.control.vms import reports
from hostler.control.vms.orders import order_for
from tests.control.api.service_in_process import InProcessService, open_service


async def moving(service: InProcessService) -> dict[str, Any]:
    """Return the answer to a move of a VM that runs on one of two hosts."""
    await service.add_hosts("a")
    vm = (await service.create("web")).json()["vm"]["id"]
    await service.settle()
    await service.add_hosts("b")
    answer = await service.ask("POST", f"/v1/vms/{vm}/migrate", json={})
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def gone_from(service: InProcessService, vm: str, host: str) -> None:
    """Let a host say that it has nothing of a VM any more."""

    def work(connection: Connection) -> None:
        stored = ledger.load(connection, vm)
        ledger.write(connection, stored, reports.apply_absence(stored.vm, f"id-{host}"), actor=host, now_ns=1)

    await service.database.write(work)


async def tells(service: InProcessService, vm: str, host: str, **more: Any) -> None:
    """Let a host say how a VM is, by its newest order."""

    def work(connection: Connection) -> None:
        stored = ledger.load(connection, vm)
        order = order_for(stored.vm, f"id-{host}")
        assert order is not None
        report = VmReport(vm=vm, generation=order.generation, **more)
        ledger.write(connection, stored, reports.apply_report(stored.vm, f"id-{host}", report), actor=host, now_ns=1)

    await service.database.write(work)


async def test_a_vm_whose_move_is_called_off_stays_where_it_is() -> None:
    async with open_service() as service:
        change = await moving(service)
        vm = change["vm"]["id"]
        await service.caught_up()
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "migrating"
        answer = await service.ask("POST", f"/v1/vms/{vm}/cancel-migration")
        assert (answer.status_code, answer.json()["operation"]["kind"]) == (202, "vm.cancel-migration")
        again = await service.ask("POST", f"/v1/vms/{vm}/cancel-migration")
        assert again.status_code == 202, again.text
        await gone_from(service, vm, "b")
        await service.settle()
        found = (await service.ask("GET", f"/v1/vms/{vm}")).json()
        assert (found["state"], found["host"]) == ("running", "a")
        moved = (await service.ask("GET", f"/v1/operations/{change['operation']['id']}")).json()
        assert (moved["state"], "called off" in moved["error"]) == ("failed", True)
        called = (await service.ask("GET", f"/v1/operations/{answer.json()['operation']['id']}")).json()
        assert called["state"] == "done"
        late = await service.ask("POST", f"/v1/vms/{vm}/cancel-migration")
        assert (late.status_code, late.json()["code"]) == (409, "wrong_state")


async def test_a_move_that_has_arrived_is_not_called_off() -> None:
    async with open_service() as service:
        vm = (await moving(service))["vm"]["id"]
        await service.caught_up()

        def arrive(connection: Connection) -> None:
            stored = ledger.load(connection, vm)
            assert stored.vm.other is not None
            report = VmReport(vm=vm, state="running", generation=stored.vm.other.generation)
            change = reports.apply_report(stored.vm, "id-b", report)
            ledger.write(connection, stored, change, actor="b", now_ns=1)

        await service.database.write(arrive)
        refused = await service.ask("POST", f"/v1/vms/{vm}/cancel-migration")
        assert (refused.status_code, refused.json()["code"]) == (409, "wrong_state")
        assert "arrived on b" in refused.json()["detail"]


async def test_move_cannot_be_cancelled_after_source_reported_departure() -> None:
    async with open_service() as service:
        vm = (await moving(service))["vm"]["id"]
        await service.caught_up()
        landing = {"state": "landing", "landing_address": "10.0.0.2:4444", "landing_secret": "s"}
        await tells(service, vm, "b", **landing)
        await tells(service, vm, "a", state="left")
        before = (await service.ask("GET", f"/v1/vms/{vm}")).json()
        refused = await service.ask("POST", f"/v1/vms/{vm}/cancel-migration")
        assert (refused.status_code, refused.json()["code"]) == (409, "wrong_state")
        assert "arrived on b" in refused.json()["detail"]
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json() == before
        await tells(service, vm, "b", state="running")
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["host"] == "b"


async def test_who_may_not_move_a_vm_may_not_call_its_move_off() -> None:
    async with open_service() as service:
        vm = (await moving(service))["vm"]["id"]
        refused = await service.as_key(await service.key("operator"), "POST", f"/v1/vms/{vm}/cancel-migration")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


async def test_who_may_not_drain_does_not_keep_a_vm_on_a_host_that_is_drained() -> None:
    async with open_service() as service:
        vm = (await moving(service))["vm"]["id"]
        await service.caught_up()
        owner = await service.key("editor", "default")
        path = f"/v1/vms/{vm}/cancel-migration"
        assert (await service.ask("POST", "/v1/hosts/a/drain")).status_code == 200
        before = (await service.ask("GET", f"/v1/vms/{vm}")).json()
        refused = await service.as_key(owner, "POST", path)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert "its host a is drained" in refused.json()["detail"]
        assert "host.operate" in refused.json()["hint"]
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json() == before
        assert (await service.ask("POST", path)).status_code == 202, "who drains may"


async def test_an_owner_calls_a_move_off_again_when_the_drain_has_ended() -> None:
    async with open_service() as service:
        vm = (await moving(service))["vm"]["id"]
        await service.caught_up()
        owner = await service.key("editor", "default")
        for deed in ("drain", "undrain"):
            assert (await service.ask("POST", f"/v1/hosts/a/{deed}")).status_code == 200
        answer = await service.as_key(owner, "POST", f"/v1/vms/{vm}/cancel-migration")
        assert answer.status_code == 202, answer.text


async def test_a_move_that_a_drain_asked_for_is_not_called_off_by_the_owner() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        vm = (await service.create("web")).json()["vm"]["id"]
        await service.settle()
        await service.add_hosts("b")
        assert (await service.ask("POST", "/v1/hosts/a/drain")).status_code == 200

        def step(connection: Connection) -> list[str]:
            return drain_step(connection, "id-a", at_once=4, without=(), now_ns=1)[0]

        assert await service.database.write(step) == [vm]
        owner = await service.key("editor", "default")
        for phase in ("before a place is found", "when it is"):
            refused = await service.as_key(owner, "POST", f"/v1/vms/{vm}/cancel-migration")
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), phase
            await service.caught_up()
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["moving_to"] == "b"
