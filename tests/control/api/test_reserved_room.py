"""Hosts say what reservations keep of them: a host that looks free may have nothing for others."""

from __future__ import annotations

from typing import Any

from tests.async_tests import run_with
from tests.control.api.service_in_process import InProcessService, run_in_service

NIGHT = {"name": "night", "amounts": {"cpu": 2, "memory": "3Gi"}, "host_selector": {"kubernetes.io/hostname": "a"}}
KEPT = [{"reservation": "default/night", "amounts": {"cpu": "2", "memory": "3Gi"}}]


async def keep(service: InProcessService, **more: Any) -> None:
    """Keep room, and wait until the engine does."""
    answer = await service.ask("POST", "/v1/reservations", json={**NIGHT, **more})
    assert answer.status_code == 201, answer.text
    await service.settle()


async def reserved(service: InProcessService, path: str = "/v1/hosts/a", **more: Any) -> Any:
    return (await service.ask(more.pop("method", "GET"), path, **more)).json()["reserved"]


@run_with(run_in_service)
async def test_it_is_shown_in_the_list_and_of_one_host(service: InProcessService, /) -> None:
    assert await reserved(service) == []
    await keep(service)
    listed = (await service.ask("GET", "/v1/hosts")).json()["items"]
    assert {one["name"]: one["reserved"] for one in listed} == {"a": KEPT, "b": []}
    assert await reserved(service) == KEPT


@run_with(run_in_service)
async def test_it_is_reported_after_an_act_and_an_edit(service: InProcessService, /) -> None:
    await keep(service)
    assert await reserved(service, "/v1/hosts/a/cordon", method="POST") == KEPT
    assert await reserved(service, method="PATCH", json={"labels": {"rack": "1"}}) == KEPT


@run_with(run_in_service)
async def test_what_vms_have_that_it_is_for_is_kept_no_longer(service: InProcessService, /) -> None:
    await keep(service)
    assert (await service.create("web", spec={"cpu": "1500m", "memory": "3Gi", "host_name": "a"})).is_success
    await service.settle()
    assert await reserved(service) == [{"reservation": "default/night", "amounts": {"cpu": "500m"}}]


@run_with(run_in_service)
async def test_reservation_name_is_hidden_without_read_permission(service: InProcessService, /) -> None:
    await keep(service)
    secret = await service.key("viewer", scopes=["host.read"])
    found = (await service.as_key(secret, "GET", "/v1/hosts/a")).json()["reserved"]
    assert found == [{**KEPT[0], "reservation": "a reservation of another project"}]
