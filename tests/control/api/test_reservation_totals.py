"""Reservations that no host can hold are rejected, and an amount for the whole fleet is spread over its hosts."""

from __future__ import annotations

from tests.control.api.service_in_process import open_service

_NIGHT = {"name": "night"}


async def test_amount_that_no_host_can_hold_is_rejected_with_the_largest() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b", cpu=4)
        await service.settle()
        answer = await service.ask("POST", "/v1/reservations", json={**_NIGHT, "amounts": {"cpu": 100}})
        assert answer.status_code == 400
        assert answer.json()["detail"] == (
            "amounts: none of 2 hosts can hold cpu 100; the most that one can hold is cpu 4"
        )
        assert "total" in answer.json()["hint"]
        made = await service.ask("POST", "/v1/reservations", json={**_NIGHT, "amounts": {"cpu": 4}})
        assert made.status_code == 201
        edited = await service.ask("PATCH", "/v1/reservations/default/night", json={"amounts": {"cpu": 5}})
        assert (edited.status_code, "none of 2 hosts can hold cpu 5" in edited.json()["detail"]) == (400, True)


async def test_total_is_spread_evenly_over_hosts_with_room() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b", "c", cpu=4)
        await service.create("web", spec={"cpu": "3", "host_name": "b"})
        await service.settle()
        made = await service.ask("POST", "/v1/reservations", json={**_NIGHT, "total": {"cpu": 5, "memory": "4Gi"}})
        assert made.status_code == 201, made.text
        assert made.json()["amounts"] == {"cpu": "2500m", "memory": "2Gi"}
        assert [one["names"] for one in made.json()["hosts"]] == [["a", "c"]]
        too_much = await service.ask("POST", "/v1/reservations", json={"name": "day", "total": {"cpu": 40}})
        assert too_much.status_code == 400
        assert "total: no equal share of cpu 40 is free on 3 hosts" in too_much.json()["detail"]


async def test_repeated_request_for_total_gets_the_first_answer() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b", cpu=4)
        await service.settle()
        asked, key = {**_NIGHT, "total": {"cpu": 8}}, {"Idempotency-Key": "one"}
        first = await service.ask("POST", "/v1/reservations", json=asked, headers=key)
        assert first.status_code == 201, first.text
        await service.settle()
        again = await service.ask("POST", "/v1/reservations", json=asked, headers=key)
        assert (again.status_code, again.json()["amounts"]) == (201, {"cpu": "4"})
        other = await service.ask("POST", "/v1/reservations", json={**asked, "name": "day"})
        assert other.status_code == 400


async def test_total_and_amounts_exclude_each_other() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        for body in ({}, {"total": {"cpu": 1}, "amounts": {"cpu": 1}}):
            answer = await service.ask("POST", "/v1/reservations", json={**_NIGHT, **body})
            assert (answer.status_code, "either amounts or total" in answer.json()["detail"]) == (400, True)
