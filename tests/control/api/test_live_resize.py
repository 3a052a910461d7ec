"""A VM that runs where the driver resizes stopped VMs only is not resized: it is told to stop first."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from hostler.agent.messages import Capabilities
from hostler.control.fleet.announcing import announce
from hostler.control.fleet.hosts import read_body
from hostler.control.store import Connection, hosts, log
from tests.control.api.house import House, open_house

RIGID = Capabilities(pause=True, disks=True)


async def make_rigid(house: House, name: str) -> None:
    """Let a host say, as QEMU's driver does, that it resizes no running VM."""

    def work(connection: Connection) -> None:
        row = hosts.find_by_name(connection, name)
        assert row is not None
        body = msgspec.structs.replace(read_body(row), driver="qemu", capabilities=RIGID)
        announce(connection, row, row, body, actor="test", now_ns=time.time_ns())

    await house.database.write(work)


@pytest.mark.parametrize("verb", ["", "pause"])
def test_a_running_or_paused_vm_is_not_resized_there_and_nothing_is_changed(verb: str) -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("north")
            await make_rigid(house, "north")
            vm = (await house.create("web")).json()["vm"]["id"]
            await house.settle()
            if verb:
                assert (await house.ask("POST", f"/v1/vms/{vm}/{verb}")).status_code == 202
                await house.settle()
            before, head = (await house.ask("GET", f"/v1/vms/{vm}")).json(), await house.database.read(log.head)
            for spec in ({"cpu": "2"}, {"memory": "512Mi"}, {"cpu": "2", "labels": {"a": "b"}}):
                answer = await house.ask("PATCH", f"/v1/vms/{vm}", json={"spec": spec})
                assert (answer.status_code, answer.json()["code"]) == (409, "resize_needs_stop")
                assert "stop it first" in answer.json()["hint"]
                assert "north" in answer.json()["detail"]
            assert (await house.ask("GET", f"/v1/vms/{vm}")).json() == before
            assert await house.database.read(log.head) == head

    asyncio.run(scenario())


def test_a_stopped_vm_is_resized_there_and_a_running_one_may_change_all_but_its_size() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("north")
            await make_rigid(house, "north")
            vm = (await house.create("web")).json()["vm"]["id"]
            await house.settle()
            edits = ({"labels": {"a": "b"}}, {"cpu": "1000m", "memory": "1024Mi"})
            for spec in edits:
                answer = await house.ask("PATCH", f"/v1/vms/{vm}", json={"spec": spec})
                assert answer.status_code == 202, answer.text
                await house.settle()
            await house.ask("POST", f"/v1/vms/{vm}/stop")
            await house.settle()
            assert (await house.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"cpu": "2"}})).status_code == 202
            await house.ask("POST", f"/v1/vms/{vm}/start")
            await house.settle()
            found = (await house.ask("GET", f"/v1/vms/{vm}")).json()
            assert (found["state"], found["spec"]["cpu"]) == ("running", "2")

    asyncio.run(scenario())


def test_a_vm_that_waits_for_a_place_may_have_any_size() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("north", cpu=2)
            await make_rigid(house, "north")
            vm = (await house.create("web", spec={"cpu": "8"})).json()["vm"]["id"]
            await house.settle()
            assert (await house.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"cpu": "2"}})).status_code == 202
            await house.settle()
            assert (await house.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "running"

    asyncio.run(scenario())
