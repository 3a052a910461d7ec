"""A lost VM is not created again while hosts are missing that may still have it, unless an admin forces it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.control.store import Connection, hosts
from hostler.web.pages import mount
from tests.control.api.house import House, open_house
from tests.control.api.test_ended_by_death import prove_dead
from tests.control.api.test_sessions_ended import log_in

WAITS = "is not created again while hosts are missing that may still have it: b"
FORCE = "'hostler vm start default/web --force'"


async def lost_vm(house: House) -> str:
    """Return a VM whose host a was proved dead; b and c have room."""
    await house.add_hosts("a", cpu=4)
    vm = str((await house.create("web", spec={"disks": [{"size": "1Gi"}]})).json()["vm"]["id"])
    await house.settle()
    await prove_dead(house)
    await house.add_hosts("b", "c", cpu=4)
    assert (await house.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "lost"
    return vm


async def miss_b(house: House, how: str) -> None:
    """Let the host b be silent, offline, or as a restore leaves it."""

    def forget_agent(connection: Connection) -> None:
        row = hosts.get(connection, "id-b")
        hosts.save(connection, msgspec.structs.replace(row, agent="", boot="", epoch=7))

    if how == "unregistered":
        await house.database.write(forget_agent)
    else:
        await house.set_state("b", how)


@pytest.mark.parametrize("how", ["silent", "offline", "unregistered"])
def test_lost_vm_is_refused_while_a_host_is_missing(how) -> None:
    async def story() -> None:
        async with open_house() as house:
            vm = await lost_vm(house)
            await miss_b(house, how)
            answer = await house.ask("POST", f"/v1/vms/{vm}/start")
            assert (answer.status_code, answer.json()["code"]) == (409, "hosts_missing"), answer.text
            assert WAITS in answer.json()["detail"]
            assert FORCE in answer.json()["hint"]
            assert (await house.ask("GET", f"/v1/vms/{vm}")).json()["state"] == "lost"
            await house.set_state("b", "fenced")
            answer = await house.ask("POST", f"/v1/vms/{vm}/start")
            assert answer.is_success, "b was proved dead"

    asyncio.run(story())


def test_lost_vm_starts_if_no_host_is_missing() -> None:
    async def story() -> None:
        async with open_house() as house:
            vm = await lost_vm(house)
            assert (await house.ask("POST", f"/v1/vms/{vm}/start")).is_success
            await house.settle()
            found = (await house.ask("GET", f"/v1/vms/{vm}")).json()
            assert (found["state"], found["host"] in ("b", "c")) == ("running", True)

    asyncio.run(story())


def test_lost_vm_is_forced_by_an_admin_only_and_leaves_an_event() -> None:
    async def story() -> None:
        async with open_house() as house:
            vm = await lost_vm(house)
            await house.set_state("b", "silent")
            for role in ("operator", "editor"):
                secret = await house.key(role)
                answer = await house.as_key(secret, "POST", f"/v1/vms/{vm}/start", json={"force": True})
                assert answer.status_code == 403, answer.text
            admin = await house.key("admin", "default")
            answer = await house.as_key(admin, "POST", f"/v1/vms/{vm}/start", json={"force": True})
            assert answer.status_code == 403, "an admin of one project knows nothing about hosts"
            assert (await house.ask("POST", f"/v1/vms/{vm}/start", json={"force": True})).is_success
            await house.settle()
            found = (await house.ask("GET", f"/v1/vms/{vm}")).json()
            assert (found["state"], found["host"]) == ("running", "c")
            told = (await house.ask("GET", f"/v1/vms/{vm}/events")).json()["items"]
            assert any("forced lost web to start while hosts were missing: b" in one["text"] for one in told)

    asyncio.run(story())


def test_reason_of_a_lost_vm_names_missing_hosts_everywhere() -> None:
    async def story() -> None:
        async with open_house() as house:
            mount(house.app, house.context)
            vm, cookie = await lost_vm(house), await log_in(house)
            await house.set_state("b", "silent")
            await house.caught_up()
            one = (await house.ask("GET", f"/v1/vms/{vm}")).json()
            [listed] = (await house.ask("GET", "/v1/vms")).json()["items"]
            for found in (one, listed):
                assert WAITS in found["why"]
                assert FORCE in found["why"]
            hint = (await house.ask("GET", f"/v1/vms/{vm}/decision")).json()["hint"]
            assert WAITS in hint
            assert FORCE in hint
            for path in (f"/vms/{vm}", "/vms", "/"):
                page = await house.client.get(path, headers={"Cookie": f"hostler={cookie}", "Authorization": ""})
                assert WAITS in page.text, path

    asyncio.run(story())
