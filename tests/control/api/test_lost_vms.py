"""A lost VM is not created again while hosts are missing that may still have it, unless an admin forces it."""

from __future__ import annotations

import msgspec
import pytest

from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.web.routes import mount
from tests.control.api.service_in_process import InProcessService, open_service
from tests.control.api.test_operations_of_dead_hosts import prove_dead
from tests.control.api.test_sessions_ended import log_in

WAITS = "is not created again while hosts are missing that may still have it: b"
FORCE = "'hostler vm start default/web --force'"


async def lost_vm(service: InProcessService) -> str:
    """Return a VM whose host a was proved dead; b and c have room."""
    await service.add_hosts("a", cpu=4)
    vm = str((await service.create("web", spec={"disks": [{"size": "1Gi"}]})).json()["vm"]["id"])
    await service.settle()
    await prove_dead(service)
    await service.add_hosts("b", "c", cpu=4)
    assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "lost"
    return vm


async def miss_b(service: InProcessService, how: str) -> None:
    """Let the host b be silent, offline, or as a restore leaves it."""

    def forget_agent(connection: Connection) -> None:
        row = hosts.get(connection, "id-b")
        hosts.save(connection, msgspec.structs.replace(row, agent="", boot="", epoch=7))

    if how == "unregistered":
        await service.database.write(forget_agent)
    else:
        await service.set_state("b", how)


@pytest.mark.parametrize("how", ["silent", "offline", "unregistered"])
async def test_lost_vm_is_refused_while_a_host_is_missing(how) -> None:
    async with open_service() as service:
        vm = await lost_vm(service)
        await miss_b(service, how)
        answer = await service.ask("POST", f"/v1/vms/{vm}/start")
        assert (answer.status_code, answer.json()["code"]) == (409, "hosts_missing"), answer.text
        assert WAITS in answer.json()["detail"]
        assert FORCE in answer.json()["hint"]
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "lost"
        await service.set_state("b", "fenced")
        answer = await service.ask("POST", f"/v1/vms/{vm}/start")
        assert answer.is_success, "b was proved dead"


async def test_lost_vm_starts_if_no_host_is_missing() -> None:
    async with open_service() as service:
        vm = await lost_vm(service)
        assert (await service.ask("POST", f"/v1/vms/{vm}/start")).is_success
        await service.settle()
        found = (await service.ask("GET", f"/v1/vms/{vm}")).json()
        assert (found["state"], found["host"] in ("b", "c")) == ("running", True)


async def test_lost_vm_is_forced_by_an_admin_only_and_leaves_an_event() -> None:
    async with open_service() as service:
        vm = await lost_vm(service)
        await service.set_state("b", "silent")
        for role in ("operator", "editor"):
            secret = await service.key(role)
            answer = await service.as_key(secret, "POST", f"/v1/vms/{vm}/start", json={"force": True})
            assert answer.status_code == 403, answer.text
        admin = await service.key("admin", "default")
        answer = await service.as_key(admin, "POST", f"/v1/vms/{vm}/start", json={"force": True})
        assert answer.status_code == 403, "an admin of one project knows nothing about hosts"
        assert (await service.ask("POST", f"/v1/vms/{vm}/start", json={"force": True})).is_success
        await service.settle()
        found = (await service.ask("GET", f"/v1/vms/{vm}")).json()
        assert (found["state"], found["host"]) == ("running", "c")
        told = (await service.ask("GET", f"/v1/vms/{vm}/events")).json()["items"]
        assert any("forced lost web to start while hosts were missing: b" in one["text"] for one in told)


async def test_reason_of_a_lost_vm_names_missing_hosts_everywhere() -> None:
    async with open_service() as service:
        mount(service.app, service.context)
        vm, cookie = await lost_vm(service), await log_in(service)
        await service.set_state("b", "silent")
        await service.caught_up()
        one = (await service.ask("GET", f"/v1/vms/{vm}")).json()
        [listed] = (await service.ask("GET", "/v1/vms")).json()["items"]
        for found in (one, listed):
            assert WAITS in found["why"]
            assert FORCE in found["why"]
        hint = (await service.ask("GET", f"/v1/vms/{vm}/decision")).json()["hint"]
        assert WAITS in hint
        assert FORCE in hint
        for path in (f"/vms/{vm}", "/vms", "/"):
            page = await service.client.get(path, headers={"Cookie": f"hostler={cookie}", "Authorization": ""})
            assert WAITS in page.text, path
