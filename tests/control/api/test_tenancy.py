"""Projects, quotas, reservations and gangs over REST, down to what the engine makes of them."""

from __future__ import annotations

import asyncio

from tests.control.api.house import House, open_house


async def hosts_of(house: House) -> dict[str, str | None]:
    await house.settle()
    return {one["name"]: one["host"] for one in (await house.ask("GET", "/v1/vms")).json()["items"]}


def test_a_quota_keeps_a_project_within_its_bounds() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            made = await house.ask("POST", "/v1/quotas", json={"project": "default", "max": {"cpu": 2}})
            assert made.status_code == 201
            for number in range(3):
                await house.create(f"vm-{number}")
            placed = [name for name, host in (await hosts_of(house)).items() if host]
            assert len(placed) == 2
            quota = (await house.ask("GET", "/v1/quotas/default")).json()
            assert (quota["max"], quota["used"]["cpu"]) == ({"cpu": "2"}, "2")
            await house.ask("PATCH", "/v1/quotas/default", json={"max": {"cpu": 3}})
            assert all((await hosts_of(house)).values())
            assert (await house.ask("DELETE", "/v1/quotas/default")).status_code == 204
            assert (await house.ask("GET", "/v1/quotas")).json()["items"] == []
            again = await house.ask("POST", "/v1/quotas", json={"project": "default"})
            taken = await house.ask("POST", "/v1/quotas", json={"project": "default"})
            assert (again.status_code, taken.status_code, taken.json()["code"]) == (201, 409, "name_taken")

    asyncio.run(scenario())


def test_a_reservation_keeps_room_for_its_project() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a", cpu=4)
            await house.ask("POST", "/v1/projects", json={"name": "red"})
            body = {"project": "red", "name": "night", "amounts": {"cpu": "3"}, "until": "2099-01-01T00:00:00Z"}
            made = await house.ask("POST", "/v1/reservations", json=body)
            assert made.status_code == 201, made.text
            assert made.json()["until"] == "2099-01-01T00:00:00.000000Z"
            await house.create("theirs", spec={"cpu": "2"})
            await house.create("ours", project="red", spec={"cpu": "3"})
            assert await hosts_of(house) == {"theirs": None, "ours": "a"}
            ours = (await house.ask("GET", "/v1/vms", params={"name": "ours"})).json()["items"][0]["id"]
            await house.ask("DELETE", f"/v1/vms/{ours}")
            assert (await hosts_of(house))["theirs"] is None
            assert (await house.ask("DELETE", "/v1/reservations/red/night")).status_code == 204
            assert (await hosts_of(house))["theirs"] == "a"

    asyncio.run(scenario())


def test_a_gang_is_placed_together_or_not_at_all() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a", cpu=2)
            assert (await house.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3})).status_code == 201
            for number in range(3):
                await house.create(f"vm-{number}", spec={"gang": "crew"})
            assert set((await hosts_of(house)).values()) == {None}
            await house.add_hosts("b", cpu=2)
            assert None not in (await hosts_of(house)).values()
            gang = (await house.ask("GET", "/v1/gangs/default/crew")).json()
            assert (gang["members"], gang["placed"]) == (3, 3)
            used = await house.ask("DELETE", "/v1/gangs/default/crew")
            assert (used.status_code, used.json()["code"]) == (409, "still_used")

    asyncio.run(scenario())


def test_a_project_goes_with_what_is_its_own_and_not_while_it_has_vms() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            await house.ask("POST", "/v1/projects", json={"name": "red", "labels": {"tier": "gold"}})
            await house.ask("POST", "/v1/quotas", json={"project": "red", "max": {"cpu": 1}})
            await house.ask("POST", "/v1/gangs", json={"project": "red", "name": "crew"})
            await house.ask("POST", "/v1/reservations", json={"project": "red", "name": "r", "amounts": {"cpu": 1}})
            vm = (await house.create("web", project="red")).json()["vm"]["id"]
            used = await house.ask("DELETE", "/v1/projects/red")
            assert (used.status_code, used.json()["code"]) == (409, "still_used")
            await house.ask("DELETE", f"/v1/vms/{vm}")
            await house.settle()
            assert (await house.ask("DELETE", "/v1/projects/red")).status_code == 204
            for path in ("/v1/quotas", "/v1/gangs", "/v1/reservations"):
                assert (await house.ask("GET", path)).json()["items"] == [], path
            await house.caught_up()
            state, _ = await house.context.books.ask(
                lambda engine: (list(engine.view.quotas.by_tenant), list(engine.view.gangs.known))
            )
            assert state == ([], [])
            assert (await house.create("web", project="red")).status_code == 404

    asyncio.run(scenario())


def test_candidates_that_would_not_take_it_come_the_nearest_first() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            for name, cpu in (("a", 4), ("b", 8), ("c", 6)):
                await house.add_hosts(name, cpu=cpu)
            asked = {"project": "default", "spec": {"cpu": "16", "memory": "1Gi"}}
            found = (await house.ask("POST", "/v1/candidates", json=asked)).json()
            assert [one["host"] for one in found["hosts"]] == ["b", "c", "a"]

    asyncio.run(scenario())


def test_plans_and_candidates_change_nothing_and_come_true() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a", cpu=2)
            await house.create("low", spec={"cpu": "2", "priority": 0})
            await house.settle()
            seq = house.context.books.seq
            vms = [{"name": "high", "spec": {"cpu": "2", "memory": "1Gi", "priority": 10}}]
            plan = (await house.ask("POST", "/v1/plan", json={"vms": vms})).json()
            assert plan["seq"] == seq
            assert plan["placements"][0]["host"] == "a"
            assert [one["name"] for one in plan["placements"][0]["evictions"]] == ["low"]
            more = {"vms": vms, "hosts": [{"name": "new", "cpu": 4, "memory": "8Gi"}]}
            easier = (await house.ask("POST", "/v1/plan", json=more)).json()["placements"][0]
            assert (easier["host"], easier["evictions"]) == ("new", [])
            without = {"vms": vms, "without_hosts": ["a"]}
            nowhere = (await house.ask("POST", "/v1/plan", json=without)).json()["placements"][0]
            assert (nowhere["host"], nowhere["why"]) == (None, "0 of 1 host: 1 cordoned")
            asked = {"spec": {"cpu": "1", "memory": "1Gi"}}
            said = (await house.ask("POST", "/v1/candidates", json=asked)).json()
            assert (said["chosen"], said["hosts"][0]["failures"][0]["reason"]["code"]) == (None, "insufficient")
            await house.caught_up()
            assert house.context.books.seq == seq
            high = (await house.create("high", spec={"cpu": "2", "priority": 10})).json()["vm"]["id"]
            await house.settle()
            assert (await house.ask("GET", f"/v1/vms/{high}")).json()["host"] == "a"

    asyncio.run(scenario())
