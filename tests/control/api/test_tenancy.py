"""Projects, quotas, reservations and gangs over REST, down to what the engine makes of them."""

from __future__ import annotations

from tests.control.api.service_in_process import InProcessService, open_service


async def hosts_of(service: InProcessService) -> dict[str, str | None]:
    await service.settle()
    return {one["name"]: one["host"] for one in (await service.ask("GET", "/v1/vms")).json()["items"]}


async def test_a_quota_keeps_a_project_within_its_bounds() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        made = await service.ask("POST", "/v1/quotas", json={"project": "default", "max": {"cpu": 2}})
        assert made.status_code == 201
        for number in range(3):
            await service.create(f"vm-{number}")
        placed = [name for name, host in (await hosts_of(service)).items() if host]
        assert len(placed) == 2
        quota = (await service.ask("GET", "/v1/quotas/default")).json()
        assert (quota["max"], quota["used"]["cpu"]) == ({"cpu": "2"}, "2")
        await service.ask("PATCH", "/v1/quotas/default", json={"max": {"cpu": 3}})
        assert all((await hosts_of(service)).values())
        assert (await service.ask("DELETE", "/v1/quotas/default")).status_code == 204
        assert (await service.ask("GET", "/v1/quotas")).json()["items"] == []
        again = await service.ask("POST", "/v1/quotas", json={"project": "default"})
        taken = await service.ask("POST", "/v1/quotas", json={"project": "default"})
        assert (again.status_code, taken.status_code, taken.json()["code"]) == (201, 409, "name_taken")


async def test_a_reservation_keeps_room_for_its_project() -> None:
    async with open_service() as service:
        await service.add_hosts("a", cpu=4)
        await service.ask("POST", "/v1/projects", json={"name": "red"})
        body = {"project": "red", "name": "night", "amounts": {"cpu": "3"}, "until": "2099-01-01T00:00:00Z"}
        made = await service.ask("POST", "/v1/reservations", json=body)
        assert made.status_code == 201, made.text
        assert made.json()["until"] == "2099-01-01T00:00:00.000000Z"
        await service.create("theirs", spec={"cpu": "2"})
        await service.create("ours", project="red", spec={"cpu": "3"})
        assert await hosts_of(service) == {"theirs": None, "ours": "a"}
        ours = (await service.ask("GET", "/v1/vms", params={"name": "ours"})).json()["items"][0]["id"]
        await service.ask("DELETE", f"/v1/vms/{ours}")
        assert (await hosts_of(service))["theirs"] is None
        assert (await service.ask("DELETE", "/v1/reservations/red/night")).status_code == 204
        assert (await hosts_of(service))["theirs"] == "a"


async def test_a_gang_is_placed_together_or_not_at_all() -> None:
    async with open_service() as service:
        await service.add_hosts("a", cpu=2)
        assert (await service.ask("POST", "/v1/gangs", json={"name": "crew", "min_count": 3})).status_code == 201
        for number in range(3):
            await service.create(f"vm-{number}", spec={"gang": "crew"})
        assert set((await hosts_of(service)).values()) == {None}
        await service.add_hosts("b", cpu=2)
        assert None not in (await hosts_of(service)).values()
        gang = (await service.ask("GET", "/v1/gangs/default/crew")).json()
        assert (gang["members"], gang["placed"]) == (3, 3)
        used = await service.ask("DELETE", "/v1/gangs/default/crew")
        assert (used.status_code, used.json()["code"]) == (409, "still_used")


async def test_a_project_goes_with_what_is_its_own_and_not_while_it_has_vms() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        await service.ask("POST", "/v1/projects", json={"name": "red", "labels": {"tier": "gold"}})
        await service.ask("POST", "/v1/quotas", json={"project": "red", "max": {"cpu": 1}})
        await service.ask("POST", "/v1/gangs", json={"project": "red", "name": "crew"})
        await service.ask("POST", "/v1/reservations", json={"project": "red", "name": "r", "amounts": {"cpu": 1}})
        vm = (await service.create("web", project="red")).json()["vm"]["id"]
        used = await service.ask("DELETE", "/v1/projects/red")
        assert (used.status_code, used.json()["code"]) == (409, "still_used")
        await service.ask("DELETE", f"/v1/vms/{vm}")
        await service.settle()
        assert (await service.ask("DELETE", "/v1/projects/red")).status_code == 204
        for path in ("/v1/quotas", "/v1/gangs", "/v1/reservations"):
            assert (await service.ask("GET", path)).json()["items"] == [], path
        await service.caught_up()
        state, _ = await service.context.books.ask(
            lambda engine: (list(engine.view.quotas.by_tenant), list(engine.view.gangs.known))
        )
        assert state == ([], [])
        assert (await service.create("web", project="red")).status_code == 404


async def test_candidates_that_would_not_take_it_come_the_nearest_first() -> None:
    async with open_service() as service:
        for name, cpu in (("a", 4), ("b", 8), ("c", 6)):
            await service.add_hosts(name, cpu=cpu)
        asked = {"project": "default", "spec": {"cpu": "16", "memory": "1Gi"}}
        found = (await service.ask("POST", "/v1/candidates", json=asked)).json()
        assert [one["host"] for one in found["hosts"]] == ["b", "c", "a"]


async def test_plans_and_candidates_change_nothing_and_come_true() -> None:
    async with open_service() as service:
        await service.add_hosts("a", cpu=2)
        await service.create("low", spec={"cpu": "2", "priority": 0})
        await service.settle()
        seq = service.context.books.seq
        vms = [{"name": "high", "spec": {"cpu": "2", "memory": "1Gi", "priority": 10}}]
        plan = (await service.ask("POST", "/v1/plan", json={"vms": vms})).json()
        assert plan["seq"] == seq
        assert plan["placements"][0]["host"] == "a"
        assert [one["name"] for one in plan["placements"][0]["evictions"]] == ["low"]
        more = {"vms": vms, "hosts": [{"name": "new", "cpu": 4, "memory": "8Gi"}]}
        easier = (await service.ask("POST", "/v1/plan", json=more)).json()["placements"][0]
        assert (easier["host"], easier["evictions"]) == ("new", [])
        without = {"vms": vms, "without_hosts": ["a"]}
        nowhere = (await service.ask("POST", "/v1/plan", json=without)).json()["placements"][0]
        assert (nowhere["host"], nowhere["why"]) == (None, "0 of 1 host: 1 cordoned")
        asked = {"spec": {"cpu": "1", "memory": "1Gi"}}
        said = (await service.ask("POST", "/v1/candidates", json=asked)).json()
        assert (said["chosen"], said["hosts"][0]["failures"][0]["reason"]["code"]) == (None, "insufficient")
        await service.caught_up()
        assert service.context.books.seq == seq
        high = (await service.create("high", spec={"cpu": "2", "priority": 10})).json()["vm"]["id"]
        await service.settle()
        assert (await service.ask("GET", f"/v1/vms/{high}")).json()["host"] == "a"
