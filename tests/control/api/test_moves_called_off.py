"""Moves that are called off over REST: who may, until when, and what becomes of both operations."""

from __future__ import annotations

import asyncio
from typing import Any

from hostler.agent.messages import VmReport
from hostler.control.books import ledger
from hostler.control.fleet.draining import drain_step
from hostler.control.store import Connection
from hostler.control.vms import reports
from hostler.control.vms.orders import order_for
from tests.control.api.house import House, open_house


async def moving(house: House) -> dict[str, Any]:
    """Return the answer to a move of a VM that runs on one of two hosts."""
    await house.add_hosts("a")
    vm = (await house.create("web")).json()["vm"]["id"]
    await house.settle()
    await house.add_hosts("b")
    answer = await house.ask("POST", f"/v1/vms/{vm}/migrate", json={})
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def gone_from(house: House, vm: str, host: str) -> None:
    """Let a host say that it has nothing of a VM any more."""

    def work(connection: Connection) -> None:
        stored = ledger.load(connection, vm)
        ledger.write(connection, stored, reports.gone(stored.vm, f"id-{host}"), actor=host, now_ns=1)

    await house.database.write(work)


async def tells(house: House, vm: str, host: str, **more: Any) -> None:
    """Let a host say how a VM is, by its newest order."""

    def work(connection: Connection) -> None:
        stored = ledger.load(connection, vm)
        order = order_for(stored.vm, f"id-{host}")
        assert order is not None
        report = VmReport(vm=vm, generation=order.generation, **more)
        ledger.write(connection, stored, reports.reported(stored.vm, f"id-{host}", report), actor=host, now_ns=1)

    await house.database.write(work)


def test_a_vm_whose_move_is_called_off_stays_where_it_is() -> None:
    async def story() -> None:
        async with open_house() as house:
            change = await moving(house)
            vm = change["vm"]["id"]
            await house.caught_up()
            assert (await house.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "migrating"
            answer = await house.ask("POST", f"/v1/vms/{vm}/cancel-migration")
            assert (answer.status_code, answer.json()["operation"]["kind"]) == (202, "vm.cancel-migration")
            again = await house.ask("POST", f"/v1/vms/{vm}/cancel-migration")
            assert again.status_code == 202, again.text
            await gone_from(house, vm, "b")
            await house.settle()
            found = (await house.ask("GET", f"/v1/vms/{vm}")).json()
            assert (found["state"], found["host"]) == ("running", "a")
            moved = (await house.ask("GET", f"/v1/operations/{change['operation']['id']}")).json()
            assert (moved["state"], "called off" in moved["error"]) == ("failed", True)
            called = (await house.ask("GET", f"/v1/operations/{answer.json()['operation']['id']}")).json()
            assert called["state"] == "done"
            late = await house.ask("POST", f"/v1/vms/{vm}/cancel-migration")
            assert (late.status_code, late.json()["code"]) == (409, "wrong_state")

    asyncio.run(story())


def test_a_move_that_has_arrived_is_not_called_off() -> None:
    async def story() -> None:
        async with open_house() as house:
            vm = (await moving(house))["vm"]["id"]
            await house.caught_up()

            def arrive(connection: Connection) -> None:
                stored = ledger.load(connection, vm)
                assert stored.vm.other is not None
                report = VmReport(vm=vm, state="running", generation=stored.vm.other.generation)
                change = reports.reported(stored.vm, "id-b", report)
                ledger.write(connection, stored, change, actor="b", now_ns=1)

            await house.database.write(arrive)
            refused = await house.ask("POST", f"/v1/vms/{vm}/cancel-migration")
            assert (refused.status_code, refused.json()["code"]) == (409, "wrong_state")
            assert "arrived on b" in refused.json()["detail"]

    asyncio.run(story())


def test_a_move_is_not_called_off_once_its_source_has_said_that_the_vm_left() -> None:
    async def story() -> None:
        async with open_house() as house:
            vm = (await moving(house))["vm"]["id"]
            await house.caught_up()
            landing = {"state": "landing", "landing_address": "10.0.0.2:4444", "landing_secret": "s"}
            await tells(house, vm, "b", **landing)
            await tells(house, vm, "a", state="left")
            before = (await house.ask("GET", f"/v1/vms/{vm}")).json()
            refused = await house.ask("POST", f"/v1/vms/{vm}/cancel-migration")
            assert (refused.status_code, refused.json()["code"]) == (409, "wrong_state")
            assert "arrived on b" in refused.json()["detail"]
            assert (await house.ask("GET", f"/v1/vms/{vm}")).json() == before
            await tells(house, vm, "b", state="running")
            assert (await house.ask("GET", f"/v1/vms/{vm}")).json()["host"] == "b"

    asyncio.run(story())


def test_who_may_not_move_a_vm_may_not_call_its_move_off() -> None:
    async def story() -> None:
        async with open_house() as house:
            vm = (await moving(house))["vm"]["id"]
            refused = await house.as_key(await house.key("operator"), "POST", f"/v1/vms/{vm}/cancel-migration")
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")

    asyncio.run(story())


def test_who_may_not_drain_does_not_keep_a_vm_on_a_host_that_is_drained() -> None:
    async def story() -> None:
        async with open_house() as house:
            vm = (await moving(house))["vm"]["id"]
            await house.caught_up()
            owner = await house.key("editor", "default")
            path = f"/v1/vms/{vm}/cancel-migration"
            assert (await house.ask("POST", "/v1/hosts/a/drain")).status_code == 200
            before = (await house.ask("GET", f"/v1/vms/{vm}")).json()
            refused = await house.as_key(owner, "POST", path)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
            assert "its host a is drained" in refused.json()["detail"]
            assert "host.operate" in refused.json()["hint"]
            assert (await house.ask("GET", f"/v1/vms/{vm}")).json() == before
            assert (await house.ask("POST", path)).status_code == 202, "who drains may"

    asyncio.run(story())


def test_an_owner_calls_a_move_off_again_when_the_drain_has_ended() -> None:
    async def story() -> None:
        async with open_house() as house:
            vm = (await moving(house))["vm"]["id"]
            await house.caught_up()
            owner = await house.key("editor", "default")
            for deed in ("drain", "undrain"):
                assert (await house.ask("POST", f"/v1/hosts/a/{deed}")).status_code == 200
            answer = await house.as_key(owner, "POST", f"/v1/vms/{vm}/cancel-migration")
            assert answer.status_code == 202, answer.text

    asyncio.run(story())


def test_a_move_that_a_drain_asked_for_is_not_called_off_by_the_owner() -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            vm = (await house.create("web")).json()["vm"]["id"]
            await house.settle()
            await house.add_hosts("b")
            assert (await house.ask("POST", "/v1/hosts/a/drain")).status_code == 200

            def step(connection: Connection) -> list[str]:
                return drain_step(connection, "id-a", at_once=4, without=(), now_ns=1)[0]

            assert await house.database.write(step) == [vm]
            owner = await house.key("editor", "default")
            for phase in ("before a place is found", "when it is"):
                refused = await house.as_key(owner, "POST", f"/v1/vms/{vm}/cancel-migration")
                assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), phase
                await house.caught_up()
            assert (await house.ask("GET", f"/v1/vms/{vm}")).json()["moving_to"] == "b"

    asyncio.run(story())
