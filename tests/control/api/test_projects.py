"""Projects: their own strategy for VMs that name none, and what becomes of their keys when they go."""

from __future__ import annotations

from tests.control.api.service_in_process import SMALL, InProcessService, open_service


async def strategy_of(service: InProcessService, name: str, project: str = "red", **spec: object) -> str:
    """Create a VM and return the strategy that it has got."""
    answer = await service.create(name, project=project, spec=spec)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["vm"]["spec"].get("strategy", ""))


async def decided_by(service: InProcessService, identity: str) -> str:
    await service.settle()
    return str((await service.ask("GET", f"/v1/vms/{identity}/decision")).json()["decision"]["policy"])


async def test_the_request_beats_the_project_and_the_project_the_service():
    async with open_service() as service:
        await service.add_hosts("a")
        made = await service.ask("POST", "/v1/projects", json={"name": "red", "strategy": "best_fit"})
        assert (made.status_code, made.json()["strategy"]) == (201, "best_fit")
        assert await strategy_of(service, "plain") == "best_fit"
        assert await strategy_of(service, "chosen", strategy="random") == "random"
        assert await strategy_of(service, "elsewhere", project="default") == ""
        listed = (await service.ask("GET", "/v1/vms?project=red&name=plain")).json()["items"]
        assert await decided_by(service, listed[0]["id"]) == "best_fit"
        others = (await service.ask("GET", "/v1/vms?project=default")).json()["items"]
        assert await decided_by(service, others[0]["id"]) == "least_loaded"


async def test_new_project_strategy_applies_to_new_vms_and_on_request():
    async with open_service() as service:
        await service.ask("POST", "/v1/projects", json={"name": "red"})
        early = (await service.create("early", project="red")).json()["vm"]["id"]
        changed = await service.ask("PATCH", "/v1/projects/red", json={"strategy": "best_fit"})
        assert changed.json()["strategy"] == "best_fit"
        resized = await service.ask("PATCH", f"/v1/vms/{early}", json={"spec": {"cpu": "2"}})
        assert resized.json()["vm"]["spec"].get("strategy", "") == ""
        asked = await service.ask("PATCH", f"/v1/vms/{early}", json={"spec": {"strategy": None}})
        assert asked.json()["vm"]["spec"]["strategy"] == "best_fit"
        back = await service.ask("PATCH", "/v1/projects/red", json={"strategy": ""})
        assert back.json()["strategy"] == ""
        assert await strategy_of(service, "late") == ""


async def test_what_ifs_go_by_the_projects_strategy():
    async with open_service() as service:
        await service.add_hosts("large", cpu=16)
        await service.add_hosts("small", cpu=2)
        for name, strategy in (("tight", "best_fit"), ("loose", "")):
            await service.ask("POST", "/v1/projects", json={"name": name, "strategy": strategy})
        await service.caught_up()
        goes = {}
        for name in ("tight", "loose"):
            asked = (await service.ask("POST", "/v1/candidates", json={"project": name, "spec": SMALL})).json()
            plan = await service.ask("POST", "/v1/plan", json={"vms": [{"project": name, "spec": SMALL}]})
            assert plan.json()["placements"][0]["host"] == asked["chosen"]
            goes[name] = asked["hosts"][0]["scores"]
        assert goes["tight"] != goes["loose"]


async def test_a_strategy_that_nobody_knows_is_refused():
    async with open_service() as service:
        wrong = await service.ask("POST", "/v1/projects", json={"name": "red", "strategy": "bestfit"})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_strategy")
        assert (await service.ask("GET", "/v1/projects/red")).status_code == 404
        wrong = await service.ask("PATCH", "/v1/projects/default", json={"strategy": "bestfit"})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_strategy")


async def test_the_keys_of_a_deleted_project_do_not_open_the_next_of_that_name():
    async with open_service() as service:
        await service.ask("POST", "/v1/projects", json={"name": "red"})
        red, other = await service.key("editor", "red"), await service.key("viewer", "default")
        assert (await service.as_key(red, "GET", "/v1/vms")).status_code == 200
        assert (await service.ask("DELETE", "/v1/projects/red")).status_code == 204
        await service.ask("POST", "/v1/projects", json={"name": "red"})
        refused = await service.as_key(red, "GET", "/v1/vms")
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        assert (await service.as_key(other, "GET", "/v1/vms")).status_code == 200
        events = (await service.ask("GET", "/v1/events?project=red")).json()["items"]
        revoked = [one["text"] for one in events if one["kind"] == "key.revoke"]
        assert len(revoked) == 1
        assert revoked[0].endswith("is revoked: its project is deleted")


async def test_a_project_that_cannot_go_keeps_its_keys():
    async with open_service() as service:
        await service.ask("POST", "/v1/projects", json={"name": "red"})
        red = await service.key("editor", "red")
        await service.create("web", project="red")
        assert (await service.ask("DELETE", "/v1/projects/red")).status_code == 409
        assert (await service.as_key(red, "GET", "/v1/vms")).status_code == 200
