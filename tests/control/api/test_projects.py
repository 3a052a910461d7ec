"""Projects: their own strategy for VMs that name none, and what becomes of their keys when they go."""

from __future__ import annotations

import asyncio

from tests.control.api.house import SMALL, House, open_house


async def strategy_of(house: House, name: str, project: str = "red", **spec: object) -> str:
    """Create a VM and return the strategy that it has got."""
    answer = await house.create(name, project=project, spec=spec)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["vm"]["spec"].get("strategy", ""))


async def decided_by(house: House, identity: str) -> str:
    await house.settle()
    return str((await house.ask("GET", f"/v1/vms/{identity}/decision")).json()["decision"]["policy"])


def test_the_request_beats_the_project_and_the_project_the_service():
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            made = await house.ask("POST", "/v1/projects", json={"name": "red", "strategy": "best_fit"})
            assert (made.status_code, made.json()["strategy"]) == (201, "best_fit")
            assert await strategy_of(house, "plain") == "best_fit"
            assert await strategy_of(house, "chosen", strategy="random") == "random"
            assert await strategy_of(house, "elsewhere", project="default") == ""
            listed = (await house.ask("GET", "/v1/vms?project=red&name=plain")).json()["items"]
            assert await decided_by(house, listed[0]["id"]) == "best_fit"
            others = (await house.ask("GET", "/v1/vms?project=default")).json()["items"]
            assert await decided_by(house, others[0]["id"]) == "least_loaded"

    asyncio.run(scenario())


def test_another_strategy_counts_for_vms_that_come_and_for_those_that_ask_for_it():
    async def scenario() -> None:
        async with open_house() as house:
            await house.ask("POST", "/v1/projects", json={"name": "red"})
            early = (await house.create("early", project="red")).json()["vm"]["id"]
            changed = await house.ask("PATCH", "/v1/projects/red", json={"strategy": "best_fit"})
            assert changed.json()["strategy"] == "best_fit"
            resized = await house.ask("PATCH", f"/v1/vms/{early}", json={"spec": {"cpu": "2"}})
            assert resized.json()["vm"]["spec"].get("strategy", "") == ""
            asked = await house.ask("PATCH", f"/v1/vms/{early}", json={"spec": {"strategy": None}})
            assert asked.json()["vm"]["spec"]["strategy"] == "best_fit"
            back = await house.ask("PATCH", "/v1/projects/red", json={"strategy": ""})
            assert back.json()["strategy"] == ""
            assert await strategy_of(house, "late") == ""

    asyncio.run(scenario())


def test_what_ifs_go_by_the_projects_strategy():
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("large", cpu=16)
            await house.add_hosts("small", cpu=2)
            for name, strategy in (("tight", "best_fit"), ("loose", "")):
                await house.ask("POST", "/v1/projects", json={"name": name, "strategy": strategy})
            await house.caught_up()
            goes = {}
            for name in ("tight", "loose"):
                asked = (await house.ask("POST", "/v1/candidates", json={"project": name, "spec": SMALL})).json()
                plan = await house.ask("POST", "/v1/plan", json={"vms": [{"project": name, "spec": SMALL}]})
                assert plan.json()["placements"][0]["host"] == asked["chosen"]
                goes[name] = asked["hosts"][0]["scores"]
            assert goes["tight"] != goes["loose"]

    asyncio.run(scenario())


def test_a_strategy_that_nobody_knows_is_refused():
    async def scenario() -> None:
        async with open_house() as house:
            wrong = await house.ask("POST", "/v1/projects", json={"name": "red", "strategy": "bestfit"})
            assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_strategy")
            assert (await house.ask("GET", "/v1/projects/red")).status_code == 404
            wrong = await house.ask("PATCH", "/v1/projects/default", json={"strategy": "bestfit"})
            assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_strategy")

    asyncio.run(scenario())


def test_the_keys_of_a_deleted_project_do_not_open_the_next_of_that_name():
    async def scenario() -> None:
        async with open_house() as house:
            await house.ask("POST", "/v1/projects", json={"name": "red"})
            red, other = await house.key("editor", "red"), await house.key("viewer", "default")
            assert (await house.as_key(red, "GET", "/v1/vms")).status_code == 200
            assert (await house.ask("DELETE", "/v1/projects/red")).status_code == 204
            await house.ask("POST", "/v1/projects", json={"name": "red"})
            refused = await house.as_key(red, "GET", "/v1/vms")
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
            assert (await house.as_key(other, "GET", "/v1/vms")).status_code == 200
            events = (await house.ask("GET", "/v1/events?project=red")).json()["items"]
            revoked = [one["text"] for one in events if one["kind"] == "key.revoke"]
            assert len(revoked) == 1
            assert revoked[0].endswith("is revoked: its project is deleted")

    asyncio.run(scenario())


def test_a_project_that_cannot_go_keeps_its_keys():
    async def scenario() -> None:
        async with open_house() as house:
            await house.ask("POST", "/v1/projects", json={"name": "red"})
            red = await house.key("editor", "red")
            await house.create("web", project="red")
            assert (await house.ask("DELETE", "/v1/projects/red")).status_code == 409
            assert (await house.as_key(red, "GET", "/v1/vms")).status_code == 200

    asyncio.run(scenario())
