"""Hosts say what reservations keep of them: a host that looks free may have nothing for others."""

from __future__ import annotations

from typing import Any

from tests.control.api.house import House, in_house

NIGHT = {"name": "night", "amounts": {"cpu": 2, "memory": "3Gi"}, "host_selector": {"kubernetes.io/hostname": "a"}}
KEPT = [{"reservation": "default/night", "amounts": {"cpu": "2", "memory": "3Gi"}}]


async def keep(house: House, **more: Any) -> None:
    """Keep room, and wait until the engine does."""
    answer = await house.ask("POST", "/v1/reservations", json={**NIGHT, **more})
    assert answer.status_code == 201, answer.text
    await house.settle()


async def reserved(house: House, path: str = "/v1/hosts/a", **more: Any) -> Any:
    return (await house.ask(more.pop("method", "GET"), path, **more)).json()["reserved"]


def test_it_is_told_in_the_list_and_of_one_host() -> None:
    async def scenario(house: House) -> None:
        assert await reserved(house) == []
        await keep(house)
        listed = (await house.ask("GET", "/v1/hosts")).json()["items"]
        assert {one["name"]: one["reserved"] for one in listed} == {"a": KEPT, "b": []}
        assert await reserved(house) == KEPT

    in_house(scenario)


def test_it_is_told_after_an_act_and_an_edit() -> None:
    async def scenario(house: House) -> None:
        await keep(house)
        assert await reserved(house, "/v1/hosts/a/cordon", method="POST") == KEPT
        assert await reserved(house, method="PATCH", json={"labels": {"rack": "1"}}) == KEPT

    in_house(scenario)


def test_what_vms_have_that_it_is_for_is_kept_no_longer() -> None:
    async def scenario(house: House) -> None:
        await keep(house)
        assert (await house.create("web", spec={"cpu": "1500m", "memory": "3Gi", "host_name": "a"})).is_success
        await house.settle()
        assert await reserved(house) == [{"reservation": "default/night", "amounts": {"cpu": "500m"}}]

    in_house(scenario)


def test_who_may_not_read_reservations_learns_that_there_is_one_and_not_its_name() -> None:
    async def scenario(house: House) -> None:
        await keep(house)
        secret = await house.key("viewer", scopes=["host.read"])
        found = (await house.as_key(secret, "GET", "/v1/hosts/a")).json()["reserved"]
        assert found == [{**KEPT[0], "reservation": "a reservation of another project"}]

    in_house(scenario)
