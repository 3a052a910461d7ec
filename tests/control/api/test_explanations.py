"""What people are told of hosts that take nothing, of quotas, of the queue, and of who would have to go."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.control.fleet.announcing import announce
from hostler.control.fleet.hosts import read_body
from hostler.control.store import Connection, hosts
from tests.control.api.house import SMALL, House, open_house

HUGE = {"cpu": "64", "memory": "1Gi"}


async def put(house: House, name: str, **columns: object) -> None:
    """Change the row of a host as the fleet would."""

    def work(connection: Connection) -> None:
        row = hosts.find_by_name(connection, name)
        assert row is not None
        changed = msgspec.structs.replace(row, **columns)
        announce(connection, row, changed, read_body(row), actor="test", now_ns=1)

    await house.database.write(work)


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
def test_decision_plan_and_candidates_say_what_is_the_matter_with_a_host(columns, code, cure):
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            await put(house, "a", **columns)
            made = (await house.create("web")).json()["vm"]["id"]
            await house.settle()
            told = (await house.ask("GET", f"/v1/vms/{made}/decision")).json()
            assert [one["reason"]["code"] for one in told["verdicts"][0]["failures"]] == [code]
            assert [one["reason"]["code"] for one in told["decision"]["reasons"]] == [code]
            assert cure in told["cure"]["changes"][0]["text"]
            plan = await house.ask("POST", "/v1/plan", json={"vms": [{"spec": SMALL}]})
            [planned] = plan.json()["placements"]
            assert [one["reason"]["code"] for one in planned["reasons"]] == [code]
            assert planned["why"] == f"0 of 1 host: 1 {code.replace('_', ' ')}"
            asked = (await house.ask("POST", "/v1/candidates", json={"spec": SMALL})).json()
            assert asked["hosts"][0]["failures"][0]["reason"]["code"] == code
            assert asked["why"] == planned["why"]
            shown = (await house.ask("GET", f"/v1/vms/{made}")).json()
            assert shown["why"] == "0 of 1 host: 1 not taking VMs"

    asyncio.run(scenario())


def test_a_refusal_says_so_too():
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a", "b")
            await put(house, "a", state="silent", agent="x")
            await house.caught_up()
            answer = await house.create("web", spec=HUGE, on_unplaceable="fail")
            assert (answer.status_code, answer.json()["code"]) == (409, "insufficient_resources")
            counts = {one["reason"]["code"]: one["hosts"] for one in answer.json()["decision"]["decision"]["reasons"]}
            assert counts == {"silent": 1, "insufficient": 1}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ({"max": {"cpu": "3"}}, "(2 used, 2 asked, 3 at most)"),
        ({"min": {"cpu": "3"}}, "(2 used, 2 asked, 3 guaranteed; all projects use 2 of 3 guaranteed in all)"),
    ],
)
def test_a_vm_beyond_its_quota_is_told_by_how_much(quota, expected):
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a", cpu=16)
            await house.ask("POST", "/v1/projects", json={"name": "red"})
            assert (await house.ask("POST", "/v1/quotas", json={"project": "red", **quota})).status_code == 201
            for name in ("first", "second"):
                made = (await house.create(name, project="red", spec={"cpu": "2"})).json()["vm"]["id"]
                await house.settle()
            told = (await house.ask("GET", f"/v1/vms/{made}/decision")).json()
            assert told["chosen"] is None
            assert told["quota"].startswith("cpu ")
            assert f"{expected}; 'hostler quota set red --" in told["quota"]
            assert told["decision"]["note"] == "the quota of red has no room for it"
            shown = (await house.ask("GET", f"/v1/vms/{made}")).json()
            assert shown["why"].startswith("the project's quota has no room for it: cpu ")
            assert "guest" not in "".join(told["wakes"])
            assert any("project" in wake for wake in told["wakes"])
            body = {"project": "red", "spec": {**SMALL, "cpu": "2"}}
            asked = (await house.ask("POST", "/v1/candidates", json=body)).json()
            assert asked["why"] == f"the project's quota has no room for it: {told['quota']}"

    asyncio.run(scenario())


def test_the_queue_goes_by_priority_and_then_by_age_over_all_pages():
    async def scenario() -> None:
        async with open_house() as house:
            for name, priority in (("old-low", 0), ("first", 7), ("second", 7), ("new-low", 0), ("lowest", -3)):
                assert (await house.create(name, spec={**HUGE, "priority": priority})).status_code == 202
            await house.caught_up()
            names: list[str] = []
            after = ""
            while True:
                page = (await house.ask("GET", "/v1/queue", params={"limit": 2, "after": after})).json()
                names += [one["name"] for one in page["items"]]
                after = page["next"]
                if not after:
                    break
            assert names == ["first", "second", "old-low", "new-low", "lowest"]
            for bad in ("x", "W10", "WyJ2bXMiLDEsImEiXQ"):
                refused = await house.ask("GET", "/v1/queue", params={"after": bad})
                assert refused.status_code == 400, refused.text

    asyncio.run(scenario())


def test_candidates_name_who_would_be_stopped_as_far_as_the_caller_may_know():
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a", cpu=4)
            for name in ("red", "blue"):
                await house.ask("POST", "/v1/projects", json={"name": name, "max_priority": 10})
            red = await house.key("editor", "red")
            secret = (await house.create("secret", project="blue", spec={"cpu": "3"})).json()["vm"]["id"]
            await house.settle()
            spec = {**SMALL, "cpu": "2"}
            body = {"project": "red", "spec": {**spec, "priority": 10}}
            theirs = (await house.ask("POST", "/v1/candidates", json=body)).json()
            assert theirs["chosen"] == "a"
            assert theirs["evictions"] == [{"vm": secret, "project": "blue", "name": "secret", "host": "a"}]
            ours = (await house.as_key(red, "POST", "/v1/candidates", json=body)).json()
            assert ours["evictions"] == [{"vm": "", "project": "", "name": "a VM of another project", "host": "a"}]
            nobody = (await house.ask("POST", "/v1/candidates", json={"project": "red", "spec": spec})).json()
            assert (nobody["chosen"], nobody["evictions"]) == (None, [])

    asyncio.run(scenario())
