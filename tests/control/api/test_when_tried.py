"""Why a VM waits is what its last try found: answers say when that was, since the fleet may be another one by now."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.control.api.house import House, in_house

LARGE = {"cpu": "3", "memory": "1Gi"}


async def create(house: House, *names: str, **more: Any) -> None:
    for name in names:
        assert (await house.create(name, spec=LARGE, **more)).is_success
        await house.settle()


async def vms(house: House) -> dict[str, dict[str, Any]]:
    return {vm["name"]: vm for vm in (await house.ask("GET", "/v1/vms")).json()["items"]}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_the_list_the_queue_and_the_vm_itself_say_the_same_time() -> None:
    async def scenario(house: House) -> None:
        await create(house, "one", "two", "waits")
        listed = await vms(house)
        [queued] = (await house.ask("GET", "/v1/queue")).json()["items"]
        got = (await house.ask("GET", f"/v1/vms/{queued['vm']}")).json()
        assert got["why"] == "0 of 2 hosts: 2 insufficient cpu"
        assert moment(got["tried_at"]) >= moment(got["created_at"])
        assert got["tried_at"] == queued["tried_at"] == listed["waits"]["tried_at"]
        assert (listed["one"]["tried_at"], listed["two"]["tried_at"]) == (None, None)

    in_house(scenario)


def test_a_change_that_cures_nothing_leaves_the_reason_and_its_time() -> None:
    async def scenario(house: House) -> None:
        await create(house, "one", "two", "waits")
        before = (await vms(house))["waits"]
        cordoned = (await house.ask("POST", "/v1/hosts/a/cordon")).json()
        await house.settle()
        after = (await vms(house))["waits"]
        assert (after["why"], after["tried_at"]) == (before["why"], before["tried_at"])
        assert moment(after["tried_at"]) < moment(cordoned["updated_at"])

    in_house(scenario)


def test_a_vm_that_was_tried_again_says_when() -> None:
    async def scenario(house: House) -> None:
        await create(house, "one", "two", "next", "last")
        before = await vms(house)
        assert (await house.ask("DELETE", f"/v1/vms/{before['one']['id']}")).is_success
        await house.settle()
        await house.obey()
        await house.settle()
        after = await vms(house)
        assert after["next"]["host"]
        assert moment(after["last"]["tried_at"]) > moment(before["last"]["tried_at"])

    in_house(scenario)


def test_a_gang_that_nobody_has_tried_yet_has_no_such_time() -> None:
    async def scenario(house: House) -> None:
        assert (await house.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 2})).is_success
        assert (await house.create("member", spec={**LARGE, "gang": "crew"})).is_success
        await house.settle()
        member = (await vms(house))["member"]
        assert member["why"]
        assert member["tried_at"] is None

    in_house(scenario)
