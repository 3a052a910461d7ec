"""Why a VM waits is what its last try found: answers say when that was, since the fleet may be another one by now."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.async_tests import run_with
from tests.control.api.service_in_process import InProcessService, run_in_service

LARGE = {"cpu": "3", "memory": "1Gi"}


async def create(service: InProcessService, *names: str, **more: Any) -> None:
    for name in names:
        assert (await service.create(name, spec=LARGE, **more)).is_success
        await service.settle()


async def vms(service: InProcessService) -> dict[str, dict[str, Any]]:
    return {vm["name"]: vm for vm in (await service.ask("GET", "/v1/vms")).json()["items"]}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@run_with(run_in_service)
async def test_the_list_the_queue_and_the_vm_itself_say_the_same_time(service: InProcessService, /) -> None:
    await create(service, "one", "two", "waits")
    listed = await vms(service)
    [queued] = (await service.ask("GET", "/v1/queue")).json()["items"]
    got = (await service.ask("GET", f"/v1/vms/{queued['vm']}")).json()
    assert got["why"] == "0 of 2 hosts: 2 insufficient cpu"
    assert moment(got["tried_at"]) >= moment(got["created_at"])
    assert got["tried_at"] == queued["tried_at"] == listed["waits"]["tried_at"]
    assert (listed["one"]["tried_at"], listed["two"]["tried_at"]) == (None, None)


@run_with(run_in_service)
async def test_a_change_that_cures_nothing_leaves_the_reason_and_its_time(service: InProcessService, /) -> None:
    await create(service, "one", "two", "waits")
    before = (await vms(service))["waits"]
    cordoned = (await service.ask("POST", "/v1/hosts/a/cordon")).json()
    await service.settle()
    after = (await vms(service))["waits"]
    assert (after["why"], after["tried_at"]) == (before["why"], before["tried_at"])
    assert moment(after["tried_at"]) < moment(cordoned["updated_at"])


@run_with(run_in_service)
async def test_a_vm_that_was_tried_again_says_when(service: InProcessService, /) -> None:
    await create(service, "one", "two", "next", "last")
    before = await vms(service)
    assert (await service.ask("DELETE", f"/v1/vms/{before['one']['id']}")).is_success
    await service.settle()
    await service.obey()
    await service.settle()
    after = await vms(service)
    assert after["next"]["host"]
    assert moment(after["last"]["tried_at"]) > moment(before["last"]["tried_at"])


@run_with(run_in_service)
async def test_a_gang_that_nobody_has_tried_yet_has_no_such_time(service: InProcessService, /) -> None:
    assert (await service.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 2})).is_success
    assert (await service.create("member", spec={**LARGE, "gang": "crew"})).is_success
    await service.settle()
    member = (await vms(service))["member"]
    assert member["why"]
    assert member["tried_at"] is None
