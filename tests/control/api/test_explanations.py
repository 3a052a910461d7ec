"""What people are told of hosts that take nothing, of quotas, of the queue, and of who would have to go."""

from __future__ import annotations

import msgspec
import pytest

from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.fleet.hosts.host_writes import announce
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from tests.control.api.service_in_process import SMALL, InProcessService, open_service

HUGE = {"cpu": "64", "memory": "1Gi"}


async def put(service: InProcessService, name: str, **columns: object) -> None:
    """Change the row of a host as the fleet would."""

    def work(connection: Connection) -> None:
        row = hosts.find_by_name(connection, name)
        assert row is not None
        changed = msgspec.structs.replace(row, **columns)
        announce(connection, row, changed, read_body(row), actor="test", now_ns=1)

    await service.database.write(work)


@pytest.mark.parametrize(
    ("columns", "code", "cure"),
    [
        ({"state": "silent"}, "silent", "bring a back"),
        ({"state": "fenced"}, "fenced", "repair a"),
        ({"is_draining": True}, "draining", "hostler host undrain a"),
        ({"state": "silent", "agent": ""}, "not_registered_since_restore", "start the agent of a"),
        ({"is_cordoned": True}, "cordoned", "hostler host uncordon a"),
    ],
)
async def test_decision_plan_and_candidates_say_what_is_the_matter_with_a_host(columns, code, cure):
    async with open_service() as service:
        await service.add_hosts("a")
        await put(service, "a", **columns)
        made = (await service.create("web")).json()["vm"]["id"]
        await service.settle()
        told = (await service.ask("GET", f"/v1/vms/{made}/decision")).json()
        assert [one["reason"]["code"] for one in told["verdicts"][0]["failures"]] == [code]
        assert [one["reason"]["code"] for one in told["decision"]["reasons"]] == [code]
        assert cure in told["cure"]["changes"][0]["text"]
        plan = await service.ask("POST", "/v1/plan", json={"vms": [{"spec": SMALL}]})
        [planned] = plan.json()["placements"]
        assert [one["reason"]["code"] for one in planned["reasons"]] == [code]
        assert planned["why"] == f"0 of 1 host: 1 {code.replace('_', ' ')}"
        asked = (await service.ask("POST", "/v1/candidates", json={"spec": SMALL})).json()
        assert asked["hosts"][0]["failures"][0]["reason"]["code"] == code
        assert asked["why"] == planned["why"]
        shown = (await service.ask("GET", f"/v1/vms/{made}")).json()
        assert shown["why"] == "0 of 1 host: 1 not taking VMs"


async def test_a_refusal_says_so_too():
    async with open_service() as service:
        await service.add_hosts("a", "b")
        await put(service, "a", state="silent", agent="x")
        await service.caught_up()
        answer = await service.create("web", spec=HUGE, on_unplaceable="fail")
        assert (answer.status_code, answer.json()["code"]) == (409, "insufficient_resources")
        counts = {one["reason"]["code"]: one["hosts"] for one in answer.json()["decision"]["decision"]["reasons"]}
        assert counts == {"silent": 1, "insufficient": 1}


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ({"max": {"cpu": "3"}}, "(2 used, 2 asked, 3 at most)"),
        ({"min": {"cpu": "3"}}, "(2 used, 2 asked, 3 guaranteed; all projects use 2 of 3 guaranteed in all)"),
    ],
)
async def test_a_vm_beyond_its_quota_is_reported_by_how_much(quota, expected):
    async with open_service() as service:
        await service.add_hosts("a", cpu=16)
        await service.ask("POST", "/v1/projects", json={"name": "red"})
        assert (await service.ask("POST", "/v1/quotas", json={"project": "red", **quota})).status_code == 201
        for name in ("first", "second"):
            made = (await service.create(name, project="red", spec={"cpu": "2"})).json()["vm"]["id"]
            await service.settle()
        told = (await service.ask("GET", f"/v1/vms/{made}/decision")).json()
        assert told["chosen"] is None
        assert told["quota"].startswith("cpu ")
        assert f"{expected}; 'hostler quota set red --" in told["quota"]
        assert told["decision"]["note"] == "the quota of red has no room for it"
        shown = (await service.ask("GET", f"/v1/vms/{made}")).json()
        assert shown["why"].startswith("the project's quota has no room for it: cpu ")
        assert "guest" not in "".join(told["wakes"])
        assert any("project" in wake for wake in told["wakes"])
        body = {"project": "red", "spec": {**SMALL, "cpu": "2"}}
        asked = (await service.ask("POST", "/v1/candidates", json=body)).json()
        assert asked["why"] == f"the project's quota has no room for it: {told['quota']}"


async def test_the_queue_goes_by_priority_and_then_by_age_over_all_pages():
    async with open_service() as service:
        for name, priority in (("old-low", 0), ("first", 7), ("second", 7), ("new-low", 0), ("lowest", -3)):
            assert (await service.create(name, spec={**HUGE, "priority": priority})).status_code == 202
        await service.caught_up()
        names: list[str] = []
        after = ""
        while True:
            page = (await service.ask("GET", "/v1/queue", params={"limit": 2, "after": after})).json()
            names += [one["name"] for one in page["items"]]
            after = page["next"]
            if not after:
                break
        assert names == ["first", "second", "old-low", "new-low", "lowest"]
        for bad in ("x", "W10", "WyJ2bXMiLDEsImEiXQ"):
            refused = await service.ask("GET", "/v1/queue", params={"after": bad})
            assert refused.status_code == 400, refused.text


async def test_candidates_name_only_visible_victims():
    async with open_service() as service:
        await service.add_hosts("a", cpu=4)
        for name in ("red", "blue"):
            await service.ask("POST", "/v1/projects", json={"name": name, "max_priority": 10})
        red = await service.key("editor", "red")
        secret = (await service.create("secret", project="blue", spec={"cpu": "3"})).json()["vm"]["id"]
        await service.settle()
        spec = {**SMALL, "cpu": "2"}
        body = {"project": "red", "spec": {**spec, "priority": 10}}
        theirs = (await service.ask("POST", "/v1/candidates", json=body)).json()
        assert theirs["chosen"] == "a"
        assert theirs["evictions"] == [{"vm": secret, "project": "blue", "name": "secret", "host": "a", "moves_to": ""}]
        ours = (await service.as_key(red, "POST", "/v1/candidates", json=body)).json()
        assert ours["evictions"] == [
            {"vm": "", "project": "", "name": "a VM of another project", "host": "a", "moves_to": ""}
        ]
        nobody = (await service.ask("POST", "/v1/candidates", json={"project": "red", "spec": spec})).json()
        assert (nobody["chosen"], nobody["evictions"]) == (None, [])
