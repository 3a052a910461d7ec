"""Reservations that no host can hold are rejected, and an amount for the whole fleet is spread over its hosts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.control.api.service_in_process import InProcessService, open_service

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


async def fill(service: InProcessService, host: str, cpu: int) -> None:
    """Let a VM of another project use cpus of a host."""
    await service.ask("POST", "/v1/projects", json={"name": "red"})
    made = await service.create(f"on-{host}", project="red", spec={"cpu": str(cpu), "host_name": host})
    assert made.is_success, made.text
    await service.settle()


async def test_total_is_spread_evenly_over_hosts_with_room() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b", "c", cpu=4)
        await fill(service, "b", 3)
        made = await service.ask("POST", "/v1/reservations", json={**_NIGHT, "total": {"cpu": 5, "memory": "4Gi"}})
        assert made.status_code == 201, made.text
        assert made.json()["amounts"] == {"cpu": "2500m", "memory": "2Gi"}
        assert [one["names"] for one in made.json()["hosts"]] == [["a", "c"]]
        assert (made.json()["total"], "shares" in made.json()) == ({"cpu": "5", "memory": "4Gi"}, False)


async def test_total_that_fits_only_unevenly_gets_uneven_shares() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b", "c", cpu=4)
        await fill(service, "b", 2)
        await fill(service, "c", 3)
        made = await service.ask("POST", "/v1/reservations", json={**_NIGHT, "total": {"cpu": "6500m"}})
        assert made.status_code == 201, made.text
        assert made.json()["shares"] == {"a": {"cpu": "3500m"}, "b": {"cpu": "2"}, "c": {"cpu": "1"}}
        assert (made.json()["amounts"], made.json()["hosts"], made.json()["total"]) == ({}, [], {"cpu": "6500m"})
        await service.settle()
        listed = (await service.ask("GET", "/v1/hosts")).json()["items"]
        assert [one["reserved"][0]["amounts"]["cpu"] for one in listed] == ["3500m", "2", "1"]
        assert (await service.ask("GET", "/v1/reservations/default/night")).json()["shares"] == made.json()["shares"]


async def test_units_left_over_go_to_the_first_hosts_by_name() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b", "c", cpu=4)
        await fill(service, "c", 3)
        made = await service.ask("POST", "/v1/reservations", json={**_NIGHT, "total": {"cpu": "8001m"}})
        assert made.status_code == 201, made.text
        assert made.json()["shares"] == {"a": {"cpu": "3501m"}, "b": {"cpu": "3500m"}, "c": {"cpu": "1"}}


async def test_total_is_rejected_only_if_the_room_of_all_hosts_is_less() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b", "c", cpu=4)
        await fill(service, "b", 2)
        await fill(service, "c", 3)
        too_much = await service.ask("POST", "/v1/reservations", json={**_NIGHT, "total": {"cpu": "7001m"}})
        assert too_much.status_code == 400
        assert too_much.json()["detail"] == "total: cpu 7001m is more than the cpu 7 that 3 hosts have left"
        assert (
            await service.ask("POST", "/v1/reservations", json={**_NIGHT, "total": {"cpu": "7"}})
        ).status_code == 201


async def test_room_that_vms_of_the_reservation_use_counts_for_a_total() -> None:
    async with open_service() as service:
        await service.add_hosts("a", "b", cpu=4)
        assert (await service.create("web", spec={"cpu": "3", "host_name": "b"})).is_success
        await service.settle()
        made = await service.ask("POST", "/v1/reservations", json={**_NIGHT, "total": {"cpu": 8}})
        assert (made.status_code, made.json()["amounts"]) == (201, {"cpu": "4"}), made.text


class TestEdit:
    """A total of an existing reservation is divided again."""

    async def change(self, service: InProcessService, **edit: Any) -> Any:
        await service.settle()
        answer = await service.ask("PATCH", "/v1/reservations/default/night", json=edit)
        return answer.json() if answer.is_success else answer.json()["detail"]

    async def test_total_is_divided_over_the_hosts_first_chosen(self) -> None:
        async with open_service() as service:
            await service.add_hosts("a", "b", "c", cpu=4)
            await fill(service, "b", 3)
            await service.ask("POST", "/v1/reservations", json={**_NIGHT, "total": {"cpu": 8}})
            assert (await self.change(service, total={"cpu": 8}))["amounts"] == {"cpu": "4"}, "its own room is free"
            assert (await self.change(service, total={"cpu": 9}))["shares"]["b"] == {"cpu": "1"}
            less = await self.change(service, total={"cpu": 3})
            assert (less["amounts"], less["hosts"][0]["names"]) == ({"cpu": "1"}, ["a", "b", "c"])
            assert await self.change(service, total={"cpu": 10}) == (
                "total: cpu 10 is more than the cpu 9 that 3 hosts have left"
            )

    async def test_amounts_replace_a_total_on_its_hosts_and_back(self) -> None:
        async with open_service() as service:
            await service.add_hosts("a", "b", "c", cpu=4)
            await fill(service, "b", 4)
            await service.ask("POST", "/v1/reservations", json={**_NIGHT, "total": {"cpu": 2}})
            after = await self.change(service, amounts={"cpu": 3})
            assert (after["amounts"], "total" in after, after["hosts"][0]["names"]) == ({"cpu": "3"}, False, ["a", "c"])
            back = await self.change(service, total={"cpu": 2})
            assert (back["amounts"], back["total"]) == ({"cpu": "1"}, {"cpu": "2"})
            both = await self.change(service, total={"cpu": 2}, amounts={"cpu": 1})
            assert both == "give either amounts or total"

    async def test_another_selector_divides_the_total_again(self) -> None:
        async with open_service() as service:
            await service.add_hosts("a", "b", cpu=4)
            await service.ask("POST", "/v1/reservations", json={**_NIGHT, "total": {"cpu": 4}})
            after = await self.change(service, host_selector={"kubernetes.io/hostname": "b"})
            assert (after["amounts"], after["hosts"][0]["names"]) == ({"cpu": "4"}, ["b"])
            later = await self.change(service, until="2090-01-31T06:00:00Z")
            assert (later["amounts"], later["total"]) == ({"cpu": "4"}, {"cpu": "4"})


class TestLeaveRoom:
    """``leave_room`` rejects a reservation that leaves others nothing of a resource on any host."""

    @pytest.mark.parametrize("size", [{"amounts": {"cpu": 4}}, {"total": {"cpu": 8}}])
    async def test_reservation_of_all_room_is_rejected(self, size: Any) -> None:
        async with open_service() as service:
            await service.add_hosts("a", "b", cpu=4)
            await service.settle()
            asked = {**_NIGHT, **size}
            answer = await service.ask("POST", "/v1/reservations", json={**asked, "leave_room": True})
            assert (answer.status_code, answer.json()["code"]) == (409, "takes_all_room")
            assert answer.json()["detail"] == "no host would have cpu left for others than project default"
            later = {**asked, "leave_room": True, "since": "2090-01-31T06:00:00Z"}
            assert (await service.ask("POST", "/v1/reservations", json=later)).status_code == 409
            assert (await service.ask("POST", "/v1/reservations", json=asked)).status_code == 201

    async def test_reservation_with_room_left_on_one_host_is_accepted(self) -> None:
        async with open_service() as service:
            await service.add_hosts("a", "b", cpu=4)
            await service.settle()
            at = {"host_selector": {"kubernetes.io/hostname": "a"}, "leave_room": True}
            made = await service.ask("POST", "/v1/reservations", json={**_NIGHT, "amounts": {"cpu": 4}, **at})
            assert made.status_code == 201, made.text

    async def test_last_room_beside_full_hosts_counts_as_all(self) -> None:
        async with open_service() as service:
            await service.add_hosts("a", "b", cpu=4)
            await fill(service, "b", 4)
            at = {"host_selector": {"kubernetes.io/hostname": "a"}, "leave_room": True}
            made = await service.ask("POST", "/v1/reservations", json={**_NIGHT, "amounts": {"cpu": 4}, **at})
            assert made.status_code == 409, made.text

    async def test_edit_that_takes_all_room_is_rejected(self) -> None:
        async with open_service() as service:
            await service.add_hosts("a", "b", cpu=4)
            await service.settle()
            await service.ask("POST", "/v1/reservations", json={**_NIGHT, "amounts": {"cpu": 1}})
            path = "/v1/reservations/default/night"
            for size in ({"amounts": {"cpu": 4}}, {"total": {"cpu": 8}}):
                answer = await service.ask("PATCH", path, json={**size, "leave_room": True})
                assert (answer.status_code, answer.json()["code"]) == (409, "takes_all_room")
            assert (await service.ask("GET", path)).json()["amounts"] == {"cpu": "1"}
            assert (await service.ask("PATCH", path, json={"amounts": {"cpu": 4}})).status_code == 200


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
