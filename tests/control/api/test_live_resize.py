"""A VM that runs where the driver resizes stopped VMs only is not resized: the error says to stop it first."""

from __future__ import annotations

import time

import msgspec
import pytest

from hostler.agent.messages import Capabilities
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.fleet.hosts.host_writes import announce
from hostler.control.store import Connection
from hostler.control.store.history import log
from hostler.control.store.rows import hosts
from tests.control.api.service_in_process import InProcessService, open_service

RIGID = Capabilities(pause=True, disks=True)


async def make_rigid(service: InProcessService, name: str) -> None:
    """Let a host say, as QEMU's driver does, that it resizes no running VM."""

    def work(connection: Connection) -> None:
        row = hosts.find_by_name(connection, name)
        assert row is not None
        body = msgspec.structs.replace(read_body(row), driver="qemu", capabilities=RIGID)
        announce(connection, row, row, body, actor="test", now_ns=time.time_ns())

    await service.database.write(work)


@pytest.mark.parametrize("verb", ["", "pause"])
async def test_running_or_paused_vm_is_not_resized_by_old_driver(verb: str) -> None:
    async with open_service() as service:
        await service.add_hosts("north")
        await make_rigid(service, "north")
        vm = (await service.create("web")).json()["vm"]["id"]
        await service.settle()
        if verb:
            assert (await service.ask("POST", f"/v1/vms/{vm}/{verb}")).status_code == 202
            await service.settle()
        before, head = (await service.ask("GET", f"/v1/vms/{vm}")).json(), await service.database.read(log.head)
        for spec in ({"cpu": "2"}, {"memory": "512Mi"}, {"cpu": "2", "labels": {"a": "b"}}):
            answer = await service.ask("PATCH", f"/v1/vms/{vm}", json={"spec": spec})
            assert (answer.status_code, answer.json()["code"]) == (409, "resize_needs_stop")
            assert "stop it first" in answer.json()["hint"]
            assert "north" in answer.json()["detail"]
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json() == before
        assert await service.database.read(log.head) == head


async def test_old_driver_resizes_stopped_vm_and_edits_running_one() -> None:
    async with open_service() as service:
        await service.add_hosts("north")
        await make_rigid(service, "north")
        vm = (await service.create("web")).json()["vm"]["id"]
        await service.settle()
        edits = ({"labels": {"a": "b"}}, {"cpu": "1000m", "memory": "1024Mi"})
        for spec in edits:
            answer = await service.ask("PATCH", f"/v1/vms/{vm}", json={"spec": spec})
            assert answer.status_code == 202, answer.text
            await service.settle()
        await service.ask("POST", f"/v1/vms/{vm}/stop")
        await service.settle()
        assert (await service.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"cpu": "2"}})).status_code == 202
        await service.ask("POST", f"/v1/vms/{vm}/start")
        await service.settle()
        found = (await service.ask("GET", f"/v1/vms/{vm}")).json()
        assert (found["state"], found["spec"]["cpu"]) == ("running", "2")


async def test_a_vm_that_waits_for_a_place_may_have_any_size() -> None:
    async with open_service() as service:
        await service.add_hosts("north", cpu=2)
        await make_rigid(service, "north")
        vm = (await service.create("web", spec={"cpu": "8"})).json()["vm"]["id"]
        await service.settle()
        assert (await service.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"cpu": "2"}})).status_code == 202
        await service.settle()
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "running"
