"""A VM whose resize waits: what it has and what it wants, why it waits in totals, and nothing of it when it is over."""

from __future__ import annotations

from typing import Any

import httpx

from hostler.web.routes import mount
from tests.control.api.service_in_process import InProcessService, open_service


async def one_that_waits(service: InProcessService, cpu: str = "10") -> str:
    """Make a VM of one core that wants more than its host has."""
    await service.add_hosts("a", "b", "c", cpu=4)
    vm = str((await service.create("web")).json()["vm"]["id"])
    await service.settle()
    assert (await service.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"cpu": cpu}})).is_success
    await service.settle()
    return vm


async def shown(service: InProcessService, vm: str) -> dict[str, Any]:
    found: dict[str, Any] = (await service.ask("GET", f"/v1/vms/{vm}")).json()
    return found


async def test_it_shows_what_it_has_beside_what_it_wants() -> None:
    async with open_service() as service:
        vm = await one_that_waits(service)
        found = await shown(service, vm)
        assert (found["state"], found["spec"]["cpu"]) == ("resizing", "10")
        assert found["booked"] == {"cpu": "1", "memory": "1Gi"}
        await service.ask("POST", f"/v1/vms/{vm}/stop")
        await service.settle()
        assert (await shown(service, vm))["booked"] is None


async def test_why_it_waits_is_shown_in_totals_and_of_no_host_that_nobody_named() -> None:
    async with open_service() as service:
        vm = await one_that_waits(service)
        assert (await shown(service, vm))["why"] == "0 of 3 hosts: 2 not its host, 1 insufficient cpu"
        decision = (await service.ask("GET", f"/v1/vms/{vm}/decision")).json()
        home = (await shown(service, vm))["host"]
        failures = {one["host"]: one["failures"] for one in decision["verdicts"]}
        [lack] = failures.pop(home)
        assert (lack["needed"], lack["free"], lack["missing"]) == (10_000, 4_000, 6_000)
        assert [[one["reason"]["code"] for one in found] for found in failures.values()] == [["not_its_host"]] * 2
        [change] = decision["cure"]["changes"]
        command = "'hostler vm resize default/web --cpu 4'"
        assert change["text"] == f"ask for 6 cpu less (at most 4) ({command})"
        assert change["relative"] == 0.6
        assert decision["near_misses"] == [home]
        assert "all that it would have" in decision["decision"]["note"]


async def test_a_quota_that_is_exceeded_is_reported_as_more_than_it_has() -> None:
    async with open_service() as service:
        quota = {"project": "default", "min": {"cpu": 2}, "max": {"cpu": 2}}
        assert (await service.ask("POST", "/v1/quotas", json=quota)).is_success
        vm = await one_that_waits(service, "3")
        decision = (await service.ask("GET", f"/v1/vms/{vm}/decision")).json()
        assert "(1 used, 2 more asked, 2 at most)" in decision["quota"]


async def test_its_pages_show_both_sizes() -> None:
    async with open_service() as service:
        mount(service.app, service.context)
        vm = await one_that_waits(service)
        transport, origin = httpx.ASGITransport(app=service.app), {"Origin": "http://localhost"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=origin) as browser:
            assert (await browser.post("/login", data={"key": service.secret})).status_code == 303
            assert "10, 1 GiB wanted; 1, 1 GiB now" in (await browser.get(f"/vms/{vm}")).text
            form = await browser.get(f"/vms/{vm}/resize")
        assert "It is to have 10 CPU and 1 GiB of memory, and has 1 and 1 GiB until then." in form.text


async def test_the_reason_goes_with_the_wish() -> None:
    async with open_service() as service:
        vm = await one_that_waits(service)
        assert (await service.ask("PATCH", f"/v1/vms/{vm}", json={"spec": {"cpu": "1"}})).is_success
        await service.settle()
        found = await shown(service, vm)
        assert (found["state"], found["why"]) == ("running", "")
        assert [one["message"] for one in found["conditions"] if one["type"] == "placed"] == [""]


async def test_a_stopped_vm_with_a_disk_stays_on_its_host() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b", cpu=4)
        vm = str((await service.create("web", spec={"cpu": "3", "disks": [{"size": "1Gi"}]})).json()["vm"]["id"])
        await service.settle()
        home = (await shown(service, vm))["host"]
        await service.ask("POST", f"/v1/vms/{vm}/stop")
        await service.settle()
        assert (await service.create("other", spec={"cpu": "4", "host_name": home})).is_success
        await service.settle()
        await service.ask("POST", f"/v1/vms/{vm}/start")
        await service.settle()
        assert "1 not its host" in (await shown(service, vm))["why"]
        text = (await service.ask("GET", f"/v1/vms/{vm}/decision")).text
        assert "not_its_host" in text
        assert "named" not in text
